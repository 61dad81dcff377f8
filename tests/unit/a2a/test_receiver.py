from collections.abc import MutableMapping
from typing import Any

import pytest

from acc.adapters.a2a.client import notifications as receiving
from acc.adapters.a2a.client.notifications import NotificationReceiver, task_in
from acc.domain.errors import InvalidInput, Unauthenticated

URL = "https://me.example/hook"


async def posted(
    receiver: NotificationReceiver, token: str, *pieces: bytes, method: str = "POST"
) -> int:
    """Return the status that a notification gets."""
    left = list(pieces)
    answers: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

    async def send(message: MutableMapping[str, Any]) -> None:
        answers.append(message)

    headers = [(b"x-a2a-notification-token", token.encode())] if token else []
    await receiver({"type": "http", "method": method, "headers": headers}, receive, send)
    status: int = answers[0]["status"]
    return status


async def test_whoever_waits_hears_of_news_and_the_end_is_taken_too() -> None:
    receiver, heard = NotificationReceiver(URL), list[str]()
    with receiver.expecting(heard.append) as push, receiver.expecting(heard.append) as other:
        assert push.url == URL
        assert push.token != other.token
        body = b'{"statusUpdate": {"taskId": "t1"}}'
        assert await posted(receiver, push.token, body[:9], body[9:]) == 204
    assert await posted(receiver, push.token, body) == 204
    assert heard == ["t1"]


async def test_a_stranger_is_turned_away_before_anything_is_read() -> None:
    receiver, heard = NotificationReceiver(URL), list[str]()
    with receiver.expecting(heard.append) as push:
        for token in ("", "guess", "合言葉", push.token[:-1]):
            assert await posted(receiver, token) == 401
        assert await posted(receiver, push.token, b"{}") == 400
        assert await posted(receiver, push.token, method="GET") == 405
    assert heard == []


async def test_a_notification_that_is_not_signed_as_agreed_is_not_believed() -> None:
    def verify(body: bytes, headers: object) -> None:
        if body != b'{"id": "t1"}':
            raise Unauthenticated("the signature does not fit")

    receiver, heard = NotificationReceiver(URL, verify=verify), list[str]()
    with receiver.expecting(heard.append) as push:
        assert await posted(receiver, push.token, b'{"id": "t2"}') == 401
        assert await posted(receiver, push.token, b'{"id": "t1"}') == 204
    assert heard == ["t1"]


async def test_what_is_kept_and_taken_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_MOST_PAST", 1)
    monkeypatch.setattr(receiving, "_MOST_BYTES", 10)
    receiver, heard = NotificationReceiver(URL), list[str]()
    with receiver.expecting(heard.append) as first:
        assert await posted(receiver, first.token, b"x" * 6, b"x" * 6) == 413
    with receiver.expecting(heard.append) as second:
        pass
    assert await posted(receiver, first.token, b"{}") == 401
    assert await posted(receiver, second.token, b"{}") == 204
    assert heard == []


@pytest.mark.parametrize(
    ("body", "task"),
    [
        (b'{"statusUpdate": {"taskId": "t"}}', "t"),
        (b'{"artifactUpdate": {"taskId": "t"}}', "t"),
        (b'{"task": {"id": "t"}}', "t"),
        (b'{"message": {"taskId": "t"}}', "t"),
        (b'{"kind": "task", "id": "t"}', "t"),
        (b'{"kind": "status-update", "taskId": "t"}', "t"),
        (b'{"id": 7}', ""),
        (b"[]", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b"[" * 100_000, ""),
    ],
)
def test_the_task_of_a_notification_is_found_in_both_generations(body: bytes, task: str) -> None:
    assert task_in(body) == task


def test_a_receiver_has_a_web_address() -> None:
    with pytest.raises(InvalidInput):
        NotificationReceiver("me.example/hook")
