"""One evaluated turn as one line of JSON, and back.

A record contains no timestamps or durations, so the same seed produces the same bytes.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from acc.domain.metrics import drift_rate, hallucination_range, hallucination_rate
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


class AgentRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of one agent in a turn, and its scores."""

    name: str
    status: TurnStatus
    answer: str = ""
    error: str = ""
    memory_tokens: int | None = None
    outcome: OutcomeScores | None = None
    hallucination: float | None = None
    #: The rate if all unclear claims are supported, and if none is.
    hallucination_range: tuple[float, float] | None = None
    #: Expected statements in the answer, and all expected statements.
    expectations: tuple[int, int] = (0, 0)
    drift: float | None = None
    claims: tuple[ClaimVerdict, ...] = ()
    counts: tuple[int, int] = (0, 0)
    active_constraints: int = 0
    broken: tuple[int, int] = (0, 0)
    findings: tuple[ConstraintFinding, ...] = ()
    #: What the answer carries over: lifted rules, planted phrases, obeyed text.
    carried: tuple[ConstraintFinding, ...] = ()
    trace: dict[str, Any] = {}
    flags: tuple[str, ...] = ()
    votes: JudgeVotes | None = None


class TurnRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One turn of an episode."""

    turn: int
    topic: str
    query: str
    agents: tuple[AgentRecord, ...]
    injected: str = ""
    canonical_changes: tuple[dict[str, Any], ...] = ()


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(TurnRecord)


def encode_turn(record: TurnRecord) -> bytes:
    """Return a record as one line of JSON, including the line feed."""
    try:
        return _ENCODER.encode(record) + b"\n"
    except UnicodeEncodeError:
        # JSON cannot represent unpaired surrogates.
        return _ENCODER.encode(_encodable(msgspec.to_builtins(record))) + b"\n"


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(item) for item in value]
    return value


def decode_turn(data: bytes) -> TurnRecord:
    """Return the record in a line, or raise msgspec.DecodeError."""
    return _DECODER.decode(data)


def record_from_result(
    result: TurnResult, turn: ScenarioTurn | None, previous_memory: Mapping[str, object]
) -> TurnRecord:
    """Return the record of a turn; the canonical memory is stored as a difference."""
    records = {record.agent_name: record for record in result.records}
    return TurnRecord(
        turn=result.query.turn_id,
        topic=turn.topic.value if turn else "",
        query=result.query.query,
        injected=turn.injected if turn else "",
        agents=tuple(_agent_record(r, records[r.agent_name]) for r in result.responses),
        canonical_changes=tuple(diff_mappings(previous_memory, result.canonical_memory)),
    )


def _agent_record(response: AgentTurnResponse, record: AgentTurnEvaluationRecord) -> AgentRecord:
    hallucination, drift = record.hallucination, record.drift
    return AgentRecord(
        name=response.agent_name,
        status=record.status,
        answer=response.response_text,
        error=record.error,
        memory_tokens=response.memory_tokens,
        outcome=record.outcome,
        hallucination=hallucination_rate(hallucination) if hallucination else None,
        hallucination_range=hallucination_range(hallucination) if hallucination else None,
        expectations=(hallucination.stated_expectations, hallucination.expected)
        if hallucination
        else (0, 0),
        drift=drift_rate(drift) if drift and record.turn_id > 1 else None,
        claims=hallucination.claims if hallucination else (),
        counts=(hallucination.supported_claims, hallucination.unsupported_claims)
        if hallucination
        else (0, 0),
        active_constraints=drift.active_constraints if drift else 0,
        broken=(drift.violations, drift.omissions) if drift else (0, 0),
        findings=drift.findings if drift else (),
        carried=drift.carried if drift else (),
        trace=dict(response.trace),
        flags=record.flags,
        votes=record.votes,
    )


def result_from_record(record: TurnRecord, previous_memory: Mapping[str, object]) -> TurnResult:
    """Return the turn of a record, given the canonical memory of the previous turn."""
    return TurnResult(
        query=EvaluationTurnQuery(turn_id=record.turn, query=record.query),
        responses=tuple(
            AgentTurnResponse(
                agent_name=agent.name,
                response_text=agent.answer,
                memory_tokens=agent.memory_tokens,
                trace=agent.trace,
                error=agent.error if agent.status is TurnStatus.FAILED else "",
            )
            for agent in record.agents
        ),
        records=tuple(evaluation_record(record.turn, agent) for agent in record.agents),
        canonical_memory=apply_changes(previous_memory, record.canonical_changes),
    )


def evaluation_record(turn_id: int, agent: AgentRecord) -> AgentTurnEvaluationRecord:
    """Return the evaluation of one agent in a recorded turn."""
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
            expected=agent.expectations[1],
            stated_expectations=agent.expectations[0],
        )
        if scored
        else None,
        drift=DriftAudit(
            active_constraints=agent.active_constraints,
            violations=agent.broken[0],
            omissions=agent.broken[1],
            findings=agent.findings,
            carried=agent.carried,
        )
        if scored
        else None,
        memory_tokens=agent.memory_tokens,
        error=agent.error,
        flags=agent.flags,
        votes=agent.votes,
    )


def diff_mappings(
    before: Mapping[str, object], after: Mapping[str, object], path: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """Return the changes that turn one mapping into the other, including its key order.

    A change names the path of a key in `at`, and either its new value in `set`, `gone` if the key
    is removed, or `last` if the key moves to the end of its mapping.
    """
    edits: list[dict[str, Any]] = [
        {"at": [*path, key], "gone": True} for key in before if key not in after
    ]
    for key, value in after.items():
        old = before.get(key)
        if key in before and isinstance(old, Mapping) and isinstance(value, Mapping):
            edits += diff_mappings(old, value, (*path, key))
        elif key not in before or not _is_same_json(old, value):
            edits.append({"at": [*path, key], "set": value})
    return edits + _reorder(before, after, path)


def _is_same_json(old: object, value: object) -> bool:
    """Return True if two values are the same JSON; `==` does not tell 0 from false or 0.0."""
    if old is value:
        return True
    if old != value or type(old) is not type(value):
        return False
    return not isinstance(value, list | tuple) or json.dumps(old) == json.dumps(value)


def _reorder(
    before: Mapping[str, object], after: Mapping[str, object], path: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Return the moves to the end that give the keys the order of `after`."""
    wanted = list(after)
    position = 0
    for key in [key for key in before if key in after]:
        if key == wanted[position]:
            position += 1
    new = [key for key in wanted if key not in before]
    rest = wanted[position:]
    return [] if rest == new else [{"at": [*path, key], "last": True} for key in rest]


def apply_changes(
    before: Mapping[str, object], edits: tuple[dict[str, Any], ...] | list[dict[str, Any]]
) -> dict[str, object]:
    """Return the mapping after the changes; unchanged values are shared with `before`."""
    after: dict[str, Any] = dict(before)
    for edit in edits:
        *parents, last = edit["at"]
        mapping = after
        for key in parents:
            mapping[key] = dict(mapping[key])
            mapping = mapping[key]
        if edit.get("gone"):
            del mapping[last]
        elif edit.get("last"):
            mapping[last] = mapping.pop(last)
        else:
            mapping[last] = edit["set"]
    return after
