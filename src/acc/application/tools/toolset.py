"""Tools that are not known when an agent is built, because somebody else offers them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from acc.application.agents.base import Confirm
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import Tool, ToolContext
from acc.domain.errors import AccError, InvalidTree, RemoteFailed
from acc.domain.value_objects.content import ToolCall
from acc.ports.outbound.model_ports import ToolSpec


@runtime_checkable
class Toolset(Protocol):
    """Somebody who offers tools, others from one time to the next."""

    name: str

    async def offered(
        self, ctx: RunContext, *, alone: bool, taken: frozenset[str]
    ) -> Sequence[Tool]:
        """Return the tools that are offered now.

        `alone` tells that no other toolset is beside it, so that plain names are clear; `taken`
        are names that the agent's own tools have.
        """
        ...


class UnavailableTool:
    """Stands for a tool that was offered and is no more, and says so when it is called."""

    description = ""
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires = ""
    timeout: float | None = None
    long_running = False
    parallel = True
    replayable = False

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    @property
    def spec(self) -> ToolSpec:
        """Return the tool by its name alone; no model is offered it."""
        return ToolSpec(name=self.name, description="")

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, which nobody will take."""
        return dict(arguments)

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Say that the tool is gone."""
        raise RemoteFailed(self._why)


def check_toolsets(agent: str, toolsets: Sequence[Toolset]) -> None:
    """Refuse toolsets that could not be told apart."""
    names = [toolset.name for toolset in toolsets]
    for name in names:
        if names.count(name) > 1:
            raise InvalidTree(
                f"{agent!r} has two sources of tools called {name!r}; give each a name of its own"
            )


class DynamicTools:
    """What the toolsets of one agent offer in one run."""

    def __init__(self, ctx: RunContext, toolsets: Sequence[Toolset], taken: frozenset[str]) -> None:
        self._ctx = ctx
        self._toolsets = toolsets
        self._taken = taken
        self._now: dict[str, Tool] = {}
        self._seen: set[str] = set()
        self._fault = "it is no longer offered; use another tool"

    @property
    def names(self) -> Collection[str]:
        """Return what the tools that are offered now are called."""
        return self._now

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools that are offered now, as a model sees them."""
        return tuple(tool.spec for tool in self._now.values())

    async def look(self) -> None:
        """Ask who offers tools what there is now."""
        alone = len(self._toolsets) == 1
        found: dict[str, Tool] = {}
        for toolset in self._toolsets:
            for tool in await toolset.offered(self._ctx, alone=alone, taken=self._taken):
                found.setdefault(tool.name, tool)
        self._now = found
        self._seen |= found.keys()

    async def look_again(self) -> None:
        """Ask what there is for calls on record; who cannot be asked fails those calls only."""
        try:
            await self.look()
        except AccError as error:
            self._fault = str(error)

    def called(self, calls: Sequence[ToolCall]) -> list[str]:
        """Return which of the tools called have been offered in this run, to be put on record."""
        return sorted({call.name for call in calls} & self._seen)

    def by_name(self, names: Sequence[str]) -> dict[str, Tool]:
        """Return the tools of these names; one that is gone says so when it is called.

        Only these names count: what a model asked for before it was offered stays unknown.
        """
        return {name: self._now.get(name) or UnavailableTool(name, self._fault) for name in names}
