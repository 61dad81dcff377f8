"""Agents that run elsewhere and are called over a network."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits
from acc.domain.value_objects.task import ArtifactUpdate, Message, PushConfig, StatusUpdate, Task

#: Returns the file at a URL, as raw bytes. AddressRefused if it must not be called from here,
#: RemoteFailed if it is not there or not within the terms.
FetchFile = Callable[[str, DownloadLimits], Awaitable[Part]]
#: Hears what happens to a remote task, and where it stands then; what it has made by then, and its
#: history, are put together at the end.
Hear = Callable[[Task, StatusUpdate | ArtifactUpdate], Awaitable[None]]


class NotificationReceiverPort(Protocol):
    """Receives the notifications of remote agents."""

    def expecting(self, told: Callable[[str], None]) -> AbstractContextManager[PushConfig]:
        """Give what to send along with one message; `told` hears the id of a task with news."""
        ...


class RemoteAgentPort(Protocol):
    """One remote agent. Whatever goes wrong with it is raised as an error of ours.

    What a server says is foreign: it is bounded in size and time, and may still hold anything.
    """

    async def card(self) -> AgentCard:
        """Return the agent's card, fetched anew when the server says that it may have changed."""
        ...

    async def send(
        self,
        message: Message,
        *,
        hear: Hear | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
    ) -> Task | Message:
        """Send a message, and return what came of it once its task has ended or waits.

        `hear` is told everything that happens, once and in order; what the task `known` holds has
        happened already. Whoever cancels this cancels the remote task. A trace goes along if the
        message's metadata hold a `traceId` or a `traceparent`. With `push` the server is asked to
        notify that address, if it can, and whoever receives that says so with `notified`.
        """
        ...

    async def follow(self, task_id: str, *, hear: Hear | None = None) -> Task | Message:
        """Return what comes of a task that was begun earlier."""
        ...

    async def get(self, task_id: str) -> Task:
        """Return a task as it is now."""
        ...

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task."""
        ...

    def notified(self, task_id: str) -> None:
        """Take note that the server has news of a task."""
        ...


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
