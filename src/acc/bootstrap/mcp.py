"""What the use of MCP servers is made of, and what an agent is offered as one with."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from acc.bootstrap.parts import version
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.mcp import McpAddress
from acc.ports.outbound.mcp_ports import McpConnectionsPort, McpServerPort

if TYPE_CHECKING:
    import httpx

    from acc.adapters.mcp_tools.link import Source

_MISSING = "MCP needs a package that is not installed ({}); pip install 'acc[mcp]'"


class LateMcpConnections:
    """Connections to MCP servers, whose code is loaded when an agent first needs one."""

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._allow = tuple(allow)
        self._made: McpConnectionsPort | None = None

    def server(self, address: McpAddress) -> McpServerPort:
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
        from acc.adapters.mcp_tools.servers import McpConnections
    except ModuleNotFoundError as error:
        raise InvalidInput(_MISSING.format(error.name)) from None
    return McpConnections(source=lambda address: _source(address, allow), version=version())


def _source(address: McpAddress, allow: Sequence[str]) -> "Source":
    from acc.bootstrap.remotes import allowed_by_environment, tls, token_of

    if address.command:
        from acc.adapters.mcp_tools.process import ServerProcess

        env = {name: token_of(value) for name, value in address.env}
        return ServerProcess(
            address.command, env=env, cwd=address.cwd, max_bytes=address.max_bytes
        )
    from acc.adapters.mcp_tools.http import Door, HttpServer
    from acc.adapters.security.guarded_http import STREAMING, Wiring, guarded_client

    allowed = (*address.allow, *allow, *allowed_by_environment())

    @asynccontextmanager
    async def opened() -> AsyncIterator["httpx.AsyncClient"]:
        async with guarded_client(allow=allowed, wiring=Wiring(tls=tls())) as client:
            yield client

    return HttpServer(
        address.url,
        token=lambda: token_of(address.token),
        door=Door(open=opened, streaming=STREAMING),
        max_bytes=address.max_bytes,
    )
