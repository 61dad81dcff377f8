"""Construct the web console."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.application.console.live_runs import LiveRuns
from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.runtime.runner import SessionRunner
from acc.bootstrap.agents import check_models, draw_graph, make_services
from acc.bootstrap.memory import term_extractor
from acc.bootstrap.storage import store_catalog
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.run import RunConfig

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


def make_console(agent: BaseAgent | None, options: ConsoleOptions) -> "Console":
    """Return the console of an agent, or of a store only, as an ASGI application."""
    try:
        from acc.adapters.console.app import Console
        from acc.adapters.console.pages import ConsoleServices
        from acc.adapters.console.security import AccessPolicy
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from error

    if agent is not None:
        check_models(agent, accept_cached=True)
    services = make_services(store=options.store)

    @lru_cache(maxsize=64)
    def runner(app_name: str) -> SessionRunner | None:
        if agent is None:
            return None
        return SessionRunner(
            agent,
            app_name=app_name,
            services=services,
            config=RunConfig(record_prompts=options.record_prompts),
            busy_timeout=_BUSY_SECONDS,
        )

    return Console(
        ConsoleServices(
            store=services.sessions,
            artifacts=services.artifacts,
            catalog=store_catalog(services.sessions),
            runs=LiveRuns(),
            runner=runner,
            terms=search_words,
            agent=agent,
            app_name=options.app_name,
            graph="" if agent is None else draw_graph(agent, "svg"),
            memory_budget=DEFAULT_BUDGET_TOKENS,
            evaluations=options.evaluations,
            new_id=services.ids.new,
        ),
        policy=AccessPolicy(
            token=options.token,
            hosts=options.hosts,
            cookie_name=f"acc_console_{options.port}",
            read_only=options.read_only or agent is None,
        ),
        title=options.app_name if agent is None else agent.name,
    )


def search_words(text: str) -> frozenset[str]:
    """Return the words of a text as the recall index has them, without n-grams."""
    return frozenset([word for words, _ in term_extractor().tokens(text) for word in words])


def serve_console(
    agent: BaseAgent | None,
    make_options: Callable[[int], ConsoleOptions],
    *,
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
        console = make_console(agent, options)
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
