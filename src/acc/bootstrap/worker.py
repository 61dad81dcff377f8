"""Construct workers, which execute the runs of an engine."""

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from acc.application.a2a.executor import TaskExecutor
from acc.application.a2a.subscriptions import TaskBroker
from acc.application.a2a.task_segments import TaskSegments
from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import Plugin
from acc.application.contracts.node_agents import TreeNode
from acc.application.runtime.type_variables import AnyDepsT
from acc.bootstrap.a2a import check_store, make_task_store
from acc.bootstrap.agents import Runner, check_models, make_services
from acc.bootstrap.engine import check_shared_store, make_temporal_engine
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.run import RunConfig

log = logging.getLogger("acc.worker")
#: Runs that a worker executes at the same time.
DEFAULT_CONCURRENCY = 100
#: Seconds for running segments when a worker stops.
DEFAULT_GRACE = 10.0


@explains_call()
@asynccontextmanager
async def open_worker(
    agent: BaseAgent[AnyDepsT] | TreeNode,
    *,
    engine: str,
    store: str | Path,
    app_name: str = "app",
    config: RunConfig | None = None,
    deps: AnyDepsT | None = None,
    plugins: Sequence[Plugin[AnyDepsT]] = (),
    allow: Sequence[str] = (),
    concurrency: int = DEFAULT_CONCURRENCY,
    grace: float = DEFAULT_GRACE,
) -> AsyncIterator[None]:
    """Execute runs of an engine while the context is open.

    The worker executes the runs of runners with this `app_name`, and the tasks of servers of the
    agent. `engine` and `store` are those of the runners and servers. At the end, runs get `grace`
    seconds to finish; other workers continue the rest.
    """
    agent = agent.as_agent() if isinstance(agent, TreeNode) else agent
    if concurrency < 1:
        raise InvalidInput(f"concurrency must be at least 1, got {concurrency}")
    temporal = make_temporal_engine(engine)
    check_shared_store(store)
    check_models(agent)
    from acc.adapters.temporal.worker import run_worker

    await temporal.connect()
    try:
        await check_store(store)
    except StorageFailed as error:
        if not error.is_temporary:
            raise
        log.warning("runs wait for the store: %s", error)
    async with AsyncExitStack() as stack:
        services = make_services(store=store, allow=allow)
        stack.push_async_callback(services.aclose)
        for name in dict.fromkeys((agent.name, app_name)):
            runner = Runner(
                agent, app_name=name, services=services, config=config, deps=deps, plugins=plugins
            )
            tasks, storage = make_task_store(store, services.sessions, services.clock, name)
            stack.push_async_callback(tasks.aclose)
            executor = TaskExecutor(
                runner=runner, tasks=tasks, storage=storage, broker=TaskBroker()
            )
            segments = TaskSegments(runner, tasks=tasks, executor=executor)
            await stack.enter_async_context(
                run_worker(temporal, segments, app_name=name, concurrency=concurrency, grace=grace)
            )
        yield


def work_forever(
    agent: BaseAgent,
    *,
    engine: str,
    store: str,
    app_name: str,
    allow: Sequence[str],
    concurrency: int,
    grace: float,
    on_ready: Callable[[], None],
) -> None:
    """Execute runs of an engine until SIGINT or SIGTERM."""

    async def work() -> None:
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        async with open_worker(
            agent,
            engine=engine,
            store=store,
            app_name=app_name,
            allow=allow,
            concurrency=concurrency,
            grace=grace,
        ):
            on_ready()
            await stopped.wait()

    asyncio.run(work())
