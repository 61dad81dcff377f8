"""What an evaluation would run, ask and cost, worked out without asking or writing anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from acc.application.evaluation.plan import (
    ANSWER,
    Estimate,
    Judging,
    Sizes,
    Span,
    agent_take,
    compressor_take,
    judge_take,
)
from acc.bootstrap.cost import UsedModel, cost_of, spent_so_far, unseen_spenders, used_models
from acc.bootstrap.evaluation import INSTRUCTION, load_scenario
from acc.bootstrap.memory import token_counter
from acc.bootstrap.models import plain_name
from acc.domain.cost import CostCategory, Price, spender
from acc.domain.value_objects.evaluation_run import AgentChoice, EvaluationConfig, jobs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPart:
    """What one part of a run may take.

    `take` is None where nobody can tell, and `cost`, in US dollars, where that or a price is so.
    """

    part: CostCategory
    agent: str
    models: tuple[str, ...]
    take: Estimate | None
    cost: tuple[float, float] | None

    @property
    def name(self) -> str:
        """Return who spends."""
        return spender(self.part, self.agent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What would be run, and what it may cost."""

    configuration: EvaluationConfig
    episodes: int
    turns: int
    #: Turns that are on record already, and will not be run again.
    recorded: int
    #: US dollars that are known to be spent already.
    spent: float
    parts: tuple[PlannedPart, ...]
    unseen: tuple[str, ...]
    assumptions: tuple[str, ...]

    @property
    def cost(self) -> tuple[float, float] | None:
        """Return what all of it may cost, or None where a part's cost is not known."""
        known = [part.cost for part in self.parts if part.cost is not None]
        if len(known) < len(self.parts):
            return None
        return sum(low for low, _ in known), sum(high for _, high in known)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Episodes:
    """Episodes of one scenario with the same number of turns on record."""

    queries: tuple[int, ...]
    done: int
    count: int


def plan_of(configuration: EvaluationConfig, path: Path, prices: Mapping[str, Price]) -> Plan:
    """Return the plan of a run; if it has begun at `path`, of what is left of it."""
    recorded, spent = _begun(configuration, path)
    groups = _groups(configuration, recorded)
    used = used_models(configuration)
    parts = [
        _planned(part, agent, configuration, groups, used, prices)
        for part, agent in dict.fromkeys((one.part, one.agent) for one in used)
    ]
    return Plan(
        configuration=configuration,
        episodes=sum(group.count for group in groups),
        turns=sum(len(group.queries) * group.count for group in groups),
        recorded=sum(recorded.values()),
        spent=spent,
        parts=tuple(parts),
        unseen=unseen_spenders(configuration),
        assumptions=_assumptions(configuration),
    )


def _begun(configuration: EvaluationConfig, path: Path) -> tuple[dict[str, int], float]:
    """Return the turns of each episode that are on record, and what is known to be spent.

    Another run at the same place is refused.
    """
    from acc.adapters.reports.run_directory import EvaluationDirectory

    if not (path / "run.json").exists():
        return {}, 0.0
    run = EvaluationDirectory.create(path, configuration)
    recorded = {job.name: len(run.lines(job)) for job in run.jobs()}
    return recorded, spent_so_far(run).total.money_known


def _groups(configuration: EvaluationConfig, recorded: Mapping[str, int]) -> list[_Episodes]:
    """Return the episodes; those of a scenario are taken to be as long as the first of them."""
    count = token_counter().count
    queries: dict[str, tuple[int, ...]] = {}
    found: dict[tuple[str, int], int] = {}
    for job in jobs_of(configuration):
        name = job.scenario.reference
        if name not in queries:
            turns = load_scenario(name).render(job.seed).turns[: configuration.turns]
            queries[name] = tuple(count(turn.query) for turn in turns)
        place = (name, recorded.get(job.name, 0))
        found[place] = found.get(place, 0) + 1
    return [
        _Episodes(queries=queries[name], done=done, count=number)
        for (name, done), number in found.items()
    ]


