import logging

import pytest
from remote_desk import Desk, Mailbox, asking, desk, shop, task

from acc import (
    RemoteFailed,
    Runner,
    RunStatus,
    approve,
)
from acc.domain.errors import InvalidInput, NotFound, Unauthenticated
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.task import (
    Task,
    TaskState,
)
from acc.testing import ScriptedRemote


async def test_a_server_is_told_where_to_send_its_notifications() -> None:
    mailbox = Mailbox()
    office, remote = desk(shop(mode="push", receiver=mailbox), "done")
    assert (await office.say("go")).text == "done"
    (push,) = remote.pushes
    assert push is not None
    assert (push.url, push.token, mailbox.open) == ("https://me.example/hook", "t1", 0)


@pytest.mark.parametrize(("mode", "streaming"), [(None, None), ("stream", None), ("poll", False)])
async def test_a_server_is_followed_as_its_card_says_unless_it_is_to_be_polled(
    mode: str | None, streaming: bool | None
) -> None:
    office, remote = desk(shop(mode=mode), "done")
    await office.say("go")
    assert office.addresses[0].streaming is streaming
    assert remote.pushes == [None]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://2130706433:18410", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://127.1", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://0", "canonical notation, such as 203.0.113.7 or [2001:db8::7]"),
        ("http://10.0.0.1", "allow-list, which is RemoteAgent(allow=[…]), or ACC_ALLOW in"),
    ],
)
async def test_an_allow_list_is_named_only_where_it_helps(url: str, told: str) -> None:
    with pytest.raises(RemoteFailed) as refused:
        await Runner(shop(url=url)).run(user_id="u", session_id="s", message="x")
    assert told in str(refused.value)
    assert ("ACC_ALLOW" in str(refused.value)) is ("ACC_ALLOW" in told)


class Strict(ScriptedRemote):
    """A server that refuses an answer; `held` is its task then, or what asking for it raises."""

    held: Task | Exception

    async def get(self, task_id: str) -> Task:
        if isinstance(self.held, Exception):
            raise self.held
        return self.held


PAYING = {"requestId": "r", "kind": "confirmation", "message": "May it?", "tool": "pay"}
WRONG = InvalidInput("the edited arguments for pay are wrong")


async def test_an_answer_that_the_server_refuses_is_asked_for_again() -> None:
    remote = Strict(asking(PAYING), WRONG, "paid")
    remote.held = asking(PAYING)
    office = Desk(shop(), remote)
    (first,) = (await office.say("pay")).requests
    again = await office.answer(approve(first.id, arguments={"amount": "much"}))
    assert again.status is RunStatus.INPUT_REQUIRED
    (second,) = again.requests
    assert second.message == "the edited arguments for pay are wrong\nMay it?"
    done = await office.answer(approve(second.id, arguments={"amount": 9}))
    assert done.text == "paid"
    assert [message.task_id for message in remote.sent] == ["", "task-1", "task-1"]
    assert len({message.message_id for message in remote.sent}) == 3


@pytest.mark.parametrize("held", [task(TaskState.WORKING), Unauthenticated("who?")])
async def test_an_answer_refused_by_a_task_that_asks_no_more_fails_the_run(
    held: Task | Exception,
) -> None:
    remote = Strict(asking(PAYING), WRONG)
    remote.held = held
    office = Desk(shop(), remote)
    (first,) = (await office.say("pay")).requests
    with pytest.raises(RemoteFailed, match="the edited arguments for pay are wrong"):
        await office.answer(approve(first.id, arguments={"amount": "much"}))


@pytest.mark.parametrize(
    "refused",
    [
        InvalidInput("unknown contextId"),
        InvalidInput("context 'context-1' not found; leave it out to begin a new one"),
        NotFound("No such context"),
        RemoteFailed(
            "the remote agent failed: context has expired", remote_code="INVALID_ARGUMENT"
        ),
    ],
)
async def test_a_conversation_that_the_server_has_forgotten_begins_anew(
    refused: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(task(), context_id="context-2")
    office, remote = desk(shop(), "one", refused, other, "three")
    await office.say("first")
    with caplog.at_level(logging.WARNING, "acc.run"):
        await office.say("second")
    assert "agent 'shop': the remote agent does not know the context" in caplog.text
    await office.say("third")
    assert [one.context_id for one in remote.sent] == ["", "context-1", "", "context-2"]
    assert remote.sent[1].message_id == remote.sent[2].message_id


@pytest.mark.parametrize(
    "refused",
    [
        InvalidInput("message.parts: at most 100"),
        InvalidInput("unknown context window: the context length of 8192 is not found"),
        Unauthenticated("contextId: who are you?"),
        RemoteFailed("contextId", remote_code="INTERNAL_ERROR"),
    ],
)
async def test_what_is_refused_for_another_reason_keeps_the_conversation(
    refused: Exception,
) -> None:
    office, remote = desk(shop(), "one", refused, "three")
    await office.say("first")
    with pytest.raises(RemoteFailed):
        await office.say("second")
    await office.say("third")
    assert [one.context_id for one in remote.sent] == ["", "context-1", "context-1"]


async def test_a_conversation_begins_anew_only_once() -> None:
    forgotten = InvalidInput("unknown contextId")
    office, remote = desk(shop(), "one", forgotten, forgotten)
    await office.say("first")
    with pytest.raises(RemoteFailed, match="unknown contextId"):
        await office.say("second")
    assert len(remote.sent) == 3


async def test_an_answer_to_a_waiting_task_stays_in_its_conversation() -> None:
    remote = Strict(asking(PAYING), InvalidInput("unknown contextId"))
    remote.held = task(TaskState.FAILED)
    office = Desk(shop(), remote)
    (request,) = (await office.say("pay")).requests
    with pytest.raises(RemoteFailed, match="unknown contextId"):
        await office.answer(approve(request.id))
    assert [one.context_id for one in remote.sent] == ["", "context-1"]
