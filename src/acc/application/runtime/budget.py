"""The budget of a run, which all agents of the run share."""

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec.structs import replace

from acc.domain.errors import BudgetExceeded, TransferLoop
from acc.domain.value_objects.content import NO_USAGE, Usage
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunConfig


class RunBudget:
    """Counts model calls, tool calls, tokens and transfers, and enforces their limits."""

    __slots__ = (
        "_config",
        "_tool_calls",
        "_transfer_path",
        "model_usage",
        "pending_model_calls",
        "transfers",
    )

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._transfer_path: list[str] = []
        self._tool_calls = 0
        self.transfers = 0
        #: Model calls in progress: parallel branches share the limit too.
        self.pending_model_calls = 0
        self.model_usage = NO_USAGE

    @property
    def usage(self) -> Usage:
        """Return the usage so far."""
        if not self._tool_calls:
            return self.model_usage
        return replace(self.model_usage, tool_calls=self._tool_calls)

    @contextmanager
    def restrict(
        self, *, llm_calls: int | None, tool_calls: int | None, tokens: int | None
    ) -> Iterator[None]:
        """Allow at most so many more model calls, tool calls and tokens inside the block."""
        outer, usage = self._config, self.model_usage
        limits: dict[str, Any] = {}
        if llm_calls is not None:
            limits["max_llm_calls"] = min(outer.max_llm_calls, usage.llm_calls + llm_calls)
        if tool_calls is not None:
            limits["max_tool_calls"] = min(outer.max_tool_calls, self._tool_calls + tool_calls)
        if tokens is not None:
            total = usage.input_tokens + usage.output_tokens + tokens
            limits["token_budget"] = min(outer.token_budget or total, total)
        self._config = dataclasses.replace(outer, **limits) if limits else outer
        try:
            yield
        finally:
            self._config = outer

    def check_model_call(self, where: str) -> None:
        """Raise BudgetExceeded if the budget does not allow another model call."""
        config, usage = self._config, self.model_usage
        if usage.llm_calls + self.pending_model_calls >= config.max_llm_calls:
            raise BudgetExceeded("max_llm_calls", config.max_llm_calls, where)
        if config.token_budget is not None:
            tokens = usage.input_tokens + usage.output_tokens
            if tokens >= config.token_budget:
                raise BudgetExceeded("token_budget", config.token_budget, where)

    def check_tool_calls(self, count: int, where: str) -> None:
        """Raise BudgetExceeded if the budget does not allow so many more tool calls."""
        if self._tool_calls + count > self._config.max_tool_calls:
            raise BudgetExceeded("max_tool_calls", self._config.max_tool_calls, where)

    def add_tool_call(self) -> None:
        """Count a tool call."""
        self._tool_calls += 1

    def add_usage(self, usage: Usage) -> None:
        """Count the usage of a model call."""
        before = self.model_usage
        self.model_usage = usage if before is NO_USAGE else before + usage

    def count_recorded(self, event: Event) -> None:
        """Count what a recorded event cost."""
        if event.usage is not None:
            self.add_usage(event.usage)
        if event.result is not None and event.detail.get("executed", True):
            self.add_tool_call()
        if event.kind is EventKind.TRANSFER:
            self.transfers += 1

    @property
    def transferred(self) -> frozenset[str]:
        """Return the agents that have transferred the conversation in this run."""
        return frozenset(self._transfer_path[:-1])

    def transfer(self, source: str, target: str, *, is_replay: bool) -> Sequence[str]:
        """Count a transfer and return the path of transfers.

        TransferLoop if there are too many, unless the transfer is replayed.
        """
        path = self._transfer_path
        path += [target] if path and path[-1] == source else [source, target]
        self.transfers += 1
        if self.transfers > self._config.max_hops and not is_replay:
            raise TransferLoop(path, self._config.max_hops)
        return path
