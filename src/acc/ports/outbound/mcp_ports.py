"""Connections to MCP servers whose tools agents use."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

from acc.domain.value_objects.endpoint import McpEndpoint, McpToolInfo, McpToolResult


class ProgressListener(Protocol):
    """Receives the progress messages of a tool call."""

    def __call__(self, text: str, /) -> Awaitable[None]:
        """Handle a progress message."""
        ...


class McpServerPort(Protocol):
    """One MCP server, shared by concurrent runs and connected on first use.

    Failures are raised as RemoteFailed or InvalidInput. Content from a server is limited in size
    and untrusted.
    """

    async def tools(self) -> Sequence[McpToolInfo]:
        """Return the tools of the server; the list is requested only if it may have changed."""
        ...

    def schema_error(self, tool: McpToolInfo, arguments: Mapping[str, Any]) -> str:
        """Return what is invalid in the arguments of a tool, or an empty string."""
        ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: ProgressListener | None = None,
    ) -> McpToolResult:
        """Call a tool and return its result; a cancellation is sent to the server.

        A call is never repeated: if the connection is lost, its result is unknown.
        """
        ...


class McpConnectionsPort(Protocol):
    """The MCP servers of a runner, with one connection each."""

    def server(self, endpoint: McpEndpoint) -> McpServerPort:
        """Return the server at an endpoint without connecting to it."""
        ...

    async def aclose(self) -> None:
        """Close all connections and stop all server processes."""
        ...
