"""Handing the conversation to another agent, because a model chose to."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.application.agents.base import BaseAgent, Confirm
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import ToolContext
from acc.domain.value_objects.event import EventActions, EventKind
from acc.ports.outbound.model_ports import ToolSpec

TRANSFER = "transfer_to_agent"
#: Tells a model that it would hand back to whom it got the conversation from.
_HANDED_OVER = " (has already handed over)"


class TransferTool:
    """Offers the agents that may be transferred to, with their descriptions."""

    name = TRANSFER
    description = "Hand over to the agent that is better suited to answer."
    confirm: Confirm = False
    confirm_expires: float | None = None
    requires = ""
    timeout: float | None = float("inf")
    long_running = False
    parallel = False
    replayable = True

    def __init__(self, owner: RunContext, targets: Mapping[str, BaseAgent]) -> None:
        self._owner = owner
        self._targets = targets

    @property
    def spec(self) -> ToolSpec:
        """Return the tool as a model sees it."""
        before = self._owner.run.budget.transferred
        listed = "\n".join(
            f"- {name}: {agent.description}{_HANDED_OVER if name in before else ''}"
            for name, agent in self._targets.items()
        )
        chosen = {"type": "string", "enum": list(self._targets)}
        return ToolSpec(
            name=self.name,
            description=f"{self.description}\n{listed}",
            parameters={
                "type": "object",
                "properties": {"agent_name": chosen},
                "required": ["agent_name"],
            },
        )

    def checked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, or say whom one may transfer to."""
        name = msgspec.convert(arguments, _Target).agent_name
        if name not in self._targets:
            known = ", ".join(self._targets)
            raise ValueError(f"there is no agent {name!r} to transfer to; choose one of: {known}")
        return {"agent_name": name}

    async def invoke(
        self, context: RunContext, tool_context: ToolContext, arguments: Mapping[str, Any]
    ) -> Any:
        """Hand over; an agent that returns control is run here and now."""
        owner, target = self._owner, self._targets[arguments["agent_name"]]
        if owner.transfer_to is not None:
            raise ValueError(f"the conversation already goes to {owner.transfer_to.name!r}")
        run = context.run
        again = context.next_recorded() is not None
        path = run.budget.transfer(owner.agent.name, target.name, is_replay=again)
        handed = EventActions(transfer_to_agent=target.name)
        await context.emit(EventKind.TRANSFER, actions=handed, detail={"path": list(path)})
        if getattr(target, "returns_control", False):
            return (await context.run_agent(target)).text
        owner.transfer_to = target
        return f"{target.name} takes over."


class _Target(msgspec.Struct, forbid_unknown_fields=True):
    agent_name: str
