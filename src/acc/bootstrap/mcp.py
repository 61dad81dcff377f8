"""Construction of MCP clients and servers."""

import asyncio
from collections.abc import Callable, Sequence
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
    from acc.adapters.mcp.client import McpTransport
    from acc.adapters.mcp.server import AgentMcpServer, MemoryMcpServer, ToolServer

_MISSING_PACKAGE = "MCP needs the package {}; install it with: pip install 'acc-agents[mcp]'"


class LazyMcpConnections:
    """Connections to MCP servers; the MCP SDK is imported on first use."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(allow)
        self._connections: McpConnectionsPort | None = None

    def server(self, endpoint: McpEndpoint) -> McpServerPort:
        """Return the server at an endpoint without connecting to it."""
        if self._connections is None:
            self._connections = make_mcp_connections(self._allow)
        return self._connections.server(endpoint)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._connections is not None:
            await self._connections.aclose()


def make_mcp_connections(allow: Sequence[str] = ()) -> McpConnectionsPort:
    """Return connections to MCP servers; `allow` lists hosts that need not be public."""
    try:
        from acc.adapters.mcp.client import McpConnections
        from acc.adapters.system.json_schema import JsonSchemaValidator
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from None
    return McpConnections(
        transports=lambda endpoint: _make_transport(endpoint, allow),
        schemas=JsonSchemaValidator(),
        version=version(),
    )


def _make_transport(endpoint: McpEndpoint, allow: Sequence[str]) -> "McpTransport":
    from acc.bootstrap.settings import allowed_hosts, resolve_reference, resolve_token

    if endpoint.command:
        from acc.adapters.mcp.transports import StdioTransport

        env = {name: resolve_reference(value) for name, value in endpoint.env}
        return StdioTransport(
            endpoint.command, env=env, cwd=endpoint.cwd, max_bytes=endpoint.max_bytes
        )
    from acc.adapters.mcp.transports import HttpTransport

    return HttpTransport(
        endpoint.url,
        token=lambda: resolve_token(endpoint.token),
        allow=(*endpoint.allow, *allow, *allowed_hosts()),
        max_bytes=endpoint.max_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerOptions:
    """Options of an MCP server; with `sub_agents` each agent of the tree is a tool."""

    store: str | Path = "memory"
    sub_agents: bool = False
    allow: Sequence[str] = ()
    config: RunConfig | None = None


def make_mcp_server(agent: BaseAgent, options: McpServerOptions | None = None) -> "AgentMcpServer":
    """Return an MCP server with an agent as a tool."""
    try:
        from acc.adapters.mcp.server import AgentMcpServer
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from None
    from acc.application.use_cases.serve_mcp import ServeMcpUseCase, served_agents
    from acc.bootstrap.agents import Runner, check_models, make_services

    options = options or McpServerOptions()
    check_models(agent)
    services = make_services(store=options.store, allow=options.allow)
    runners = {
        root.name: Runner(root, app_name=root.name, services=services, config=options.config)
        for root in served_agents(agent, sub_agents=options.sub_agents)
    }
    return AgentMcpServer(ServeMcpUseCase(runners), name=agent.name, version=version())


def make_memory_server(options: McpServerOptions, *, memory: str = "acc") -> "MemoryMcpServer":
    """Return an MCP server with a memory as tools: remember, recall, rules and explain."""
    try:
        from acc.adapters.mcp.server import MemoryMcpServer
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING_PACKAGE.format(error.name)) from None
    from acc.application.runtime.agent_memory import MemoryName
    from acc.application.use_cases.serve_memory import AGENT_NAME, ServeMemoryUseCase
    from acc.bootstrap.agents import Runner, make_services

    choice = MemoryName(memory)
    services = make_services(store=options.store, allow=options.allow)
    agent = ServeMemoryUseCase.agent(choice)
    runner = Runner(agent, app_name=AGENT_NAME, services=services, config=options.config)
    return MemoryMcpServer(ServeMemoryUseCase(runner, choice), version=version())


def serve_mcp_over_stdio(server: "ToolServer") -> None:
    """Serve the parent process until it closes our standard input."""
    asyncio.run(server.serve_stdio())


def serve_mcp_over_http(
    server: "ToolServer", *, port: int, on_ready: Callable[[str], None]
) -> bool:
    """Serve on the loopback interface until a signal arrives; return False if it cannot start."""
    from acc.adapters.a2a.server.uvicorn import bind, run

    listener = bind("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    return run(server.http_app(), listener, on_ready=lambda: on_ready(url))
