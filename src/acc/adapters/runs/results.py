"""From the recorded turns of a run to its results: summary, records, tables."""

import csv
import io
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from acc.adapters.runs.run_directory import RunDirectory
from acc.adapters.runs.spending import accounts_of, cost_fields
from acc.adapters.runs.turn_lines import AgentLine, TurnLine
from acc.adapters.runs.votes import Agreement
from acc.domain.metrics import METRIC_NAMES, spread
from acc.domain.statistics import PairedDifference, paired_difference
from acc.domain.value_objects.evaluation import OUTCOME_NAMES, Spread, TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob

GATE_METRICS = (
    *METRIC_NAMES,
    "last_memory_tokens",
    "scored",
    "failed",
    "unscored",
    "fallbacks",
    "flagged",
)
#: Metrics in which agents are compared turn by turn.
PAIRED_METRICS = ("outcome", *OUTCOME_NAMES, "hallucination", "drift", "memory_tokens")
_FIELDS = (
    "scenario",
    "domain",
    "seed",
    "turn",
    "topic",
    "agent",
    "status",
    *METRIC_NAMES,
    "fallback",
    "error",
    "flags",
)


def metrics_of(agent: AgentLine) -> tuple[float, ...]:
    """Return the metrics of a turn in the order of METRIC_NAMES, NaN where there is none."""
    if agent.status is not TurnStatus.SCORED or agent.outcome is None:
        return (math.nan,) * len(METRIC_NAMES)
    scores = [getattr(agent.outcome, name) for name in OUTCOME_NAMES]
    rest = (agent.hallucination, agent.drift, agent.memory_tokens)
    return (agent.outcome.mean, *scores, *(math.nan if v is None else float(v) for v in rest))


def fallback_of(agent: AgentLine) -> str:
    """Return why the rules stood in for a compressor's model in a turn, or nothing."""
    told = agent.trace.get("compressor")
    return str(told.get("fallback", "")) if isinstance(told, dict) else ""


class Tally:
    """The numbers of a run, packed: episodes, turns and metrics an agent."""

    def __init__(self, agents: Sequence[str]) -> None:
        self.agents = tuple(agents)
        self.values = {name: array("d") for name in agents}
        self.statuses: dict[str, dict[str, int]] = {name: {} for name in agents}
        self.last_tokens: dict[str, list[float]] = {name: [] for name in agents}
        self.places: list[tuple[int, int, str]] = []
        self.episodes: list[EpisodeJob] = []
        self.first_errors: dict[str, str] = {}
        #: Turns whose state the rules wrote because a compressor's model could not be used.
        self.fallbacks = dict.fromkeys(agents, 0)
        self.flagged: dict[str, int] = dict.fromkeys(agents, 0)
        self.claims: dict[str, int] = dict.fromkeys(agents, 0)
        self.agreement = Agreement()

    def add(self, job: EpisodeJob, lines: Sequence[TurnLine]) -> None:
        """Take in an episode."""
        episode = len(self.episodes)
        self.episodes.append(job)
        for line in lines:
            self.places.append((episode, line.turn, line.topic))
            for agent in line.agents:
                self.values[agent.name].extend(metrics_of(agent))
                counts = self.statuses[agent.name]
                counts[agent.status] = counts.get(agent.status, 0) + 1
                self.fallbacks[agent.name] += bool(fallback_of(agent))
                self.flagged[agent.name] += bool(agent.flags)
                self.claims[agent.name] += sum(agent.counts)
                if agent.votes is not None:
                    self.agreement.add(agent.votes)
                if agent.error:
                    self.first_errors.setdefault(agent.name, agent.error)
        if lines:
            for agent in lines[-1].agents:
                if agent.memory_tokens is not None:
                    self.last_tokens[agent.name].append(float(agent.memory_tokens))

    def column(self, agent: str, metric: str) -> "array[float]":
        """Return one metric of one agent over all turns, NaN where there is none."""
        return self.values[agent][METRIC_NAMES.index(metric) :: len(METRIC_NAMES)]

    def domains(self) -> tuple[str, ...]:
        """Return the domains in order of appearance."""
        return tuple(dict.fromkeys(job.scenario.domain for job in self.episodes))

    def turns_by_domain(self) -> Mapping[str, list[int]]:
        """Return, for each domain, the places of its turns."""
        found: dict[str, list[int]] = {domain: [] for domain in self.domains()}
        for place, (episode, _, _) in enumerate(self.places):
            found[self.episodes[episode].scenario.domain].append(place)
        return found


