"""Ports for remote agents, notifications, downloads and raw HTTP."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import DownloadLimits
from acc.domain.value_objects.task import ArtifactUpdate, Message, PushConfig, StatusUpdate, Task

#: Returns the file at a URL as raw bytes. Raises AddressRefused for a refused address and
#: RemoteFailed if the file does not exist or exceeds the limits.
FetchFile = Callable[[str, DownloadLimits], Awaitable[Part]]


class OnUpdate(Protocol):
    """Receives the updates of a remote task."""

    async def __call__(self, task: Task, update: StatusUpdate | ArtifactUpdate, /) -> None:
        """Handle one update. `task` has the current status, but not yet artifacts and history."""
        ...


class Notify(Protocol):
    """Receives the ids of remote tasks that have news."""

    def __call__(self, task_id: str, /) -> None:
        """Handle a notification about a task."""
        ...


class NotificationReceiverPort(Protocol):
    """Receives push notifications of remote agents."""

    def expect(self, notify: Notify) -> AbstractContextManager[PushConfig]:
        """Return the push configuration of one message; its notifications call `notify`."""
        ...


class RemoteAgentPort(Protocol):
    """A remote agent. All failures are raised as subclasses of AccError.

    Content from the server is limited in size and time, but otherwise untrusted.
    """

    async def card(self) -> AgentCard:
        """Return the agent's card, from the cache while the server allows it."""
        ...

    async def send(
        self,
        message: Message,
        *,
        on_update: OnUpdate | None = None,
        known: Task | None = None,
        push: PushConfig | None = None,
        follow_seconds: float | None = None,
    ) -> Task | Message:
        """Send a message and return the task once it ended or needs input, or the reply.

        `on_update` receives every update once and in order, except those that the task `known`
        already contains. Cancelling this call cancels the remote task. The trace context is sent if
        the metadata of the message contain `traceparent`. With `push`, the server is
        asked to send notifications to that configuration; its receiver passes them to `notify`.
        A task that is still active after `follow_seconds` is returned and not canceled. With None
        it is followed until it ends or needs input.
        """
        ...

    async def follow(self, task_id: str, *, on_update: OnUpdate | None = None) -> Task | Message:
        """Wait for an existing task and return it once it ended or needs input."""
        ...

    async def get(self, task_id: str) -> Task:
        """Return the current state of a task."""
        ...

    async def cancel(self, task_id: str) -> Task:
        """Cancel a task."""
        ...

    def notify(self, task_id: str) -> None:
        """Wake up the call that waits for a task: the server has news of it."""
        ...


class IntentCallerPort(Protocol):
    """Calls intents of other agents over HTTP, without an agent card."""

    async def call(
        self,
        url: str,
        payload: Mapping[str, Any],
        *,
        token: str = "",
        timeout: float = 60.0,  # noqa: ASYNC109 - a limit of the request
        allow: Sequence[str] = (),
        trace_parent: str = "",
    ) -> Mapping[str, Any]:
        """Return the outputs of an intent; failures are raised as subclasses of AccError.

        The payload is posted to a URL that ends with `/run`, and sent as JSON-RPC to other URLs.
        `trace_parent` is the trace that the call belongs to, as W3C traceparent.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeRequest:
    """A raw HTTP request; `has_certificate` presents the client certificate, if there is one."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    has_certificate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResponse:
    """A raw HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeEvent:
    """A server-sent event."""

    data: str
    id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeStream:
    """A response that may be a stream; the body of a stream is empty."""

    response: ProbeResponse
    events: AsyncIterator[ProbeEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcReply:
    """The end of a gRPC call: its status, error details as JSON, and the responses as JSON."""

    status: str
    message: str = ""
    details: Sequence[Mapping[str, Any]] = ()
    items: Sequence[Mapping[str, Any]] = ()


class GrpcProbePort(Protocol):
    """Calls a gRPC server.

    Raises RemoteFailed if the server cannot be reached or does not respond in time, and
    AddressRefused for a refused address. A status other than OK is a reply.
    """

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | bytes,
        *,
        version: str = "1.0",
        token: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> GrpcReply:
        """Call a method of the service of a protocol version; bytes are sent unchanged."""
        ...

    async def services(self) -> Sequence[str]:
        """Return the services that reflection lists, none without reflection."""
        ...

    async def health(self) -> str:
        """Return the state that the health service reports, empty without one."""
        ...


class HttpProbePort(Protocol):
    """Sends HTTP requests unchanged.

    Both methods raise RemoteFailed if the server does not respond in time, InvalidResponse for a
    response that exceeds the limits, and AddressRefused for a refused address.
    """

    async def exchange(self, request: ProbeRequest) -> ProbeResponse:
        """Return the complete response to a request."""
        ...

    def stream(self, request: ProbeRequest) -> AbstractAsyncContextManager[ProbeStream]:
        """Return the response to a request while it is being received."""
        ...
