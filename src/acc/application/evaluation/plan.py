"""The plan of an evaluation: calls, tokens and cost, estimated before anything is called.

Without an earlier run an estimate is a rough range of the sizes of prompts and answers. With one,
the range is corrected by the calls and tokens that the same models needed in it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from acc.application.evaluation.cost import (
    ModelCatalog,
    UsedModel,
    unmetered_participants,
    used_models,
)
from acc.application.evaluation.token_estimate import (
    ANSWER_TOKENS,
    CountRange,
    Estimate,
    JudgeWorkload,
    PromptSizes,
    answer_lengths,
    estimate_agent,
    estimate_compressor,
    estimate_judge,
    estimate_summaries,
    mean_length,
    measured_usage,
)
from acc.application.memory.registry import SUMMARY, split_budget
from acc.application.models.resolution import plain_name
from acc.domain.cost import CostCategory, ModelCall, Price, spender
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import (
    AgentChoice,
    EpisodeJob,
    EvaluationConfig,
    jobs_of,
)
from acc.domain.value_objects.scenario import Scenario
from acc.ports.outbound.model_ports import TokenCounterPort

_PRICE_ASSUMPTIONS = (
    "Queries are those of each scenario's first episode.",
    "Not included: retries after failures, discounts for prompts cached by a provider. Answers in "
    "--cache are free, but are included.",
    "Prices come from the price list of the library or from --price. The provider's bill decides.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """What is on disk of a run: turns by episode, their calls, and the known cost in US dollars."""

    turns: Mapping[str, int]
    cost: float = 0.0
    calls: tuple[ModelCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run whose calls and tokens correct an estimate."""

    name: str
    configuration: EvaluationConfig
    recorded: RecordedRun
    is_required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """The estimate for one agent, compressor or judge.

    `estimate` is None if the code of an agent decides. `cost` is a range in US dollars, None if the
    estimate or a price is unknown. `is_measured` is true if an earlier run corrected the estimate.
    """

    category: CostCategory
    agent: str
    models: tuple[str, ...]
    estimate: Estimate | None
    cost: tuple[float, float] | None
    is_measured: bool = False

    @property
    def name(self) -> str:
        """Return the agent, compressor or judge that causes the cost."""
        return spender(self.category, self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an evaluation would run, and its estimated cost.

    `recorded` is the number of turns that will not be repeated, `spent` their known cost in US
    dollars. `unmetered` lists participants whose cost is not part of the plan.
    """

    configuration: EvaluationConfig
    episodes: int
    turns: int
    recorded: int
    spent: float
    parts: tuple[PlannedCost, ...]
    unmetered: tuple[str, ...]
    assumptions: tuple[str, ...]

    @property
    def cost(self) -> tuple[float, float] | None:
        """Return the total cost, or None if the cost of a part is unknown."""
        return cost_of(self.parts)

    @property
    def total(self) -> Estimate:
        """Return the sum of all known estimates."""
        return estimate_of(self.parts)

    def of(self, category: CostCategory) -> tuple[PlannedCost, ...]:
        """Return the parts of a category."""
        return tuple(part for part in self.parts if part.category is category)


def cost_of(parts: Sequence[PlannedCost]) -> tuple[float, float] | None:
    """Return the total cost of parts, or None if the cost of a part is unknown."""
    known = [part.cost for part in parts if part.cost is not None]
    if len(known) < len(parts):
        return None
    return sum(low for low, _ in known), sum(high for _, high in known)


def estimate_of(parts: Sequence[PlannedCost]) -> Estimate:
    """Return the sum of the known estimates of parts."""
    total = Estimate()
    for part in parts:
        total = total.plus(part.estimate or Estimate())
    return total


class ScenarioSource(Protocol):
    """Renders scenarios."""

    def render(self, reference: str, seed: int) -> Scenario:
        """Return the episode of a scenario for a seed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingEpisodes:
    """The incomplete episodes of an evaluation run, its turns, and those that are recorded.

    `lengths` is the number of turns of an episode by scenario id.
    """

    jobs: tuple[EpisodeJob, ...]
    turns: int
    recorded: int
    lengths: Mapping[str, int]


def remaining_episodes(
    configuration: EvaluationConfig, recorded: RecordedRun, scenarios: ScenarioSource
) -> RemainingEpisodes:
    """Return what is left to do of a run."""
    lengths = {
        scenario.reference: len(
            scenarios.render(scenario.reference, configuration.seed).turns[: configuration.turns]
        )
        for scenario in configuration.scenarios
    }
    jobs = jobs_of(configuration)
    return RemainingEpisodes(
        jobs=tuple(
            job for job in jobs if recorded.turns.get(job.name, 0) < lengths[job.scenario.reference]
        ),
        turns=sum(lengths[job.scenario.reference] for job in jobs),
        recorded=sum(recorded.turns.values()),
        lengths={one.id: lengths[one.reference] for one in configuration.scenarios},
    )


class _EpisodeGroup(NamedTuple):
    """Episodes of one scenario with the same number of recorded turns."""

    query_tokens: tuple[int, ...]
    recorded: int
    episodes: int
    is_annotated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """An earlier run: its episodes, and its calls that are comparable with those of a plan.

    `answers` has the calls of each agent that show the length of its answers: its own ones, or
    those of other agents with the same model.
    """

    configuration: EvaluationConfig
    groups: tuple[_EpisodeGroup, ...]
    calls: Mapping[tuple[CostCategory, str], tuple[ModelCall, ...]]
    answers: Mapping[str, tuple[ModelCall, ...]]


def _names(used: Sequence[UsedModel], key: tuple[CostCategory, str]) -> tuple[str, ...]:
    return tuple(one.name for one in used if (one.category, one.agent) == key)


class EvaluationPlanner:
    """Estimates the calls, tokens and cost of an evaluation."""

    def __init__(
        self,
        *,
        catalog: ModelCatalog,
        scenarios: ScenarioSource,
        tokens: TokenCounterPort,
        sizes: PromptSizes,
    ) -> None:
        self._catalog = catalog
        self._scenarios = scenarios
        self._tokens = tokens
        self._sizes = sizes

    def plan(
        self,
        configuration: EvaluationConfig,
        *,
        recorded: RecordedRun,
        prices: Mapping[str, Price],
        earlier: EarlierRun | None = None,
    ) -> Plan:
        """Return the plan of a run, or of the rest of a run that has begun.

        The calls and tokens of `earlier` correct the estimates of the parts that it has with the
        same models. Raises InvalidInput if it has none of them and `earlier.is_required`.
        """
        groups = self._groups(configuration, recorded)
        used = used_models(configuration, self._catalog)
        comparison = None if earlier is None else self._comparison(configuration, used, earlier)
        parts = [
            self._planned_cost(category, agent, configuration, groups, used, prices, comparison)
            for category, agent in dict.fromkeys((one.category, one.agent) for one in used)
        ]
        if (
            earlier is not None
            and earlier.is_required
            and not any(part.is_measured for part in parts)
        ):
            names = (
                ", ".join(dict.fromkeys(name for part in parts for name in part.models)) or "none"
            )
            raise InvalidInput(
                f"{earlier.name} has no recorded calls of the agents and the judge of this "
                f"evaluation with the same models ({names}); run a few turns with them first"
            )
        return Plan(
            configuration=configuration,
            episodes=sum(group.episodes for group in groups),
            turns=sum(len(group.query_tokens) * group.episodes for group in groups),
            recorded=sum(recorded.turns.values()),
            spent=recorded.cost,
            parts=tuple(parts),
            unmetered=unmetered_participants(configuration, self._catalog),
            assumptions=_assumptions(configuration, parts, earlier),
        )

    def _comparison(
        self,
        configuration: EvaluationConfig,
        used: Sequence[UsedModel],
        earlier: EarlierRun,
    ) -> "_Comparison":
        before = used_models(earlier.configuration, self._catalog)
        calls: dict[tuple[CostCategory, str], list[ModelCall]] = {}
        for call in earlier.recorded.calls:
            calls.setdefault((call.category, call.agent), []).append(call)
        kinds = {agent.name: agent.kind for agent in earlier.configuration.agents}
        new = {agent.name: agent.kind for agent in configuration.agents}
        same = {
            key
            for key in calls
            if _names(used, key) == _names(before, key) and kinds.get(key[1]) == new.get(key[1])
        }
        by_model: dict[tuple[str, ...], list[ModelCall]] = {}
        for key, recorded in calls.items():
            if key[0] is CostCategory.AGENT:
                by_model.setdefault(_names(before, key), []).extend(recorded)
        return _Comparison(
            configuration=earlier.configuration,
            groups=tuple(
                _EpisodeGroup(
                    group.query_tokens[: group.recorded], 0, group.episodes, group.is_annotated
                )
                for group in self._groups(earlier.configuration, earlier.recorded)
                if group.recorded
            ),
            calls={key: tuple(calls[key]) for key in same},
            answers={
                name: tuple(
                    calls.get(key, ())
                    if key in same or name not in new
                    else by_model.get(_names(used, key), ())
                )
                for name in {**kinds, **new}
                for key in [(CostCategory.AGENT, name)]
            },
        )

    def _groups(
        self, configuration: EvaluationConfig, recorded: RecordedRun
    ) -> list[_EpisodeGroup]:
        """Return the episodes; all of a scenario are assumed to be as long as its first one."""
        query_tokens: dict[str, tuple[int, ...]] = {}
        annotated: set[str] = set()
        counts: Counter[tuple[str, int]] = Counter()
        for job in jobs_of(configuration):
            reference = job.scenario.reference
            if reference not in query_tokens:
                scenario = self._scenarios.render(reference, job.seed)
                turns = scenario.turns[: configuration.turns]
                query_tokens[reference] = tuple(self._tokens.count(turn.query) for turn in turns)
                if scenario.is_annotated:
                    annotated.add(reference)
            counts[reference, recorded.turns.get(job.name, 0)] += 1
        return [
            _EpisodeGroup(query_tokens[reference], turns, count, reference in annotated)
            for (reference, turns), count in counts.items()
        ]

    def _planned_cost(
        self,
        category: CostCategory,
        agent: str,
        configuration: EvaluationConfig,
        groups: Sequence[_EpisodeGroup],
        used: Sequence[UsedModel],
        prices: Mapping[str, Price],
        comparison: _Comparison | None,
    ) -> PlannedCost:
        names = _names(used, (category, agent))
        calls = comparison.calls.get((category, agent), ()) if comparison else ()
        estimate = self._estimate(category, agent, configuration, groups, comparison)
        measured = measured_usage(calls)
        if comparison is not None and measured is not None:
            modelled = self._estimate(
                category, agent, comparison.configuration, comparison.groups, comparison
            )
            if estimate is None or modelled is None:
                # The code of an agent decides; only the number of turns is known.
                estimate, modelled = _turns(groups), _turns(comparison.groups)
            estimate = estimate.scaled(modelled, measured)
        return PlannedCost(
            category=category,
            agent=agent,
            models=tuple(dict.fromkeys(map(plain_name, names))),
            estimate=estimate,
            cost=None if estimate is None else self._cost(names, estimate, prices),
            is_measured=measured is not None,
        )

    def _estimate(
        self,
        category: CostCategory,
        agent: str,
        configuration: EvaluationConfig,
        groups: Sequence[_EpisodeGroup],
        comparison: _Comparison | None,
    ) -> Estimate | None:
        """Return the estimate of all episodes, or None if the code of an agent decides."""
        choice = next((one for one in configuration.agents if one.name == agent), None)
        if choice is not None and choice.kind.startswith("python:"):
            return None
        calls = comparison.answers if comparison else {}
        answering = [choice] if choice else configuration.agents
        estimate = Estimate()
        for group in groups:
            turns = len(group.query_tokens)
            answers = mean_length(
                [answer_lengths(calls.get(one.name, ()), turns) for one in answering]
            )
            episode = self._episode_estimate(category, choice, group, configuration, answers)
            estimate = estimate.plus(episode.times(group.episodes))
        return estimate

    def _episode_estimate(
        self,
        category: CostCategory,
        agent: AgentChoice | None,
        group: _EpisodeGroup,
        configuration: EvaluationConfig,
        answers: Sequence[CountRange],
    ) -> Estimate:
        sizes = replace(self._sizes, window=configuration.window, budget=configuration.budget)
        query_tokens, recorded = group.query_tokens, group.recorded
        if agent is not None:
            kind, tokens = split_budget(agent.kind)
            kind = kind.partition(":")[0]
            if tokens is not None:
                sizes = replace(sizes, window=tokens, budget=tokens)
            if category is CostCategory.COMPRESSOR and kind == SUMMARY:
                return estimate_summaries(query_tokens, recorded, sizes, answers=answers)
            if category is CostCategory.AGENT:
                return estimate_agent(
                    kind, query_tokens, recorded, sizes, budget=tokens, answers=answers
                )
        if category is CostCategory.COMPRESSOR:
            return estimate_compressor(query_tokens, recorded, sizes)
        judge, count = configuration.judging, len(configuration.agents)
        workload = JudgeWorkload(
            answers=count,
            votes=judge.votes if judge else 1,
            orders=2 if judge and judge.both_orders and count > 1 else 1,
            drives=(drives := bool(judge and judge.drives)),
            reads=drives or not group.is_annotated,
            support_models=len(judge.models) if judge and judge.probabilities else 0,
        )
        return estimate_judge(query_tokens, recorded, sizes, workload, answers=answers)

    def _cost(
        self, names: Sequence[str], estimate: Estimate, prices: Mapping[str, Price]
    ) -> tuple[float, float] | None:
        """Return the cost with the cheapest and with the most expensive alternative."""
        lows: list[float] = []
        highs: list[float] = []
        for name in names:
            ends = (
                self._cost_of_calls(name, prices, calls, input_tokens, output_tokens)
                for calls, input_tokens, output_tokens in zip(
                    estimate.calls, estimate.input, estimate.output, strict=True
                )
            )
            low, high = ends
            if low is None or high is None:
                return None
            lows.append(low)
            highs.append(high)
        return min(lows), max(highs)

    def _cost_of_calls(
        self,
        name: str,
        prices: Mapping[str, Price],
        calls: int,
        input_tokens: int,
        output_tokens: int,
    ) -> float | None:
        """Return the cost of calls of equal size; long prompts can have another price."""
        if not calls:
            return 0.0
        cost = self._catalog.cost(
            name,
            prices,
            input_tokens=round(input_tokens / calls),
            output_tokens=round(output_tokens / calls),
        )
        return None if cost is None else cost * calls


def _turns(groups: Sequence[_EpisodeGroup]) -> Estimate:
    """Return the number of turns that are not recorded, as an estimate to be scaled."""
    left = sum((len(one.query_tokens) - one.recorded) * one.episodes for one in groups)
    turns = CountRange(left, left)
    return Estimate(calls=turns, input=turns, output=turns)


def _assumptions(
    configuration: EvaluationConfig, parts: Sequence[PlannedCost], earlier: EarlierRun | None
) -> tuple[str, ...]:
    measured = [part.name for part in parts if part.is_measured]
    rough = [part.name for part in parts if not part.is_measured]
    lines: list[str] = []
    if earlier is not None and measured:
        turns = sum(earlier.recorded.turns.values())
        lines.append(
            f"Measured in {turns:,} turns of {earlier.name}: {', '.join(measured)}. The estimate "
            "assumes prompts and answers like those."
        )
    if not rough:
        return (*lines, *_PRICE_ASSUMPTIONS)
    return (
        *lines,
        f"Rough range, which actual use can exceed: {', '.join(rough)}. For a measured estimate "
        "run one episode, and name its run directory with --like.",
        f"An agent's answer has {ANSWER_TOKENS.low} to {ANSWER_TOKENS.high} tokens of the "
        f"vocabulary {configuration.vocabulary}; other models count differently."
        + ("" if earlier is None else " Answers of a measured model are as long as there."),
        "At the high end memories are full, and each call of compressor and judge is repeated "
        "once.",
        "Reasoning tokens are not included in a rough range.",
        *_PRICE_ASSUMPTIONS,
    )
