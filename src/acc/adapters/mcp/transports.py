"""Transports of MCP connections: a server process over its standard streams, and HTTP.

The SDK has a process transport too. This one limits the length of a line before it is in memory,
reports the end of the standard error of a server that exits, and never logs what a server writes.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx2
import mcp_types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from acc.adapters.http.client import STREAMING, GuardedTransport, no_cookies
from acc.domain.errors import AccError, AddressRefused, InvalidInput, InvalidResponse, RemoteFailed
from acc.domain.value_objects.endpoint import redact_secrets

_INHERITED_VARIABLES = (
    ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
    if os.name != "nt"
    else ("APPDATA", "COMSPEC", "HOME", "LANG", "PATH", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT")
    + ("TEMP", "TERM", "USER", "USERPROFILE")
)
_CHUNK_BYTES = 64 * 1024
_MAX_STDERR_BYTES = 16_000
_MAX_REASON_LENGTH = 300
_EXIT_POLL_SECONDS = 0.01
#: Time for a server to exit after its input was closed, and after a signal.
SHUTDOWN_GRACE_SECONDS = 2.0
Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


def minimal_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server process: a few of our variables, and `env`."""
    inherited = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    return {**inherited, **env}


class StdioTransport:
    """A server process that is started for one connection and stopped after it."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str, max_bytes: int
    ) -> None:
        self._command = command
        self._env = env
        self._cwd = cwd or None
        self._max_bytes = max_bytes
        self._stderr = b""
        self._process: asyncio.subprocess.Process | None = None
        self._line_too_long = False

    def refusal(self) -> None:
        """Return None: a process has no address."""

    def failure_reason(self) -> str:
        """Return how the process ended and the last line of its standard error."""
        status = None if self._process is None else self._process.returncode
        reason = "" if status is None else f"exited with status {status}"
        if self._line_too_long:
            reason = f"sent a line of more than {self._max_bytes} bytes"
        # Redact before truncation: the truncated text might start within a secret.
        lines = self.redact(self._stderr.decode(errors="replace")).strip().splitlines()
        last_line = lines[-1][-_MAX_REASON_LENGTH:] if lines else ""
        return ": ".join(filter(None, (reason, last_line)))

    def redact(self, text: str) -> str:
        """Return a text without the values that were passed in the environment."""
        return redact_secrets(text, self._env.values())

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator[Streams]:
        """Start the server, yield its streams, and stop it.

        `on_end` is called when the server has closed its output.
        """
        process = self._process = await self._start()
        to_client, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._read_stdout(process, to_client, on_end)),
                    group.create_task(_write_stdin(process, from_client, to_client)),
                    group.create_task(self._read_stderr(process)),
                ]
                try:
                    yield incoming, outgoing
                finally:
                    for stream in (incoming, outgoing, to_client, from_client):
                        stream.close()
                    # Its output is no longer read after a too long line, so it cannot finish.
                    grace = 0.0 if self._line_too_long else SHUTDOWN_GRACE_SECONDS
                    with anyio.CancelScope(shield=True):
                        await _stop(process, grace)
                    for task in tasks:
                        task.cancel()
        finally:
            _close_pipes(process)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=minimal_environment(self._env),
                cwd=self._cwd,
                start_new_session=True,  # to stop its child processes too
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(f"cannot start {self._command[0]}: {error}") from None

    async def _read_stdout(
        self,
        process: asyncio.subprocess.Process,
        to_client: MemoryObjectSendStream[Incoming],
        on_end: Callable[[], None],
    ) -> None:
        assert process.stdout is not None  # noqa: S101 - a pipe
        line = bytearray()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while chunk := await process.stdout.read(_CHUNK_BYTES):
                *complete, rest = chunk.split(b"\n")
                for part in complete:
                    line += part
                    if len(line) <= self._max_bytes:
                        await to_client.send(_parse_message(bytes(line)))
                    line.clear()
                line += rest
                if len(line) > self._max_bytes:
                    self._line_too_long = True
                    break
        to_client.close()  # pending calls fail
        on_end()

    async def _read_stderr(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 - a pipe
        while chunk := await process.stderr.read(_CHUNK_BYTES):
            self._stderr = (self._stderr + chunk)[-_MAX_STDERR_BYTES:]


async def _write_stdin(
    process: asyncio.subprocess.Process,
    from_client: MemoryObjectReceiveStream[SessionMessage],
    to_client: MemoryObjectSendStream[Incoming],
) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe
    try:
        async for item in from_client:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            process.stdin.write(text.encode() + b"\n")
            await process.stdin.drain()
    except (OSError, anyio.ClosedResourceError):
        to_client.close()


def _parse_message(line: bytes) -> Incoming:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return RemoteFailed("the server sent a line that is not a JSON-RPC message")


async def _stop(process: asyncio.subprocess.Process, grace: float) -> None:
    """Stop a server as the protocol specifies: close its input, then terminate, then kill."""
    assert process.stdin is not None  # noqa: S101 - a pipe
    with suppress(OSError):
        process.stdin.close()
    if await _has_exited(process, grace):
        _signal_group(process, signal.SIGTERM)  # child processes that are left
        return
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        _signal_group(process, number)
        if await _has_exited(process, SHUTDOWN_GRACE_SECONDS):
            return


async def _has_exited(process: asyncio.subprocess.Process, within: float) -> bool:
    """Return True if the process exits in time; its children may keep the pipes open."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while process.returncode is None and loop.time() < end:  # noqa: ASYNC110 - wait() waits for pipes
        await asyncio.sleep(_EXIT_POLL_SECONDS)
    return process.returncode is not None


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    # There is no public API to close pipes that a child of the server keeps open.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()


