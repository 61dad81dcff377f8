"""Limits of callers of a server: stored content, and calls of tools."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from acc.application.agents.callbacks import Plugin, ToolArguments
from acc.application.runtime.context import RunContext
from acc.application.tools.tool import BaseTool
from acc.domain.errors import LimitExceeded, RateLimited
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import Message
from acc.ports.outbound.limit_ports import RateLimiterPort


@dataclass(slots=True)
class _Account:
    tasks: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _Stored:
    owner: Owner
    bytes: int


@dataclass(slots=True, kw_only=True)
class StoredContent:
    """Counts the tasks of each caller, and the bytes of their messages.

    It counts what this process stores, until the tasks expire.
    """

    max_tasks: int
    max_bytes: int
    _accounts: dict[Owner, _Account] = field(default_factory=dict)
    _tasks: dict[str, _Stored] = field(default_factory=dict)

    def check(self, owner: Owner, message: Message, *, is_new: bool) -> int:
        """Return the size of a message; LimitExceeded if its sender must not store it."""
        size = sum(map(_size, message.parts))
        account = self._accounts.get(owner, _Account())
        if is_new and account.tasks >= self.max_tasks:
            raise LimitExceeded(
                f"a caller may have at most {self.max_tasks} stored tasks; tasks are deleted some "
                "time after their end"
            )
        if account.bytes + size > self.max_bytes:
            raise LimitExceeded(
                f"the tasks of a caller may contain at most {self.max_bytes} bytes of messages; "
                "tasks are deleted some time after their end"
            )
        return size

    def add(self, owner: Owner, task_id: str, size: int) -> None:
        """Count a stored message."""
        account = self._accounts.setdefault(owner, _Account())
        stored = self._tasks.get(task_id)
        if stored is None:
            stored = self._tasks[task_id] = _Stored(owner, 0)
            account.tasks += 1
        stored.bytes += size
        account.bytes += size

    def release(self, task_ids: Iterable[str]) -> None:
        """Forget tasks that were deleted."""
        for task_id in task_ids:
            stored = self._tasks.pop(task_id, None)
            if stored is None:
                continue
            account = self._accounts[stored.owner]
            account.tasks -= 1
            account.bytes -= stored.bytes
            if not account.tasks:
                del self._accounts[stored.owner]


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
            await self._limiter.count_tool_call(ctx.run.request.key.user_id, tool.name)
        except RateLimited as error:
            return {"error": str(error), "retry_after": round(error.retry_after, 1)}
        return None


def _size(part: Part) -> int:
    if part.text is not None:
        return len(part.text.encode(errors="replace"))
    if part.raw is not None:
        return len(part.raw)
    return 0 if part.data is None else len(msgspec.json.encode(part.data))
