"""Results of an evaluation: summary, flat records, judge agreement, comparison of two."""

import csv
import io
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.reports.costs import cost_file, load_costs
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord
from acc.application.evaluation.configuration import memory_budgets
from acc.application.evaluation.plan import RecordedRun
from acc.application.evaluation.results import cost_fields
from acc.domain.errors import InvalidInput
from acc.domain.gates import GATE_METRICS
from acc.domain.metrics import METRIC_NAMES, spread
from acc.domain.statistics import (
    CONFIDENCE,
    PairedDifference,
    holm,
    interval_alpha,
    nominal_alpha,
    paired_difference,
)
from acc.domain.value_objects.evaluation import (
    OUTCOME_NAMES,
    FindingKind,
    JudgeVotes,
    Spread,
    TurnStatus,
)
from acc.domain.value_objects.evaluation_run import EpisodeJob, EvaluationConfig

#: Metrics that are compared between agents on the same turns.
#: The measures that a comparison is about; the others are parts of them or describe them.
DECLARED_METRICS = ("outcome", "hallucination", "drift")
PAIRED_METRICS = ("outcome", *OUTCOME_NAMES, "hallucination", "drift", "memory_tokens")
#: S, U, V, O and K of the formulas.
COUNT_FIELDS = (
    "supported_claims",
    "unsupported_claims",
    "violations",
    "omissions",
    "active_constraints",
)
RECORD_FIELDS = (
    "scenario",
    "domain",
    "seed",
    "turn",
    "topic",
    "agent",
    "status",
    *METRIC_NAMES,
    *COUNT_FIELDS,
    "findings",
    "fallback",
    "error",
    "flags",
)


#: A cell that starts with one of these would be evaluated as a formula by a spreadsheet.
_FORMULA_PREFIXES = frozenset("=+-@\t\r")


def turn_metrics(agent: AgentRecord) -> tuple[float, ...]:
    """Return the metrics of a turn in the order of METRIC_NAMES, NaN if not measured."""
    if agent.status is not TurnStatus.SCORED or agent.outcome is None:
        return (math.nan,) * len(METRIC_NAMES)
    scores = [getattr(agent.outcome, name) for name in OUTCOME_NAMES]
    rest = (agent.hallucination, agent.drift, agent.memory_tokens)
    return (agent.outcome.mean, *scores, *(math.nan if v is None else float(v) for v in rest))


def fallback_reason(agent: AgentRecord) -> str:
    """Return why rules replaced the model of a compressor in a turn, or an empty string."""
    trace = agent.trace.get("compressor")
    return str(trace.get("fallback", "")) if isinstance(trace, dict) else ""


