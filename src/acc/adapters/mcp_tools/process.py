"""An MCP server as a process of ours, spoken to by its standard streams.

The SDK has such a transport too. This one bounds the length of a line before it is in memory, keeps
the last words of a server that dies, and never logs what a server says.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import anyio
import mcp_types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.value_objects.remote import without_secrets

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
        return without_secrets(text, self._env.values())

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
