"""The plan of an evaluation: calls, tokens and cost, estimated before anything is called.

An estimate is a rough range. The low end assumes short answers and no repeated call. The high end
assumes long answers, full memories, and one repeated call for each answer of compressor and judge.
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
from acc.application.memory.registry import SUMMARY, split_budget
from acc.application.models.resolution import plain_name
from acc.domain.cost import CostCategory, Price, spender
from acc.domain.value_objects.evaluation_run import (
    AgentChoice,
    EpisodeJob,
    EvaluationConfig,
    jobs_of,
)
from acc.domain.value_objects.scenario import Scenario
from acc.ports.outbound.model_ports import TokenCounterPort


class CountRange(NamedTuple):
    """A range from the lowest to the highest expected number."""

    low: int
    high: int

    def plus(self, *others: "CountRange") -> "CountRange":
        """Return the sum of ranges."""
        ranges = (self, *others)
        return CountRange(sum(one.low for one in ranges), sum(one.high for one in ranges))

    def times(self, count: int) -> "CountRange":
        """Return the range multiplied by a count."""
        return CountRange(self.low * count, self.high * count)

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


_ZERO = CountRange(0, 0)
#: Tokens of an agent's answer.
ANSWER_TOKENS = CountRange(30, 250)
#: Tokens that a provider's API and the text around a memory add to a prompt.
_OVERHEAD_TOKENS = CountRange(10, 70)
#: Tokens of the delimiters around untrusted text in a judge's prompt.
_DELIMITER_TOKENS = CountRange(60, 260)
_EMPTY_STATE_TOKENS = CountRange(80, 220)
_DRIVEN_QUERY_TOKENS = CountRange(30, 500)
_RECALLED_TURNS = 5
_MAX_CLAIMS_OF_ANSWER = 6
_MAX_EVIDENCE_TOKENS = 16 * 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Expected calls and tokens."""

    calls: CountRange = _ZERO
    input: CountRange = _ZERO
    output: CountRange = _ZERO

    def plus(self, other: "Estimate") -> "Estimate":
        """Return the sum of two estimates."""
        return Estimate(
            calls=self.calls.plus(other.calls),
            input=self.input.plus(other.input),
            output=self.output.plus(other.output),
        )

    def times(self, count: int) -> "Estimate":
        """Return the estimate multiplied by a count."""
        return Estimate(
            calls=self.calls.times(count),
            input=self.input.times(count),
            output=self.output.times(count),
        )

    def with_repairs(self) -> "Estimate":
        """Return the estimate with each call repeated once at the high end."""
        return Estimate(
            calls=CountRange(self.calls.low, 2 * self.calls.high),
            input=CountRange(self.input.low, 2 * self.input.high + self.output.high),
            output=CountRange(self.output.low, 2 * self.output.high),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSizes:
    """Tokens of each prompt's fixed part, including its schema, and of the memories."""

    instruction: int
    compressor: int
    read: int
    audit: int
    audit_again: int
    score: int
    drive: int
    window: int
    budget: int
    support: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeWorkload:
    """What a model judge does in a turn: answers, votes, orders, reading and writing the query."""

    answers: int
    votes: int
    orders: int
    drives: bool
    reads: bool = True
    support_models: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """What is on disk of a run: turns by episode, and the known cost in US dollars."""

    turns: Mapping[str, int]
    cost: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCost:
    """The estimate for one agent, compressor or judge.

    `estimate` is None if the code of an agent decides. `cost` is a range in US dollars, None if the
    estimate or a price is unknown.
    """

    category: CostCategory
    agent: str
    models: tuple[str, ...]
    estimate: Estimate | None
    cost: tuple[float, float] | None

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
        known = [part.cost for part in self.parts if part.cost is not None]
        if len(known) < len(self.parts):
            return None
        return sum(low for low, _ in known), sum(high for _, high in known)

    @property
    def total(self) -> Estimate:
        """Return the sum of all known estimates."""
        total = Estimate()
        for part in self.parts:
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
    ) -> Plan:
        """Return the plan of a run, or of the rest of a run that has begun."""
        groups = self._groups(configuration, recorded)
        used = used_models(configuration, self._catalog)
        parts = [
            self._planned_cost(category, agent, configuration, groups, used, prices)
            for category, agent in dict.fromkeys((one.category, one.agent) for one in used)
        ]
        return Plan(
            configuration=configuration,
            episodes=sum(group.episodes for group in groups),
            turns=sum(len(group.query_tokens) * group.episodes for group in groups),
            recorded=sum(recorded.turns.values()),
            spent=recorded.cost,
            parts=tuple(parts),
            unmetered=unmetered_participants(configuration, self._catalog),
            assumptions=_assumptions(configuration),
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
    ) -> PlannedCost:
        names = tuple(one.name for one in used if (one.category, one.agent) == (category, agent))
        choice = next((one for one in configuration.agents if one.name == agent), None)
        estimate: Estimate | None = None
        if choice is None or not choice.kind.startswith("python:"):
            estimate = Estimate()
            for group in groups:
                episode = self._episode_estimate(category, choice, group, configuration)
                estimate = estimate.plus(episode.times(group.episodes))
        return PlannedCost(
            category=category,
            agent=agent,
            models=tuple(dict.fromkeys(map(plain_name, names))),
            estimate=estimate,
            cost=None if estimate is None else self._cost(names, estimate, prices),
        )

    def _episode_estimate(
        self,
        category: CostCategory,
        agent: AgentChoice | None,
        group: _EpisodeGroup,
        configuration: EvaluationConfig,
    ) -> Estimate:
        sizes = self._sizes
        if agent is not None:
            kind, tokens = split_budget(agent.kind)
            kind = kind.partition(":")[0]
            if tokens is not None:
                sizes = replace(sizes, window=tokens, budget=tokens)
            if category is CostCategory.COMPRESSOR and kind == SUMMARY:
                return estimate_summaries(group.query_tokens, group.recorded, sizes)
            if category is CostCategory.AGENT:
                return estimate_agent(
                    kind, group.query_tokens, group.recorded, sizes, budget=tokens
                )
        if category is CostCategory.COMPRESSOR:
            return estimate_compressor(group.query_tokens, group.recorded, sizes)
        judge, answers = configuration.judging, len(configuration.agents)
        workload = JudgeWorkload(
            answers=answers,
            votes=judge.votes if judge else 1,
            orders=2 if judge and judge.both_orders and answers > 1 else 1,
            drives=(drives := bool(judge and judge.drives)),
            reads=drives or not group.is_annotated,
            support_models=len(judge.models) if judge and judge.probabilities else 0,
        )
        return estimate_judge(group.query_tokens, group.recorded, self._sizes, workload)

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


