"""Receiver of push notifications from remote agents."""

import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from acc.domain.errors import AccError
from acc.domain.value_objects.endpoint import check_remote_url
from acc.domain.value_objects.task import PushConfig
from acc.ports.outbound.remote_ports import Notify

log = logging.getLogger("acc.push")
_TOKEN_HEADER = "x-a2a-notification-token"  # noqa: S105 - the name of a header
_MAX_BODY_BYTES = 16 * 1024 * 1024
_MAX_EXPIRED_TOKENS = 10_000
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Verifier(Protocol):
    """Verifies the signature of a notification."""

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Any:
        """Return normally for a genuine notification, and raise an AccError otherwise."""
        ...


class NotificationReceiver:
    """Receives notifications at one URL; an ASGI application.

    Every message gets its own token, and a notification is only read if it contains a current
    token. With a `verifier` it must be signed as well. The content is not trusted: the caller that
    waits for the task fetches it from the server.
    """

    def __init__(self, url: str, *, verifier: Verifier | None = None) -> None:
        check_remote_url(url)
        self.url = url
        self._verifier = verifier
        self._expected: dict[str, Notify] = {}
        # If notifications of finished tasks were rejected, the server would send them repeatedly.
        self._expired: OrderedDict[str, None] = OrderedDict()

    @contextmanager
    def expect(self, notify: Notify) -> Iterator[PushConfig]:
        """Yield the push configuration of one message; its notifications call `notify`."""
        token = secrets.token_urlsafe(32)
        self._expected[token] = notify
        try:
            yield PushConfig(id=secrets.token_hex(8), task_id="", url=self.url, token=token)
        finally:
            del self._expected[token]
            self._expired[token] = None
            if len(self._expired) > _MAX_EXPIRED_TOKENS:
                self._expired.popitem(last=False)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return
        status = 405 if scope["method"] != "POST" else await self._handle(scope, receive)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _handle(self, scope: MutableMapping[str, Any], receive: Receive) -> int:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        token = headers.get(_TOKEN_HEADER, "")
        notify = self._find(token)
        if notify is None and token not in self._expired:
            what = "an unknown token" if token else "no token"
            log.warning("push notification rejected: it has %s (%s)", what, _TOKEN_HEADER)
            return 401
        body = await _read_body(receive)
        if body is None:
            return 413
        if notify is None:
            return 204
        try:
            if self._verifier is not None:
                self._verifier.verify(body, headers)
        except AccError as error:
            log.warning(
                "push notification rejected: %s; the secret or key of the server and of this "
                "receiver must match",
                error,
            )
            return 401
        task_id = read_task_id(body)
        if not task_id:
            return 400
        notify(task_id)
        return 204

    def _find(self, token: str) -> Notify | None:
        """Return the callback of a token in constant time."""
        sent = token.encode("utf-8", "replace")
        result = None
        for expected, notify in self._expected.items():
            if hmac.compare_digest(expected.encode(), sent):
                result = notify
        return result


def read_task_id(body: bytes) -> str:
    """Return the task id of a notification of either protocol version, or an empty string."""
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
    task_id = document.get("taskId") or document.get("id")
    return task_id if isinstance(task_id, str) else ""


async def _read_body(receive: Receive) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MAX_BODY_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)
