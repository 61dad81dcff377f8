"""Tools that are discovered while an agent runs, for example those of an MCP server."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Generic

from acc.application.runtime.context import RunContext
from acc.application.runtime.type_variables import (
    AnyDepsT,
    GenericDefaults,
)
from acc.application.tools.function_tool import as_tool
from acc.application.tools.tool import BaseTool, ToolContext
from acc.domain.call_options import check_awaitable, explains_call
from acc.domain.errors import AccError, InvalidInput, InvalidTree, RemoteFailed
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import ToolCall
from acc.ports.outbound.model_ports import ToolSpec


@explains_call(advice="a toolset is a subclass that defines `list_tools`")
class Toolset(GenericDefaults, Generic[AnyDepsT]):
    """A source of tools that may change while an agent runs.

    A subclass sets `name` and defines `list_tools`. An agent calls it before each model call.
    """

    name: str

    async def list_tools(
        self, ctx: RunContext[AnyDepsT]
    ) -> Sequence[BaseTool | Callable[..., object]]:
        """Return the tools that are available now: functions with type hints, or tools."""
        raise NotImplementedError(
            f"{type(self).__name__} must define `async def list_tools(self, ctx)`"
        )

    async def named_tools(
        self, ctx: RunContext[AnyDepsT], *, is_only_toolset: bool, reserved_names: frozenset[str]
    ) -> Sequence[BaseTool]:
        """Return the tools under names that are unique within the agent.

        `is_only_toolset` is True if the agent has no other toolset. `reserved_names` are the names
        of the agent's own tools.
        """
        pending = check_awaitable(self.list_tools(ctx), self, "list_tools(self, ctx)")
        listed: object = await pending
        if not isinstance(listed, Iterable) or isinstance(listed, str | Mapping):
            raise InvalidInput(
                f"toolset {self.name!r}: list_tools must return a list, such as [function], got "
                f"{type(listed).__name__}"
            )
        tools = [as_tool(item) for item in listed]
        for tool in tools:
            if tool.name in reserved_names:
                raise InvalidInput(
                    f"toolset {self.name!r}: the agent has another tool named {tool.name!r}; "
                    "rename one of them"
                )
        return tools


class UnavailableTool(BaseTool):
    """A tool that was available earlier in the run; calls of it fail with the reason."""

    description = ""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self._reason = reason

    @property
    def spec(self) -> ToolSpec:
        """Return the name only; models do not receive this tool."""
        return ToolSpec(name=self.name, description="")

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments unchanged."""
        return dict(arguments)

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Raise RemoteFailed with the reason."""
        raise RemoteFailed(self._reason)


def check_toolsets(agent_name: str, toolsets: Sequence[Toolset]) -> None:
    """Raise InvalidTree if two toolsets of an agent have the same name."""
    for toolset in toolsets:
        if not isinstance(getattr(toolset, "name", None), str) or not toolset.name:
            raise InvalidTree(f"{type(toolset).__name__} needs a name: set it in the class")
    names = [toolset.name for toolset in toolsets]
    for name in names:
        if names.count(name) > 1:
            raise InvalidTree(
                f"agent {agent_name!r} has two toolsets named {name!r}; set a different name= on "
                "one of them"
            )


class DynamicTools:
    """The tools that the toolsets of one agent provide during one run."""

    def __init__(
        self, ctx: RunContext, toolsets: Sequence[Toolset], reserved_names: frozenset[str]
    ) -> None:
        self._ctx = ctx
        self._toolsets = toolsets
        self._reserved_names = reserved_names
        self._available: dict[str, BaseTool] = {}
        self._known_names: set[str] = set()
        self._unavailable_reason = "the tool is no longer available; use another tool"

    @property
    def names(self) -> Collection[str]:
        """Return the names of the available tools."""
        return self._available

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the specs of the available tools."""
        return tuple(tool.spec for tool in self._available.values())

    async def refresh(self) -> None:
        """List the tools of all toolsets again."""
        is_only_toolset = len(self._toolsets) == 1
        available: dict[str, BaseTool] = {}
        for toolset in self._toolsets:
            for tool in await toolset.named_tools(
                self._ctx, is_only_toolset=is_only_toolset, reserved_names=self._reserved_names
            ):
                available.setdefault(tool.name, tool)
        self._available = available
        self._known_names |= available.keys()

    async def refresh_for_replay(self) -> None:
        """List the tools for recorded calls; a failure affects only these calls."""
        try:
            await self.refresh()
        except AccError as error:
            self._unavailable_reason = str(error)

    def known_names(self, calls: Sequence[ToolCall]) -> list[str]:
        """Return the names of called tools that were available in this run, to be recorded."""
        return sorted({call.name for call in calls} & self._known_names)

    def by_name(self, names: Sequence[str]) -> dict[str, BaseTool]:
        """Return the tools with these names, or UnavailableTool for those that are gone.

        Other names are excluded: a tool that the model called before it was available stays
        unknown.
        """
        reason = self._unavailable_reason
        return {name: self._available.get(name) or UnavailableTool(name, reason) for name in names}