def _known(values: Sequence[float], places: Sequence[int] | None = None) -> list[float]:
    chosen = values if places is None else [values[place] for place in places]
    return [value for value in chosen if not math.isnan(value)]


def _spread(found: Spread | None) -> dict[str, float | int] | None:
    if found is None:
        return None
    return {
        "mean": round(found.mean, 6),
        "deviation": round(found.deviation, 6),
        "count": found.count,
    }


def measures(tally: Tally, places: Sequence[int] | None = None) -> dict[str, dict[str, Any]]:
    """Return every metric's mean and spread, agent by agent."""
    return {
        agent: {
            name: _spread(spread(_known(tally.column(agent, name), places)))
            for name in METRIC_NAMES
        }
        for agent in tally.agents
    }


def by_turn(tally: Tally) -> dict[str, Any]:
    """Return the metrics' means turn by turn, and how many of the episodes were under stress."""
    places: dict[int, list[int]] = {}
    topics: dict[int, dict[str, int]] = {}
    for place, (_, turn, topic) in enumerate(tally.places):
        places.setdefault(turn, []).append(place)
        counts = topics.setdefault(turn, {})
        counts[topic] = counts.get(topic, 0) + 1
    turns = sorted(places)
    columns: dict[str, dict[str, list[float | None]]] = {}
    for agent in tally.agents:
        columns[agent] = {}
        for name in METRIC_NAMES:
            column = tally.column(agent, name)
            found = [spread(_known(column, places[turn])) for turn in turns]
            columns[agent][name] = [None if s is None else round(s.mean, 6) for s in found]
    return {"turns": turns, "topics": [topics[turn] for turn in turns], "agents": columns}


def paired(tally: Tally, seed: int) -> list[dict[str, Any]]:
    """Return every agent's difference to every other that comes before it in the run."""
    rows: list[dict[str, Any]] = []
    for number, versus in enumerate(tally.agents):
        for agent in tally.agents[number + 1 :]:
            for name in PAIRED_METRICS:
                found = paired_difference(differences(tally, agent, versus, name), seed=seed)
                if found is not None:
                    rows.append(
                        {"metric": name, "agent": agent, "versus": versus, **_rounded(found)}
                    )
    return rows


def _rounded(found: PairedDifference) -> dict[str, Any]:
    fields = msgspec.to_builtins(found)
    rounded = {k: round(v, 6) if isinstance(v, float) else v for k, v in fields.items()}
    return {**rounded, "clear": found.clear}


def differences(tally: Tally, agent: str, versus: str, metric: str) -> dict[str, list[float]]:
    """Return the differences of two agents on the same turns, episode by episode."""
    one, other = tally.column(agent, metric), tally.column(versus, metric)
    found: dict[str, list[float]] = {job.name: [] for job in tally.episodes}
    for place, (episode, _, _) in enumerate(tally.places):
        difference = one[place] - other[place]
        if not math.isnan(difference):
            found[tally.episodes[episode].name].append(difference)
    return found


def tally_of(run: RunDirectory) -> Tally:
    """Return the numbers of all turns on record."""
    tally = Tally([agent.name for agent in run.configuration.agents])
    for job in run.jobs():
        lines = run.lines(job)
        if lines:
            tally.add(job, lines)
    return tally


