"""Who judges: by rubric, by a model's name, or by code of anyone's."""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acc.bootstrap.cost import (
    CostTracker,
    UsedModel,
    check_amount,
    check_limit,
    check_ready,
    parse_prices,
)
from acc.domain.cost import CostCategory
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.evaluation_run import JudgeConfiguration
from acc.ports.outbound.live_evaluation_ports import JudgeEvaluatorPort, QuerySourcePort
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

if TYPE_CHECKING:
    from acc.application.use_cases.calibrate_judge import Reading
    from acc.bootstrap.models import EpisodeModels
    from acc.domain.value_objects.scenario import Scenario


_UNSURE = (
    "nobody has measured whether {name} can judge; hold it against labelled examples first, then "
    "insist"
)


def reason_not_to_judge(model_name: str) -> str | None:
    """Return why a model should not judge unless its user insists, or None if it may."""
    for name in model_name.split("|"):
        reason = _reason(name.strip())
        if reason is not None:
            return reason
    return None


def _reason(name: str) -> str | None:
    if name.startswith("env:"):
        held = os.environ.get(name.removeprefix("env:"), "").strip()
        return reason_not_to_judge(held) if held and not held.startswith("env:") else None
    bare = name.partition("?")[0]
    if bare == "local":
        return (
            "the small local model has 135 million parameters and judges no better than chance; it "
            "is there to try things out"
        )
    if bare.startswith("local:"):
        return _UNSURE.format(name=bare)
    if bare == "embedded":
        return "the embedded model is a fixed set of rules that copies from its prompt"
    return None


_MODEL = "model:"
_PYTHON = "python:"
_MOST_VOTES = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """How a model is to judge."""

    votes: int = 1
    both_orders: bool = False
    temperature: float = 0.0
    drives: bool = False
    force: bool = False


def judging_of(judge: str, options: JudgeOptions | None = None) -> JudgeConfiguration | None:
    """Return a model judge's configuration, None for another judge, or raise InvalidInput."""
    options = options or JudgeOptions()
    if not 1 <= options.votes <= _MOST_VOTES:
        raise InvalidInput(f"--judge-votes must be from 1 to {_MOST_VOTES}, not {options.votes}")
    if not 0 <= options.temperature < math.inf:
        raise InvalidInput(f"--judge-temperature must be 0 or more, not {options.temperature}")
    if judge.startswith(_MODEL):
        return _named(judge.removeprefix(_MODEL), options)
    if judge.startswith(_PYTHON):
        if _is_model(_made(judge)):
            return _configuration(judge, None, options)
    elif judge != "rubric":
        raise InvalidInput(f"no judge {judge!r}: choose rubric, model:NAME or python:MODULE:NAME")
    if options != JudgeOptions(temperature=options.temperature, force=options.force):
        raise InvalidInput(
            "--judge-votes, --judge-both-orders and --judge-drives need a model that judges: "
            "--judge model:NAME"
        )
    return None


def _named(name: str, options: JudgeOptions) -> JudgeConfiguration:
    if not name:
        raise InvalidInput("--judge model:NAME needs the name of a model")
    if name == "embedded":
        raise InvalidInput(
            "the embedded model cannot judge: it answers from statements and finds no claims, so "
            "every turn would be unscored. Without a model of your own take --judge rubric"
        )
    if "|" in name:
        raise InvalidInput("a judge is one model; a fallback would be another judge in mid-run")
    reason = reason_not_to_judge(name)
    if reason and not options.force:
        raise InvalidInput(f"{name} is refused as a judge: {reason}. --force-judge takes it anyway")
    temperature, name = _pinned(name, options.temperature)
    _model(name)
    return _configuration(name, temperature, options)


def _pinned(name: str, temperature: float) -> tuple[float | None, str]:
    """Return the temperature and the name that sets it; what a name sets itself stands."""
    head, question, settings = name.partition("?")
    given = dict(part.partition("=")[::2] for part in settings.split("&") if part)
    if "temperature" in given:
        try:
            return float(given["temperature"]), name
        except ValueError:
            raise InvalidInput(f"{name}: temperature is a number") from None
    if ":" not in head:
        return None, name  # a model without settings
    return temperature, f"{name}{'&' if question else '?'}temperature={temperature:g}"


def _configuration(
    model: str, temperature: float | None, options: JudgeOptions
) -> JudgeConfiguration:
    from acc.adapters.evaluation.model_judge import judge_configuration

    made = judge_configuration(
        model, temperature=temperature, votes=options.votes, both_orders=options.both_orders
    )
    return replace(made, drives=options.drives)


def open_judge(
    judge: str,
    judging: JudgeConfiguration | None,
    *,
    scenario: "Scenario | None" = None,
    seed: int = 0,
    models: "EpisodeModels | None" = None,
) -> JudgeEvaluatorPort:
    """Return the judge that a choice names, not blinded yet; its model is one of `models`."""
    if judge == "rubric":
        from acc.adapters.evaluation.rubric_judge import RubricJudge

        return RubricJudge(scenario)
    if judging is not None:
        from acc.adapters.evaluation.model_judge import ModelJudge

        model = _judging_model(judge, judging, models)
        return ModelJudge(model, configuration=judging, seed=seed)
    made: JudgeEvaluatorPort = _made(judge)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckMeans:
    """What a check of a judge works with: kept answers, prices, and who hears how it goes.

    `on_case` hears how many cases of how many are done, `spending` what the model's calls cost;
    once that is used up no further case begins.
    """

    cache: Path | None = None
    prices: Sequence[str] = ()
    spending: CostTracker = field(default_factory=CostTracker)
    on_case: Callable[[int, int], None] = lambda done, total: None


