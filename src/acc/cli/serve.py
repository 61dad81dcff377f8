"""`acc serve` and `acc mcp`: any agent, served over A2A, or offered as an MCP server."""

import logging
import re
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from sys import stderr
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.table import Table

from acc.application.a2a.requests import ServerLimits
from acc.bootstrap.a2a import (
    PushSigning,
    ServeOptions,
    card_signer,
    check_binding,
    check_public_url,
    connection_limits,
    hosts_for,
    push_signing,
    serve_forever,
    verifier_for,
)
from acc.bootstrap.a2a_client import check_allow
from acc.bootstrap.agents import load_tree
from acc.bootstrap.mcp import McpServerOptions, serve_mcp_over_http, serve_mcp_over_stdio
from acc.cli.output import console
from acc.domain.errors import InvalidInput


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
    open_listing: Annotated[
        bool,
        Parameter(
            help="Without --tokens, let any caller list all tasks, which else needs "
            "authentication. The official conformance tests need that.",
            negative=(),
        ),
    ] = False
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that may be called although it is not public, for "
            "notifications, files and remote agents: for instance localhost or 10.0.0.0/8.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    sign_card: Annotated[
        Path | None,
        Parameter(help="A private key (PEM or JWK) to sign the agent's card with."),
    ] = None
    push_signing: Annotated[
        PushSigning | None,
        Parameter(
            help="How notifications are signed: hmac with the secret in ACC_PUSH_SECRET, jwt with "
            "--push-key, bearer for a JWT that is in Authorization too, or none. [default: jwt "
            "with a key, hmac with a secret]"
        ),
    ] = None
    push_key: Annotated[
        Path | None,
        Parameter(
            help="A private key (PEM or JWK) to sign notifications with; receivers find the public "
            "one at /.well-known/jwks.json."
        ),
    ] = None


_SIZES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_DAY = 24 * 3600.0
_USUAL = ServerLimits()
_MCP_PORT = 8000


@Parameter(name="*", group="Limits", show_default=True)
@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """How much one caller may send and have, and for how long."""

    max_body: Annotated[
        str, Parameter(help="The largest request, in bytes; K, M and G are understood.")
    ] = "8M"
    max_tasks: Annotated[int, Parameter(help="How many tasks of one caller may run at once.")] = (
        _USUAL.tasks
    )
    max_waiting: Annotated[
        int, Parameter(help="How many tasks of one caller may wait for an answer.")
    ] = _USUAL.waiting
    max_streams: Annotated[
        int, Parameter(help="How many streams of one caller may be open at once.")
    ] = _USUAL.streams
    request_timeout: Annotated[
        float, Parameter(help="How many seconds a client may take to send a head, and a body.")
    ] = _USUAL.receive
    heartbeat: Annotated[
        float, Parameter(help="After how many quiet seconds a stream says that it still lives.")
    ] = _USUAL.heartbeat
    grace: Annotated[
        float, Parameter(help="How many seconds tasks get to finish when the server is stopped.")
    ] = _USUAL.grace
    keep_days: Annotated[
        float, Parameter(help="How many days a task that is over and its conversation are kept.")
    ] = _USUAL.keep / _DAY


