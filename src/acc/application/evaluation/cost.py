"""Cost of an evaluation: the models it uses, their prices, and the cost limit."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from acc.application.agents.base import BaseAgent
from acc.application.evaluation.configuration import summarizer
from acc.application.memory.registry import SUMMARY, compressor_of, is_acc, split_budget
from acc.application.models.resolution import plain_name
from acc.domain.cost import Accounts, CostCategory, ModelCall, Price, dollars, parse_price, spender
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import (
    RULE_COMPRESSOR,
    AgentChoice,
    EvaluationConfig,
    JudgeConfig,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResources:
    """What the processes of a run need to call models and remote agents.

    `cache` is the folder of cached answers, `prices` are those of `--price` by model, `allow` lists
    hosts that may be called although they are not public. `max_connections` limits the concurrent
    calls of one process to each provider. The rate limits of a model are divided by `processes`. A
    turn is repeated for up to `outage_wait` seconds if a
    provider cannot be reached.
    """

    cache: Path | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    max_connections: int | None = None
    outage_wait: float = 0.0
    processes: int = 1


class CostTracker:
    """Adds up the cost of model calls and tells when the limit is reached."""

    def __init__(self, *, accounts: Accounts | None = None, limit: float | None = None) -> None:
        """Start with the recorded calls in `accounts`; `limit` is in US dollars."""
        self.accounts = accounts or Accounts()
        self.limit = limit
        #: Calls of unknown price in this run; recorded ones were accepted when they were made.
        self._unpriced = 0

    def record(self, call: ModelCall) -> None:
        """Add the cost of a call."""
        self.accounts.add(call)
        self._unpriced += not call.from_cache and not call.failed and call.cost is None

    @property
    def is_exhausted(self) -> bool:
        """Return True if no further turn may start."""
        if self.limit is None:
            return False
        return self._unpriced > 0 or self.accounts.total.known_cost >= self.limit

    def stop_reason(self) -> str:
        """Return why no further turn may start."""
        spent = dollars(self.accounts.total.known_cost)
        limit = dollars(self.limit or 0.0)
        if self._unpriced:
            return (
                f"stopped: the cost of {self._unpriced} calls is unknown, so --max-cost {limit} "
                f"cannot be checked; known cost: {spent}"
            )
        return f"stopped: the cost of {spent} has reached --max-cost {limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedModel:
    """A model of a run, without alternatives, and what it is used for.

    If `is_object` is true, the code of an agent created the model, with settings that its name
    does not show.
    """

    category: CostCategory
    agent: str
    name: str
    is_object: bool = False


class ModelCatalog(Protocol):
    """Information about models before they are called."""

    def names(self, name: str) -> tuple[str, ...]:
        """Return the models that a name lists, with environment variables resolved."""
        ...

    def object_name(self, model: object) -> str:
        """Return the name of a provider's model object, or "" for any other object."""
        ...

    def provider_name(self, name: str) -> str:
        """Return the full name of a provider's model, or "" if the model runs locally."""
        ...

    def has_price(self, name: str, prices: Mapping[str, Price]) -> bool:
        """Return True if `prices` contains the price of a provider's model."""
        ...

    def cost(
        self, name: str, prices: Mapping[str, Price], *, input_tokens: int, output_tokens: int
    ) -> float | None:
        """Return the cost of a call in US dollars, or None if the price is unknown."""
        ...

    def check_ready(self, name: str) -> None:
        """Raise InvalidInput if a model cannot be called: unknown name, no key, no library."""
        ...

    def check_cache(self, folder: Path) -> None:
        """Raise InvalidInput if answers cannot be cached in a folder."""
        ...

    def agent_tree(self, reference: str) -> BaseAgent | None:
        """Return the agent that `MODULE:NAME` refers to, or None for other objects."""
        ...


def used_models(configuration: EvaluationConfig, catalog: ModelCatalog) -> tuple[UsedModel, ...]:
    """Return every named model that a run may call, except the embedded one."""
    used = [
        UsedModel(category=category, agent=agent.name, name=one, is_object=is_object)
        for agent in configuration.agents
        for category, name, is_object in _agent_models(agent, configuration, catalog)
        for one in catalog.names(name)
    ]
    used += judge_models(configuration.judge, configuration.judging, catalog)
    return tuple(dict.fromkeys(model for model in used if model.name != "embedded"))


