"""Running the application over HTTP: uvicorn, with bounds on how slow and large a head may be."""

import asyncio
import fcntl
import gc
import math
import re
import socket
import sys
import termios
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from acc.adapters.a2a.server.asgi import BODY_RECEIVED, ConnectionLimits, HttpError
from acc.adapters.a2a.wire.errors import encode_http_error, encode_rpc_error
from acc.domain.errors import InvalidInput

_MOST_START = 16 * 1024
_NEWER = re.compile(rb"\na2a-version:[ \t]*1", re.IGNORECASE)
#: So many objects more than before, and the collector looks for those in cycles.
_COLLECT_AFTER = 20_000


class BoundedProtocol(HttpToolsProtocol):
    """Drops connections whose request does not begin in time, or whose head has no end.

    uvicorn bounds neither with this parser: a connection that sends nothing, or a header without
    end, would be kept and grow for as long as its client likes. Nor does it ever give up an answer
    that nobody fetches.
    """

    limits = ConnectionLimits()

    @classmethod
    def within(cls, limits: ConnectionLimits) -> type["BoundedProtocol"]:
        """Return the protocol with these limits."""
        return type("BoundedProtocol", (cls,), {"limits": limits})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Give the client a while to send the head of a request."""
        super().connection_made(transport)
        self._head = 0
        self._start = b""
        self._unfinished: list[RequestResponseCycle] = []
        self._in_head = True
        self._is_half_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and let every request of it know; uvicorn tells the last only."""
        if self._timer is not None:
            self._timer.cancel()
        for cycle in self._unfinished:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer a client that has said all it wants to, unless the answer takes its time.

        It looks like one that has left, whom nobody is to wait for: so there is as much time as
        for a head, and a stream, or an answer that is on its way already, ends as it always does.
        """
        cycle = self.cycle
        self._await_head()
        if cycle is None or cycle.response_started or BODY_RECEIVED not in self.scope:
            return False
        cycle.keep_alive = False
        self._is_half_closed = True
        return True

    def pause_writing(self) -> None:
        """Give the client a while to fetch some of what waits for it."""
        super().pause_writing()
        self._await_head()

    def resume_writing(self) -> None:
        """Leave a client that fetches its answer as long as the answer takes."""
        super().resume_writing()
        if not self._is_half_closed and self.cycle is not None and not self.cycle.response_complete:
            self._due = math.inf

    def data_received(self, data: bytes) -> None:
        """Count what comes before the head is complete."""
        if self._in_head:
            self._start = self._start or data
            self._head += len(data)
            most = self.limits.head_size
            if self._head > most and b"\r\n\r\n" not in data[: most + 4]:
                self._refuse(HttpError(431, f"the head of the request exceeds {most} bytes"))
                return
        self._unset_keepalive_if_required()
        rest: bytes | memoryview = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = self._stay(memoryview(rest)[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._refuse(HttpError(400, "this is no HTTP request that can be read"))
                return
            else:
                return

    def _stay(self, rest: memoryview) -> memoryview | bytes:
        """Read a request that offers another protocol as if it did not; return what is left.

        The parser takes what follows such a head for the other protocol's, and uvicorn would read a
        body as the next request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._refuse(HttpError(405, "this server is no proxy"))
            return b""
        kept = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        head = b"".join([b"%b %b HTTP/%b\r\n" % (method, self.url, version), *kept, b"\r\n"])
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(head)
        return rest

    def _refuse(self, fault: HttpError) -> None:
        """Answer a head that was not read, in the shape that its beginning asks for, and leave."""
        start = self._start[:_MOST_START]
        version = "1.0" if _NEWER.search(start) else "0.3"
        is_call = start.startswith(b"POST / ")
        told = (
            encode_rpc_error(fault, None, version) if is_call else encode_http_error(fault, version)
        )
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(told)
        close = b"connection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[fault.status] + head + close + told)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Begin to count anew."""
        super().on_message_begin()
        self._in_head = True
        self._head = 0

    def on_headers_complete(self) -> None:
        """Stop the clock: the body has bounds of its own."""
        if self.parser.should_upgrade():
            return  # it is read once more
        self._in_head = False
        self._start = b""
        self._stop_clock()
        if self.cycle is not None and not self.cycle.response_complete:
            self._unfinished = [held for held in self._unfinished if not held.response_complete]
            self._unfinished.append(self.cycle)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Say that the body has come, so that nobody has to time how long it takes."""
        if self.parser.should_upgrade():
            return
        self.scope[BODY_RECEIVED] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, which keep-alive bounds until its first byte."""
        super().on_response_complete()
        if self.cycle.response_complete or self._is_half_closed:
            self._await_head()
        else:
            self._stop_clock()

    def _stop_clock(self) -> None:
        if not self.flow.write_paused:  # else there is something to be fetched
            self._due = math.inf

    def timeout_keep_alive_handler(self) -> None:
        """Leave it to the other clock, which also sees whether the answer is fetched."""

    def shutdown(self) -> None:
        """Let an answer that is being sent come to its end, for as long as there is."""
        super().shutdown()
        self.loop.call_later(self.limits.stop / 2, self.transport.abort)

    def _await_head(self) -> None:
        """Give the client a while from now on, and the timer something to do only once it rings."""
        self._unsent = self._waiting()
        self._due = self.loop.time() + self.limits.head
        if self._timer is None:
            self._timer = self.loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._due == math.inf:
            return
        if self.loop.time() < self._due:
            self._timer = self.loop.call_at(self._due, self._ring)
        else:
            self._too_slow()

    def _waiting(self) -> int:
        """Return how much is to be fetched, here and in the system, or 0 if nothing waits here."""
        here = self.transport.get_write_buffer_size()
        if here == 0:
            return 0
        held = self.transport.get_extra_info("socket")
        # The system takes more only once much was fetched, which a slow client needs a while for.
        try:
            queued = fcntl.ioctl(held.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # not every system tells
            return here
        return here + int.from_bytes(queued, sys.byteorder)

    def _too_slow(self) -> None:
        unsent = self._waiting()
        if unsent == 0:
            self.transport.close()
        elif unsent < self._unsent:
            self._await_head()
        else:
            self.transport.abort()  # closing would wait for who does not fetch the answer


class _Server(uvicorn.Server):
    """Lets the application end its work and its streams before connections are closed."""

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


def run(
    app: Any,
    listening: socket.socket,
    *,
    limits: ConnectionLimits | None = None,
    on_ready: Callable[[], None] | None = None,
) -> bool:
    """Serve until a signal comes; return whether the server could start."""
    limits = limits or ConnectionLimits()
    server = _Server(_config(app, limits), on_ready=on_ready)
    # What was imported lives as long as the process; the collector need not look at it again. What
    # requests leave behind is not in cycles: looking for those so often took an eighth of the CPU.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, 20, 20)
    server.run(sockets=[listening])
    return server.started


@asynccontextmanager
async def serving(
    app: Any, listening: socket.socket, *, limits: ConnectionLimits | None = None
) -> AsyncIterator[None]:
    """Serve beside other work of this process, whose signals are left alone."""
    ready = asyncio.Event()
    server = _Guest(_config(app, limits or ConnectionLimits()), on_ready=ready.set)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve(sockets=[listening]))
        try:
            await ready.wait()
            yield
        finally:
            server.should_exit = True
            await asyncio.wait([running])


class _Guest(_Server):
    """Leaves the signals to whoever owns the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _config(app: Any, limits: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol.within(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # anyone can send what is no HTTP as often as they like
        access_log=False,
        server_header=False,
        proxy_headers=False,  # nothing here depends on the client's address
        timeout_keep_alive=math.ceil(limits.head),
        timeout_graceful_shutdown=math.ceil(limits.stop),
        backlog=2048,
    )
