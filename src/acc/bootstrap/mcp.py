"""What the use of MCP servers is made of, and what an agent is offered as one with."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.bootstrap.memory import version
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import McpEndpoint
from acc.domain.value_objects.run import RunConfig
from acc.ports.outbound.mcp_ports import McpConnectionsPort, McpServerPort

if TYPE_CHECKING:
    import httpx

    from acc.adapters.mcp.client import Source
    from acc.adapters.mcp.server import AgentsAsServer

_MISSING = "MCP needs a package that is not installed ({}); pip install 'acc-agents[mcp]'"


class LateMcpConnections:
    """Connections to MCP servers, whose code is loaded when an agent first needs one."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(allow)
        self._made: McpConnectionsPort | None = None

    def server(self, address: McpEndpoint) -> McpServerPort:
        """Return the server at an address; nothing is opened yet."""
        if self._made is None:
            self._made = make_mcp_connections(self._allow)
        return self._made.server(address)

    async def aclose(self) -> None:
        """End every connection."""
        if self._made is not None:
            await self._made.aclose()


def make_mcp_connections(allow: Sequence[str] = ()) -> McpConnectionsPort:
    """Return connections to MCP servers; `allow` lists hosts that may be other than public."""
    try:
        from acc.adapters.mcp.client import McpConnections
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING.format(error.name)) from None
    return McpConnections(source=lambda address: _source(address, allow), version=version())


def _source(address: McpEndpoint, allow: Sequence[str]) -> "Source":
    from acc.bootstrap.a2a_client import allowed_by_environment, secret_of, tls, token_of

    if address.command:
        from acc.adapters.mcp.transports import ServerProcess

        env = {name: secret_of(value) for name, value in address.env}
        return ServerProcess(address.command, env=env, cwd=address.cwd, max_bytes=address.max_bytes)
    from acc.adapters.http.client import STREAMING, NetworkOptions, guarded_client
    from acc.adapters.mcp.transports import Door, HttpServer

    allowed = (*address.allow, *allow, *allowed_by_environment())

    @asynccontextmanager
    async def opened() -> AsyncIterator["httpx.AsyncClient"]:
        async with guarded_client(allow=allowed, wiring=NetworkOptions(tls=tls())) as client:
            yield client

    return HttpServer(
        address.url,
        token=lambda: token_of(address.token),
        door=Door(open=opened, streaming=STREAMING),
        max_bytes=address.max_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferOptions:
    """How agents are offered as an MCP server; `sub_agents` offers each of the tree by itself."""

    store: str | Path = "memory"
    sub_agents: bool = False
    allow: Sequence[str] = ()
    config: RunConfig | None = None


def make_mcp_server(agent: BaseAgent, options: OfferOptions | None = None) -> "AgentsAsServer":
    """Return an agent as an MCP server, in which it is a tool."""
    try:
        from acc.adapters.mcp.server import AgentsAsServer
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING.format(error.name)) from None
    from acc.application.use_cases.serve_mcp import ServeMcpUseCase, standing_alone
    from acc.bootstrap.agents import Runner, check_models, make_services

    options = options or OfferOptions()
    check_models(agent)
    services = make_services(store=options.store, allow=options.allow)
    offered = [agent]
    if options.sub_agents:
        offered += [standing_alone(found) for found in agent.walk() if found is not agent]
    runners = {
        found.name: Runner(found, app_name=found.name, services=services, config=options.config)
        for found in offered
    }
    return AgentsAsServer(ServeMcpUseCase(runners), name=agent.name, version=version())


def offer_over_stdio(agent: BaseAgent, options: OfferOptions) -> None:
    """Serve whoever started this process, until they end its input."""
    asyncio.run(make_mcp_server(agent, options).over_stdio())


def offer_over_http(
    agent: BaseAgent, options: OfferOptions, *, port: int, on_ready: Callable[[str], None]
) -> bool:
    """Listen on this machine alone until a signal comes; return whether that could start."""
    server = make_mcp_server(agent, options)
    from acc.adapters.a2a.server.uvicorn import bind, run

    listening = bind("127.0.0.1", port)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    return run(server.over_http(), listening, on_ready=lambda: on_ready(url))
