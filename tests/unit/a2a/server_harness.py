"""A server without HTTP: an agent that executes commands, both stores, and requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence, Set
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acc import BaseAgent, RequestKind, RunContext, Runner
from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore
from acc.adapters.storage.in_memory_tasks import InMemoryTaskStore, SequentialUnitOfWork
from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore
from acc.adapters.storage.sqlite_tasks import SqliteTaskStore, SqliteUnitOfWork
from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    SendRequest,
    ServerLimits,
    TaskRequest,
)
from acc.application.a2a.subscriptions import StreamItem, TaskStream
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.agents import make_services
from acc.domain.value_objects.content import Part, text_of, text_part
from acc.domain.value_objects.principal import Principal
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskQuery,
    TaskState,
)
from acc.ports.outbound.storage_ports import (
    ArtifactStorePort,
    SessionStorePort,
    TaskStorePort,
    UnitOfWork,
)
from acc.testing import FrozenClock

APP = "desk"
ANN = Principal(caller="ann")
BOB = Principal(caller="bob")
S = TaskState


@dataclass(kw_only=True, eq=False)
class CommandAgent(BaseAgent):
    """Execute the command in the message; `gate` resumes it, `log` records what it did."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gate = asyncio.Event()
        self.log: list[str] = []

    async def run(self, ctx: RunContext) -> str | None:
        verb, _, rest = ctx.message.partition(" ")
        self.log.append(ctx.message)
        action = getattr(self, f"_{verb}", None)
        return f"echo: {ctx.message}" if action is None else await action(ctx, rest)

    async def _count(self, ctx: RunContext, upto: str) -> str:
        for number in range(int(upto)):
            await ctx.artifacts.publish(
                "numbers", f"{number} ", append=number > 0, last=number == int(upto) - 1
            )
            await asyncio.sleep(0)
        return f"counted to {upto}"

    async def _wait(self, ctx: RunContext, rest: str) -> str:
        if rest:
            await ctx.progress(rest)
        await self.gate.wait()
        self.log.append("woke")
        return "waited"

    async def _slowly(self, ctx: RunContext, _: str) -> str:
        await self.gate.wait()
        self.log.append("spoke")
        await ctx.progress("still at it")
        await asyncio.sleep(0)
        self.log.append("went on")
        return "done"

    async def _stubborn(self, ctx: RunContext, _: str) -> str:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.log.append("swallowed")
        await ctx.progress("still here")
        await ctx.say("and talking")
        await ctx.artifacts.publish("late", "too late")
        self.log.append("done")
        return "finished anyway"

    async def _ask(self, ctx: RunContext, rest: str) -> str:
        answer = await ctx.request_input(rest or "What shall it be?")
        return f"answer: {answer.value!r} by {answer.by} ({answer.verdict.value})"

    async def _confirm(self, ctx: RunContext, rest: str) -> str:
        answer = await ctx.request_input(
            rest or "May I?", kind=RequestKind.CONFIRMATION, expires_after=60.0
        )
        self.log.append(f"ran {answer.verdict.value}")
        return f"{answer.verdict.value}: {dict(answer.arguments or {})} {answer.reason}".strip()

    async def _twice(self, ctx: RunContext, _: str) -> str:
        first = await ctx.request_input("First?", kind=RequestKind.CONFIRMATION)
        second = await ctx.request_input("Second?")
        return f"{first.verdict.value} then {second.value}"

    async def _login(self, ctx: RunContext, _: str) -> str:
        answer = await ctx.request_input("Sign in.", kind=RequestKind.AUTHORIZATION)
        return f"login {answer.verdict.value}"

    async def _fail(self, ctx: RunContext, rest: str) -> str:
        raise RuntimeError(f"the password is {rest}")

    async def _quiet(self, ctx: RunContext, _: str) -> None:
        return None

    async def _progress(self, ctx: RunContext, rest: str) -> str:
        for word in rest.split():
            await ctx.progress(word)
        return "done"


