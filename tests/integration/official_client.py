"""The official Python client of A2A, held to one generation and one binding."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self
from uuid import uuid4

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

MOVING = {TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING}


@dataclass(frozen=True, slots=True)
class Mode:
    """A generation of the protocol and a binding."""

    version: str
    binding: str

    def __str__(self) -> str:
        return f"{self.version}-{self.binding}"

    def narrow(self, card: AgentCard) -> AgentCard:
        """Return the card as if this were all that the server spoke."""
        mine = AgentCard()
        mine.CopyFrom(card)
        del mine.supported_interfaces[:]
        mine.supported_interfaces.extend(
            found
            for found in card.supported_interfaces
            if found.protocol_binding == self.binding
            and found.protocol_version.startswith(self.version)
        )
        return mine


MODES = tuple(
    Mode(version, binding) for version in ("1.0", "0.3") for binding in ("JSONRPC", "HTTP+JSON")
)


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


def said(task: Task) -> str:
    """Return the words of a task's answer, or else of its status."""
    answers = [artifact for artifact in task.artifacts if artifact.name == "answer"]
    words = "".join(part.text for artifact in answers for part in artifact.parts)
    return words or "".join(part.text for part in task.status.message.parts)


@dataclass(slots=True)
class Copy:
    """What a client knows of a task from its stream alone."""

    id: str
    states: list[str]
    artifacts: dict[str, Artifact]

    @classmethod
    def begun(cls) -> Self:
        return cls("", [], {})

    def words(self, name: str) -> str:
        """Return the text of the artifact of that name."""
        named = [held for held in self.artifacts.values() if held.name == name]
        return "".join(part.text for held in named for part in held.parts)

    def take(self, event: StreamResponse) -> str:
        """Apply an event and return its kind."""
        kind = event.WhichOneof("payload")
        if kind == "task":
            self.id = event.task.id
            self.states.append(state(event.task))
            self.artifacts = {held.artifact_id: held for held in event.task.artifacts}
        elif kind == "status_update":
            self.states.append(state(Task(status=event.status_update.status)))
        elif kind == "artifact_update":
            self._piece(event)
        return str(kind)

    def _piece(self, event: StreamResponse) -> None:
        update = event.artifact_update
        held = self.artifacts.get(update.artifact.artifact_id)
        if update.append and held is not None:
            held.parts.extend(update.artifact.parts)
        else:
            self.artifacts[update.artifact.artifact_id] = update.artifact


@dataclass(slots=True)
class Witness:
    """An official client that is connected, and short ways to use it."""

    mode: Mode
    card: AgentCard
    client: Client
    streaming: Client

    async def send(self, sent: Message, *, wait: bool = True, history: int | None = None) -> Task:
        """Send a message without a stream and return the task."""
        settings = SendMessageConfiguration(
            return_immediately=not wait, accepted_output_modes=["text/plain"]
        )
        if history is not None:
            settings.history_length = history
        request = SendMessageRequest(message=sent, configuration=settings)
        answers = [found async for found in self.client.send_message(request)]
        assert [found.WhichOneof("payload") for found in answers] == ["task"]
        return answers[0].task

    async def stream(self, sent: Message) -> AsyncGenerator[StreamResponse, None]:
        """Send a message and give the events as they come."""
        async for event in self.streaming.send_message(SendMessageRequest(message=sent)):
            yield event

    async def subscribe(self, task_id: str) -> AsyncGenerator[StreamResponse, None]:
        """Give the events of a task that is under way."""
        async for event in self.streaming.subscribe(SubscribeToTaskRequest(id=task_id)):
            yield event

    async def get(self, task_id: str, *, history: int | None = None) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id, history_length=history))


@asynccontextmanager
async def connect(url: str, mode: Mode, token: str = "") -> AsyncIterator[Witness]:
    """Fetch the card as anyone would and give a client for one generation and binding."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(headers=headers, timeout=30) as http:
        card = mode.narrow(await A2ACardResolver(http, url).get_agent_card())
        plain, streaming = (
            ClientFactory(
                ClientConfig(
                    httpx_client=http,
                    streaming=wanted,
                    supported_protocol_bindings=[mode.binding],
                )
            ).create(card)
            for wanted in (False, True)
        )
        yield Witness(mode, card, plain, streaming)
