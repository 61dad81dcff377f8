"""Models, user code and scenarios that an evaluation refers to by name."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.evaluation.configuration import JudgeOptions
from acc.application.models.resolution import plain_name, price_for
from acc.bootstrap import models
from acc.domain.cost import FREE, ModelCall, Price
from acc.domain.value_objects.evaluation import ClaimThreshold
from acc.domain.value_objects.evaluation_run import JudgeConfig, ScenarioChoice
from acc.ports.outbound.model_ports import LanguageModelPort

if TYPE_CHECKING:
    from acc.adapters.evaluation.scenarios import ScenarioLibrary
    from acc.application.agents.base import BaseAgent


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledModels:
    """Creates the models of a pool; implements ModelFactory."""

    cache: Path | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    #: Processes that call the models at the same time and share their rate limits.
    processes: int = 1

    def display_name(self, name: str) -> str:
        """Return a model's name without settings, or "" for the embedded model."""
        names = models.MODEL_NAMES.alternatives(name)
        return "" if names == ("embedded",) else " | ".join(map(plain_name, names))

    def base_models(self, name: str) -> tuple[LanguageModelPort, ...]:
        """Return the alternatives that a name lists."""
        return models.base_models(name, self.prices, processes=self.processes)

    def combine(
        self, name: str, alternatives: tuple[LanguageModelPort, ...], sample: str
    ) -> LanguageModelPort:
        """Return alternatives as one model with the cache of the run."""
        return models.with_fallback(name, alternatives, self.cache, sample)

    def adopt(self, model: LanguageModelPort) -> tuple[LanguageModelPort, str]:
        """Return a model object with the price of `--price`, and its name."""
        if not isinstance(model, models.ProviderModel):
            return model, ""
        price = price_for(model.model_name, self.prices)
        if price is None:
            return model, model.name
        from acc.adapters.models.wrappers import PricedModel

        return PricedModel(model, price), model.name

    def meter(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        *,
        on_call: Callable[[ModelCall], None],
        on_error: Callable[[BaseException], None],
    ) -> LanguageModelPort:
        """Return a model that reports its calls."""
        from acc.adapters.models.wrappers import MeteredModel

        return MeteredModel(model, call, on_call=on_call, on_error=on_error)


@dataclass(frozen=True, slots=True)
class EvaluationSources:
    """What a configuration refers to; implements ConfigurationSources and ModelCatalog."""

    library: "ScenarioLibrary"

    def names(self, name: str) -> tuple[str, ...]:
        """Return the models that a name lists."""
        return models.MODEL_NAMES.alternatives(name)

    def object_name(self, model: object) -> str:
        """Return the name of a provider's model object, or ""."""
        return model.name if isinstance(model, models.ProviderModel) else ""

    def provider_name(self, name: str) -> str:
        """Return the full name of a provider's model, or ""."""
        choice = models.MODEL_NAMES.hosted(name)
        return "" if choice is None else choice.name

    def has_price(self, name: str, prices: Mapping[str, Price]) -> bool:
        """Return True if `prices` contains the price of a provider's model."""
        choice = models.MODEL_NAMES.hosted(name)
        return choice is not None and price_for(choice, prices) is not None

    def cost(
        self, name: str, prices: Mapping[str, Price], *, input_tokens: int, output_tokens: int
    ) -> float | None:
        """Return the cost of a call in US dollars, or None if the price is unknown."""
        choice = models.MODEL_NAMES.hosted(name)
        price = FREE if choice is None else price_for(choice, prices)
        if price is not None:
            return price.cost(input_tokens, output_tokens)
        from importlib.util import find_spec

        if choice is None or find_spec("genai_prices") is None:
            return None
        from acc.adapters.models.prices import listed_cost

        return listed_cost(choice, input_tokens, output_tokens)

    def most_processes(self, name: str) -> float:
        """Return how many processes can share the rate limits of a provider's model."""
        choice = models.MODEL_NAMES.hosted(name)
        limits = () if choice is None else (choice.concurrency, choice.requests_per_minute)
        return min((limit for limit in limits if limit is not None), default=math.inf)

    def check_ready(self, name: str) -> None:
        """Raise InvalidInput if a model cannot be called."""
        models.check_model_ready(name)

    def check_cache(self, folder: Path) -> None:
        """Raise InvalidInput if answers cannot be cached in a folder."""
        models.check_cache(folder)

    def agent_tree(self, reference: str) -> "BaseAgent | None":
        """Return the agent that `MODULE:NAME` refers to, or None for other objects."""
        from acc.adapters.evaluation.agents import load_tree
        from acc.bootstrap.frameworks import load_target

        return load_tree(load_target(reference))

    def check_model_name(self, name: str) -> None:
        """Raise InvalidInput if no model has this name."""
        models.MODEL_NAMES.check(name)

    def check_model(self, name: str) -> None:
        """Raise InvalidInput if a model cannot be created."""
        models.make_model(name)

    def check_object(self, reference: str) -> None:
        """Raise InvalidInput if `MODULE:NAME` cannot be loaded."""
        from acc.bootstrap.frameworks import load_target

        load_target(reference)

    def is_model_object(self, reference: str) -> bool:
        """Return True if `MODULE:NAME` is a model, False if it is a judge."""
        from acc.adapters.evaluation.python_judge import is_model, load_judge

        return is_model(load_judge(reference))

    def shipped_scenarios(self) -> tuple[str, ...]:
        """Return the ids of the shipped scenarios."""
        from acc.adapters.evaluation.scenarios import shipped_ids

        return shipped_ids()

    def scenario(self, reference: str) -> ScenarioChoice:
        """Return a validated scenario by id or path."""
        return self.library.choice(reference)

    def replays(self, path: str, form: str, annotations: str) -> tuple[ScenarioChoice, ...]:
        """Return the conversations of a log as scenarios."""
        given = Path(annotations) if annotations else None
        references = self.library.replays.references(Path(path), form=form, annotations=given)
        return tuple(self.library.choice(reference) for reference in references)

    def claim_thresholds(self) -> tuple[ClaimThreshold, ...]:
        """Return the thresholds of the rubric judge, from the shipped labelled examples."""
        from acc.adapters.evaluation.calibration import shipped_judgement

        return shipped_judgement().thresholds

    def judge_config(
        self,
        model: str,
        temperature: float | None,
        options: JudgeOptions,
        others: Sequence[str] = (),
    ) -> JudgeConfig:
        """Return the configuration of a model judge."""
        from acc.adapters.evaluation.model_judge import judge_configuration

        return judge_configuration(
            model,
            temperature=temperature,
            votes=options.votes,
            both_orders=options.both_orders,
            drives=options.drives,
            others=others,
            probabilities=options.probabilities,
        )