def _planned(
    part: CostCategory,
    agent: str,
    configuration: EvaluationConfig,
    groups: Sequence[_Episodes],
    used: Sequence[UsedModel],
    prices: Mapping[str, Price],
) -> PlannedPart:
    names = tuple(one.name for one in used if (one.part, one.agent) == (part, agent))
    choice = next((one for one in configuration.agents if one.name == agent), None)
    take: Estimate | None = None
    if choice is None or not choice.kind.startswith("python:"):
        sizes = _sizes(configuration)
        take = Estimate()
        for group in groups:
            one = _take(part, choice, group, sizes, configuration)
            take = take.plus(one.times(group.count))
    return PlannedPart(
        part=part,
        agent=agent,
        models=tuple(dict.fromkeys(map(plain_name, names))),
        take=take,
        cost=None if take is None else _cost(names, take, prices),
    )


def _take(
    part: CostCategory,
    agent: AgentChoice | None,
    group: _Episodes,
    sizes: Sizes,
    configuration: EvaluationConfig,
) -> Estimate:
    if part is CostCategory.COMPRESSOR:
        return compressor_take(group.queries, group.done, sizes)
    if agent is not None:
        kind = agent.kind.partition(":")[0]
        return agent_take(kind, group.queries, group.done, sizes)
    wanted = configuration.judging
    judging = Judging(
        answers=len(configuration.agents),
        votes=wanted.votes if wanted else 1,
        orders=2 if wanted and wanted.both_orders and len(configuration.agents) > 1 else 1,
        drives=bool(wanted and wanted.drives),
    )
    return judge_take(group.queries, group.done, sizes, judging)


def _cost(
    names: Sequence[str], take: Estimate, prices: Mapping[str, Price]
) -> tuple[float, float] | None:
    """Return the cost of the cheapest and of the dearest of the models that may answer."""
    ends: list[tuple[float, float]] = []
    for name in names:
        low = _priced(name, take.calls.low, take.input.low, take.output.low, prices)
        high = _priced(name, take.calls.high, take.input.high, take.output.high, prices)
        if low is None or high is None:
            return None
        ends.append((low, high))
    return min(low for low, _ in ends), max(high for _, high in ends)


def _priced(
    name: str, calls: int, read: int, written: int, prices: Mapping[str, Price]
) -> float | None:
    """Return the cost of calls of the same size, for long prompts may have a price of their own."""
    if not calls:
        return 0.0
    one = cost_of(name, prices, round(read / calls), round(written / calls))
    return None if one is None else one * calls


def _sizes(configuration: EvaluationConfig) -> Sizes:
    import msgspec

    from acc.adapters.evaluation import judge_prompts as prompts
    from acc.adapters.evaluation.judge_prompts import (
        SCHEMAS,
        Audit,
        AuditVote,
        MemoryUpdate,
        NextQuery,
        ScoreSheet,
    )
    from acc.adapters.memory.model_compressor import compressor_instruction
    from acc.domain.ccs import json_schema

    count = token_counter().count

    def size(text: str, schema: object = None) -> int:
        written = msgspec.json.encode(schema).decode() if schema is not None else ""
        return count(text) + count(written)

    return Sizes(
        instruction=count(INSTRUCTION),
        compressor=size(compressor_instruction(configuration.budget), json_schema()),
        read=size(prompts.READ, SCHEMAS[MemoryUpdate]),
        audit=size(prompts.AUDIT, SCHEMAS[Audit]),
        audit_again=size(prompts.AUDIT_AGAIN, SCHEMAS[AuditVote]),
        score=size(prompts.SCORE, SCHEMAS[ScoreSheet]),
        drive=size(prompts.DRIVE, SCHEMAS[NextQuery]),
        window=configuration.window,
        budget=configuration.budget,
    )


def _assumptions(configuration: EvaluationConfig) -> tuple[str, ...]:
    return (
        f"An answer of an agent has {ANSWER.low} to {ANSWER.high} tokens, by the vocabulary "
        f"{configuration.vocabulary}; other models count otherwise.",
        "At the high end memories are full, and every answer of compressor and judge has to be "
        "asked for a second time.",
        "Queries are those of each scenario's first episode.",
        "Not in it: tokens of thought, calls that are tried again after a failure, discounts for "
        "what a provider has kept. Answers that --cache holds will cost nothing, and are counted "
        "here.",
        "Prices are those of the list that comes with the library, or those of --price; what a "
        "provider bills is what counts.",
    )


def total_of(plan: Plan) -> Estimate:
    """Return what all parts that can be told may take together."""
    total = Estimate()
    for part in plan.parts:
        total = total.plus(part.take or Estimate())
    return total


def span_text(span: Span) -> str:
    """Return a span as people read it."""
    return f"{span.low:,}" if span.low == span.high else f"{span.low:,} to {span.high:,}"
