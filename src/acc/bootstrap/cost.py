"""What an evaluation's models cost: which are used, what they are priced at, and when to stop."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.application.agents.base import BaseAgent
from acc.bootstrap.memory import RULES, compressor_name
from acc.bootstrap.models import (
    ProviderModel,
    check_cache,
    check_model_ready,
    hosted_model_name,
    names_of,
    plain_name,
    price_for,
)
from acc.bootstrap.settings import model_cache
from acc.domain.cost import (
    FREE,
    Accounts,
    CostCategory,
    ModelCall,
    Price,
    dollars,
    parse_price,
    spender,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import AgentChoice, EvaluationConfig

if TYPE_CHECKING:
    from acc.adapters.reports.run_directory import EvaluationDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResources:
    """What every process of a run needs beside the run: kept answers, and prices by model."""

    cache: Path | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)


class CostTracker:
    """What a run has cost so far, heard call by call, and whether it may go on."""

    def __init__(
        self,
        *,
        means: ModelResources | None = None,
        accounts: Accounts | None = None,
        limit: float | None = None,
        on_call: Callable[[ModelCall], None] | None = None,
    ) -> None:
        self.means = means or ModelResources()
        self.accounts = accounts or Accounts()
        self.limit = limit
        self._on_call = on_call
        #: Answers of unknown price since we began; those before it were accepted then.
        self._unpriced = 0

    def take(self, call: ModelCall) -> None:
        """Count a call."""
        self.accounts.add(call)
        self._unpriced += not call.kept and not call.failed and call.cost is None
        if self._on_call is not None:
            self._on_call(call)

    @property
    def is_used_up(self) -> bool:
        """Tell whether no further turn may begin."""
        if self.limit is None:
            return False
        return self._unpriced > 0 or self.accounts.total.money_known >= self.limit

    def why_stopped(self) -> str:
        """Return why no further turn may begin."""
        spent = dollars(self.accounts.total.money_known)
        limit = dollars(self.limit or 0.0)
        if self._unpriced:
            return (
                f"stopped: {self._unpriced} answers came without tokens or price, so that "
                f"--max-cost {limit} could not be kept; {spent} is known to be spent"
            )
        return f"stopped: {spent} is spent, and --max-cost allows {limit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedModel:
    """A model of a run and what it is asked for; `name` is one model, without alternatives.

    One that is `held` was made by the agent's own code, with settings that its name does not tell.
    """

    part: CostCategory
    agent: str
    name: str
    held: bool = False


def used_models(configuration: EvaluationConfig) -> tuple[UsedModel, ...]:
    """Return every model by name that a run may ask, the embedded one aside."""
    found = [
        UsedModel(part=part, agent=agent.name, name=one, held=held)
        for agent in configuration.agents
        for part, name, held in _of_agent(agent, configuration)
        for one in names_of(name)
    ]
    if configuration.judging is not None and configuration.judge.startswith("model:"):
        found += [
            UsedModel(part=CostCategory.JUDGE, agent="", name=one)
            for one in names_of(configuration.judging.model)
        ]
    return tuple(dict.fromkeys(one for one in found if one.name != "embedded"))


def unseen_spenders(configuration: EvaluationConfig) -> tuple[str, ...]:
    """Return who may spend money that is not seen: other people's code, and other servers."""
    found = [
        agent.name
        for agent in configuration.agents
        if agent.kind.startswith("a2a:")
        or (agent.kind.startswith("python:") and _tree(agent.kind) is None)
    ]
    if configuration.judge.startswith("python:") and configuration.judging is None:
        found.append("judge")
    return tuple(found)


def _of_agent(
    agent: AgentChoice, configuration: EvaluationConfig
) -> Iterator[tuple[CostCategory, str, bool]]:
    kind = agent.kind
    if kind.startswith("python:"):
        tree = _tree(kind)
        for one in tree.walk_all() if tree is not None else ():
            yield from _of_node(one, configuration)
        return
    if kind.startswith("a2a:"):
        return
    yield CostCategory.AGENT, configuration.model, False
    yield from _of_memory(kind, configuration)