def summary_of(run: RunDirectory, tally: Tally, errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the whole summary as plain data; the same run gives the same bytes."""
    overall = measures(tally)
    for agent in tally.agents:
        counts = tally.statuses[agent]
        last = spread(tally.last_tokens[agent])
        overall[agent]["last_memory_tokens"] = _spread(last)
        for status in TurnStatus:
            overall[agent][status.value] = counts.get(status, 0)
        overall[agent]["fallbacks"] = tally.fallbacks[agent]
        overall[agent]["flagged"] = tally.flagged[agent]
        overall[agent]["claims"] = tally.claims[agent]
    wanted = len(run.jobs())
    accounts = accounts_of(run)
    # Where no model was asked there is nothing to tell.
    cost = {"cost": cost_fields(accounts, tally.agents)} if accounts.by_spender else {}
    return {
        "configuration": msgspec.to_builtins(run.configuration),
        "episodes": {"planned": wanted, "recorded": len(tally.episodes)},
        "turns": len(tally.places),
        "errors": dict(errors),
        "agents": overall,
        "domains": {
            domain: measures(tally, places) for domain, places in tally.turns_by_domain().items()
        },
        "by_turn": by_turn(tally),
        "paired": paired(tally, run.configuration.seed),
        "agreement": tally.agreement.measured(),
        **cost,
    }


def fallback_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every agent whose memory had to do without its model."""
    counts = {agent: found.get("fallbacks", 0) for agent, found in summary["agents"].items()}
    return [
        f"{agent}: the rules wrote the memory of {count} turns, for its model could not be used."
        for agent, count in counts.items()
        if count
    ]


def claimless_notes(summary: Mapping[str, Any]) -> list[str]:
    """Return a sentence for every agent in whose answers the judge saw nothing to check."""
    return [
        f"{agent}: the judge found no claim in any of {found['scored']} answers, so that its "
        "hallucination of 0 % says nothing."
        for agent, found in summary["agents"].items()
        if found["scored"] and found.get("claims") == 0
    ]


def last_summary(run: RunDirectory) -> dict[str, Any]:
    """Return the summary that was written last, or nothing where there is none to read."""
    try:
        found = msgspec.json.decode((run.path / "summary.json").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return found if isinstance(found, dict) else {}


def gate_measures(summary: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Return what gates can speak of, as plain numbers."""
    found: dict[str, dict[str, float | None]] = {}
    for agent, metrics in summary["agents"].items():
        found[agent] = {}
        for name in GATE_METRICS:
            value = metrics.get(name)
            found[agent][name] = value["mean"] if isinstance(value, dict) else value
    return found


def record_rows(run: RunDirectory) -> Iterator[dict[str, Any]]:
    """Yield one flat row for each agent and turn, in the run's order."""
    for job in run.jobs():
        for line in run.lines(job):
            for agent in line.agents:
                numbers = (None if math.isnan(v) else round(v, 6) for v in metrics_of(agent))
                yield {
                    "scenario": job.scenario.id,
                    "domain": job.scenario.domain,
                    "seed": job.seed,
                    "turn": line.turn,
                    "topic": line.topic,
                    "agent": agent.name,
                    "status": agent.status.value,
                    **dict(zip(METRIC_NAMES, numbers, strict=True)),
                    "fallback": fallback_of(agent),
                    "error": agent.error,
                    "flags": "; ".join(agent.flags),
                }


def write_records(run: RunDirectory) -> None:
    """Write records.jsonl and records.csv."""
    lines = bytearray()
    table = io.StringIO()
    writer = csv.DictWriter(table, _FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in record_rows(run):
        lines += msgspec.json.encode(row) + b"\n"
        texts = {name: _safe_cell(row[name]) for name in ("fallback", "error")}
        writer.writerow({**row, **texts})
    run.write("records.jsonl", bytes(lines))
    run.write("records.csv", table.getvalue().encode())


def _safe_cell(text: str) -> str:
    # A spreadsheet would run a cell that starts like a formula.
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
