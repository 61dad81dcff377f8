"""Servers that speak the Model Context Protocol, and whose tools our agents use."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult

#: Hears how far a call has come, in the server's words.
HearProgress = Callable[[str], Awaitable[None]]


class McpServerPort(Protocol):
    """One MCP server, used by any run at any time; it is started or called when first needed.

    Whatever goes wrong with it is raised as RemoteFailed or InvalidInput. What a server says is
    foreign: it is bounded in size and time, and may still hold anything.
    """

    async def tools(self) -> Sequence[McpToolInfo]:
        """Return what the server offers now; this asks it only where that may have changed."""
        ...

    def fault(self, tool: McpToolInfo, arguments: Mapping[str, Any]) -> str:
        """Return what is wrong with arguments by the tool's schema, or nothing."""
        ...

    async def call(
        self, name: str, arguments: Mapping[str, Any], *, hear: HearProgress | None = None
    ) -> McpToolResult:
        """Return what a tool gave; whoever cancels this tells the server so.

        A call is sent once: where its connection is lost, nobody knows what came of it.
        """
        ...


class McpConnectionsPort(Protocol):
    """The MCP servers that a runner uses, one connection to each."""

    def server(self, address: McpEndpoint) -> McpServerPort:
        """Return the server at an address; nothing is opened yet."""
        ...

    async def aclose(self) -> None:
        """End every connection, and every process that was started for one."""
        ...
