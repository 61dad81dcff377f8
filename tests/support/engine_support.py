"""Engines under test: runs in this process, and a worker of a Temporal service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from temporal_server import shared_server

from acc import BaseAgent, RunConfig, Runner, open_worker
from acc.application.use_cases.serve_a2a import ServeA2AUseCase
from acc.bootstrap.a2a import make_task_store
from acc.ports.outbound.engine_ports import EnginePort

_names = count(1)


class EngineUnderTest:
    """Creates runners and servers whose runs an engine executes."""

    def __init__(self, kind: str, folder: Path, *, client: EnginePort | None = None) -> None:
        self.store = str(folder / "acc.db")
        self.url = "in-process" if kind == "in_process" else shared_server().url
        self.is_durable = kind != "in_process"
        #: What runners and servers use to reach the engine.
        self.client = client or self.url

    @asynccontextmanager
    async def runner(
        self, agent: BaseAgent, *, config: RunConfig | None = None, has_worker: bool = True
    ) -> AsyncIterator[Runner]:
        """Return a runner, with a worker if the engine needs one."""
        name = f"app{next(_names)}"
        runner = Runner(agent, store=self.store, app_name=name, engine=self.client, config=config)
        try:
            if self.is_durable and has_worker:
                async with self.worker(agent, name):
                    yield runner
            else:
                yield runner
        finally:
            await runner.aclose()

    @asynccontextmanager
    async def worker(self, agent: BaseAgent, app_name: str) -> AsyncIterator[None]:
        """Execute runs of an app."""
        async with open_worker(
            agent, engine=self.url, store=self.store, app_name=app_name, grace=0.0
        ):
            yield

    @asynccontextmanager
    async def server(
        self, agent: BaseAgent, *, has_worker: bool = True
    ) -> AsyncIterator[ServeA2AUseCase]:
        """Return an open server without HTTP, with a worker if the engine needs one."""
        name = f"app{next(_names)}"
        runner = Runner(agent, store=self.store, app_name=name, engine=self.client)
        services = runner.services
        tasks, storage = make_task_store(self.store, services.sessions, services.clock, name)
        serve = ServeA2AUseCase(runner, tasks=tasks, storage=storage)
        try:
            async with serve.open():
                if self.is_durable and has_worker:
                    async with self.worker(agent, name):
                        yield serve
                else:
                    yield serve
        finally:
            await tasks.aclose()
            await runner.aclose()
