"""A runner whose remote agent is scripted, and what its server may tell."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from acc import (
    BaseAgent,
    Part,
    RemoteAgent,
    RunContext,
    Runner,
)
from acc.application.a2a.projection import INPUT_REQUEST
from acc.bootstrap.agents import make_services
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.endpoint import RemoteEndpoint
from acc.domain.value_objects.task import (
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskState,
    TaskStatus,
)
from acc.testing import RemoteAnswer, ScriptedRemote

URL = "https://agents.example.com"
TOKEN = {"token": "s3cret"}


class Says(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        return f"{self.name} heard {ctx.message}"


def shop(**fields: Any) -> RemoteAgent:
    return RemoteAgent(**{"name": "shop", "description": "Sells things.", "url": URL, **fields})


class Desk:
    """A runner whose remote agent is scripted; `restarted` knows only what is stored."""

    def __init__(self, agent: BaseAgent, remote: ScriptedRemote, store: Any = "memory") -> None:
        self.addresses: list[RemoteEndpoint] = []
        services = make_services(store=store)

        def to_remote(address: RemoteEndpoint) -> ScriptedRemote:
            self.addresses.append(address)
            return remote

        services.remote = to_remote
        self.runner = Runner(agent, services=services)

    async def say(self, text: Any, **options: Any) -> Any:
        return await self.runner.run(user_id="u", session_id="s", message=text, **options)

    async def answer(self, *answers: InputAnswer) -> Any:
        return await self.runner.resume(user_id="u", session_id="s", answers=answers)


def desk(agent: BaseAgent, *answers: RemoteAnswer) -> tuple[Desk, ScriptedRemote]:
    remote = ScriptedRemote(*answers)
    return Desk(agent, remote), remote


def said(*parts: Part) -> Message:
    return Message(message_id="m", role=Role.AGENT, parts=parts)


def status(state: TaskState, *parts: Part) -> StatusUpdate:
    return StatusUpdate(status=TaskStatus(state=state, message=said(*parts) if parts else None))


def task(
    state: TaskState = TaskState.COMPLETED, *artifacts: TaskArtifact, parts: tuple[Part, ...] = ()
) -> Task:
    message = said(*parts) if parts else None
    return Task(
        id="task-1",
        context_id="context-1",
        status=TaskStatus(state=state, message=message),
        artifacts=artifacts,
    )


def made(name: str, *parts: Part) -> TaskArtifact:
    return TaskArtifact(artifact_id=name, name=name, parts=parts)


def text(words: str) -> Part:
    return Part(text=words)


def asking(*requests: dict[str, Any], state: TaskState = TaskState.INPUT_REQUIRED) -> Task:
    data = Part(data={"requests": list(requests)}, metadata={"extension": INPUT_REQUEST})
    return task(state, parts=(text("please decide"), data))


class Mailbox:
    """A receiver that only says where it is."""

    def __init__(self) -> None:
        self.open = 0

    @contextmanager
    def expect(self, told: Callable[[str], None]) -> Iterator[PushConfig]:
        self.open += 1
        yield PushConfig(id="p", task_id="", url="https://me.example/hook", token=f"t{self.open}")
        self.open -= 1