def judge_models(
    judge: str, config: JudgeConfig | None, catalog: ModelCatalog
) -> tuple[UsedModel, ...]:
    """Return the named models of a judge."""
    if config is None or not judge.startswith("model:"):
        return ()
    return tuple(
        UsedModel(category=CostCategory.JUDGE, agent="", name=name)
        for model in config.models
        for name in catalog.names(model)
    )


def unmetered_participants(
    configuration: EvaluationConfig, catalog: ModelCatalog
) -> tuple[str, ...]:
    """Return the agents and the judge whose cost is not metered: user code and remote agents."""
    names = [
        agent.name
        for agent in configuration.agents
        if agent.kind.startswith("a2a:")
        or (agent.kind.startswith("python:") and _tree(agent, catalog) is None)
    ]
    if configuration.judge.startswith("python:") and configuration.judging is None:
        names.append("judge")
    return tuple(names)


def _tree(agent: AgentChoice, catalog: ModelCatalog) -> BaseAgent | None:
    return catalog.agent_tree(agent.kind.removeprefix("python:"))


def _agent_models(
    agent: AgentChoice, configuration: EvaluationConfig, catalog: ModelCatalog
) -> Iterator[tuple[CostCategory, str, bool]]:
    if agent.kind.startswith("a2a:"):
        return
    if not agent.kind.startswith("python:"):
        yield CostCategory.AGENT, configuration.model, False
        yield from _compressor(agent.kind, configuration)
        return
    tree = _tree(agent, catalog)
    for node in tree.walk_all() if tree is not None else ():
        model: object = getattr(node, "model", None)
        if isinstance(model, str) and model:
            yield CostCategory.AGENT, model, False
        elif name := catalog.object_name(model):
            yield CostCategory.AGENT, name, True
        yield from _compressor(getattr(node, "memory", None), configuration)


def _compressor(
    memory: object, configuration: EvaluationConfig
) -> Iterator[tuple[CostCategory, str, bool]]:
    if not isinstance(memory, str):
        return
    kind, _ = split_budget(memory)
    if kind == SUMMARY:
        if name := summarizer(configuration.model, configuration.compressor):
            yield CostCategory.COMPRESSOR, name, False
    elif is_acc(kind):
        compressor = compressor_of(kind) or configuration.compressor
        if compressor != RULE_COMPRESSOR:
            yield CostCategory.COMPRESSOR, compressor, False


def parse_prices(
    texts: Sequence[str], used: Sequence[UsedModel], catalog: ModelCatalog
) -> dict[str, Price]:
    """Return the prices of `--price`, or raise InvalidInput if one has no model."""
    prices = dict(parse_price(text) for text in texts)
    names = list(dict.fromkeys(filter(None, (catalog.provider_name(one.name) for one in used))))
    for key, price in prices.items():
        if not any(catalog.has_price(name, {key: price}) for name in names):
            listed = ", ".join(names) or "none"
            raise InvalidInput(f"--price {key}: the run does not use this model; used: {listed}")
    return prices


def check_cost_limit(limit: float | None) -> None:
    """Raise InvalidInput unless a limit is a positive amount."""
    if limit is not None and not 0 < limit < math.inf:
        raise InvalidInput(f"--max-cost must be positive, got {limit}")


def check_prices_known(
    limit: float | None,
    used: Sequence[UsedModel],
    prices: Mapping[str, Price],
    catalog: ModelCatalog,
) -> None:
    """Raise InvalidInput if there is a limit and the price of a model is unknown."""
    if limit is None:
        return
    for model in used:
        if catalog.cost(model.name, prices, input_tokens=1, output_tokens=1) is None:
            name = plain_name(model.name)
            raise InvalidInput(
                f"--max-cost cannot be checked: the price of {name} "
                f"({spender(model.category, model.agent)}) is unknown. Set it in US dollars per "
                f"million input and output tokens: --price {name}=IN/OUT, or {name}=0/0 if it is "
                "free"
            )


def check_models_ready(
    used: Sequence[UsedModel], cache: Path | None, catalog: ModelCatalog
) -> None:
    """Raise InvalidInput if a model cannot be called; with a cache only the cache is checked."""
    if cache is not None:
        if any(catalog.provider_name(model.name) for model in used):
            catalog.check_cache(cache)
        return
    for name in dict.fromkeys(model.name for model in used if not model.is_object):
        catalog.check_ready(name)


def cost_limit_note(limit: float | None, unmetered: Sequence[str]) -> str:
    """Return what a cost limit does not cover, or an empty text."""
    if limit is None or not unmetered:
        return ""
    return f"--max-cost does not include the cost of {', '.join(unmetered)}, which is not metered"
