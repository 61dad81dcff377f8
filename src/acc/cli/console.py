"""`acc console`: the web console of an agent and its sessions."""

import shlex
from contextlib import redirect_stdout
from pathlib import Path
from sys import stderr
from typing import Annotated
from urllib.parse import urlencode

from cyclopts import Parameter

from acc.application.console.partners import is_address
from acc.bootstrap import settings
from acc.bootstrap.agents import load_agent
from acc.bootstrap.console import (
    ConsoleOptions,
    new_console_token,
    serve_console,
)
from acc.bootstrap.inspection import check_folder, check_store
from acc.cli.output import configure_logging
from acc.cli.output import console as output
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import is_loopback_host, is_unspecified_host

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MIN_TOKEN_LENGTH = 16
_DEFAULT_PORT = 8765


def console(
    *agents: Annotated[
        str,
        Parameter(
            help="MODULE:AGENT or FILE.py:AGENT, or the URL of an A2A server; several of them can "
            "be compared. Without an agent the console is read-only and loads no code."
        ),
    ],
    store: Annotated[
        str,
        Parameter(
            help='The path of a SQLite file, a PostgreSQL URL, or "memory".', show_default=True
        ),
    ] = "memory",
    app: Annotated[
        str, Parameter(help="Application name of new sessions in the store.", show_default=True)
    ] = "app",
    runs: Annotated[
        Path | None, Parameter(help="A folder of evaluation runs to list, as acc eval writes them.")
    ] = None,
    host: Annotated[str, Parameter(help="The address to listen on.", show_default=True)] = (
        "127.0.0.1"
    ),
    port: Annotated[
        int, Parameter(help="The port to listen on; 0 selects a free port.", show_default=True)
    ] = _DEFAULT_PORT,
    allow_host: Annotated[
        tuple[str, ...],
        Parameter(
            help="A further host name under which browsers open the console; can be repeated.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
    token: Annotated[
        str,
        Parameter(
            help="The token of users: env:NAME or a text of at least 16 characters. [default: a "
            "random one, which is printed]",
            show_default=False,
        ),
    ] = "",
    read_only: Annotated[
        bool, Parameter(help="Show everything and change nothing.", negative=())
    ] = False,
    record_prompts: Annotated[
        bool,
        Parameter(
            help="Record the exact request of each model call, without secrets.", negative=()
        ),
    ] = False,
) -> int:
    """Open the web console: chat, sessions, memory by turn, approvals, timeline, graph.

    It listens on this machine only, unless --host names another address, and always requires a
    token.

    Example: acc console shop.agents:root --store shop.db
    """
    is_loopback = is_loopback_host(host)
    secret = settings.resolve_token(token) if token else ""
    if secret and len(secret) < _MIN_TOKEN_LENGTH:
        raise InvalidInput(f"--token must have at least {_MIN_TOKEN_LENGTH} characters")
    if not is_loopback and not secret:
        raise InvalidInput(
            f"--host {host} is reachable from other machines; add --token env:NAME, so that only "
            "those who know the token can use the console"
        )
    if is_unspecified_host(host) and not allow_host:
        raise InvalidInput(
            f"--host {host} is not a name that browsers open; add --allow-host NAME with the name "
            "or address of this machine"
        )
    if store != "memory" and (not agents or read_only):
        check_store(store)
    check_folder(store)
    with redirect_stdout(stderr):  # output of the module is not output of the command
        loaded = [load_agent(reference) for reference in agents if not is_address(reference)]
    addresses = tuple(filter(is_address, agents))

    def make_options(bound_port: int) -> ConsoleOptions:
        return ConsoleOptions(
            token=secret or new_console_token(),
            hosts=(*_LOOPBACK, host, *allow_host),
            port=bound_port,
            store=store,
            app_name=app,
            read_only=read_only,
            record_prompts=record_prompts,
            evaluations=runs,
        )

    def print_url(options: ConsoleOptions) -> None:
        name = allow_host[0] if allow_host else f"[{host}]" if ":" in host else host
        url = f"http://{name}:{options.port}"
        query = "" if secret else f"?{urlencode({'token': options.token})}"
        lines = [f"console at {url}/login{query}", f"store {shlex.quote(store)}"]
        if not is_loopback:
            lines.append("the token is sent without encryption; use a proxy with TLS")
        for line in lines:
            output().print(line, markup=False, highlight=False)

    configure_logging()
    started = serve_console(
        loaded, make_options, addresses=addresses, host=host, port=port, on_ready=print_url
    )
    return 0 if started else 1