class Tally:
    """The metrics of all recorded turns, stored compactly per agent."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = tuple(agents)
        self.values = {name: array("d") for name in agents}
        self.statuses: dict[str, dict[str, int]] = {name: {} for name in agents}
        self.last_tokens: dict[str, list[float]] = {name: [] for name in agents}
        #: Episode index, turn number and topic of each turn.
        self.turns: list[tuple[int, int, str]] = []
        self.episodes: list[EpisodeJob] = []
        self.first_errors: dict[str, str] = {}
        #: Turns in which rules replaced the model of a compressor.
        self.fallbacks = dict.fromkeys(agents, 0)
        self.flagged: dict[str, int] = dict.fromkeys(agents, 0)
        self.claims: dict[str, int] = dict.fromkeys(agents, 0)
        #: Sums of the bounds of the hallucination rate, with the number of turns.
        self.ranges: dict[str, list[float]] = {name: [0.0, 0.0, 0.0] for name in agents}
        self.recalls: dict[str, list[float]] = {name: [] for name in agents}
        #: 1 for each answer with every expected statement, 0 for the others.
        self.helpful: dict[str, list[float]] = {name: [] for name in agents}
        #: Findings by class.
        self.findings: dict[str, dict[str, int]] = {
            name: dict.fromkeys(FindingKind, 0) for name in agents
        }
        self.agreement = Agreement()

    def add(self, job: EpisodeJob, records: Sequence[TurnRecord]) -> None:
        """Add the turns of an episode."""
        episode = len(self.episodes)
        self.episodes.append(job)
        for record in records:
            self.turns.append((episode, record.turn, record.topic))
            for agent in record.agents:
                self.values[agent.name].extend(turn_metrics(agent))
                counts = self.statuses[agent.name]
                counts[agent.status] = counts.get(agent.status, 0) + 1
                self.fallbacks[agent.name] += bool(fallback_reason(agent))
                self.flagged[agent.name] += bool(agent.flags)
                self.claims[agent.name] += sum(agent.counts)
                if agent.hallucination_range is not None:
                    sums, (low, high) = self.ranges[agent.name], agent.hallucination_range
                    self.ranges[agent.name] = [sums[0] + low, sums[1] + high, sums[2] + 1]
                stated, expected = agent.expectations
                if expected:
                    self.recalls[agent.name].append(stated / expected)
                    self.helpful[agent.name].append(float(stated == expected))
                self._count_findings(agent)
                if agent.votes is not None:
                    self.agreement.add(agent.votes)
                if agent.error:
                    self.first_errors.setdefault(agent.name, agent.error)
            self.agreement.add_lengths(
                [
                    (len(agent.answer), agent.outcome.mean)
                    for agent in record.agents
                    if agent.outcome is not None
                ]
            )
        if records:
            for agent in records[-1].agents:
                if agent.memory_tokens is not None:
                    self.last_tokens[agent.name].append(float(agent.memory_tokens))

    def _count_findings(self, agent: AgentRecord) -> None:
        for finding in (*agent.findings, *agent.carried):
            self.findings[agent.name][finding.kind] += 1

    def column(self, agent: str, metric: str) -> "array[float]":
        """Return one metric of one agent for all turns, NaN if not measured."""
        return self.values[agent][METRIC_NAMES.index(metric) :: len(METRIC_NAMES)]

    def domains(self) -> tuple[str, ...]:
        """Return the domains in order of appearance."""
        return tuple(dict.fromkeys(job.scenario.domain for job in self.episodes))

    def turns_by_domain(self) -> Mapping[str, list[int]]:
        """Return the indexes of the turns of each domain."""
        indexes: dict[str, list[int]] = {domain: [] for domain in self.domains()}
        for index, (episode, _, _) in enumerate(self.turns):
            indexes[self.episodes[episode].scenario.domain].append(index)
        return indexes


def _measured(values: Sequence[float], indexes: Sequence[int] | None = None) -> list[float]:
    chosen = values if indexes is None else [values[index] for index in indexes]
    return [value for value in chosen if not math.isnan(value)]


def _spread_fields(value: Spread | None) -> dict[str, float | int] | None:
    if value is None:
        return None
    return {
        "mean": round(value.mean, 6),
        "deviation": round(value.deviation, 6),
        "count": value.count,
    }


def measures(tally: Tally, indexes: Sequence[int] | None = None) -> dict[str, dict[str, Any]]:
    """Return mean, deviation and count of every metric of every agent."""
    return {
        agent: {
            name: _spread_fields(spread(_measured(tally.column(agent, name), indexes)))
            for name in METRIC_NAMES
        }
        for agent in tally.agents
    }


def by_turn(tally: Tally) -> dict[str, Any]:
    """Return the mean of every metric per turn, and the topics of the episodes in that turn."""
    indexes: dict[int, list[int]] = {}
    topics: dict[int, dict[str, int]] = {}
    for index, (_, turn, topic) in enumerate(tally.turns):
        indexes.setdefault(turn, []).append(index)
        counts = topics.setdefault(turn, {})
        counts[topic] = counts.get(topic, 0) + 1
    turns = sorted(indexes)
    columns: dict[str, dict[str, list[float | None]]] = {}
    for agent in tally.agents:
        columns[agent] = {}
        for name in METRIC_NAMES:
            column = tally.column(agent, name)
            spreads = [spread(_measured(column, indexes[turn])) for turn in turns]
            columns[agent][name] = [None if s is None else round(s.mean, 6) for s in spreads]
    return {"turns": turns, "topics": [topics[turn] for turn in turns], "agents": columns}


def paired_differences(tally: Tally, seed: int) -> list[dict[str, Any]]:
    """Return the paired differences of every pair of agents, later minus earlier agent."""
    rows: list[dict[str, Any]] = []
    for number, versus in enumerate(tally.agents):
        for agent in tally.agents[number + 1 :]:
            for name in PAIRED_METRICS:
                difference = paired_difference(_differences(tally, agent, versus, name), seed=seed)
                if difference is not None:
                    fields = _difference_fields(difference)
                    rows.append({"metric": name, "agent": agent, "versus": versus, **fields})
    return _corrected(rows)


def _corrected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Correct the declared measures of each pair of agents; only they can be clear."""
    families: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        row["declared"] = row["metric"] in DECLARED_METRICS
        if row["declared"] and row["p_value"] is not None:
            families.setdefault((row["agent"], row.get("versus", "")), []).append(row)
        row["clear"] = False
    for family in families.values():
        for row, p_value in zip(family, holm([row["p_value"] for row in family]), strict=True):
            row["corrected_p"] = round(p_value, 6)
            row["clear"] = p_value < 1 - CONFIDENCE and (row["low"] > 0 or row["high"] < 0)
    return rows


