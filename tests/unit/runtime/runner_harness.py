"""Harness for runner tests: both kinds of stores, a frozen clock and a payment tool."""

import asyncio
import copy
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acc import Agent, BaseAgent, FunctionTool, Runner, RunResult, RunStatus, approve, tool
from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore
from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore
from acc.application.runtime.agent_memory import MemoryCache
from acc.bootstrap.agents import make_services
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import ArtifactStorePort, SessionStorePort
from acc.testing import FrozenClock, ScriptedModel

APP, USER, SESSION = "desk", "ann", "s1"
KEY = SessionKey(app_name=APP, user_id=USER, session_id=SESSION)


class RunnerHarness:
    """A runner with a default session; `restarted` simulates another process."""

    def __init__(self, storage: "Storage", agent: BaseAgent, config: RunConfig, most: int) -> None:
        services = make_services(store=(storage.sessions, storage.artifacts), clock=storage.clock)
        services.memory_cache = MemoryCache(max_entries=most)
        self.runner = Runner(agent, app_name=APP, services=services, config=config)
        self._world = storage
        self._most = most

    async def say(self, text: Any, session: str = SESSION, **options: Any) -> RunResult:
        return await self.runner.run(user_id=USER, session_id=session, message=text, **options)

    async def answer(
        self, *answers: InputAnswer, session: str = SESSION, context: CallContext | None = None
    ) -> RunResult:
        return await self.runner.resume(
            user_id=USER, session_id=session, answers=answers, context=context
        )

    async def approve_all(self, requests: Iterable[InputRequest]) -> RunResult:
        return await self.answer(*(approve(request.id) for request in requests))

    async def pending(self) -> tuple[InputRequest, ...]:
        return await self.runner.pending(user_id=USER, session_id=SESSION)

    async def abandon(self, reason: str = "") -> None:
        await self.runner.abandon(user_id=USER, session_id=SESSION, reason=reason)

    async def state(self) -> dict[str, Any]:
        return dict(await self.runner.state(user_id=USER, session_id=SESSION))

    async def events(self, session: str = SESSION) -> tuple[Event, ...]:
        return await self.runner.events(user_id=USER, session_id=session)

    async def ends(self) -> list[RunStatus | None]:
        return [event.status for event in await self.events() if event.kind is EventKind.ENDED]

    def restarted(self, agent: BaseAgent | None = None) -> "RunnerHarness":
        """Return a harness of another process, which shares only the stores."""
        return RunnerHarness(
            self._world, agent or self.runner.agent, self.runner.config, self._most
        )


@dataclass
class Storage:
    sessions: SessionStorePort
    artifacts: ArtifactStorePort
    clock: FrozenClock

    def harness(self, agent: BaseAgent, *, most: int = 512, **config: Any) -> RunnerHarness:
        return RunnerHarness(self, agent, RunConfig(**config), most)


def in_memory(_: Path) -> Storage:
    clock, artifacts = FrozenClock(), InMemoryArtifactStore()
    return Storage(InMemorySessionStore(clock=clock, artifacts=artifacts), artifacts, clock)


def sqlite(folder: Path) -> Storage:
    clock = FrozenClock()
    sessions = SqliteSessionStore(folder / "acc.db", clock=clock)
    return Storage(sessions, SqliteArtifactStore(sessions.database), clock)


STORAGES: dict[str, Callable[[Path], Storage]] = {"memory": in_memory, "sqlite": sqlite}


class Crash:
    """Copies the store at the moment of a simulated crash; `harness` opens the copy."""

    def __init__(self, storage: Storage, folder: Path) -> None:
        self._storage = storage
        self._folder = folder
        self.snapshots: list[Storage] = []

    def now(self) -> None:
        storage = self._storage
        if isinstance(storage.sessions, InMemorySessionStore):
            sessions, artifacts, clock = copy.deepcopy(
                (storage.sessions, storage.artifacts, storage.clock)
            )
            found = Storage(sessions, artifacts, clock)
        else:
            folder = self._folder / f"crash{len(self.snapshots)}"
            folder.mkdir()
            here = sqlite3.connect(self._folder / "acc.db")
            there = sqlite3.connect(folder / "acc.db")
            here.backup(there)
            here.close()
            there.close()
            found = sqlite(folder)
        # This process holds the lease and is alive, so the lease must expire.
        found.clock.time = storage.clock.time + 31
        self.snapshots.append(found)

    def harness(self, agent: BaseAgent, **config: Any) -> RunnerHarness:
        return self.snapshots[-1].harness(agent, **config)

    async def close(self) -> None:
        for snapshot in self.snapshots:
            await snapshot.sessions.aclose()


@dataclass
class PaymentTool:
    """Records payments of a tool that must not run twice."""

    paid: list[int] = field(default_factory=list)

    def tool(self, **options: Any) -> FunctionTool:
        """Return a payment tool that by default requires an approval."""

        @tool(**{"name": "pay", "confirm": True, **options})
        async def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        return pay


def scripted_agent(model: ScriptedModel, *tools: Any, name: str = "clerk", **fields: Any) -> Agent:
    """Return an agent with a model, tools and by default no memory."""
    return Agent(name=name, model=model, tools=tools, **{"memory": None, **fields})


def check_record(events: Iterable[Event]) -> None:
    """Assert that sequence numbers have no gap and that each run ends once."""
    stored = list(events)
    assert [event.seq for event in stored] == list(range(1, len(stored) + 1))
    over: dict[str, int] = {}
    for event in stored:
        if event.kind is EventKind.ENDED and event.status is not RunStatus.INPUT_REQUIRED:
            over[event.run_id] = over.get(event.run_id, 0) + 1
    assert over == dict.fromkeys(dict.fromkeys(event.run_id for event in stored), 1)


def no_tasks_remain() -> bool:
    """Return True if the current task is the only one of the loop."""
    return asyncio.all_tasks() == {asyncio.current_task()}
