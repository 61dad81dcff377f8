"""`acc mcp`: offer an agent or a memory as an MCP server."""

from contextlib import redirect_stdout
from sys import stderr
from typing import Annotated

from cyclopts import Parameter

from acc.bootstrap.agents import load_agent
from acc.bootstrap.mcp import (
    McpServerOptions,
    make_mcp_server,
    make_memory_server,
    serve_mcp_over_http,
    serve_mcp_over_stdio,
)
from acc.bootstrap.tracing import start_tracing
from acc.cli.call import check_allow
from acc.cli.options import OtelOption
from acc.cli.output import configure_logging, console
from acc.domain.errors import InvalidInput

_DEFAULT_MCP_PORT = 8000


def mcp(
    agent: Annotated[
        str | None,
        Parameter(help="MODULE:AGENT or FILE.py:AGENT. Without an agent, use --memory."),
    ] = None,
    /,
    *,
    memory: Annotated[
        bool,
        Parameter(
            help="Offer ACC memory instead of an agent: remember, recall, rules, explain.",
            negative=(),
        ),
    ] = False,
    http: Annotated[
        bool,
        Parameter(
            help="Listen on loopback for streamable HTTP instead of standard input.",
            negative=(),
        ),
    ] = False,
    port: Annotated[
        int | None,
        Parameter(
            help="The port with --http; 0 selects a free port. [default: 8000]", show_default=False
        ),
    ] = None,
    store: Annotated[
        str,
        Parameter(
            help='The store of sessions: "memory", the path of a SQLite file, or '
            "postgresql://USER@HOST/DATABASE.",
            show_default=True,
        ),
    ] = "memory",
    sub_agents: Annotated[
        bool, Parameter(help="Also offer each sub-agent as a tool.", negative=())
    ] = False,
    allow: Annotated[
        tuple[str, ...],
        Parameter(
            help="A private host, address or network that the agent may call.",
            negative=(),
            consume_multiple=False,
        ),
    ] = (),
    otel: OtelOption = False,
) -> int:
    """Offer an agent as a tool of an MCP server, or a memory as four tools.

    A call of an agent contains a message and optionally the id of the session to continue. Requests
    for approval are sent through the client if it supports elicitation.

    Example: acc mcp --memory --store memory.db
    """
    check_allow(allow)
    if port is not None and not http:
        raise InvalidInput("--port requires --http")
    if (agent is None) != memory:
        raise InvalidInput("give either an agent (MODULE:AGENT) or --memory")
    if memory and sub_agents:
        raise InvalidInput("--sub-agents requires an agent")
    configure_logging()
    options = McpServerOptions(store=store, sub_agents=sub_agents, allow=allow)
    with redirect_stdout(stderr):  # standard output is used by the protocol
        root = None if agent is None else load_agent(agent)
    name = "memory" if root is None else root.name

    def print_url(url: str) -> None:
        console().print(f"offering [bold]{name}[/bold] over MCP at {url}", highlight=False)

    tracing = start_tracing(requested=otel, service_name=name)
    try:
        server = make_memory_server(options) if root is None else make_mcp_server(root, options)
        if not http:
            serve_mcp_over_stdio(server)
            return 0
        selected = _DEFAULT_MCP_PORT if port is None else port
        return 0 if serve_mcp_over_http(server, port=selected, on_ready=print_url) else 1
    finally:
        tracing.shutdown()