class _AskedInVain:
    """A model that is not asked again once it has said that it never will answer."""

    def __init__(self, model: LanguageModelPort) -> None:
        self._model = model
        self.fault: ModelFailed | None = None

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the model's answer."""
        if self.fault is not None:
            raise self.fault
        try:
            return await self._model.complete(prompt)
        except ModelFailed as fault:
            if fault.is_configuration_error:
                self.fault = fault
            raise


async def check_judge(
    file: Path | None,
    judge: str,
    options: JudgeOptions | None = None,
    means: CheckMeans | None = None,
) -> "list[Reading]":
    """Return what a judge says of the labelled examples of a file, or of ours.

    A model that refuses the key or does not exist ends it with that error.
    """
    from acc.adapters.evaluation.calibration import load_cases
    from acc.application.use_cases.calibrate_judge import CalibrateJudgeUseCase

    judging, means = judging_of(judge, options), means or CheckMeans()
    cases = load_cases(file)
    done = 0

    def count() -> bool:
        nonlocal done
        done += 1
        means.on_case(done, len(cases))
        return not means.spending.is_used_up

    if judging is None:
        if means.prices or means.spending.limit is not None:
            option = "--price" if means.prices else "--max-cost"
            raise InvalidInput(f"{option} needs a model that judges: --judge model:NAME")
        by_rules = CalibrateJudgeUseCase(lambda case: open_judge(judge, None))
        return await by_rules.run(cases, on_case=lambda case: count())
    models = _models_to_check(judge, judging, means)
    model = _AskedInVain(_judging_model(judge, judging, models))

    def on_case(case: object) -> bool:
        if model.fault is not None:
            raise model.fault
        return count()

    from acc.adapters.evaluation.model_judge import ModelJudge

    by_model = CalibrateJudgeUseCase(lambda case: ModelJudge(model, configuration=judging))
    try:
        return await by_model.run(cases, on_case=on_case)
    finally:
        await models.aclose()


def _models_to_check(judge: str, judging: JudgeConfiguration, means: CheckMeans) -> "EpisodeModels":
    """Return what gives the judge its model, or raise where that could not be asked."""
    from acc.bootstrap.models import EpisodeModels

    used: list[UsedModel] = []
    if judge.startswith(_MODEL):
        used.append(UsedModel(part=CostCategory.JUDGE, agent="", name=judging.model))
    prices = parse_prices(means.prices, used)
    check_amount(means.spending.limit)
    check_limit(means.spending.limit, used, prices)
    check_ready(used, means.cache)
    return EpisodeModels(
        "judge check", cache=means.cache, prices=prices, on_call=means.spending.take
    )


def make_examiner(
    judge: str,
    judging: JudgeConfiguration,
    *,
    scenario: "Scenario",
    turns: int | None,
    models: "EpisodeModels | None" = None,
) -> QuerySourcePort:
    """Return the one who writes the queries where the judge drives."""
    from acc.adapters.evaluation.judge_prompts import SchemaAsker
    from acc.adapters.evaluation.model_judge import ModelExaminer

    model = _judging_model(judge, judging, models)
    asker = SchemaAsker(model, repairs=judging.repairs, timeout=judging.timeout)
    return ModelExaminer(asker, scenario, turns=turns)


def _judging_model(
    judge: str, judging: JudgeConfiguration, models: "EpisodeModels | None"
) -> LanguageModelPort:
    if judge.startswith(_PYTHON):
        made: LanguageModelPort = _made(judge)
        return made if models is None else models.watched(made, "", CostCategory.JUDGE, judge)
    return (
        _model(judging.model)
        if models is None
        else models.of("", CostCategory.JUDGE)(judging.model)
    )


def _model(name: str) -> LanguageModelPort:
    from acc.bootstrap.models import make_model

    return make_model(name)


def _made(judge: str) -> Any:
    """Return the judge or the model that MODULE:NAME names, made anew where it can be."""
    from acc.adapters.system.object_loader import load_object

    reference = judge.removeprefix(_PYTHON)
    found = load_object(reference)
    if callable(found) and not _is_judge(found) and not _is_model(found) or isinstance(found, type):
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise InvalidInput(
                f"cannot make {reference}: {type(error).__name__}: {error}"
            ) from error
    if not _is_judge(found) and not _is_model(found):
        raise InvalidInput(
            f"{reference} is neither a judge with evaluate_turn nor a model with complete"
        )
    return found


def _is_judge(found: object) -> bool:
    return callable(getattr(found, "evaluate_turn", None))


def _is_model(found: object) -> bool:
    return callable(getattr(found, "complete", None)) and not _is_judge(found)
