"""Content of the report page: sentences, table rows and turns, without markup."""

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.adapters.reports.turn_records import AgentRecord, TurnRecord
from acc.application.evaluation.configuration import budget_text
from acc.application.evaluation.results import (
    RATES,
    account_from_fields,
    claimless_notes,
    fallback_notes,
    metric_text,
)
from acc.domain.cost import Account, CostCategory
from acc.domain.value_objects.evaluation import OUTCOME_NAMES, ClaimVerdict, TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob

#: The agent that the page compares with the others.
FOCUS_AGENT = "acc"
METRIC_TITLES = {
    "outcome": "outcome",
    "relevance": "relevance",
    "answer_quality": "answer quality",
    "instruction_following": "instruction following",
    "coherence": "coherence",
    "hallucination": "hallucination",
    "drift": "drift",
    "memory_tokens": "memory tokens",
}
_HEADLINE_METRICS = ("outcome", "hallucination", "drift", "memory_tokens")
_LOWER_IS_BETTER = frozenset({"hallucination", "drift", "memory_tokens"})
_STATUSES = ("scored", "failed", "unscored")
_NO_VALUE = "no value"
_AGENT_KINDS = {
    "transcript": "replays the newest turns of the transcript",
    "full": "replays the whole transcript as messages",
    "last-n": "replays the newest messages",
    "retrieval": "retrieves messages that match the query",
    "bm25": "retrieves messages by BM25 over words",
    "summary": "rewrites a running summary after each turn",
    "acc": "maintains a compressed cognitive state",
    "oracle": "the ceiling: it reads the judge's memory; not a competitor",
}
MAX_WORST_TURNS = 10
_DIGEST_LENGTH_SHOWN = 12
# Characters that could end a script element or a JavaScript line.
_SCRIPT_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Paired difference: `agent` minus `versus` on the same turns, averaged by scenario."""

    metric: str
    agent: str
    versus: str
    mean: float
    low: float | None
    high: float | None
    clear: bool
    pairs: int
    scenarios: int
    method: str
    declared: bool
    p_value: float | None = None
    corrected_p: float | None = None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Return "better", "worse", "no clear difference" or "not tested" for `agent`.

        Parts of a declared measure are not tested, whatever their interval is.
        """
        if self.low is None or not (self.declared or self.metric == "memory_tokens"):
            return "not tested"
        if not self.is_clear:
            return "no clear difference"
        return "better" if (self.mean < 0) == (self.metric in _LOWER_IS_BETTER) else "worse"

    @property
    def is_clear(self) -> bool:
        """Return True for a corrected finding, and for a size whose interval excludes zero.

        Sizes are not declared measures, so they are not tested together with these.
        """
        if self.metric != "memory_tokens" or self.low is None or self.high is None:
            return self.clear
        return self.low > 0 or self.high < 0

    def swapped(self) -> "Difference":
        """Return the same difference from the other agent's side."""
        return replace(
            self,
            agent=self.versus,
            versus=self.agent,
            mean=-self.mean,
            low=None if self.high is None else -self.high,
            high=None if self.low is None else -self.low,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The focus agent against one other: texts per verdict, and metrics without a comparison.

    `untested` are differences without an interval, which allow no claim about other scenarios.
    """

    versus: str
    is_ceiling: bool
    better: tuple[str, ...]
    worse: tuple[str, ...]
    unclear: tuple[str, ...]
    untested: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Loss:
    """A metric in which the focus agent's mean is worse, overall or in some domains."""

    metric: str
    versus: str
    overall: tuple[float, float] | None = None
    is_worse: bool = False
    is_clear: bool = False
    domains: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTurn:
    """A turn in which the focus agent scored below the best of its competitors."""

    loss: float
    job: EpisodeJob
    turn: int
    topic: str
    versus: str
    score: float
    best: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """Cost of one agent, compressor or judge; `agent` is empty for the judge."""

    category: CostCategory
    agent: str
    account: Account


def format_metric(metric: str, value: float | None) -> str:
    """Return the value of a metric as text."""
    return metric_text(metric, value, missing=_NO_VALUE)


def format_difference(metric: str, value: float) -> str:
    """Return a difference with its sign; differences of rates are percentage points."""
    text = f"{100 * abs(value):.1f}" if metric in RATES else format_metric(metric, abs(value))
    if not re.search(r"[1-9]", text):
        return text
    return ("+" if value > 0 else "\N{MINUS SIGN}") + text


def format_pair(metric: str, pair: tuple[float, float]) -> tuple[str, str]:
    """Return two values with enough digits to show that they differ."""
    first, second = (format_metric(metric, value) for value in pair)
    if first != second:
        return first, second
    if metric in RATES:
        return f"{100 * pair[0]:.4f} %", f"{100 * pair[1]:.4f} %"
    return f"{pair[0]:.4f}", f"{pair[1]:.4f}"


def difference_unit(metric: str) -> str:
    """Return the unit of a difference."""
    if metric in RATES:
        return "percentage points"
    return "tokens" if metric == "memory_tokens" else "points of 10"


def join_words(words: Sequence[str]) -> str:
    """Return words as an English enumeration."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def focus_agent(summary: Mapping[str, Any]) -> str | None:
    """Return the agent that the page focuses on, or None if it did not take part."""
    return FOCUS_AGENT if FOCUS_AGENT in summary["agents"] else None


def ceiling_agents(summary: Mapping[str, Any]) -> frozenset[str]:
    """Return the agents that read the judge's memory and therefore do not compete."""
    agents = summary["configuration"]["agents"]
    return frozenset(agent["name"] for agent in agents if agent["kind"] == "oracle")


def list_differences(summary: Mapping[str, Any]) -> list[Difference]:
    """Return all paired differences, those with the focus agent from its side."""
    focus = focus_agent(summary)
    rows = [Difference(**row) for row in summary["paired"]]
    return [row.swapped() if row.versus == focus else row for row in rows]


def list_comparisons(summary: Mapping[str, Any]) -> list[Comparison]:
    """Return the comparison of the focus agent with every other agent, ceilings last."""
    focus = focus_agent(summary)
    rows = [row for row in list_differences(summary) if row.agent == focus]
    ceilings = ceiling_agents(summary)
    comparisons = []
    for versus in (name for name in summary["agents"] if name != focus):
        by_metric = {row.metric: row for row in rows if row.versus == versus}
        texts: defaultdict[str, list[str]] = defaultdict(list)
        for metric in _HEADLINE_METRICS:
            if row := by_metric.get(metric):
                unit = f" {difference_unit(metric)}" if metric in RATES else ""
                note = f" ({format_difference(metric, row.mean)}{unit}{_interval_text(row)})"
                is_shown = row.is_clear or row.low is None
                texts[row.verdict].append(f"{METRIC_TITLES[metric]}{note if is_shown else ''}")
        comparisons.append(
            Comparison(
                versus=versus,
                is_ceiling=versus in ceilings,
                better=tuple(texts["better"]),
                worse=tuple(texts["worse"]),
                unclear=tuple(texts["no clear difference"]),
                untested=tuple(texts["not tested"]),
                missing=tuple(METRIC_TITLES[m] for m in _HEADLINE_METRICS if m not in by_metric),
            )
        )
    return sorted(comparisons, key=lambda comparison: comparison.is_ceiling)


def _interval_text(row: Difference) -> str:
    if row.low is None or row.high is None:
        return ""
    low, high = (format_difference(row.metric, end) for end in (row.low, row.high))
    return f", 95 % interval {low} to {high}"


def list_best_means(summary: Mapping[str, Any]) -> list[str]:
    """Return which agents have the best mean of each metric, for pages without a focus agent."""
    ceilings = ceiling_agents(summary)
    sentences = []
    for metric in _HEADLINE_METRICS:
        means = {
            agent: mean
            for agent, measures in summary["agents"].items()
            if agent not in ceilings and (mean := _mean(measures, metric)) is not None
        }
        if means:
            lower = metric in _LOWER_IS_BETTER
            best = (min if lower else max)(means.values())
            agents = join_words([agent for agent, mean in means.items() if mean == best])
            title = f"{'lowest' if lower else 'highest'} {METRIC_TITLES[metric]}"
            sentences.append(f"{title}: {agents} ({format_metric(metric, best)})")
    return sentences


def list_warnings(summary: Mapping[str, Any]) -> list[str]:
    """Return what is missing or failed, and therefore limits the results."""
    episodes = summary["episodes"]
    warnings = []
    if episodes["recorded"] < episodes["planned"]:
        warnings.append(f"{episodes['recorded']} of {episodes['planned']} episodes are recorded.")
    warnings += [f"Episode {name} was aborted: {e}" for name, e in summary["errors"].items()]
    warnings += [
        f"Gate failed: {gate['gate']} ({gate['explanation']})"
        for gate in summary.get("gates", ())
        if gate["failed"]
    ]
    warnings += [*fallback_notes(summary), *claimless_notes(summary)]
    for agent, measures in summary["agents"].items():
        turns = sum(measures[status] for status in _STATUSES)
        if measures["unscored"]:
            warnings.append(
                f"{measures['unscored']} of {turns} turns of {agent} could not be scored by the "
                "judge; means, differences and gates do not include them."
            )
        if measures.get("flagged"):
            warnings.append(
                f"{measures['flagged']} of {turns} answers of {agent} try to influence the judge."
            )
    return warnings


def result_rows(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the means, their intervals over scenarios and turn counts of every agent."""
    rows = []
    for agent, measures in summary["agents"].items():
        cells = []
        for name in (*METRIC_TITLES, "last_memory_tokens"):
            spread = measures[name]
            if spread is not None:
                cells.append((format_metric(name, spread["mean"]), _ends(name, spread)))
            elif measures["last_memory_tokens"] is not None:
                cells.append((_NO_VALUE, ""))  # tokens are reported, but no turn is scored
            else:
                cells.append((format_metric(name, None), ""))
        counts = [(status, measures[status]) for status in _STATUSES]
        shares = [
            f"{100 * share['mean']:.1f} %" if (share := measures.get(key)) else _NO_VALUE
            for key in ("recall", "helpful")
        ]
        budget = measures.get("budget")
        rows.append(
            {
                "agent": agent,
                "budget": budget_text(budget) if budget else _NO_VALUE,
                "cells": cells,
                "shares": shares,
                "counts": counts,
            }
        )
    return rows


def _ends(metric: str, spread: Mapping[str, Any]) -> str:
    if spread.get("low") is None:
        return ""
    return " to ".join(format_metric(metric, spread[end]) for end in ("low", "high"))


def find_losses(summary: Mapping[str, Any], focus: str) -> list[Loss]:
    """Return every metric and opponent for which the focus agent's mean is worse."""
    clear = {
        (row.metric, row.versus)
        for row in list_differences(summary)
        if row.agent == focus and row.verdict == "worse"
    }
    losses: list[Loss] = []
    for versus in summary["agents"]:
        for metric in METRIC_TITLES:
            loss = Loss(metric=metric, versus=versus, is_clear=(metric, versus) in clear)
            loss.overall = _mean_pair(summary["agents"], metric, focus, versus)
            loss.is_worse = _is_worse(metric, loss.overall)
            for domain, agents in summary["domains"].items():
                pair = _mean_pair(agents, metric, focus, versus)
                if pair is not None and _is_worse(metric, pair):
                    loss.domains[domain] = pair
            if loss.is_worse or loss.domains:
                losses.append(loss)
    return losses


def _mean(measures: Mapping[str, Any], metric: str) -> float | None:
    spread = measures.get(metric)
    return None if spread is None else float(spread["mean"])


def _mean_pair(
    agents: Mapping[str, Any], metric: str, focus: str, versus: str
) -> tuple[float, float] | None:
    first, second = _mean(agents[focus], metric), _mean(agents[versus], metric)
    return None if first is None or second is None else (first, second)


def _is_worse(metric: str, pair: tuple[float, float] | None) -> bool:
    if pair is None:
        return False
    return pair[0] > pair[1] if metric in _LOWER_IS_BETTER else pair[0] < pair[1]


def cost_rows(summary: Mapping[str, Any]) -> list[CostRow]:
    """Return the costs per agent, compressor and judge; empty if no model was called."""
    return [
        CostRow(
            category=CostCategory(row["category"]),
            agent=row["agent"],
            account=account_from_fields(row),
        )
        for row in summary.get("cost", {}).get("spent", ())
    ]


def unmetered(summary: Mapping[str, Any]) -> list[str]:
    """Return the agents, and "the judge", whose own model calls cannot be observed."""
    configuration = summary["configuration"]
    metered = {row.agent for row in cost_rows(summary)}
    names = [
        agent["name"]
        for agent in configuration["agents"]
        if agent["kind"].startswith(("a2a:", "python:")) and agent["name"] not in metered
    ]
    if configuration.get("judge", "").startswith("python:") and not configuration.get("judging"):
        names.append("the judge")
    return names


def own_agents(summary: Mapping[str, Any]) -> list[str]:
    """Return the agents that are the user's own code."""
    agents = summary["configuration"]["agents"]
    return [agent["name"] for agent in agents if agent["kind"].startswith("python:")]


def agent_descriptions(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return what each agent is, with its token budget."""
    descriptions: dict[str, str] = {}
    for agent in summary["configuration"]["agents"]:
        budget = summary["agents"][agent["name"]].get("budget")
        memory = (budget or {}).get("memory") or agent["kind"]
        text = _AGENT_KINDS.get(memory, memory)
        if budget and budget["memory"]:
            unit = " tokens" if budget["tokens"] is not None else ""
            text += f"; token budget: {budget_text(budget)}{unit}"
        descriptions[agent["name"]] = text
    return descriptions


def configuration_facts(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of the evaluation other than its agents and scenarios."""
    configuration = summary["configuration"]
    episodes, turns = summary["episodes"], configuration["turns"]
    judging = configuration.get("judging") or {}
    options = "".join(f", {name} {value}" for name, value in judging.items())
    return {
        "Episodes": f"{configuration['episodes']:,} of each scenario; {episodes['recorded']:,} of "
        f"{episodes['planned']:,} recorded",
        "Turns": f"{summary['turns']:,} in total; "
        + (f"the first {turns} of each episode" if turns else "every turn of each scenario"),
        "First seed": str(configuration["seed"]),
        "Window": f"{configuration['window']:,} tokens for a transcript without its own budget",
        "Budget": f"{configuration['budget']:,} tokens for acc, last-n, bm25 and summary",
        "Judge": f"{configuration['judge']}, blinded: it reads the answers under letters that are "
        f"shuffled in each turn, without agent names or traces{options}",
        "Version": f"acc {configuration['version']}",
    }


def scenario_rows(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return id, domain, language and short digest of each scenario."""
    return [
        {
            "id": scenario["id"],
            "domain": scenario["domain"].replace("_", " "),
            "language": scenario["language"],
            "digest": scenario["digest"][:_DIGEST_LENGTH_SHOWN],
        }
        for scenario in summary["configuration"]["scenarios"]
    ]


def select_episodes(jobs: Sequence[EpisodeJob], count: int) -> list[EpisodeJob]:
    """Return `count` episodes in order, taken evenly from all scenarios."""
    rounds: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for index, job in enumerate(jobs):
        rounds[job.scenario.id] = rounds.get(job.scenario.id, 0) + 1
        ranked.append((rounds[job.scenario.id], index))
    chosen = sorted(index for _, index in sorted(ranked)[: max(0, count)])
    return [jobs[index] for index in chosen]


def find_worst_turns(
    episodes: Iterable[tuple[EpisodeJob, Sequence[TurnRecord]]],
    focus: str,
    ceilings: frozenset[str],
) -> list[WorstTurn]:
    """Return the turns in which the focus agent is furthest below its best competitor.

    A turn of a scenario is listed once, with the seed of the largest loss.
    """
    largest: dict[tuple[str, int], WorstTurn] = {}
    for worst in _losing_turns(episodes, focus, ceilings):
        key = (worst.job.scenario.id, worst.turn)
        if key not in largest or worst.loss > largest[key].loss:
            largest[key] = worst
    return heapq.nlargest(MAX_WORST_TURNS, largest.values(), key=lambda worst: worst.loss)


def _losing_turns(
    episodes: Iterable[tuple[EpisodeJob, Sequence[TurnRecord]]],
    focus: str,
    ceilings: frozenset[str],
) -> Iterator[WorstTurn]:
    for job, records in episodes:
        for record in records:
            scores = {agent.name: agent.outcome.mean for agent in record.agents if agent.outcome}
            others = {n: s for n, s in scores.items() if n != focus and n not in ceilings}
            if focus not in scores or not others:
                continue
            versus = max(others, key=lambda name: others[name])
            if others[versus] > scores[focus]:
                yield WorstTurn(
                    loss=others[versus] - scores[focus],
                    job=job,
                    turn=record.turn,
                    topic=record.topic,
                    versus=versus,
                    score=scores[focus],
                    best=others[versus],
                )


def browser_data(
    run: EvaluationDirectory, slots: Mapping[str, int], jobs: Sequence[EpisodeJob]
) -> dict[str, Any]:
    """Return the data of the turn browser."""
    kinds = {agent.name: agent.kind for agent in run.configuration.agents}
    return {
        "agents": [{"name": n, "slot": slot, "kind": kinds[n]} for n, slot in slots.items()],
        "episodes": [_episode_data(job, run.lines(job)) for job in jobs],
    }


def json_for_script(data: object) -> str:
    """Return JSON that is safe inside a script element."""
    return msgspec.json.encode(data).decode().translate(_SCRIPT_ESCAPES)


def _episode_data(job: EpisodeJob, records: Sequence[TurnRecord]) -> dict[str, Any]:
    return {
        "name": job.name,
        "scenario": job.scenario.id,
        "language": job.scenario.language,
        "turns": [_turn_data(record) for record in records],
    }


def _turn_data(record: TurnRecord) -> dict[str, Any]:
    return _without_empty(
        {
            "turn": record.turn,
            "topic": record.topic,
            "query": record.query,
            "injected": record.injected,
            "agents": [_agent_data(agent) for agent in record.agents],
        }
    )


def _agent_data(agent: AgentRecord) -> dict[str, Any]:
    outcome = agent.outcome
    return _without_empty(
        {
            "name": agent.name,
            "status": "" if agent.status is TurnStatus.SCORED else agent.status.value,
            "answer": agent.answer,
            "error": agent.error,
            "memory": agent.memory_tokens,
            "scores": [round(getattr(outcome, name), 2) for name in OUTCOME_NAMES]
            if outcome
            else None,
            "outcome": round(outcome.mean, 2) if outcome else None,
            "hallucination": _round_rate(agent.hallucination),
            "drift": _round_rate(agent.drift),
            "claims": [_claim_data(claim) for claim in agent.claims],
            "counts": agent.counts if any(agent.counts) else None,
            "rules": agent.active_constraints or None,
            "broken": agent.broken if any(agent.broken) else None,
            "findings": [[f.constraint, int(f.omission), f.reason] for f in agent.findings],
            "trace": agent.trace,
            "flags": list(agent.flags),
        }
    )


def _claim_data(claim: ClaimVerdict) -> list[object]:
    reason = claim.reason
    if not claim.supported and claim.verdict:
        reason = f"{claim.verdict}: {reason}" if reason else claim.verdict
    data: list[object] = [claim.claim, int(claim.supported), reason]
    # Without evidence the page states that the evidence has the same words as the claim.
    return data if claim.evidence == claim.claim else [*data, claim.evidence]


def _round_rate(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    # Compares explicitly, because 0 tokens and a rate of 0 are values.
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
