"""An MCP server as a process of ours, spoken to by its standard streams.

The SDK has such a transport too. This one bounds the length of a line before it is in memory, keeps
the last words of a server that dies, and never logs what a server says.
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

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER") + (
    ("APPDATA", "COMSPEC", "PATHEXT", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERPROFILE")
    if os.name == "nt"
    else ()
)
_PIECE = 64 * 1024
_MOST_WORDS = 16_000
#: How long a server may take to leave once its input ends, and once it is told to.
GRACE = 2.0
Incoming = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Incoming], MemoryObjectSendStream[SessionMessage]]


def minimal_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return what a server gets to see of our environment, and what was given for it."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**kept, **given}


class ServerProcess:
    """A server that is started for one connection, and gone after it."""

    def __init__(
        self, command: Sequence[str], *, env: Mapping[str, str], cwd: str, max_bytes: int
    ) -> None:
        self._command = command
        self._env = env
        self._cwd = cwd or None
        self._max_bytes = max_bytes
        self._words = b""
        self._process: asyncio.subprocess.Process | None = None
        self.too_large = False

    def refusal(self) -> None:
        """Return nothing: what cannot be started says so at once."""

    def last_words(self) -> str:
        """Return how the process ended and the end of what it said to its standard error."""
        process = self._process
        status = None if process is None else process.returncode
        told = "" if status is None else f"it ended with status {status}"
        if self.too_large:
            told = f"it sent a line of more than {self._max_bytes} bytes"
        # Before the end is taken, lest it begin within a secret.
        said = self.cleaned(self._words.decode(errors="replace")).strip().splitlines()
        return ": ".join(filter(None, (told, said[-1][-300:] if said else "")))

    def cleaned(self, text: str) -> str:
        """Return a text without what the server was given in its environment."""
        return redact_secrets(text, self._env.values())

    @asynccontextmanager
    async def open(self, on_end: Callable[[], None]) -> AsyncIterator[Streams]:
        """Start the server, give the streams to and from it, and see it gone.

        `on_end` is called once nothing more will come from it.
        """
        process = self._process = await self._start()
        to_us, incoming = anyio.create_memory_object_stream[Incoming](0)
        outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self._read(process, to_us, on_end))
                writing = group.create_task(self._write(process, from_us, to_us))
                listening = group.create_task(self._listen(process))
                try:
                    yield incoming, outgoing
                finally:
                    for stream in (incoming, outgoing, to_us, from_us):
                        stream.close()
                    with anyio.CancelScope(shield=True):
                        await _stop(process, 0.0 if self.too_large else GRACE)
                    for task in (reading, writing, listening):
                        task.cancel()
        finally:
            _let_go(process)

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=minimal_environment(self._env),
                cwd=self._cwd,
                start_new_session=True,  # so that what it starts can be ended with it
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self._command[0]} cannot be started: {error}") from None

    async def _read(
        self,
        process: asyncio.subprocess.Process,
        to_us: MemoryObjectSendStream[Incoming],
        on_end: Callable[[], None],
    ) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        line = bytearray()
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            while piece := await process.stdout.read(_PIECE):
                *whole, rest = piece.split(b"\n")
                for part in whole:
                    line += part
                    if len(line) <= self._max_bytes:
                        await to_us.send(_message(bytes(line)))
                    line.clear()
                line += rest
                if len(line) > self._max_bytes:
                    self.too_large = True
                    break
        to_us.close()  # whoever waits for an answer learns that there is none
        on_end()

    async def _write(
        self,
        process: asyncio.subprocess.Process,
        from_us: MemoryObjectReceiveStream[SessionMessage],
        to_us: MemoryObjectSendStream[Incoming],
    ) -> None:
        assert process.stdin is not None  # noqa: S101 - it was asked for
        try:
            async for item in from_us:
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (OSError, anyio.ClosedResourceError):
            to_us.close()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None  # noqa: S101 - it was asked for
        while piece := await process.stderr.read(_PIECE):
            self._words = (self._words + piece)[-_MOST_WORDS:]


def _message(line: bytes) -> Incoming:
    try:
        return SessionMessage(mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return RemoteFailed("the server sent a line that is no message of the protocol")


async def _stop(process: asyncio.subprocess.Process, grace: float) -> None:
    """End a server as the protocol says: end its input, then tell it, then make it.

    One that nobody reads from any more, because it said too much, gets no time to finish.
    """
    assert process.stdin is not None  # noqa: S101 - it was asked for
    with suppress(OSError):
        process.stdin.close()
    if await _is_gone(process, grace):
        _signal_all(process, signal.SIGTERM)  # what it started and left behind
        return
    for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
        _signal_all(process, number)
        if await _is_gone(process, GRACE):
            return


async def _is_gone(process: asyncio.subprocess.Process, within: float) -> bool:
    """Tell whether the process has ended; one that it started may still hold its streams."""
    loop = asyncio.get_running_loop()
    end = loop.time() + within
    while process.returncode is None and loop.time() < end:  # noqa: ASYNC110 - wait() would wait for the streams too
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal_all(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


def _let_go(process: asyncio.subprocess.Process) -> None:
    # Nothing public closes the pipes that a process left behind by the server may hold open.
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


class HttpServer:
    """A server that runs elsewhere and is called over HTTP."""

    def __init__(self, url: str, *, token: Callable[[], str], door: Door, max_bytes: int) -> None:
        self._url = url
        self._token = token
        self._door = door
        self._max_bytes = max_bytes
        self._sent = ""
        self._transport: _Guarded | None = None

    def last_words(self) -> str:
        """Return why the last request failed, if it did."""
        return "" if self._transport is None else self._transport.fault

    def cleaned(self, text: str) -> str:
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