def _difference_fields(difference: PairedDifference) -> dict[str, Any]:
    fields = msgspec.to_builtins(difference)
    rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in fields.items()}
    return rounded


def _differences(tally: Tally, agent: str, versus: str, metric: str) -> dict[str, list[float]]:
    """Return the differences of two agents on the same turns, per scenario."""
    one, other = tally.column(agent, metric), tally.column(versus, metric)
    differences: dict[str, list[float]] = {job.scenario.id: [] for job in tally.episodes}
    for index, (episode, _, _) in enumerate(tally.turns):
        difference = one[index] - other[index]
        if not math.isnan(difference):
            differences[tally.episodes[episode].scenario.id].append(difference)
    return differences


#: An interval of Student's t can exceed the possible values.
_MAX_VALUES = {
    **dict.fromkeys(("outcome", *OUTCOME_NAMES), 10.0),
    **dict.fromkeys(("hallucination", "drift"), 1.0),
}


def interval_fields(tally: Tally, agent: str, metric: str, seed: int) -> dict[str, float | None]:
    """Return the ends of the interval over scenario means, None with too few scenarios."""
    by_scenario: dict[str, list[float]] = {}
    values = tally.column(agent, metric)
    for index, (episode, _, _) in enumerate(tally.turns):
        if not math.isnan(values[index]):
            scenario = tally.episodes[episode].scenario.id
            by_scenario.setdefault(scenario, []).append(values[index])
    found = paired_difference(by_scenario, seed=seed)
    ends = (None, None) if found is None else (found.low, found.high)
    largest = _MAX_VALUES.get(metric, math.inf)
    return {
        name: None if end is None else round(min(max(end, 0.0), largest), 6)
        for name, end in zip(("low", "high"), ends, strict=True)
    }


def tally_turns(run: EvaluationDirectory) -> Tally:
    """Return the metrics of all recorded turns."""
    tally = Tally([agent.name for agent in run.configuration.agents])
    for job in run.jobs():
        if records := run.lines(job):
            tally.add(job, records)
    return tally