_JSON_RPC_SERVER_ERROR = -32000
STREAM_IDLE_SECONDS = 300.0
REQUEST_TIMEOUT_SECONDS = 30.0


class HttpTransport:
    """MCP server that is called over HTTP through the guarded client."""

    def __init__(
        self, url: str, *, token: Callable[[], str], allow: Sequence[str], max_bytes: int
    ) -> None:
        self._url = url
        self._token = token
        self._allow = allow
        self._max_bytes = max_bytes
        self._sent = ""
        self._transport: _McpTransport | None = None

    def failure_reason(self) -> str:
        """Return the reason if the last request failed, or an empty string."""
        return "" if self._transport is None else self._transport.failure

    def redact(self, text: str) -> str:
        """Return a text without the token."""
        return redact_secrets(text, [self._sent])

    def refusal(self) -> AddressRefused | None:
        """Return the error if the address of the server is refused."""
        return None if self._transport is None else self._transport.refusal

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator[Any]:
        """Yield the message streams of the server; `on_end` is never called over HTTP."""
        token = self._sent = self._token()
        self._transport = _McpTransport(allow=self._allow, max_bytes=self._max_bytes)
        async with (
            httpx2.AsyncClient(
                transport=self._transport,
                headers={"authorization": f"Bearer {token}"} if token else {},
                timeout=httpx2.Timeout(REQUEST_TIMEOUT_SECONDS, read=STREAM_IDLE_SECONDS),
                trust_env=False,
                cookies=no_cookies(),
            ) as client,
            streamable_http_client(
                self._url, http_client=client, max_sse_event_size=self._max_bytes
            ) as streams,
        ):
            yield streams


class _McpTransport(GuardedTransport):
    """Guarded transport that reports failures to the MCP SDK as JSON-RPC errors."""

    def __init__(self, *, allow: Sequence[str], max_bytes: int) -> None:
        super().__init__(allow=allow)
        self._limit = max_bytes
        self.failure = ""
        self.refusal: AddressRefused | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; read the response completely unless it is an event stream."""
        request.extensions = {**request.extensions, **STREAMING}
        try:
            response = await super().handle_async_request(request)
            content_type = response.headers.get("content-type", "").lower()
            is_stream = content_type.startswith("text/event-stream") and response.status_code < 400
            if is_stream:
                response.stream = _EventStream(response.stream)
            else:
                response = await self._read(response)
        except AddressRefused as error:
            self.refusal = error
            return self._failed(str(error))
        except AccError as error:
            return self._failed(str(error))
        except httpx2.HTTPError as error:
            return self._failed(f"the server cannot be reached ({type(error).__name__}: {error})")
        if response.status_code in (401, 403):
            self.failure = f"the server answered {response.status_code}: the token is not accepted"
        elif response.status_code >= 400:
            self.failure = f"the server answered {response.status_code}"
        elif request.method == "POST":
            self.failure = ""
        return response

    async def _read(self, response: httpx2.Response) -> httpx2.Response:
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > self._limit:
                    raise InvalidResponse(f"the server sent more than {self._limit} bytes")
        finally:
            await response.aclose()
        return httpx2.Response(
            response.status_code, headers=response.headers.raw, content=bytes(body)
        )

    def _failed(self, reason: str) -> httpx2.Response:
        self.failure = reason
        error = {"code": _JSON_RPC_SERVER_ERROR, "message": reason}
        return httpx2.Response(
            503,
            headers={"content-type": "application/json"},
            content=msgspec.json.encode({"jsonrpc": "2.0", "id": None, "error": error}),
        )


class _EventStream(httpx2.AsyncByteStream):
    """Event stream whose failures are errors that the MCP SDK handles."""

    def __init__(self, inner: httpx2.SyncByteStream | httpx2.AsyncByteStream) -> None:
        assert isinstance(inner, httpx2.AsyncByteStream)  # noqa: S101 - the transport is async
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield chunk
        except AccError as error:
            raise httpx2.ReadError(f"the stream failed: {error}") from error

    async def aclose(self) -> None:
        await self._inner.aclose()