class ServerHarness:
    """Stores, a clock, and servers that use them."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.clock = FrozenClock()
        self.sessions: SessionStorePort
        self.artifacts: ArtifactStorePort
        self.tasks: TaskStorePort
        if kind == "memory":
            files = InMemoryArtifactStore()
            self.artifacts = files
            self.sessions = InMemorySessionStore(clock=self.clock, artifacts=files)
            self.tasks = InMemoryTaskStore(clock=self.clock, app_name=APP)
        else:
            sessions = SqliteSessionStore(folder / "acc.db", clock=self.clock)
            self.sessions = sessions
            self.artifacts = SqliteArtifactStore(sessions.database)
            self.tasks = SqliteTaskStore(sessions.database, clock=self.clock, app_name=APP)

    def server(
        self,
        agent: BaseAgent,
        *,
        store: TaskStorePort | None = None,
        check_url: Callable[[str], Awaitable[None]] | None = None,
        anonymous_listing: bool = False,
        **limits: Any,
    ) -> ServeA2AUseCase:
        services = make_services(store=(self.sessions, self.artifacts), clock=self.clock)
        runner = Runner(agent, app_name=APP, services=services)
        tasks = store or self.tasks
        server_limits = ServerLimits(**{"grace": 0.05, **limits})
        return ServeA2AUseCase(
            runner,
            tasks=tasks,
            storage=self.unit_of_work(tasks),
            limits=server_limits,
            check_url=check_url,
            anonymous_listing=anonymous_listing,
        )

    def unit_of_work(self, tasks: TaskStorePort) -> UnitOfWork:
        """Return the unit of work; one transaction if both stores are in one file."""
        if isinstance(self.sessions, SqliteSessionStore) and isinstance(tasks, SqliteTaskStore):
            return SqliteUnitOfWork(sessions=self.sessions, tasks=tasks)
        return SequentialUnitOfWork(sessions=self.sessions, tasks=tasks)

    @asynccontextmanager
    async def open(self, agent: BaseAgent, **options: Any) -> AsyncIterator[ServeA2AUseCase]:
        """Serve an agent and check that nothing is left afterwards."""
        serve, before = self.server(agent, **options), asyncio.all_tasks()
        async with serve.open():
            yield serve
            check_no_subscribers(serve)
        check_no_tasks_left(serve, before)

    async def aclose(self) -> None:
        await self.tasks.aclose()
        await self.sessions.aclose()


def check_no_subscribers(serve: ServeA2AUseCase) -> None:
    assert not serve._broker.subscribed
    assert not serve._subscriptions.count


def check_no_tasks_left(
    serve: ServeA2AUseCase, before: Set["asyncio.Task[Any]"] = frozenset()
) -> None:
    assert not serve._executor.running
    assert asyncio.all_tasks() <= {*before, asyncio.current_task()}


_COUNT = iter(range(1, 1_000_000))


def send_request(
    text: str | Sequence[Part],
    *,
    id: str = "",
    task: Task | str = "",
    context: str = "",
    role: Role = Role.USER,
    **fields: Any,
) -> SendRequest:
    """Return a request that sends a message, with a unique id by default."""
    message = Message(
        message_id=id or f"m-{next(_COUNT)}",
        role=role,
        parts=text_part(text) if isinstance(text, str) else tuple(text),
        task_id=task if isinstance(task, str) else task.id,
        context_id=context,
    )
    return SendRequest(message=message, **fields)


async def send(
    serve: ServeA2AUseCase, text: str | Sequence[Part], who: Principal = ANN, **fields: Any
) -> Task:
    result = await serve.send(who, send_request(text, **fields))
    assert isinstance(result, Task)
    return result


async def start(serve: ServeA2AUseCase, text: str, who: Principal = ANN, **fields: Any) -> Task:
    return await send(serve, text, who, wait=False, **fields)


async def get(serve: ServeA2AUseCase, task: Task | str, who: Principal = ANN) -> Task:
    return await serve.get(who, GetRequest(id=task if isinstance(task, str) else task.id))


async def cancel(serve: ServeA2AUseCase, task: Task, who: Principal = ANN) -> Task:
    return await serve.cancel(who, TaskRequest(id=task.id))


async def subscribe(serve: ServeA2AUseCase, task: Task, after: int | None = None) -> TaskStream:
    return await serve.subscribe(ANN, TaskRequest(id=task.id), after=after)


async def list_tasks(serve: ServeA2AUseCase, who: Principal = ANN) -> list[Task]:
    return list((await serve.list_tasks(who, ListRequest(query=TaskQuery()))).tasks)


async def wait_until(check: Callable[[], bool | Awaitable[bool]]) -> None:
    """Wait until a condition is true."""
    async with asyncio.timeout(5):
        while True:
            result = check()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.005)


async def wait_for_state(serve: ServeA2AUseCase, task: Task, state: TaskState) -> Task:
    """Wait until a task has a state."""

    async def has_state() -> bool:
        return (await get(serve, task)).state is state

    await wait_until(has_state)
    return await get(serve, task)


async def read_stream(stream: TaskStream, most: int | None = None) -> list[StreamItem]:
    """Read a stream to its end, or a number of items, and close it."""
    result: list[StreamItem] = []
    try:
        async with asyncio.timeout(5), aclosing(stream.items()) as items:
            async for item in items:
                result.append(item)
                if most is not None and len(result) >= most:
                    break
    finally:
        stream.close()
    return result


def summarize(items: Sequence[StreamItem]) -> list[str]:
    """Return a short text for each item."""
    return [_summary(item.item) for item in items]


def _summary(item: Any) -> str:
    match item:
        case Task():
            return f"task {item.state.value}"
        case Message():
            return f"message {text_of(item.parts)}"
        case StatusUpdate():
            message = item.status.message
            return f"{item.status.state.value} {text_of(message.parts) if message else ''}".strip()
        case ArtifactUpdate():
            return f"{item.artifact.name} {text_of(item.artifact.parts)}".strip()
    return "alive"


def answer_text(task: Task) -> str:
    """Return the answer of a task."""
    (artifact,) = (artifact for artifact in task.artifacts if artifact.artifact_id == "answer")
    return text_of(artifact.parts)


def status_text(task: Task) -> str:
    """Return the status message of a task."""
    return "" if task.status.message is None else text_of(task.status.message.parts)


def request_data(task: Task) -> dict[str, Any]:
    """Return the pending request of a task."""
    assert task.status.message is not None
    (request,) = task.status.message.parts[1].data["requests"]
    return dict(request)


def push_config(
    url: str = "https://hooks.example/a", id: str = "", task_id: str = ""
) -> PushConfig:
    return PushConfig(id=id, task_id=task_id, url=url)


async def allow_any_url(_: str) -> None:
    """Accept every URL."""
