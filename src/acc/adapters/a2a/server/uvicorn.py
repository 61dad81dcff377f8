"""Run an application on uvicorn, with limits on slow clients and large headers."""

import asyncio
import fcntl
import gc
import math
import re
import socket
import ssl
import sys
import termios
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from acc.adapters.a2a.server.asgi import BODY_RECEIVED, ConnectionLimits
from acc.adapters.a2a.wire.errors import HttpError, encode_http_error, encode_rpc_error
from acc.domain.errors import InvalidInput

_MAX_START_BYTES = 16 * 1024
_REQUESTS_V1 = re.compile(rb"\na2a-version:[ \t]*1", re.IGNORECASE)
#: Number of new objects before a garbage collection.
_GC_THRESHOLD = 20_000


class BoundedProtocol(HttpToolsProtocol):
    """Close connections with slow or oversized headers, and with unread responses.

    With this parser uvicorn limits neither: a connection that sends nothing, or an endless header,
    stays open and grows. It also never aborts a response that the client does not read.
    """

    limits = ConnectionLimits()

    @classmethod
    def with_limits(cls, limits: ConnectionLimits) -> type["BoundedProtocol"]:
        """Return a protocol class with these limits."""
        return type("BoundedProtocol", (cls,), {"limits": limits})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timeout for the headers of a request."""
        super().connection_made(transport)
        self._head_size = 0
        self._start = b""
        self._unfinished: list[RequestResponseCycle] = []
        self._in_head = True
        self._is_half_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._tls_extension = _tls_extension(transport)
        self._restart_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify every request of the connection; uvicorn notifies only the last."""
        if self._timer is not None:
            self._timer.cancel()
        for cycle in self._unfinished:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Respond to a client that has closed its sending side.

        It cannot be distinguished from a client that has left. The response must start within the
        timeout for headers; a response that has already started is handled as usual.
        """
        cycle = self.cycle
        self._restart_timeout()
        if cycle is None or cycle.response_started or BODY_RECEIVED not in self.scope:
            return False
        cycle.keep_alive = False
        self._is_half_closed = True
        return True

    def pause_writing(self) -> None:
        """Start the timeout for the client to read the response."""
        super().pause_writing()
        self._restart_timeout()

    def resume_writing(self) -> None:
        """Stop the timeout: the client reads the response."""
        super().resume_writing()
        if not self._is_half_closed and self.cycle is not None and not self.cycle.response_complete:
            self._deadline = math.inf

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the headers and feed the parser."""
        if self._in_head:
            self._start = self._start or data
            self._head_size += len(data)
            limit = self.limits.head_size
            if self._head_size > limit and b"\r\n\r\n" not in data[: limit + 4]:
                self._reject(HttpError(431, f"the headers of the request exceed {limit} bytes"))
                return
        self._unset_keepalive_if_required()
        rest: bytes | memoryview = data
        while rest:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                rest = self._ignore_upgrade(memoryview(rest)[upgrade.args[0] :])
            except httptools.HttpParserError:
                self._reject(HttpError(400, "the HTTP request is malformed"))
                return
            else:
                return

    def _ignore_upgrade(self, rest: memoryview) -> memoryview | bytes:
        """Parse a request with an Upgrade header as if it had none; return the unparsed rest.

        The parser assigns the bytes after such headers to the other protocol, and uvicorn would
        parse the body as the next request.
        """
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            self._reject(HttpError(405, "this server is not a proxy"))
            return b""
        headers = [b"%b: %b\r\n" % pair for pair in self.headers if pair[0] != b"upgrade"]
        head = b"".join([b"%b %b HTTP/%b\r\n" % (method, self.url, version), *headers, b"\r\n"])
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(head)
        return rest

    def _reject(self, error: HttpError) -> None:
        """Respond to an unparsed request in the form that its first bytes indicate, and close."""
        start = self._start[:_MAX_START_BYTES]
        version = "1.0" if _REQUESTS_V1.search(start) else "0.3"
        is_rpc = start.startswith(b"POST / ")
        body = (
            encode_rpc_error(error, None, version) if is_rpc else encode_http_error(error, version)
        )
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        close = b"connection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[error.status] + head + close + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        """Reset the count of header bytes."""
        super().on_message_begin()
        if self._tls_extension is not None:
            self.scope["extensions"] = {"tls": self._tls_extension}
        self._in_head = True
        self._head_size = 0

    def on_headers_complete(self) -> None:
        """Stop the timeout; the body has its own limits."""
        if self.parser.should_upgrade():
            return  # it is parsed again
        self._in_head = False
        self._start = b""
        self._stop_timeout()
        if self.cycle is not None and not self.cycle.response_complete:
            self._unfinished = [item for item in self._unfinished if not item.response_complete]
            self._unfinished.append(self.cycle)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Mark the body as received, so that the application needs no timeout for it."""
        if self.parser.should_upgrade():
            return
        self.scope[BODY_RECEIVED] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Restart the timeout for the next request."""
        super().on_response_complete()
        if self.cycle.response_complete or self._is_half_closed:
            self._restart_timeout()
        else:
            self._stop_timeout()

    def _stop_timeout(self) -> None:
        if not self.flow.write_paused:  # otherwise the client must still read
            self._deadline = math.inf

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing; the timeout of this class also checks that the response is read."""

    def shutdown(self) -> None:
        """Finish the current response within the time limit."""
        super().shutdown()
        self.loop.call_later(self.limits.stop / 2, self.transport.abort)

    def _restart_timeout(self) -> None:
        """Set the deadline of the client; the timer checks it when it fires."""
        self._unsent = self._unsent_bytes()
        self._deadline = self.loop.time() + self.limits.head
        if self._timer is None:
            self._timer = self.loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._deadline == math.inf:
            return
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._on_timer)
        else:
            self._on_timeout()

    def _unsent_bytes(self) -> int:
        """Return the unsent bytes in process and kernel; 0 if the process has none."""
        here = self.transport.get_write_buffer_size()
        if here == 0:
            return 0
        connection = self.transport.get_extra_info("socket")
        # The kernel accepts more only after a large part was read, which takes a slow client long.
        try:
            queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4))
        except OSError:  # not supported everywhere
            return here
        return here + int.from_bytes(queued, sys.byteorder)

    def _on_timeout(self) -> None:
        unsent = self._unsent_bytes()
        if unsent == 0:
            self.transport.close()
        elif unsent < self._unsent:
            self._restart_timeout()
        else:
            self.transport.abort()  # close() would wait for the client to read


