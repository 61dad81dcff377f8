"""What a server sends, bounded: a whole answer, or the events of a stream."""

from collections.abc import AsyncIterator

import msgspec

_DATA = b"data:"
_NAME = b"event:"
_DONE = b"[DONE]"
_MARK = b"\xef\xbb\xbf"
#: The most bytes of a whole answer or one event, and of all the events of a stream.
MOST_AT_ONCE = 16 * 1024 * 1024
MOST_STREAMED = 16 * MOST_AT_ONCE


class ServerFault(Exception):
    """Report an error that a server told where an answer should have been."""

    def __init__(self, error: object) -> None:
        super().__init__("the server told an error")
        self.error = error


class Unreadable(ValueError):
    """Report what is no answer of a model, in words for people."""


async def bounded(chunks: AsyncIterator[bytes], most: int) -> AsyncIterator[bytes]:
    """Give what comes, up to as much as may come."""
    taken = 0
    async for chunk in chunks:
        taken += len(chunk)
        if taken > most:
            raise Unreadable(f"it has more than {most} bytes")
        yield chunk


async def whole(chunks: AsyncIterator[bytes], most: int = MOST_AT_ONCE) -> bytes:
    """Return all that comes, if it is not too much."""
    return b"".join([chunk async for chunk in bounded(chunks, most)])


async def events(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give the data of each event of a stream, up to its end; one that is an error is raised.

    Lines end where the protocol says, not where a text of some language has a line's end in it.
    """
    event = _Event()
    rest = bytearray()
    async for chunk in _with_plain_ends(bounded(chunks, MOST_STREAMED)):
        first, *others = chunk.split(b"\n")
        rest += first
        if len(rest) + event.size > MOST_AT_ONCE:
            raise Unreadable(f"one event has more than {MOST_AT_ONCE} bytes")
        for following in others:
            data = event.ended_by(bytes(rest))
            if data == _DONE:
                return
            if data:
                yield data
            rest[:] = following
    event.ended_by(bytes(rest))
    data = event.ended_by(b"")
    if data and data != _DONE:
        yield data


async def _with_plain_ends(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Give what comes with one kind of line ends, of the three that the protocol knows."""
    is_halfway = False
    async for chunk in chunks:
        if chunk:
            rest = chunk.removeprefix(b"\n") if is_halfway else chunk
            is_halfway = chunk.endswith(b"\r")
            yield rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


class _Event:
    """An event of a stream while its lines come in."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._is_fault = False
        self._is_first = True

    @property
    def size(self) -> int:
        """Return how many bytes have come in."""
        return sum(map(len, self._held))

    def ended_by(self, line: bytes) -> bytes:
        """Take in a line, and return the data if the event ends with it."""
        if self._is_first:
            # A stream may begin with a mark of how it is encoded.
            line, self._is_first = line.removeprefix(_MARK), False
        if line.startswith(_DATA):
            self._held.append(line[len(_DATA) :].strip())
        elif line.startswith(_NAME):
            self._is_fault = line[len(_NAME) :].strip() == b"error"
        elif not line:
            data, is_fault = b"\n".join(self._held), self._is_fault
            self._held, self._is_fault = [], False
            if data and is_fault:
                raise ServerFault(_fault_in(data))
            return data
        return b""


def _fault_in(data: bytes) -> object:
    """Return the error in an event that is one."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        return data.decode(errors="replace")
    return found.get("error") or found if isinstance(found, dict) else found
