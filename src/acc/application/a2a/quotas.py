"""Limits of callers: rates of intents and tools by name, and limits of tool calls."""

import logging
from collections.abc import Sequence

from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import Plugin, ToolArguments
from acc.application.agents.llm import LlmAgent
from acc.application.contracts.intents import Intents
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import BaseTool
from acc.application.tools.toolset import Toolset
from acc.domain.errors import InvalidInput, RateLimited
from acc.domain.value_objects.agent_card import CardConfig
from acc.ports.outbound.limit_ports import RateLimiterPort

log = logging.getLogger("acc.limits")


class ToolLimits(Plugin[object]):
    """Limits how often the runs of a caller use a tool.

    A call that exceeds the limit is not executed; its result says when to try again.
    """

    def __init__(self, limiter: RateLimiterPort) -> None:
        self._limiter = limiter

    async def before_tool_callback(
        self, tool: BaseTool, arguments: ToolArguments, ctx: RunContext[object]
    ) -> object:
        """Return the error of a call that exceeds the limit of its tool."""
        try:
            request = ctx.run.request
            await self._limiter.count_tool_call(
                request.call.account or request.key.user_id, tool.name
            )
        except RateLimited as error:
            return {"error": str(error), "retry_after": round(error.retry_after, 1)}
        return None


def check_limited_names(
    root: BaseAgent, card: CardConfig | None, rates: Sequence[str], tools: Sequence[str]
) -> None:
    """Raise InvalidInput for the rate of an unknown intent; warn about that of an unknown tool.

    An agent without intents and declared skills has the intents that its callers name. Tools of a
    toolset are not known yet.
    """
    skills = () if card is None else card.skills
    intents = {*Intents(root).names, *(skill.id for skill in skills)}
    for name in rates_by_name(rates):
        if name and intents and name not in intents:
            raise InvalidInput(
                f"--rate-limit {name}=...: agent {root.name!r} has no intent {name!r}; it has: "
                f"{', '.join(sorted(intents))}"
            )
    agents = [agent for agent in root.walk() if isinstance(agent, LlmAgent)]
    if any(isinstance(tool, Toolset) for agent in agents for tool in agent.tools):
        return
    known = {name for agent in agents for name in agent.own_tools}
    for name in rates_by_name(tools):
        if name and name not in known:
            log.warning(
                "--tool-limit %s=...: no agent of %r has this tool; there are: %s",
                name,
                root.name,
                ", ".join(sorted(known)) or "none",
            )


def rates_by_name(rates: Sequence[str]) -> dict[str, list[str]]:
    """Return rates that are written RATE or NAME=RATE by their name."""
    by_name: dict[str, list[str]] = {}
    for rate in rates:
        name, _, value = rate.rpartition("=")
        by_name.setdefault(name, []).append(value)
    return by_name
