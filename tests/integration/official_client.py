"""The official A2A Python client, limited to one protocol version and one binding."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self
from uuid import uuid4

import grpc
import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types.a2a_pb2 import (
    AgentCard,
    Artifact,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskState,
)

ACTIVE_STATES = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}


@dataclass(frozen=True, slots=True)
class Mode:
    """A protocol version and a binding."""

    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.version}-{self.binding}"

    def narrow(self, card: AgentCard) -> AgentCard:
        """Return a copy of the card with only the interfaces of this mode."""
        narrowed = AgentCard()
        narrowed.CopyFrom(card)
        del narrowed.supported_interfaces[:]
        narrowed.supported_interfaces.extend(
            interface
            for interface in card.supported_interfaces
            if interface.protocol_binding == self.binding
            and interface.protocol_version.startswith(self.version)
        )
        return narrowed


MODES = (
    Mode("1.0", "JSONRPC"),
    Mode("1.0", "HTTP+JSON"),
    Mode("1.0", "GRPC"),
    Mode("0.3", "JSONRPC"),
    Mode("0.3", "HTTP+JSON"),
)
LEGACY_GRPC = Mode("0.3", "GRPC")


class UnaryToken(grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc] # it has no types
    """Adds a bearer token to calls with one response."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(with_token(details, self._token), request)


class StreamToken(grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc] # it has no types
    """Adds a bearer token to calls with a stream of responses."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def intercept_unary_stream(self, continuation: Any, details: Any, request: Any) -> Any:
        return await continuation(with_token(details, self._token), request)


def with_token(details: Any, token: str) -> Any:
    pair = ("authorization", f"Bearer {token}")
    return details._replace(metadata=(*(details.metadata or ()), pair))


def grpc_channel(target: str, token: str) -> Any:
    interceptors = [UnaryToken(token), StreamToken(token)] if token else []
    return grpc.aio.insecure_channel(target, interceptors=interceptors)


def message(
    *parts: Part | str, task: Task | None = None, context_id: str = "", message_id: str = ""
) -> Message:
    return Message(
        message_id=message_id or str(uuid4()),
        role=Role.ROLE_USER,
        parts=[Part(text=part) if isinstance(part, str) else part for part in parts],
        task_id=task.id if task else "",
        context_id=task.context_id if task else context_id,
    )


def state(task: Task) -> str:
    return str(TaskState.Name(task.status.state)).removeprefix("TASK_STATE_")


def answer_text(task: Task) -> str:
    """Return the text of the answer, or of the status if there is no answer."""
    answers = [artifact for artifact in task.artifacts if artifact.name == "answer"]
    text = "".join(part.text for artifact in answers for part in artifact.parts)
    return text or "".join(part.text for part in task.status.message.parts)


@dataclass(slots=True)
class TaskProjection:
    """The state of a task as received from its event stream."""

    id: str
    states: list[str]
    artifacts: dict[str, Artifact]

    @classmethod
    def empty(cls) -> Self:
        return cls("", [], {})

    def artifact_text(self, name: str) -> str:
        """Return the text of the artifacts with this name."""
        matches = [artifact for artifact in self.artifacts.values() if artifact.name == name]
        return "".join(part.text for artifact in matches for part in artifact.parts)

    def apply(self, event: StreamResponse) -> str:
        """Apply an event and return its kind."""
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.id = event.task.id
            self.states.append(state(event.task))
            self.artifacts = {artifact.artifact_id: artifact for artifact in event.task.artifacts}
        elif kind == "status_update":
            self.states.append(state(Task(status=event.status_update.status)))
        elif kind == "artifact_update":
            self._apply_artifact(event)
        return str(kind)

    def _apply_artifact(self, event: StreamResponse) -> None:
        update = event.artifact_update
        artifact = self.artifacts.get(update.artifact.artifact_id)
        if update.append and artifact is not None:
            artifact.parts.extend(update.artifact.parts)
        else:
            self.artifacts[update.artifact.artifact_id] = update.artifact


@dataclass(slots=True)
class OfficialClient:
    """A connected official client with short methods for the tests."""

    mode: Mode
    card: AgentCard
    client: Client
    streaming: Client

    async def send(self, sent: Message, *, wait: bool = True, history: int | None = None) -> Task:
        """Send a message without streaming and return the task."""
        settings = SendMessageConfiguration(
            return_immediately=not wait, accepted_output_modes=["text/plain"]
        )
        if history is not None:
            settings.history_length = history
        request = SendMessageRequest(message=sent, configuration=settings)
        responses = [response async for response in self.client.send_message(request)]
        assert [response.WhichOneof("payload") for response in responses] == ["task"]
        return responses[0].task

    async def stream(self, sent: Message) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and yield its events."""
        async for event in self.streaming.send_message(SendMessageRequest(message=sent)):
            yield event

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamResponse, None]:
        """Yield the events of an active task."""
        async for event in self.streaming.subscribe(SubscribeToTaskRequest(id=task_id)):
            yield event

    async def get(self, task_id: str, *, history: int | None = None) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id, history_length=history))


@asynccontextmanager
async def connect(url: str, mode: Mode, token: str = "") -> AsyncIterator[OfficialClient]:
    """Fetch the card and yield a client for one protocol version and binding."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = mode.narrow(await A2ACardResolver(http, url).get_agent_card())
        plain, streaming = (
            ClientFactory(
                ClientConfig(
                    httpx_client=http,
                    grpc_channel_factory=lambda target: grpc_channel(target, token),
                    streaming=is_streaming,
                    supported_protocol_bindings=[mode.binding],
                )
            ).create(card)
            for is_streaming in (False, True)
        )
        yield OfficialClient(mode, card, plain, streaming)
        await plain.close()
        await streaming.close()
