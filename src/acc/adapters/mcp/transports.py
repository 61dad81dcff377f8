"""Transports of MCP connections: a server process over its standard streams, and HTTP.

The SDK has a process transport too. This one limits the length of a line before it is in memory,
reports the end of the standard error of a server that exits, and never logs what a server writes.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
import httpx2
import mcp_types
import msgspec
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from acc.domain.errors import AccError, AddressRefused, InvalidInput, RemoteFailed
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


_FAILED = -32000
_IDLE = 300.0
_QUIET = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """How requests go out: a client that is opened for one connection, and its mark of streams."""

    open: Callable[[], AbstractAsyncContextManager[httpx.AsyncClient]]
    streaming: Mapping[str, Any]


class HttpTransport:
    """A server that runs elsewhere and is called over HTTP."""

    def __init__(self, url: str, *, token: Callable[[], str], door: Door, max_bytes: int) -> None:
        self._url = url
        self._token = token
        self._door = door
        self._max_bytes = max_bytes
        self._sent = ""
        self._transport: _Guarded | None = None

    def failure_reason(self) -> str:
        """Return why the last request failed, if it did."""
        return "" if self._transport is None else self._transport.fault

    def redact(self, text: str) -> str:
        """Return a text without the token."""
        return redact_secrets(text, [self._sent])

    def refusal(self) -> AddressRefused | None:
        """Return what kept us from calling the address at all."""
        return None if self._transport is None else self._transport.refusal

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator[Any]:
        """Give the streams to and from the server; such a connection has no end of its own."""
        token = self._sent = self._token()
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self._door.open())
            self._transport = _Guarded(client, self._door.streaming, self._max_bytes)
            headers = {"authorization": f"Bearer {token}"} if token else {}
            outer = await stack.enter_async_context(
                httpx2.AsyncClient(
                    transport=self._transport,
                    headers=headers,
                    timeout=httpx2.Timeout(_QUIET, read=_IDLE),
                    trust_env=False,
                )
            )
            yield await stack.enter_async_context(
                streamable_http_client(
                    self._url, http_client=outer, max_sse_event_size=self._max_bytes
                )
            )


class _Guarded(httpx2.AsyncBaseTransport):
    """Sends the SDK's requests through the guarded client."""

    def __init__(
        self, client: httpx.AsyncClient, streaming: Mapping[str, Any], max_bytes: int
    ) -> None:
        self._client = client
        self._streaming = streaming
        self._max_bytes = max_bytes
        self.fault = ""
        self.refusal: AddressRefused | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; a stream is given as it comes, any other answer whole."""
        body = await request.aread()
        sent = self._client.build_request(
            request.method,
            str(request.url),
            headers=request.headers.raw,
            content=body,
            extensions={**request.extensions, **self._streaming},
        )
        return await self._told(request, self._send(sent))

    async def _told(
        self, request: httpx2.Request, sending: Awaitable[httpx2.Response]
    ) -> httpx2.Response:
        try:
            answer = await sending
        except AddressRefused as error:
            self.refusal = error
            return self._failed(str(error))
        except AccError as error:
            return self._failed(str(error))
        except httpx.HTTPError as error:
            return self._failed(f"it cannot be reached ({type(error).__name__}: {error})")
        if answer.status_code in (401, 403):
            self.fault = f"it answered {answer.status_code}: it wants another token"
        elif answer.status_code >= 400:
            self.fault = f"it answered {answer.status_code}"
        elif request.method == "POST":
            self.fault = ""
        return answer

    async def _send(self, sent: httpx.Request) -> httpx2.Response:
        answer = await self._client.send(sent, stream=True)
        kind = answer.headers.get("content-type", "").lower()
        if kind.startswith("text/event-stream") and answer.status_code < 400:
            return httpx2.Response(
                answer.status_code, headers=answer.headers.raw, stream=_Pieces(answer)
            )
        taken = bytearray()
        try:
            async for piece in answer.aiter_raw():
                taken += piece
                if len(taken) > self._max_bytes:
                    return self._failed(f"it answered with more than {self._max_bytes} bytes")
        finally:
            await answer.aclose()
        return httpx2.Response(answer.status_code, headers=answer.headers.raw, content=bytes(taken))

    def _failed(self, why: str) -> httpx2.Response:
        self.fault = why
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": _FAILED, "message": why}}
        return httpx2.Response(
            503,
            headers={"content-type": "application/json"},
            content=msgspec.json.encode(error),
        )


class _Pieces(httpx2.AsyncByteStream):
    """A stream of events as it comes in; a break is told in the words that the SDK knows."""

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._answer.aiter_raw():
                yield piece
        except (httpx.HTTPError, AccError) as error:
            raise httpx2.ReadError(f"the stream broke off: {error}") from error

    async def aclose(self) -> None:
        await self._answer.aclose()
