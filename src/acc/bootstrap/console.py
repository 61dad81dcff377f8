"""Construct the web console."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.application.agents.remote import RemoteAgent as A2ARemote
from acc.application.console.live_runs import LiveRuns
from acc.application.console.partners import Partners
from acc.application.console.served_tasks import ServedTasks
from acc.application.doctor.server import Target
from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.memory.baselines import DEFAULT_WINDOW_TOKENS
from acc.application.runtime.run import Services
from acc.application.runtime.runner import SessionRunner
from acc.application.use_cases.diagnose_server import Diagnosis
from acc.bootstrap.a2a import make_task_store
from acc.bootstrap.a2a_client import RemoteAgent, inspect_card
from acc.bootstrap.agents import check_models, make_services
from acc.bootstrap.doctor import make_doctor, make_grpc_doctor
from acc.bootstrap.memory import make_memory, term_extractor
from acc.bootstrap.reports import open_runs
from acc.bootstrap.storage import store_catalog
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import CardReport
from acc.domain.value_objects.endpoint import (
    RemoteEndpoint,
    add_scheme,
    is_grpc_url,
    loopback_allow_entries,
)
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.storage_ports import TaskStorePort, UnitOfWork

if TYPE_CHECKING:
    from acc.adapters.console.app import Console
    from acc.adapters.reports.labels import RunLabelSessions

_MISSING_PACKAGE = "the console needs the package {}; install it: pip install 'acc-agents[console]'"
#: Seconds that a run waits for another process to release its session.
_BUSY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions:
    """The options of a console; `hosts` are the accepted names in Host headers."""

    token: str
    hosts: Sequence[str]
    port: int
    store: str = "memory"
    app_name: str = "app"
    read_only: bool = False
    record_prompts: bool = False
    evaluations: Path | None = None


def new_console_token() -> str:
    """Return a random token."""
    return secrets.token_urlsafe(24)


def make_console(
    agents: Sequence[BaseAgent], options: ConsoleOptions, *, addresses: Sequence[str] = ()
) -> "Console":
    """Return the console of agents and A2A addresses, or of a store only, as an ASGI application.

    The first agent also runs the sessions of other applications.
    """
    try:
        from acc.adapters.console.app import Console
        from acc.adapters.console.pages import ConsoleServices
        from acc.adapters.console.security import AccessPolicy
        from acc.adapters.diagrams.svg import draw_agents
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from error

    for agent in agents:
        check_models(agent, accept_cached=True)
    services = make_services(store=options.store)
    catalog = store_catalog(services.sessions)

    @cache
    def stores(app_name: str) -> tuple[TaskStorePort, UnitOfWork]:
        return make_task_store(options.store, services.sessions, services.clock, app_name)

    remotes = [a for agent in agents for a in agent.walk_all() if isinstance(a, A2ARemote)]
    partners = Partners(
        agents,
        addresses=addresses,
        app_name=options.app_name,
        runners=_ConsoleRunners(services, record_prompts=options.record_prompts),
    )
    return Console(
        ConsoleServices(
            store=services.sessions,
            artifacts=services.artifacts,
            catalog=catalog,
            runs=LiveRuns(ServedTasks(catalog=catalog, stores=stores)),
            partners=partners,
            terms=search_words,
            drawings=[draw_agents(agent) for agent in agents],
            memory_budget=DEFAULT_BUDGET_TOKENS,
            evaluations=None if options.evaluations is None else open_runs(options.evaluations),
            new_id=services.ids.new,
            now=services.clock.now,
        ),
        policy=AccessPolicy(
            token=options.token,
            hosts=options.hosts,
            cookie_name=f"acc_console_{options.port}",
            read_only=options.read_only or not partners.listed(),
        ),
        title=agents[0].name if agents else options.app_name,
        stores=stores,
        checks=_ServerChecks(),
        addresses=[*addresses, *(remote.url for remote in remotes)],
    )


class _ServerChecks:
    """Implements ServerChecks; a loopback URL needs no entry in an allow list."""

    async def card(self, url: str, token: str) -> CardReport:
        """Return the card of a server with its findings."""
        url = add_scheme(url)
        allow = loopback_allow_entries(url)
        return await inspect_card(RemoteEndpoint(url=url, token=token, allow=allow))

    async def diagnose(self, url: str, token: str) -> Diagnosis:
        """Return the results of the doctor; it sends a few short messages."""
        if is_grpc_url(url):
            async with make_grpc_doctor(url) as diagnose_grpc:
                return await diagnose_grpc.run(url, token=token, second_token="", only=())
        target = Target(url=add_scheme(url), token=token)
        async with make_doctor(target.url) as diagnose:
            return await diagnose.run(target, only=())


class _ConsoleRunners:
    """Implements PartnerRunners with the services of the console."""

    def __init__(self, services: Services, *, record_prompts: bool) -> None:
        self._services = services
        # Snapshots show which agents are active.
        self._config = RunConfig(record_prompts=record_prompts, snapshots=True)

    def runner(self, agent: BaseAgent, app_name: str, memory: str) -> SessionRunner:
        """Return the runner of an agent; a `memory` replaces those of its tree."""
        services, models = self._services, self._services.model
        if memory:
            window = DEFAULT_WINDOW_TOKENS
            services = replace(
                services, memories=lambda _: make_memory(memory, window=window, models=models)
            )
        return SessionRunner(
            agent,
            app_name=app_name,
            services=services,
            config=self._config,
            busy_timeout=_BUSY_SECONDS,
        )

    def remote_agent(self, url: str, token: str) -> BaseAgent:
        """Return an agent that passes messages to an A2A address that a person typed."""
        return RemoteAgent(
            name="remote", url=url, token=token or None, allow=loopback_allow_entries(url)
        )


def search_words(text: str) -> frozenset[str]:
    """Return the words of a text as the recall index has them, without n-grams."""
    return frozenset([word for words, _ in term_extractor().tokens(text) for word in words])


def serve_console(
    agents: Sequence[BaseAgent],
    make_options: Callable[[int], ConsoleOptions],
    *,
    addresses: Sequence[str] = (),
    host: str,
    port: int,
    on_ready: Callable[[ConsoleOptions], None],
) -> bool:
    """Serve until a signal is received; return True if the console started.

    The options are made once the port is known, because port 0 selects a free port.
    """
    try:
        from acc.adapters.a2a.server.uvicorn import bind, run
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from error

    listener = bind(host, port)
    with ExitStack() as stack:
        stack.callback(listener.close)
        options = make_options(listener.getsockname()[1])
        console = make_console(agents, options, addresses=addresses)
        stack.pop_all()
    return run(console, listener, on_ready=lambda: on_ready(options))


def serve_labels(
    sessions: "RunLabelSessions", *, title: str, port: int, on_ready: Callable[[str], None]
) -> bool:
    """Serve the label pages on this machine until a signal; return True if they started."""
    try:
        from acc.adapters.a2a.server.uvicorn import bind, run
        from acc.adapters.console.label_pages import LabelSite
        from acc.adapters.console.security import AccessPolicy
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from error

    listener = bind("127.0.0.1", port)
    bound = listener.getsockname()[1]
    token = new_console_token()
    policy = AccessPolicy(
        token=token,
        hosts=("127.0.0.1", "localhost"),
        cookie_name=f"acc_labels_{bound}",
        read_only=False,
    )
    site = LabelSite(sessions, policy=policy, title=title)
    url = f"http://127.0.0.1:{bound}/login?token={token}"
    return run(site, listener, on_ready=lambda: on_ready(url))
