"""Looking at a server from outside: one raw HTTP exchange at a time."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """A request as it goes out."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """What came back; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEvent:
    """One server-sent event."""

    data: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStream:
    """An answer that may be a stream: then its body is empty and `events` tells the rest."""

    answer: ProbeAnswer
    events: AsyncIterator[ProbeEvent]


class HttpProbePort(Protocol):
    """Sends requests as they are and judges nothing.

    Both raise RemoteFailed if there is no answer, or not in time, AnswerUnreadable for one that
    cannot be taken, and AddressRefused for an address that must not be called.
    """

    async def exchange(self, request: ProbeRequest) -> ProbeAnswer:
        """Return the whole answer to a request."""
        ...

    def stream(self, request: ProbeRequest) -> AbstractAsyncContextManager[ProbeStream]:
        """Return the answer to a request while it is still coming."""
        ...
