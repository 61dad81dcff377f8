"""`acc worker`: execute the runs of an engine."""

from contextlib import redirect_stdout
from sys import stderr
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from acc.bootstrap.agents import check_has_models, load_agent, log_runs
from acc.bootstrap.storage import describe_store
from acc.bootstrap.tracing import start_tracing
from acc.bootstrap.worker import DEFAULT_CONCURRENCY, DEFAULT_GRACE, work_forever
from acc.cli.call import check_allow
from acc.cli.options import AllowEmbeddedOption, OtelOption, VerboseOption
from acc.cli.output import configure_logging, console


def worker(
    agent: Annotated[str, Parameter(help="MODULE:AGENT or FILE.py:AGENT.")],
    /,
    *,
    engine: Annotated[
        str,
        Parameter(
            help="The engine: temporal://HOST:PORT/NAMESPACE, with ?tls=true for TLS. The key of a "
            "service that requires one is in ACC_TEMPORAL_API_KEY."
        ),
    ],
    store: Annotated[
        str,
        Parameter(
            help="The store of the runners and servers: the path of a SQLite file if all of them "
            "are on this machine, or postgresql://USER@HOST/DATABASE."
        ),
    ],
    app: Annotated[
        str,
        Parameter(
            help="Application name of the runners whose runs are executed. Tasks of servers with "
            "this agent are always executed.",
            show_default=True,
        ),
    ] = "app",
    concurrency: Annotated[
        int, Parameter(help="Runs that are executed at the same time.", show_default=True)
    ] = DEFAULT_CONCURRENCY,
    grace: Annotated[
        float,
        Parameter(
            help="Seconds for running segments when the worker stops; other workers continue the "
            "rest.",
            show_default=True,
        ),
    ] = DEFAULT_GRACE,
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A private host, address or network that the agent may call.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
    allow_embedded: AllowEmbeddedOption = False,
    verbose: VerboseOption = False,
    otel: OtelOption = False,
) -> int:
    """Execute the runs of an engine: those of Runner(engine=...) and of acc serve --engine.

    Start any number of workers with the same agent. If one dies, another one continues its runs
    from the store. The worker stops with SIGTERM or Ctrl-C.

    Example: acc worker shop.agents:root --engine temporal://localhost:7233 --store shop.db
    """
    check_allow(allow)
    with redirect_stdout(stderr):  # output of the module is not output of the command
        root = load_agent(agent)
    if not allow_embedded:
        check_has_models(root, flag="--allow-embedded")
    configure_logging()
    if verbose:
        log_runs(stderr)

    def print_ready() -> None:
        console().print(
            f"working for [bold]{root.name}[/bold] with the store {escape(describe_store(store))}",
            highlight=False,
            soft_wrap=True,
        )

    tracing = start_tracing(requested=otel, service_name=root.name)
    try:
        work_forever(
            root,
            engine=engine,
            store=store,
            app_name=app,
            allow=allow,
            concurrency=concurrency,
            grace=grace,
            on_ready=print_ready,
        )
    finally:
        tracing.shutdown()
    return 0
