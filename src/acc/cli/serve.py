"""`acc serve`: any agent, served over A2A."""

import logging
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from sys import stderr
from typing import Annotated

from cyclopts import Parameter
from rich.table import Table

from acc.bootstrap.agents import load_agent
from acc.bootstrap.serving import (
    ServeOptions,
    check_binding,
    hosts_for,
    serve_forever,
    signer_for,
    verifier_for,
)
from acc.cli.screen import console


@Parameter(name="*", group="Where", show_default=True)
@dataclass(frozen=True, kw_only=True)
class WhereOptions:
    """Where to listen, and where things are kept."""

    host: Annotated[str, Parameter(help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Parameter(help="The port to listen on, 0 for a free one.")] = 8000
    public_url: Annotated[
        str,
        Parameter(help="The URL that the card names, if it is not the address listened on."),
    ] = ""
    store: Annotated[
        str,
        Parameter(
            help='Where sessions and tasks are kept: "memory", or the path of a SQLite file, which '
            "several servers may share."
        ),
    ] = "memory"


@Parameter(name="*", group="Who", show_default=False)
@dataclass(frozen=True, kw_only=True)
class WhoOptions:
    """Who may call, and who may be called."""

    tokens: Annotated[
        Path | None,
        Parameter(help="A file of callers and the hashes of their tokens; see `acc token`."),
    ] = None
    unprotected: Annotated[
        bool,
        Parameter(
            help="Let anyone who reaches this server use the agent, also from other machines.",
            negative=(),
        ),
    ] = False
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that notifications may be sent to although it is not "
            "public, for instance localhost or 10.0.0.0/8.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    sign_card: Annotated[
        Path | None,
        Parameter(help="A private key (PEM or JWK) to sign the agent's card with."),
    ] = None


def serve(
    agent: Annotated[str, Parameter(help="MODULE:AGENT, the agent and where it is defined.")],
    /,
    *,
    where: WhereOptions | None = None,
    who: WhoOptions | None = None,
) -> int:
    """Serve an agent over A2A 1.0 and 0.3, as JSON-RPC and HTTP+JSON, on one URL.

    The secret that notifications are signed with is taken from ACC_PUSH_SECRET.
    """
    where, who = where or WhereOptions(), who or WhoOptions()
    return _serve(agent, where, who)


def _serve(agent: str, where: WhereOptions, who: WhoOptions) -> int:
    is_closed = who.tokens is not None
    check_binding(where.host, is_closed=is_closed, unprotected=who.unprotected)
    with redirect_stdout(stderr):  # what a module prints is not the command's output
        found = load_agent(agent)

    def options(address: str) -> ServeOptions:
        url = (where.public_url or address).rstrip("/")
        return ServeOptions(
            public_url=url,
            store=where.store,
            verifier=verifier_for(who.tokens),
            allow=who.allow,
            hosts=None if is_closed or who.unprotected else hosts_for(where.host, url),
            signer=signer_for(),
        )

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    started = serve_forever(
        found,
        options,
        host=where.host,
        port=where.port,
        on_ready=lambda chosen: _greet(found.name, chosen),
    )
    return 0 if started else 1


def _greet(name: str, options: ServeOptions) -> None:
    url = options.public_url
    table = Table.grid(padding=(0, 2))
    callers = "anyone on this machine" if options.verifier is None else "with a token"
    table.add_row("serving", f"[bold]{name}[/bold] at {url}")
    table.add_row("card", f"{url}/.well-known/agent-card.json")
    table.add_row("callers", callers)
    table.add_row("kept in", str(options.store))
    table.add_row("try", f'acc call {url} "hello"')
    console().print(table)
