import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.domain.metrics import (
    METRIC_NAMES,
    drift_rate,
    hallucination_rate,
    metric,
    spread,
    summarize,
)
from acc.domain.value_objects.evaluation import (
    OUTCOME_NAMES,
    AgentTurnEvaluationRecord,
    DriftAudit,
    HallucinationAudit,
    OutcomeScores,
    TurnStatus,
)

counts = st.integers(min_value=0, max_value=50)
scores = st.floats(min_value=0, max_value=10)


@st.composite
def records(draw: st.DrawFn) -> AgentTurnEvaluationRecord:
    status = draw(st.sampled_from(TurnStatus))
    name, turn = draw(st.sampled_from(["acc", "oracle"])), draw(st.integers(1, 50))
    tokens = draw(st.none() | counts)
    if status is not TurnStatus.SCORED:
        return AgentTurnEvaluationRecord(
            agent_name=name, turn_id=turn, status=status, memory_tokens=tokens, error="timed out"
        )
    return AgentTurnEvaluationRecord(
        agent_name=name,
        turn_id=turn,
        outcome=OutcomeScores(**{outcome: draw(scores) for outcome in OUTCOME_NAMES}),
        hallucination=HallucinationAudit(
            supported_claims=draw(counts), unsupported_claims=draw(counts)
        ),
        drift=DriftAudit(
            active_constraints=draw(counts), violations=draw(counts), omissions=draw(counts)
        ),
        memory_tokens=tokens,
    )


def scored(turn_id: int, *, tokens: int | None = None) -> AgentTurnEvaluationRecord:
    return AgentTurnEvaluationRecord(
        agent_name="acc",
        turn_id=turn_id,
        outcome=OutcomeScores(relevance=10, answer_quality=8, instruction_following=6, coherence=4),
        hallucination=HallucinationAudit(supported_claims=3, unsupported_claims=1),
        drift=DriftAudit(active_constraints=4, violations=1, omissions=1),
        memory_tokens=tokens,
    )


@given(counts, counts)
def test_hallucination_is_share_of_unsupported_claims(supported: int, unsupported: int) -> None:
    rate = hallucination_rate(
        HallucinationAudit(supported_claims=supported, unsupported_claims=unsupported)
    )
    assert rate == unsupported / max(1, supported + unsupported)
    assert 0 <= rate <= 1


@given(counts, counts, counts)
def test_drift_is_violations_and_omissions_per_constraint(
    active: int, violations: int, omissions: int
) -> None:
    audit = DriftAudit(active_constraints=active, violations=violations, omissions=omissions)
    assert drift_rate(audit) == (violations + omissions) / max(1, active)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("outcome", 7.0),
        ("relevance", 10.0),
        ("coherence", 4.0),
        ("hallucination", 0.25),
        ("drift", 0.5),
        ("memory_tokens", 90.0),
    ],
)
def test_metric_has_expected_value_for_scored_turn(name: str, expected: float) -> None:
    assert metric(scored(2, tokens=90), name) == expected


def test_drift_is_undefined_in_first_turn() -> None:
    assert metric(scored(1), "drift") is None


def test_memory_is_undefined_if_agent_does_not_report_it() -> None:
    assert metric(scored(2), "memory_tokens") is None


@given(records(), st.sampled_from(METRIC_NAMES))
def test_metric_is_bounded_and_none_for_unscored_turn(
    record: AgentTurnEvaluationRecord, name: str
) -> None:
    value = metric(record, name)
    if record.status is not TurnStatus.SCORED:
        assert value is None
    elif name in ("outcome", *OUTCOME_NAMES):
        assert value is not None
        assert 0 <= value <= 10
    else:
        assert value is None or value >= 0


@given(st.lists(scores, max_size=20))
def test_spread_mean_is_within_values_and_deviation_not_negative(values: list[float]) -> None:
    found = spread(values)
    if not values:
        assert found is None
        return
    assert found is not None
    assert min(values) - 1e-9 <= found.mean <= max(values) + 1e-9
    assert found.deviation >= 0
    assert found.count == len(values)


def test_spread_uses_sample_deviation() -> None:
    found = spread([1.0, 3.0])
    assert found is not None
    assert (found.mean, found.deviation) == (2.0, math.sqrt(2))


@given(st.lists(records(), max_size=12))
def test_summary_averages_scored_turns_and_counts_others(
    everything: list[AgentTurnEvaluationRecord],
) -> None:
    summary = summarize("acc", everything)
    mine = [record for record in everything if record.agent_name == "acc"]
    only_scored = [record for record in mine if record.status is TurnStatus.SCORED]
    assert summary.scored_turns == len(only_scored)
    assert summary.scored_turns + summary.failed_turns + summary.unscored_turns == len(mine)
    alone = summarize("acc", only_scored)
    assert summary.outcome == alone.outcome
    assert summary.hallucination == alone.hallucination
    assert summary.drift == alone.drift
    assert summary.memory_tokens == alone.memory_tokens


def test_empty_summary_has_none_instead_of_zero() -> None:
    summary = summarize("acc", [])
    assert set(summary.outcome.values()) == {None}
    assert (summary.hallucination, summary.drift, summary.memory_tokens) == (None, None, None)
    assert summary.last_memory_tokens is None


def test_last_memory_is_last_reported_value() -> None:
    assert summarize("acc", [scored(1, tokens=5), scored(2, tokens=9)]).last_memory_tokens == 9
