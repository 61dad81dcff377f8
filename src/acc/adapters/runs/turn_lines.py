"""One turn as one line of JSON, and back.

A line holds no time and no duration, so that the same seed gives the same bytes.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.domain.metrics import drift_rate, hallucination_rate
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.evaluation import (
    AgentTurnEvaluationRecord,
    ClaimVerdict,
    ConstraintFinding,
    DriftAudit,
    HallucinationAudit,
    JudgeVotes,
    OutcomeScores,
    TurnStatus,
)
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    TurnResult,
)
from acc.domain.value_objects.scenario import ScenarioTurn


class AgentLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One agent's part of a turn."""

    name: str
    status: TurnStatus
    answer: str = ""
    error: str = ""
    memory_tokens: int | None = None
    outcome: OutcomeScores | None = None
    hallucination: float | None = None
    drift: float | None = None
    claims: tuple[ClaimVerdict, ...] = ()
    counts: tuple[int, int] = (0, 0)
    active_constraints: int = 0
    broken: tuple[int, int] = (0, 0)
    findings: tuple[ConstraintFinding, ...] = ()
    trace: dict[str, Any] = {}
    flags: tuple[str, ...] = ()
    votes: JudgeVotes | None = None


class TurnLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A whole turn of an episode."""

    turn: int
    topic: str
    query: str
    agents: tuple[AgentLine, ...]
    injected: str = ""
    canonical_changes: tuple[dict[str, Any], ...] = ()


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(TurnLine)


def encode(line: TurnLine) -> bytes:
    """Return the line, with its end."""
    try:
        return _ENCODER.encode(line) + b"\n"
    except UnicodeEncodeError:
        # Half a surrogate pair cannot be written down; the rest of an answer can.
        return _ENCODER.encode(_writable(msgspec.to_builtins(line))) + b"\n"


def _writable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {_writable(key): _writable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return value


def decode(data: bytes) -> TurnLine:
    """Return the line's content, or raise msgspec.DecodeError."""
    return _DECODER.decode(data)


def line_of(
    result: TurnResult, turn: ScenarioTurn | None, before: Mapping[str, object]
) -> TurnLine:
    """Return a turn's line; of the canonical memory it holds what changed."""
    records = {record.agent_name: record for record in result.records}
    return TurnLine(
        turn=result.query.turn_id,
        topic=turn.topic.value if turn else "",
        query=result.query.query,
        injected=turn.injected if turn else "",
        agents=tuple(_agent_line(r, records[r.agent_name]) for r in result.responses),
        canonical_changes=tuple(changes(before, result.canonical_memory)),
    )


def _agent_line(response: AgentTurnResponse, record: AgentTurnEvaluationRecord) -> AgentLine:
    found, drift = record.hallucination, record.drift
    return AgentLine(
        name=response.agent_name,
        status=record.status,
        answer=response.response_text,
        error=record.error,
        memory_tokens=response.memory_tokens,
        outcome=record.outcome,
        hallucination=hallucination_rate(found) if found else None,
        drift=drift_rate(drift) if drift and record.turn_id > 1 else None,
        claims=found.claims if found else (),
        counts=(found.supported_claims, found.unsupported_claims) if found else (0, 0),
        active_constraints=drift.active_constraints if drift else 0,
        broken=(drift.violations, drift.omissions) if drift else (0, 0),
        findings=drift.findings if drift else (),
        trace=dict(response.trace),
        flags=record.flags,
        votes=record.votes,
    )


def result_of(line: TurnLine, before: Mapping[str, object]) -> TurnResult:
    """Return the turn that a line records, given the canonical memory before it."""
    return TurnResult(
        query=EvaluationTurnQuery(turn_id=line.turn, query=line.query),
        responses=tuple(
            AgentTurnResponse(
                agent_name=agent.name,
                response_text=agent.answer,
                memory_tokens=agent.memory_tokens,
                trace=agent.trace,
                error=agent.error if agent.status is TurnStatus.FAILED else "",
            )
            for agent in line.agents
        ),
        records=tuple(record_of(line.turn, agent) for agent in line.agents),
        canonical_memory=apply(before, line.canonical_changes),
    )


def record_of(turn_id: int, agent: AgentLine) -> AgentTurnEvaluationRecord:
    """Return the evaluation record within a line."""
    scored = agent.status is TurnStatus.SCORED
    return AgentTurnEvaluationRecord(
        agent_name=agent.name,
        turn_id=turn_id,
        status=agent.status,
        outcome=agent.outcome,
        hallucination=HallucinationAudit(
            supported_claims=agent.counts[0],
            unsupported_claims=agent.counts[1],
            claims=agent.claims,
        )
        if scored
        else None,
        drift=DriftAudit(
            active_constraints=agent.active_constraints,
            violations=agent.broken[0],
            omissions=agent.broken[1],
            findings=agent.findings,
        )
        if scored
        else None,
        memory_tokens=agent.memory_tokens,
        error=agent.error,
        flags=agent.flags,
        votes=agent.votes,
    )


def changes(
    before: Mapping[str, object], after: Mapping[str, object], path: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return what turns one mapping into the other, as settings and removals by path."""
    found: list[dict[str, Any]] = [
        {"at": [*path, key], "gone": True} for key in before if key not in after
    ]
    for key, value in after.items():
        old = before.get(key)
        if key in before and old == value:
            continue
        if key in before and isinstance(old, Mapping) and isinstance(value, Mapping):
            found += changes(old, value, (*path, key))
        else:
            found.append({"at": [*path, key], "set": value})
    return found + _moves(before, after, path)


def _moves(
    before: Mapping[str, object], after: Mapping[str, object], path: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the keys that have to go to the end for the order to be the same."""
    wanted = list(after)
    place = 0
    for key in [key for key in before if key in after]:
        if key == wanted[place]:
            place += 1
    new = [key for key in wanted if key not in before]
    rest = wanted[place:]
    return [] if rest == new else [{"at": [*path, key], "last": True} for key in rest]


def apply(
    before: Mapping[str, object], edits: tuple[dict[str, Any], ...] | list[dict[str, Any]]
) -> dict[str, object]:
    """Return the mapping after the changes; what is not changed is shared."""
    after: dict[str, Any] = dict(before)
    for edit in edits:
        *folders, last = edit["at"]
        place = after
        for folder in folders:
            place[folder] = dict(place[folder])
            place = place[folder]
        if edit.get("gone"):
            del place[last]
        elif edit.get("last"):
            place[last] = place.pop(last)
        else:
            place[last] = edit["set"]
    return after
