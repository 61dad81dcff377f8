from collections.abc import MutableMapping
from typing import Any

import pytest

from acc.adapters.a2a.client import notifications
from acc.adapters.a2a.client.notifications import NotificationReceiver, read_task_id
from acc.domain.errors import InvalidInput, Unauthenticated

URL = "https://me.example/hook"


async def post(
    receiver: NotificationReceiver, token: str, *chunks: bytes, method: str = "POST"
) -> int:
    """Send a notification and return the status."""
    remaining = list(chunks)
    responses: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": remaining.pop(0), "more_body": bool(remaining)}

    async def send(message: MutableMapping[str, Any]) -> None:
        responses.append(message)

    headers = [(b"x-a2a-notification-token", token.encode())] if token else []
    await receiver({"type": "http", "method": method, "headers": headers}, receive, send)
    status: int = responses[0]["status"]
    return status


async def test_notification_is_passed_on_and_late_one_accepted() -> None:
    receiver, notified = NotificationReceiver(URL), list[str]()
    with receiver.expect(notified.append) as push, receiver.expect(notified.append) as other:
        assert push.url == URL
        assert push.token != other.token
        body = b'{"statusUpdate": {"taskId": "t1"}}'
        assert await post(receiver, push.token, body[:9], body[9:]) == 204
    assert await post(receiver, push.token, body) == 204
    assert notified == ["t1"]


async def test_wrong_token_is_rejected_before_reading(caplog: pytest.LogCaptureFixture) -> None:
    receiver, notified = NotificationReceiver(URL), list[str]()
    with receiver.expect(notified.append) as push:
        for token in ("", "guess", "合言葉", push.token[:-1]):
            assert await post(receiver, token) == 401
        assert await post(receiver, push.token, b"{}") == 400
        assert await post(receiver, push.token, method="GET") == 405
    assert notified == []
    assert [message.partition(" (")[0] for message in caplog.messages] == [
        "push notification rejected: it has no token",
        *["push notification rejected: it has an unknown token"] * 3,
    ]
    assert push.token[:-1] not in caplog.text


async def test_invalid_signature_is_rejected() -> None:
    class Verifier:
        def verify(self, body: bytes, headers: object) -> None:
            if body != b'{"id": "t1"}':
                raise Unauthenticated("wrong signature")

    receiver, notified = NotificationReceiver(URL, verifier=Verifier()), list[str]()
    with receiver.expect(notified.append) as push:
        assert await post(receiver, push.token, b'{"id": "t2"}') == 401
        assert await post(receiver, push.token, b'{"id": "t1"}') == 204
    assert notified == ["t1"]


async def test_body_and_expired_tokens_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_MAX_EXPIRED_TOKENS", 1)
    monkeypatch.setattr(notifications, "_MAX_BODY_BYTES", 10)
    receiver, notified = NotificationReceiver(URL), list[str]()
    with receiver.expect(notified.append) as first:
        assert await post(receiver, first.token, b"x" * 6, b"x" * 6) == 413
    with receiver.expect(notified.append) as second:
        pass
    assert await post(receiver, first.token, b"{}") == 401
    assert await post(receiver, second.token, b"{}") == 204
    assert notified == []


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
def test_task_id_is_read_in_both_protocol_versions(body: bytes, task: str) -> None:
    assert read_task_id(body) == task


def test_receiver_requires_url() -> None:
    with pytest.raises(InvalidInput):
        NotificationReceiver("me.example/hook")