def summarize(run: EvaluationDirectory, tally: Tally, errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of summary.json; the same turns give the same bytes."""
    overall = measures(tally)
    budgets = memory_budgets(run.configuration)
    seed = run.configuration.seed
    for agent in tally.agents:
        counts = tally.statuses[agent]
        last = spread(tally.last_tokens[agent])
        overall[agent]["last_memory_tokens"] = _spread_fields(last)
        for status in TurnStatus:
            overall[agent][status.value] = counts.get(status, 0)
        overall[agent]["fallbacks"] = tally.fallbacks[agent]
        overall[agent]["flagged"] = tally.flagged[agent]
        overall[agent]["claims"] = tally.claims[agent]
        overall[agent]["findings"] = {k.value: tally.findings[agent][k] for k in FindingKind}
        overall[agent]["recall"] = _spread_fields(spread(tally.recalls[agent]))
        overall[agent]["helpful"] = _spread_fields(spread(tally.helpful[agent]))
        for name in METRIC_NAMES:
            if overall[agent][name] is not None:
                overall[agent][name] |= interval_fields(tally, agent, name, seed)
        low, high, count = tally.ranges[agent]
        if count:
            bounds = {"low": round(low / count, 6), "high": round(high / count, 6)}
            overall[agent]["hallucination_range"] = bounds
        overall[agent]["worst_case"] = _worst_case(overall[agent])
        overall[agent]["budget"] = budgets[agent]
    accounts = load_costs(run)
    cost = {"cost": cost_fields(accounts, tally.agents)} if accounts.by_spender else {}
    return {
        "configuration": msgspec.to_builtins(run.configuration),
        "episodes": {"planned": len(run.jobs()), "recorded": len(tally.episodes)},
        "turns": len(tally.turns),
        "errors": dict(errors),
        "agents": overall,
        "domains": {
            domain: measures(tally, indexes) for domain, indexes in tally.turns_by_domain().items()
        },
        "by_turn": by_turn(tally),
        "paired": paired_differences(tally, seed),
        "agreement": tally.agreement.measured(with_length=run.configuration.judging is not None),
        **cost,
    }


#: What a failed turn counts in the worst case.
_WORST = {"outcome": 0.0, "hallucination": 1.0, "drift": 1.0}


def _worst_case(fields: Mapping[str, Any]) -> dict[str, float]:
    """Return the means with each failed turn as the worst possible one."""
    failed = fields[TurnStatus.FAILED.value]
    worst: dict[str, float] = {}
    for name, value in _WORST.items():
        scored = fields[name] or {"mean": 0.0, "count": 0}
        total = scored["mean"] * scored["count"] + value * failed
        if count := scored["count"] + failed:
            worst[name] = round(total / count, 6)
    return worst


def recorded_run(path: Path, configuration: EvaluationConfig) -> RecordedRun:
    """Return what is recorded in a directory, which may not exist yet.

    Raises RunMismatch if the directory contains another configuration.
    """
    run = EvaluationDirectory.find(path, configuration)
    return RecordedRun(turns={}) if run is None else recorded(run)


def recorded(run: EvaluationDirectory) -> RecordedRun:
    """Return what is recorded of a run."""
    turns = {job.name: len(run.lines(job)) for job in run.jobs()}
    return RecordedRun(
        turns=turns,
        cost=load_costs(run).total.known_cost,
        calls=tuple(
            call
            for job in run.jobs()
            for call in cost_file(run, job).read()
            if call.turn <= turns[job.name]
        ),
    )


def read_summary(run: EvaluationDirectory) -> dict[str, Any]:
    """Return the existing summary.json, or an empty mapping if it cannot be read."""
    try:
        summary = msgspec.json.decode((run.path / "summary.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return summary if isinstance(summary, dict) else {}


def gate_measures(summary: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Return the values that gates may refer to."""
    values: dict[str, dict[str, float | None]] = {}
    for agent, metrics in summary["agents"].items():
        values[agent] = {}
        for name in GATE_METRICS:
            value = metrics.get(name)
            values[agent][name] = value["mean"] if isinstance(value, dict) else value
    return values


def record_rows(run: EvaluationDirectory) -> Iterator[dict[str, Any]]:
    """Yield one flat row for each agent and turn, in order of recording."""
    for job in run.jobs():
        for record in run.lines(job):
            yield from episode_rows(job, record)


def episode_rows(job: EpisodeJob, record: TurnRecord) -> Iterator[dict[str, Any]]:
    """Yield one flat row for each agent of a turn."""
    for agent in record.agents:
        numbers = (None if math.isnan(v) else round(v, 6) for v in turn_metrics(agent))
        yield {
            "scenario": job.scenario.id,
            "domain": job.scenario.domain,
            "seed": job.seed,
            "turn": record.turn,
            "topic": record.topic,
            "agent": agent.name,
            "status": agent.status.value,
            **dict(zip(METRIC_NAMES, numbers, strict=True)),
            **_counts(agent),
            "findings": "; ".join(
                f"{finding.kind} of turn {finding.turn}"
                for finding in (*agent.findings, *agent.carried)
            ),
            "fallback": fallback_reason(agent),
            "error": agent.error,
            "flags": "; ".join(agent.flags),
        }


def _counts(agent: AgentRecord) -> dict[str, int | None]:
    """Return S, U, V, O and K of the formulas; None if the turn has no score."""
    if agent.status is not TurnStatus.SCORED:
        counts: tuple[int | None, ...] = (None,) * 5
    else:
        counts = (*agent.counts, *agent.broken, agent.active_constraints)
    return dict(zip(COUNT_FIELDS, counts, strict=True))


def write_records(run: EvaluationDirectory) -> None:
    """Write records.jsonl and records.csv."""
    lines = bytearray()
    table = io.StringIO()
    writer = csv.DictWriter(table, RECORD_FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in record_rows(run):
        lines += msgspec.json.encode(row) + b"\n"
        texts = {name: safe_cell(row[name]) for name in ("fallback", "error")}
        writer.writerow({**row, **texts})
    run.write("records.jsonl", bytes(lines))
    run.write("records.csv", table.getvalue().encode())


def safe_cell(text: str) -> str:
    """Return a text that a spreadsheet does not evaluate."""
    return f"'{text}" if text[:1] in _FORMULA_PREFIXES else text


def compare(first: EvaluationDirectory, second: EvaluationDirectory) -> list[dict[str, Any]]:
    """Return a row for each agent and metric of both evaluations, second minus first."""
    one, other = tally_turns(first), tally_turns(second)
    agents = [agent for agent in one.agents if agent in other.agents]
    if not agents:
        raise InvalidInput(
            "the evaluations have no agent in common: the first has "
            f"{', '.join(one.agents)}, the second {', '.join(other.agents)}"
        )
    first_measures, second_measures = measures(one), measures(other)
    rows: list[dict[str, Any]] = []
    for agent in agents:
        for name in METRIC_NAMES:
            row: dict[str, Any] = {
                "agent": agent,
                "metric": name,
                "first": _mean(first_measures[agent][name]),
                "second": _mean(second_measures[agent][name]),
            }
            difference = paired_difference(
                _common_differences(one, other, agent, name), seed=first.configuration.seed
            )
            if difference is not None:
                row |= _difference_fields(difference)
                row["difference"] = row.pop("mean")
            else:
                row |= {"low": None, "high": None, "p_value": None}
            rows.append(row)
    return _corrected(rows)


def scenario_differences(
    run: EvaluationDirectory, agent: str, versus: str
) -> dict[str, dict[str, list[float]]]:
    """Return the differences of two agents by declared metric and scenario."""
    tally = tally_turns(run)
    for name in (agent, versus):
        if name not in tally.agents:
            raise InvalidInput(f"the run has no agent {name!r}; it has {', '.join(tally.agents)}")
    return {name: _differences(tally, agent, versus, name) for name in DECLARED_METRICS}


def _mean(spread_fields: dict[str, Any] | None) -> float | None:
    return None if spread_fields is None else float(spread_fields["mean"])


def _values_by_turn(tally: Tally, agent: str, metric: str) -> dict[tuple[str, int], float]:
    values = tally.column(agent, metric)
    return {
        (tally.episodes[episode].name, turn): values[index]
        for index, (episode, turn, _) in enumerate(tally.turns)
    }


def _common_differences(
    one: Tally, other: Tally, agent: str, metric: str
) -> dict[str, list[float]]:
    before = _values_by_turn(one, agent, metric)
    differences: dict[str, list[float]] = {}
    for (episode, turn), value in _values_by_turn(other, agent, metric).items():
        difference = value - before.get((episode, turn), math.nan)
        if not math.isnan(difference):
            scenario = episode.rpartition(".")[0]
            differences.setdefault(scenario, []).append(difference)
    return differences


class Agreement:
    """Measures a judge: agreement of votes, and effects of the order and length of answers."""

    def __init__(self) -> None:
        self._claims: list[tuple[str, ...]] = []
        self._constraints: list[tuple[str, ...]] = []
        self._scores: dict[str, list[tuple[float, ...]]] = {name: [] for name in OUTCOME_NAMES}
        self._order_differences: dict[str, list[float]] = {name: [] for name in OUTCOME_NAMES}
        #: Outcome of the longer answer minus that of the shorter one, for pairs of a turn.
        self._length_differences: list[float] = []

    def add_lengths(self, answers: Sequence[tuple[int, float]]) -> None:
        """Add length and outcome of the answers of one turn."""
        for (length, outcome), (other_length, other) in combinations(answers, 2):
            if length != other_length:
                self._length_differences.append(
                    outcome - other if length > other_length else other - outcome
                )

    def add(self, votes: JudgeVotes) -> None:
        """Add the votes on one answer."""
        self._claims += votes.claims
        self._constraints += votes.constraints
        for name in OUTCOME_NAMES:
            for sheets in (votes.scores, votes.reversed_scores):
                self._scores[name].append(tuple(getattr(sheet, name) for sheet in sheets))
            if votes.scores and votes.reversed_scores:
                given, reversed_order = (
                    sum(getattr(sheet, name) for sheet in sheets) / len(sheets)
                    for sheets in (votes.scores, votes.reversed_scores)
                )
                self._order_differences[name].append(given - reversed_order)

    def measured(self, *, with_length: bool = False) -> dict[str, Any]:
        """Return alpha of claims and scores, and the effects of order and length.

        What was not measured is left out.
        """
        fields: dict[str, Any] = {}
        if any(len(unit) > 1 for unit in (*self._claims, *self._scores[OUTCOME_NAMES[0]])):
            fields["alpha"] = {
                "claims": _alpha_fields(nominal_alpha(self._claims), self._claims),
                "constraints": _alpha_fields(nominal_alpha(self._constraints), self._constraints),
                **{
                    name: _alpha_fields(interval_alpha(self._scores[name]), self._scores[name])
                    for name in OUTCOME_NAMES
                },
            }
        if self._order_differences[OUTCOME_NAMES[0]]:
            fields["order"] = {
                name: _order_fields(self._order_differences[name]) for name in OUTCOME_NAMES
            }
        if with_length and (differences := self._length_differences):
            fields["length"] = {
                "pairs": len(differences),
                "mean": round(math.fsum(differences) / len(differences), 6),
                "longer_is_better": sum(value > 0 for value in differences),
                "longer_is_worse": sum(value < 0 for value in differences),
            }
        return fields


def _alpha_fields(value: float | None, units: Sequence[Sequence[object]]) -> dict[str, Any]:
    counted = sum(len(unit) > 1 for unit in units)
    return {"value": None if value is None else round(value, 6), "units": counted}


def _order_fields(differences: Sequence[float]) -> dict[str, Any]:
    absolute = spread([abs(value) for value in differences])
    return {
        "answers": len(differences),
        "mean_absolute": round(absolute.mean, 6) if absolute else None,
        "mean": round(sum(differences) / len(differences), 6),
        "changed": sum(value != 0 for value in differences),
    }