def _tls_extension(transport: asyncio.Transport) -> dict[object, object] | None:
    """Return the TLS extension of ASGI: the certificate of the client, which is verified."""
    connection: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    if not certificate:
        return None
    return {"client_cert_chain": [ssl.DER_cert_to_PEM_cert(certificate)]}


class _Server(uvicorn.Server):
    """Stop the application before connections are closed."""

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


def bind(host: str, port: int, *, option: str = "--port") -> socket.socket:
    """Return a socket for a server, or raise InvalidInput; `option` names the port in errors."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port} ({error}); choose another {option}, or 0"
        ) from None
    return listener


def tls_context(
    certificate: Path, private_key: Path | None, client_authority: Path | None = None
) -> ssl.SSLContext:
    """Return the TLS context of a server, or raise InvalidInput. TLS 1.2 is the minimum.

    A client may present a certificate of `client_authority`; other certificates end the connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, private_key, password="")
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"the certificate {certificate} cannot be used ({error}); it must be a PEM file, and "
            "its private key a PEM file without a password"
        ) from None
    if client_authority is not None:
        try:
            context.load_verify_locations(client_authority)
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"the CA certificates {client_authority} cannot be used ({error}); it must be a "
                "PEM file"
            ) from None
        # Callers with a token, and readers of the card, need no certificate.
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def run(
    app: Any,
    listener: socket.socket,
    *,
    limits: ConnectionLimits | None = None,
    tls: ssl.SSLContext | None = None,
    on_ready: Callable[[], None] | None = None,
) -> bool:
    """Serve until a signal is received; return True if the server started."""
    limits = limits or ConnectionLimits()
    config = _config(app, limits)
    if tls is not None:
        config.load()
        config.ssl = tls
    server = _Server(config, on_ready=on_ready)
    # Imported modules live as long as the process. Requests create hardly any cycles; the default
    # threshold costs an eighth of the CPU time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    server.run(sockets=[listener])
    return server.started


@asynccontextmanager
async def serving(
    app: Any, listener: socket.socket, *, limits: ConnectionLimits | None = None
) -> AsyncIterator[None]:
    """Serve while the context is open, without handling signals."""
    ready = asyncio.Event()
    server = _EmbeddedServer(_config(app, limits or ConnectionLimits()), on_ready=ready.set)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve(sockets=[listener]))
        try:
            await ready.wait()
            yield
        finally:
            server.should_exit = True
            await asyncio.wait([running])


class _EmbeddedServer(_Server):
    """A server that leaves signals to the process."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _config(app: Any, limits: ConnectionLimits) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol.with_limits(limits),
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="error",  # malformed requests would fill the log
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the client address is not used
        timeout_keep_alive=math.ceil(limits.head),
        timeout_graceful_shutdown=math.ceil(limits.stop),
        backlog=2048,
    )