def estimate_agent(
    kind: str,
    query_tokens: Sequence[int],
    recorded: int,
    sizes: PromptSizes,
    *,
    budget: int | None = None,
) -> Estimate:
    """Return the estimate of an agent with a memory for the turns after `recorded`."""
    total = Estimate()
    for turn in range(recorded, len(query_tokens)):
        memory = _memory_tokens(kind, query_tokens, turn, sizes, budget=budget)
        fixed = query_tokens[turn] + sizes.instruction
        prompt = CountRange(fixed, fixed).plus(memory, _OVERHEAD_TOKENS)
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=ANSWER_TOKENS))
    return total


def estimate_compressor(query_tokens: Sequence[int], recorded: int, sizes: PromptSizes) -> Estimate:
    """Return the estimate of the model that writes an ACC state for the turns after `recorded`."""
    total = Estimate()
    for turn in range(recorded, len(query_tokens)):
        state = _memory_tokens("acc", query_tokens, turn, sizes)
        written = _EMPTY_STATE_TOKENS.plus(CountRange(state.low, 2 * state.high))
        query = CountRange(query_tokens[turn], 2 * query_tokens[turn] + 60)
        fixed = CountRange(sizes.compressor, sizes.compressor)
        evidence = CountRange(0, min(2 * sum(query_tokens[:turn]), _MAX_EVIDENCE_TOKENS))
        prompt = fixed.plus(written, query, evidence, _OVERHEAD_TOKENS)
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=written))
    return total.with_repairs()


def estimate_summaries(query_tokens: Sequence[int], recorded: int, sizes: PromptSizes) -> Estimate:
    """Return the estimate of the model that rewrites a summary after each turn but the last."""
    total = Estimate()
    fixed = CountRange(sizes.instruction, sizes.instruction)
    for turn in range(max(recorded, 1), len(query_tokens)):
        before = query_tokens[turn - 1]
        summary = _memory_tokens(SUMMARY, query_tokens, turn, sizes)
        prompt = fixed.plus(summary, CountRange(before, before), ANSWER_TOKENS, _OVERHEAD_TOKENS)
        total = total.plus(Estimate(calls=CountRange(1, 1), input=prompt, output=summary))
    return total


