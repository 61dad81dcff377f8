"""What a run has spent; everything it delegates draws on the same ledger."""

from collections.abc import Sequence

from acc.domain.errors import BudgetExceeded, TransferLoop
from acc.domain.value_objects.event import Usage
from acc.domain.value_objects.run import RunConfig


class Ledger:
    """Counts calls, tokens and hops, and refuses the one too many."""

    __slots__ = ("_config", "_path", "hops", "usage")

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._path: list[str] = []
        self.hops = 0
        self.usage = Usage()

    def before_model_call(self, where: str) -> None:
        """Refuse a model call that the budget does not cover."""
        config = self._config
        if self.usage.llm_calls >= config.max_llm_calls:
            raise BudgetExceeded("max_llm_calls", config.max_llm_calls, where)
        if config.token_budget is not None:
            spent = self.usage.input_tokens + self.usage.output_tokens
            if spent >= config.token_budget:
                raise BudgetExceeded("token_budget", config.token_budget, where)

    def before_tool_call(self, where: str) -> None:
        """Count a tool call, or refuse it."""
        if self.usage.tool_calls >= self._config.max_tool_calls:
            raise BudgetExceeded("max_tool_calls", self._config.max_tool_calls, where)
        self.usage += _ONE_TOOL_CALL

    def spent(self, usage: Usage) -> None:
        """Count what a model call cost."""
        self.usage += usage

    @property
    def handed_over(self) -> frozenset[str]:
        """Return who has given the conversation away in this run."""
        return frozenset(self._path[:-1])

    def hop(self, source: str, target: str) -> Sequence[str]:
        """Count a transfer and return the path so far, or refuse it and show the path."""
        self._path += [target] if self._path and self._path[-1] == source else [source, target]
        self.hops += 1
        if self.hops > self._config.max_hops:
            raise TransferLoop(self._path, self._config.max_hops)
        return self._path


_ONE_TOOL_CALL = Usage(tool_calls=1)
