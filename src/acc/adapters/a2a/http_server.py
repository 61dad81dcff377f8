"""Running the application over HTTP: uvicorn, with bounds on how slow and large a head may be."""

import asyncio
import gc
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from acc.adapters.a2a.http import BODY_HAS_COME
from acc.domain.errors import InvalidInput

_HEAD_WITHIN = 15.0
_MOST_HEAD = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """Drops connections whose request does not begin in time, or whose head has no end.

    uvicorn bounds neither with this parser: a connection that sends nothing, or a header without
    end, would be kept and grow for as long as its client likes.
    """

    _awaited_since: float | None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client a while to send the head of a request."""
        super().connection_made(transport)
        self._head = 0
        self._in_head = True
        self._await_head()
        self._head_timer = self.loop.call_later(_HEAD_WITHIN, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._head_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is complete."""
        if self._in_head:
            self._head += len(data)
            if self._head > _MOST_HEAD and b"\r\n\r\n" not in data[: _MOST_HEAD + 4]:
                self.send_400_response("The head of the request is too large.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin to count anew."""
        super().on_message_begin()
        self._in_head = True
        self._head = 0

    def on_headers_complete(self) -> None:
        """Stop the clock: the body has bounds of its own."""
        self._in_head = False
        self._awaited_since = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Say that the body has come, so that nobody has to time how long it takes."""
        self.scope[BODY_HAS_COME] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, which keep-alive bounds until its first byte."""
        super().on_response_complete()
        self._awaited_since = None
        if not self.transport.is_closing() and self.cycle.response_complete:
            self._await_head()

    def _await_head(self) -> None:
        self._awaited_since = self.loop.time()

    def _look(self) -> None:
        # One timer for a connection that looks at the time: two for each request cost more.
        left = _HEAD_WITHIN
        if self._awaited_since is not None:
            left -= self.loop.time() - self._awaited_since
        if left > 0:
            self._head_timer = self.loop.call_later(left, self._look)
        elif not self.transport.is_closing():
            self.transport.close()


class _Server(uvicorn.Server):
    """Tells the application to end its streams as soon as it is to stop."""

    def __init__(self, config: uvicorn.Config, *, on_ready: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._on_ready is not None:
            self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        stop = getattr(self.config.app, "stop", None)
        if stop is not None:
            await stop()
        await super().shutdown(sockets)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens; InvalidInput says why there can be none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port} ({error}); choose another --port, or 0"
        ) from None
    return listening


def run(app: Any, listening: socket.socket, *, on_ready: Callable[[], None] | None = None) -> bool:
    """Serve until a signal comes; return whether the server could start."""
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here depends on the client's address
        timeout_keep_alive=30,
        timeout_graceful_shutdown=10,
        backlog=2048,
    )
    server = _Server(config, on_ready=on_ready)
    # What was imported lives as long as the process; the collector need not look at it again.
    gc.collect()
    gc.freeze()
    server.run(sockets=[listening])
    return server.started