def serve(
    agent: Annotated[str, Parameter(help="MODULE:AGENT or FILE.py:AGENT.")],
    /,
    *,
    where: WhereOptions | None = None,
    who: WhoOptions | None = None,
    limits: LimitOptions | None = None,
    generation: Annotated[
        tuple[Literal["1.0", "0.3"], ...],
        Parameter(
            help="A generation of A2A to speak; both if none is given.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
    accept_repeats: Annotated[
        bool,
        Parameter(
            help="Take a message that comes again, with the same id and parts, as a new one. The "
            "official conformance tests need that; clients that retry do not.",
            negative=(),
        ),
    ] = False,
) -> int:
    """Serve an agent over A2A 1.0 and 0.3, as JSON-RPC and HTTP+JSON, on one URL.

    The secret that notifications are signed with is taken from ACC_PUSH_SECRET; --push-key signs
    them with a key pair.
    """
    where, who, limits = where or WhereOptions(), who or WhoOptions(), limits or LimitOptions()
    is_closed = who.tokens is not None
    bounds, sign_card = _limits(limits), card_signer(who.sign_card)
    signing = push_signing(who.push_signing, who.push_key)
    check_allow(who.allow)
    if where.public_url:
        check_public_url(where.public_url)
    check_binding(where.host, is_closed=is_closed, unprotected=who.unprotected)
    with redirect_stdout(stderr):  # what a module prints is not the command's output
        found = load_tree(agent)

    def options(address: str) -> ServeOptions:
        url = (where.public_url or address).rstrip("/")
        return ServeOptions(
            public_url=url,
            store=where.store,
            verifier=verifier_for(who.tokens),
            allow=who.allow,
            hosts=None if is_closed or who.unprotected else hosts_for(where.host, url),
            signer=signing.signer(url),
            public_keys=signing.public_keys,
            sign_card=sign_card,
            limits=bounds,
            connections=connection_limits(limits.request_timeout),
            generations=tuple(dict.fromkeys(generation)) or ("1.0", "0.3"),
            knows_repeats=not accept_repeats,
            open_listing=who.open_listing,
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


def mcp(
    agent: Annotated[str, Parameter(help="MODULE:AGENT or FILE.py:AGENT.")],
    /,
    *,
    http: Annotated[
        bool,
        Parameter(
            help="Listen on this machine for streamable HTTP, and not on standard input.",
            negative=(),
        ),
    ] = False,
    port: Annotated[
        int | None,
        Parameter(help="The port to listen on with --http, 0 for a free one. [default: 8000]"),
    ] = None,
    store: Annotated[
        str,
        Parameter(
            help='Where conversations are kept: "memory", or the path of a SQLite file.',
            show_default=True,
        ),
    ] = "memory",
    sub_agents: Annotated[
        bool, Parameter(help="Offer each sub-agent by itself too.", negative=())
    ] = False,
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A host, address or network that the agent may call although it is not public.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
) -> int:
    """Offer an agent to other agents as an MCP server, in which it is a tool.

    A call takes a message, and the id of the conversation that it goes on with. What waits for a
    person is asked through the client where it can do that.
    """
    check_allow(allow)
    if port is not None and not http:
        raise InvalidInput("--port needs --http: on standard input there is no port")
    with redirect_stdout(stderr):  # standard output belongs to the protocol
        found = load_tree(agent)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    options = McpServerOptions(store=store, sub_agents=sub_agents, allow=allow)
    if not http:
        serve_mcp_over_stdio(found, options)
        return 0

    def greet(url: str) -> None:
        console().print(f"offering [bold]{found.name}[/bold] over MCP at {url}", highlight=False)

    chosen = _MCP_PORT if port is None else port
    return 0 if serve_mcp_over_http(found, options, port=chosen, on_ready=greet) else 1


def _limits(given: LimitOptions) -> ServerLimits:
    return ServerLimits(
        body=_size(given.max_body),
        tasks=given.max_tasks,
        waiting=given.max_waiting,
        streams=given.max_streams,
        receive=given.request_timeout,
        heartbeat=given.heartbeat,
        grace=given.grace,
        keep=given.keep_days * _DAY,
    )


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d{1,12}) ?([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None or not int(found[1]):
        raise InvalidInput(f"--max-body {text!r} is no size; write it like 500K or 8M")
    return int(found[1]) * _SIZES[found[2]]


def _greet(name: str, options: ServeOptions) -> None:
    url = options.public_url
    table = Table.grid(padding=(0, 2))
    callers = "anyone on this machine" if options.hosts is not None else "ANYONE, also from outside"
    callers = callers if options.verifier is None else "with a token"
    table.add_row("serving", f"[bold]{name}[/bold] at {url}")
    table.add_row("card", f"{url}/.well-known/agent-card.json")
    table.add_row("callers", callers)
    table.add_row("kept in", str(options.store))
    token = "" if options.verifier is None else " --token-env NAME"
    table.add_row("try", f'acc call {url} "hello"{token}')
    console().print(table)
