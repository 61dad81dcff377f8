"""What a run has spent; everything it delegates draws on the same ledger."""

from collections.abc import Sequence

from msgspec.structs import replace

from acc.domain.errors import BudgetExceeded, TransferLoop
from acc.domain.value_objects.content import NO_USAGE, Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunConfig


class RunBudget:
    """Counts calls, tokens and hops, and refuses the one too many."""

    __slots__ = ("_config", "_path", "_tools", "asking", "hops", "spent_by_models")

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._path: list[str] = []
        self._tools = 0
        self.hops = 0
        #: Model calls under way: branches that run at the same time share the budget too.
        self.asking = 0
        self.spent_by_models = NO_USAGE

    @property
    def usage(self) -> Usage:
        """Return all that was spent so far."""
        if not self._tools:
            return self.spent_by_models
        return replace(self.spent_by_models, tool_calls=self._tools)

    def before_model_call(self, where: str) -> None:
        """Refuse a model call that the budget does not cover."""
        config = self._config
        spent = self.spent_by_models
        if spent.llm_calls + self.asking >= config.max_llm_calls:
            raise BudgetExceeded("max_llm_calls", config.max_llm_calls, where)
        if config.token_budget is not None:
            tokens = spent.input_tokens + spent.output_tokens
            if tokens >= config.token_budget:
                raise BudgetExceeded("token_budget", config.token_budget, where)

    def before_tool_calls(self, count: int, where: str) -> None:
        """Refuse calls that run at the same time before any of them has begun."""
        if self._tools + count > self._config.max_tool_calls:
            raise BudgetExceeded("max_tool_calls", self._config.max_tool_calls, where)

    def before_tool_call(self, where: str) -> None:
        """Count a tool call, or refuse it."""
        if self._tools >= self._config.max_tool_calls:
            raise BudgetExceeded("max_tool_calls", self._config.max_tool_calls, where)
        self.tool_called()

    def tool_called(self) -> None:
        """Count a tool call that is on record."""
        self._tools += 1

    def spent(self, usage: Usage) -> None:
        """Count what a model call cost."""
        before = self.spent_by_models
        self.spent_by_models = usage if before is NO_USAGE else before + usage

    def passed_over(self, event: Event) -> None:
        """Count what an event on record cost."""
        if event.usage is not None:
            self.spent(event.usage)
        if event.result is not None and event.detail.get("executed", True):
            self.tool_called()
        if event.kind is EventKind.TRANSFER:
            self.hops += 1

    @property
    def handed_over(self) -> frozenset[str]:
        """Return who has given the conversation away in this run."""
        return frozenset(self._path[:-1])

    def hop(self, source: str, target: str, *, again: bool) -> Sequence[str]:
        """Count a transfer and return the path so far, or refuse it and show the path.

        One that is on record, and so is made `again`, is not refused.
        """
        self._path += [target] if self._path and self._path[-1] == source else [source, target]
        self.hops += 1
        if self.hops > self._config.max_hops and not again:
            raise TransferLoop(self._path, self._config.max_hops)
        return self._path
