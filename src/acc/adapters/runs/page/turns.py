"""What the page holds of single turns: whole episodes to open, and the focus's worst turns."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from acc.adapters.runs.run_directory import RunDirectory
from acc.adapters.runs.turn_lines import AgentLine, TurnLine
from acc.domain.value_objects.evaluation import OUTCOME_NAMES, ClaimVerdict, TurnStatus
from acc.domain.value_objects.evaluation_run import EpisodeJob

WORST = 10
_ESCAPES = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTurn:
    """A turn in which the focus lost most to the best of its competitors."""

    loss: float
    job: EpisodeJob
    turn: int
    topic: str
    versus: str
    score: float
    best: float


def shown_jobs(jobs: Sequence[EpisodeJob], detail: int) -> list[EpisodeJob]:
    """Return the episodes to open turn by turn: of each scenario one, then another, in turns."""
    rounds: dict[str, int] = {}
    ranked: list[tuple[int, int]] = []
    for place, job in enumerate(jobs):
        rounds[job.scenario.id] = rounds.get(job.scenario.id, 0) + 1
        ranked.append((rounds[job.scenario.id], place))
    chosen = sorted(place for _, place in sorted(ranked)[: max(0, detail)])
    return [jobs[place] for place in chosen]


def worst_turns(
    recorded: Iterable[tuple[EpisodeJob, Sequence[TurnLine]]], focus: str, apart: frozenset[str]
) -> list[WorstTurn]:
    """Return the turns where the focus is furthest below the best of the others but `apart`."""
    found = (
        worst
        for job, lines in recorded
        for line in lines
        if (worst := _loss(job, line, focus, apart)) is not None
    )
    return heapq.nlargest(WORST, found, key=lambda worst: worst.loss)


def _loss(job: EpisodeJob, line: TurnLine, focus: str, apart: frozenset[str]) -> WorstTurn | None:
    scores = {agent.name: agent.outcome.mean for agent in line.agents if agent.outcome}
    others = {name: s for name, s in scores.items() if name != focus and name not in apart}
    if focus not in scores or not others:
        return None
    versus = max(others, key=lambda name: others[name])
    loss = others[versus] - scores[focus]
    if loss <= 0:
        return None
    return WorstTurn(
        loss=loss,
        job=job,
        turn=line.turn,
        topic=line.topic,
        versus=versus,
        score=scores[focus],
        best=others[versus],
    )


def browser_data(
    run: RunDirectory,
    slots: Mapping[str, int],
    jobs: Sequence[EpisodeJob],
    extra: Sequence[WorstTurn],
) -> dict[str, Any]:
    """Return what the turn browser reads: the chosen episodes, and single turns of others."""
    kinds = {agent.name: agent.kind for agent in run.configuration.agents}
    episodes = [_episode(job, run.lines(job)) for job in jobs]
    whole = {job.name for job in jobs}
    for job in dict.fromkeys(worst.job for worst in extra if worst.job.name not in whole):
        wanted = {worst.turn for worst in extra if worst.job == job}
        lines = run.lines(job)
        # The turn before is there for its memory: what changed is seen against it.
        near = [line for line in lines if line.turn in wanted or line.turn + 1 in wanted]
        episodes.append({**_episode(job, near), "of": len(lines)})
    return {
        "agents": [{"name": n, "slot": slot, "kind": kinds[n]} for n, slot in slots.items()],
        "episodes": episodes,
    }


def embedded(data: object) -> str:
    """Return data as JSON that cannot end the script element it stands in."""
    text = msgspec.json.encode(data).decode()
    return text.translate(_ESCAPES)


def _episode(job: EpisodeJob, lines: Sequence[TurnLine]) -> dict[str, Any]:
    return {
        "name": job.name,
        "scenario": job.scenario.id,
        "language": job.scenario.language,
        "turns": [_turn(line) for line in lines],
    }


def _turn(line: TurnLine) -> dict[str, Any]:
    return _without_empty(
        {
            "turn": line.turn,
            "topic": line.topic,
            "query": line.query,
            "injected": line.injected,
            "agents": [_agent(agent) for agent in line.agents],
        }
    )


def _agent(agent: AgentLine) -> dict[str, Any]:
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
            "hallucination": _rounded(agent.hallucination),
            "drift": _rounded(agent.drift),
            "claims": [
                [claim.claim, int(claim.supported), _reason(claim), claim.evidence]
                if claim.evidence != claim.claim
                else [claim.claim, int(claim.supported), _reason(claim)]
                for claim in agent.claims
            ],
            "counts": agent.counts if any(agent.counts) else None,
            "rules": agent.active_constraints or None,
            "broken": agent.broken if any(agent.broken) else None,
            "findings": [[f.constraint, int(f.omission), f.reason] for f in agent.findings],
            "trace": agent.trace,
            "flags": list(agent.flags),
        }
    )


def _reason(claim: ClaimVerdict) -> str:
    if claim.supported or not claim.verdict:
        return claim.reason
    return f"{claim.verdict}: {claim.reason}" if claim.reason else claim.verdict


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    # Not by truth: a memory of 0 tokens and a rate of 0 are values.
    return {key: value for key, value in values.items() if value not in (None, "", [], {})}