def _of_node(
    node: BaseAgent, configuration: EvaluationConfig
) -> Iterator[tuple[CostCategory, str, bool]]:
    model: Any = getattr(node, "model", None)
    if isinstance(model, ProviderModel):
        yield CostCategory.AGENT, model.name, True
    elif isinstance(model, str) and model:
        yield CostCategory.AGENT, model, False
    yield from _of_memory(getattr(node, "memory", None), configuration)


def _of_memory(
    memory: object, configuration: EvaluationConfig
) -> Iterator[tuple[CostCategory, str, bool]]:
    if isinstance(memory, str) and memory.partition(":")[0] == "acc":
        compressor = compressor_name(memory, configuration.compressor)
        if compressor != RULES:
            yield CostCategory.COMPRESSOR, compressor, False


def _tree(kind: str) -> BaseAgent | None:
    """Return the tree of agents of acc that a name means, or None for code of another kind."""
    from acc.adapters.system.object_loader import load_object

    target = load_object(kind.removeprefix("python:"))
    if inspect.isfunction(target) and not inspect.signature(target).parameters:
        if inspect.iscoroutinefunction(target):
            return None
        target = target()
    return target if isinstance(target, BaseAgent) else None


def cost_of(
    name: str, prices: Mapping[str, Price], input_tokens: int, output_tokens: int
) -> float | None:
    """Return what a call of so many tokens costs in US dollars, or None where nobody knows."""
    choice = hosted_model_name(name)
    if choice is None:
        return FREE.cost(input_tokens, output_tokens)
    price = price_for(choice, prices)
    if price is not None:
        return price.cost(input_tokens, output_tokens)
    from importlib.util import find_spec

    if find_spec("genai_prices") is None:
        return None
    from acc.adapters.models.prices import listed_cost

    return listed_cost(choice, input_tokens, output_tokens)


def parse_prices(texts: Sequence[str], used: Sequence[UsedModel]) -> dict[str, Price]:
    """Return the prices that `--price` gives, or say which model none of them is for."""
    found = dict(parse_price(text) for text in texts)
    choices = [
        choice for choice in (hosted_model_name(one.name) for one in used) if choice is not None
    ]
    for name, price in found.items():
        if not any(price_for(choice, {name: price}) for choice in choices):
            names = ", ".join(dict.fromkeys(choice.name for choice in choices)) or "none"
            raise InvalidInput(f"--price {name}: no such model is used here; used: {names}")
    return found


def check_amount(limit: float | None) -> None:
    """Refuse a limit that is no amount of money."""
    if limit is not None and not 0 < limit < math.inf:
        raise InvalidInput(f"--max-cost must be more than 0 US dollars, not {limit}")


def check_limit(
    limit: float | None, used: Sequence[UsedModel], prices: Mapping[str, Price]
) -> None:
    """Refuse a limit that could not be kept: a model's price is not known."""
    if limit is None:
        return
    for one in used:
        if cost_of(one.name, prices, 1, 1) is None:
            name = plain_name(one.name)
            raise InvalidInput(
                f"--max-cost cannot be kept: nobody knows the price of {name} "
                f"({spender(one.part, one.agent)}). Give it in US dollars for a million tokens "
                f"read and written: --price {name}=IN/OUT, or {name}=0/0 if it costs nothing"
            )


def check_ready(used: Sequence[UsedModel], cache: Path | None) -> None:
    """Refuse models that could not be asked; with a cache, which must be of use, they may do."""
    folder = cache or model_cache()
    if folder is not None:
        if any(hosted_model_name(one.name) for one in used):
            check_cache(folder)
        return
    for name in dict.fromkeys(one.name for one in used if not one.held):
        check_model_ready(name)


def limit_note(limit: float | None, configuration: EvaluationConfig) -> str:
    """Return what a limit does not cover, empty where it covers all."""
    unseen = unseen_spenders(configuration)
    if limit is None or not unseen:
        return ""
    return f"--max-cost does not cover what {', '.join(unseen)} may spend, which cannot be seen"


def spent_so_far(run: "EvaluationDirectory") -> Accounts:
    """Return what is on record of a run's cost."""
    from acc.adapters.reports.costs import load_costs

    return load_costs(run)
