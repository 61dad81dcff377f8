"""Reading server-sent events, from servers that may send anything."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from acc.domain.errors import RemoteFailed

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"


class ServerEvent(NamedTuple):
    """An event: its data, and its id if it has one of its own."""

    id: str
    data: bytes


class EventReader:
    """Turns pieces of a stream into events; comments and names of events are passed over."""

    def __init__(self, *, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._id = ""
        self._after_cr = False
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """Give the events that a piece completes."""
        if not piece:
            return
        if self._after_cr and piece[:1] == b"\n":  # the two halves of one line end
            piece = piece[1:]
        self._after_cr = piece[-1:] == b"\r"
        if b"\n" not in piece and b"\r" not in piece:
            self._held += piece
            self._check_size()
            return
        *lines, rest = _LINE_END.split(bytes(self._held) + piece)
        self._held = bytearray(rest)
        for line in lines:
            if self._is_first:
                line, self._is_first = line.removeprefix(_MARK), False
            if line:
                self._field(line)
            elif self._data:
                yield self._event()
        self._check_size()

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._check_size()
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")

    def _event(self) -> ServerEvent:
        event = ServerEvent(self._id, b"\n".join(self._data))
        self._data, self._size, self._id = [], 0, ""
        return event

    def _check_size(self) -> None:
        if len(self._held) + self._size > self._max_bytes:
            raise RemoteFailed(
                f"the remote agent sent an event of more than {self._max_bytes} bytes",
                remote_code="too_large",
            )
