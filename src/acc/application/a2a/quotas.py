"""Limits of tool calls for the callers of a server."""

from acc.application.agents.callbacks import Plugin, ToolArguments
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import BaseTool
from acc.domain.errors import RateLimited
from acc.ports.outbound.limit_ports import RateLimiterPort


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
