"""Receiving the notifications of remote agents: who waits for a task learns that there is news."""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any

import msgspec

from acc.domain.errors import AccError
from acc.domain.value_objects.endpoint import check_remote_url
from acc.domain.value_objects.task import PushConfig

#: Returns the content of a notification that is genuine, and raises an error of ours otherwise.
Verify = Callable[[bytes, Mapping[str, str]], Any]
_TOKEN = "x-a2a-notification-token"  # noqa: S105 - the name of a header
_MOST_BYTES = 16 * 1024 * 1024
_MOST_PAST = 10_000


class NotificationReceiver:
    """Takes notifications at one URL; an ASGI application, to be run or mounted as any other.

    For every message the server is given another token, and only a notification that brings it back
    is taken, or even read. With `verify` it must be signed as well. What it says is not believed:
    whoever waits then looks at the task.
    """

    def __init__(self, url: str, *, verify: Verify | None = None) -> None:
        check_remote_url(url)
        self.url = url
        self._verify = verify
        self._waiting: dict[str, Callable[[str], None]] = {}
        # Of tasks that are over; refused, their last notifications would be sent again and again.
        self._past: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def expecting(self, told: Callable[[str], None]) -> Iterator[PushConfig]:
        """Give what to send along with a message; `told` then hears the id of a task with news."""
        token = secrets.token_urlsafe(32)
        self._waiting[token] = told
        try:
            yield PushConfig(id=secrets.token_hex(8), task_id="", url=self.url, token=token)
        finally:
            del self._waiting[token]
            self._past[token] = None
            if len(self._past) > _MOST_PAST:
                self._past.popitem(last=False)

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        """Take one notification."""
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        status = 405 if scope["method"] != "POST" else await self._taken(scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _taken(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    ) -> int:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        token = headers.get(_TOKEN, "")
        told = _held(self._waiting, token)
        if told is None and token not in self._past:
            return 401
        body = await _body(receive)
        if body is None:
            return 413
        if told is None:
            return 204
        try:
            if self._verify is not None:
                self._verify(body, headers)
        except AccError:
            return 401
        task_id = task_in(body)
        if not task_id:
            return 400
        told(task_id)
        return 204


def _held(waiting: Mapping[str, Callable[[str], None]], token: str) -> Callable[[str], None] | None:
    """Return who waits with a token; how long that takes tells nothing about the tokens."""
    given = token.encode("utf-8", "replace")
    found = None
    for held, told in waiting.items():
        if hmac.compare_digest(held.encode(), given):
            found = told
    return found


async def _body(
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MOST_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)


def task_in(body: bytes) -> str:
    """Return the id of the task that a notification of either generation is about, or nothing."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if not isinstance(document, Mapping):
        return ""
    for name in ("statusUpdate", "artifactUpdate", "task", "message"):
        inner = document.get(name)
        if isinstance(inner, Mapping):
            document = inner
            break
    found = document.get("taskId") or document.get("id")
    return found if isinstance(found, str) else ""
