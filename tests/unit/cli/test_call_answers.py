"""The answers that the options of `acc call` give to the requests of a task."""

from acc.application.agents.remote_content import RemoteInputRequest
from acc.cli.call import ReplyOptions
from acc.domain.value_objects.approval import RequestKind


def request(name: str, kind: RequestKind) -> RemoteInputRequest:
    return RemoteInputRequest(id=name, kind=kind, message="?")


def test_value_is_not_given_to_the_confirmations_beside_a_question() -> None:
    pay, colour = request("pay", RequestKind.CONFIRMATION), request("colour", RequestKind.INPUT)
    options = ReplyOptions(approve=True, value="blue")
    given = {one.id: answer.value for one, answer in options.answers([pay, colour])}
    assert given == {"pay": None, "colour": "blue"}
    # The server explains that a confirmation takes no value, instead of approving it.
    assert [answer.value for _, answer in options.answers([pay])] == ["blue"]