def estimate_judge(
    query_tokens: Sequence[int], recorded: int, sizes: PromptSizes, workload: JudgeWorkload
) -> Estimate:
    """Return the estimate of a model judge for the turns after `recorded`."""
    total = Estimate()
    answers = workload.answers
    for turn in range(recorded, len(query_tokens)):
        tokens = query_tokens[turn]
        before = sum(query_tokens[: turn + 1])
        canonical = CountRange(before // 4, 3 * before // 2 + 20)
        context = canonical.plus(CountRange(tokens, tokens), _DELIMITER_TOKENS)
        read = _call(sizes.read, context, CountRange(30, 80 + 3 * tokens))
        audit = _call(
            sizes.audit, context.plus(ANSWER_TOKENS), CountRange(40, 200 + 3 * ANSWER_TOKENS.high)
        )
        again = _call(
            sizes.audit_again,
            context.plus(ANSWER_TOKENS, ANSWER_TOKENS),
            CountRange(40, 200 + ANSWER_TOKENS.high),
        )
        score = _call(
            sizes.score,
            context.plus(ANSWER_TOKENS.times(answers)),
            CountRange(30 * answers, 90 * answers),
        )
        if workload.reads:
            total = total.plus(read)
        total = total.plus(audit.times(answers))
        total = total.plus(again.times(answers * (workload.votes - 1)))
        total = total.plus(score.times(workload.votes * workload.orders))
        if workload.support_models:
            support = _call(sizes.support, context.plus(CountRange(5, 40)), CountRange(1, 16))
            claims = Estimate(
                calls=CountRange(1, _MAX_CLAIMS_OF_ANSWER),
                input=CountRange(support.input.low, _MAX_CLAIMS_OF_ANSWER * support.input.high),
                output=CountRange(support.output.low, _MAX_CLAIMS_OF_ANSWER * support.output.high),
            )
            total = total.plus(claims.times(answers * workload.support_models))
        if workload.drives:
            total = total.plus(_call(sizes.drive, context, _DRIVEN_QUERY_TOKENS))
    return total.with_repairs()


def _call(fixed: int, context: CountRange, output: CountRange) -> Estimate:
    prompt = CountRange(fixed, fixed).plus(context, _OVERHEAD_TOKENS)
    return Estimate(calls=CountRange(1, 1), input=prompt, output=output)


def _memory_tokens(
    kind: str,
    query_tokens: Sequence[int],
    turn: int,
    sizes: PromptSizes,
    *,
    budget: int | None = None,
) -> CountRange:
    """Return the tokens that a memory shows in a turn; `turn` starts at 0."""
    before = sum(query_tokens[:turn])
    low, high = (before + turn * (answer + 4) for answer in ANSWER_TOKENS)
    if kind == "full":
        return CountRange(low, high)
    if kind == "transcript":
        room = max(0, sizes.window - query_tokens[turn])
        return CountRange(min(room, low), min(room, high))
    if kind in ("last-n", "bm25", SUMMARY) or (kind == "retrieval" and budget is not None):
        return CountRange(min(sizes.budget, low) // 2, min(sizes.budget, high))
    if kind == "retrieval":
        largest = max((ANSWER_TOKENS.high, *query_tokens[:turn]))
        return CountRange(
            min(low, _RECALLED_TURNS * ANSWER_TOKENS.low), min(high, _RECALLED_TURNS * largest)
        )
    if kind == "oracle":
        return CountRange(before // 4, 3 * before // 2)
    total = before + query_tokens[turn]
    return CountRange(min(sizes.budget, total) // 2, min(sizes.budget, total + 80))


def _assumptions(configuration: EvaluationConfig) -> tuple[str, ...]:
    return (
        f"An agent's answer has {ANSWER_TOKENS.low} to {ANSWER_TOKENS.high} tokens of the "
        f"vocabulary {configuration.vocabulary}; other models count differently.",
        "At the high end memories are full, and each call of compressor and judge is repeated "
        "once.",
        "Queries are those of each scenario's first episode.",
        "Not included: reasoning tokens, retries after failures, discounts for prompts cached by "
        "a provider. Answers in --cache are free, but are included.",
        "Prices come from the price list of the library or from --price. The provider's bill "
        "decides.",
    )
