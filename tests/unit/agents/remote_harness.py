"""A runner with a scripted remote agent, and the responses of its server."""

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
from acc.testing import FrozenClock, RemoteAnswer, ScriptedRemote

URL = "https://agents.example.com"
TOKEN = {"token": "s3cret"}


class EchoAgent(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        return f"{self.name} heard {ctx.message}"


def shop(**fields: Any) -> RemoteAgent:
    return RemoteAgent(**{"name": "shop", "description": "Sells things.", "url": URL, **fields})


class RemoteHarness:
    """A runner with a scripted remote agent; `endpoints` lists the connections."""

    def __init__(
        self,
        agent: BaseAgent,
        remote: ScriptedRemote,
        store: Any = "memory",
        *,
        clock: FrozenClock | None = None,
    ) -> None:
        self.endpoints: list[RemoteEndpoint] = []
        services = make_services(store=store, clock=clock)

        def connect(endpoint: RemoteEndpoint) -> ScriptedRemote:
            self.endpoints.append(endpoint)
            return remote

        services.remote = connect
        self.runner = Runner(agent, services=services)

    async def send(self, text: Any, **options: Any) -> Any:
        return await self.runner.run(user_id="u", session_id="s", message=text, **options)

    async def answer(self, *answers: InputAnswer) -> Any:
        return await self.runner.resume(user_id="u", session_id="s", answers=answers)


def make_harness(agent: BaseAgent, *answers: RemoteAnswer) -> tuple[RemoteHarness, ScriptedRemote]:
    remote = ScriptedRemote(*answers)
    return RemoteHarness(agent, remote), remote


def agent_message(*parts: Part) -> Message:
    return Message(message_id="m", role=Role.AGENT, parts=parts)


def status(state: TaskState, *parts: Part) -> StatusUpdate:
    return StatusUpdate(
        status=TaskStatus(state=state, message=agent_message(*parts) if parts else None)
    )


def task(
    state: TaskState = TaskState.COMPLETED, *artifacts: TaskArtifact, parts: tuple[Part, ...] = ()
) -> Task:
    message = agent_message(*parts) if parts else None
    return Task(
        id="task-1",
        context_id="context-1",
        status=TaskStatus(state=state, message=message),
        artifacts=artifacts,
    )


def artifact(name: str, *parts: Part) -> TaskArtifact:
    return TaskArtifact(artifact_id=name, name=name, parts=parts)


def text(content: str) -> Part:
    return Part(text=content)


def input_required(*requests: dict[str, Any], state: TaskState = TaskState.INPUT_REQUIRED) -> Task:
    data = Part(data={"requests": list(requests)}, metadata={"extension": INPUT_REQUEST})
    return task(state, parts=(text("please decide"), data))


class StaticReceiver:
    """A push receiver that only provides a configuration."""

    def __init__(self) -> None:
        self.open = 0

    @contextmanager
    def expect(self, notify: Callable[[str], None]) -> Iterator[PushConfig]:
        self.open += 1
        yield PushConfig(id="p", task_id="", url="https://me.example/hook", token=f"t{self.open}")
        self.open -= 1
