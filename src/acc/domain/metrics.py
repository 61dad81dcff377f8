"""Metrics of the evaluation.

Hallucination of a turn: U / max(1, S + U). Drift of a turn: (V + O) / max(1, |K|); it is not
defined in turn 1.
"""

import math
from collections.abc import Iterable, Sequence

from acc.domain.value_objects.evaluation import (
    OUTCOME_NAMES,
    UNCLEAR,
    AgentEvaluationSummary,
    AgentTurnEvaluationRecord,
    DriftAudit,
    HallucinationAudit,
    Spread,
    TurnStatus,
)

METRIC_NAMES = ("outcome", *OUTCOME_NAMES, "hallucination", "drift", "memory_tokens")
#: Metrics for which a lower value is better.
LOWER_IS_BETTER = frozenset({"hallucination", "drift", "memory_tokens"})


def hallucination_rate(audit: HallucinationAudit) -> float:
    """Return the share of unsupported claims."""
    total = audit.supported_claims + audit.unsupported_claims
    return audit.unsupported_claims / max(1, total)


def hallucination_range(audit: HallucinationAudit) -> tuple[float, float]:
    """Return the rate if all unclear claims are supported, and if none is."""
    total = max(1, audit.supported_claims + audit.unsupported_claims)
    unclear = [claim.supported for claim in audit.claims if claim.verdict == UNCLEAR]
    low = audit.unsupported_claims - unclear.count(False)
    return low / total, (audit.unsupported_claims + unclear.count(True)) / total


def claim_recall(audit: HallucinationAudit) -> float | None:
    """Return the share of expected statements that the answer contains, if any are expected."""
    return audit.stated_expectations / audit.expected if audit.expected else None


def drift_rate(audit: DriftAudit) -> float:
    """Return violations and omissions per active constraint."""
    return (audit.violations + audit.omissions) / max(1, audit.active_constraints)


def metric(record: AgentTurnEvaluationRecord, name: str) -> float | None:
    """Return one metric of a record, or None if it is not defined."""
    if record.outcome is None or record.hallucination is None or record.drift is None:
        return None
    if name == "memory_tokens":
        return None if record.memory_tokens is None else float(record.memory_tokens)
    if name == "hallucination":
        return hallucination_rate(record.hallucination)
    if name == "drift":
        return None if record.turn_id == 1 else drift_rate(record.drift)
    return float(record.outcome.mean if name == "outcome" else getattr(record.outcome, name))


def spread(values: Sequence[float]) -> Spread | None:
    """Return mean and sample standard deviation, or None without values."""
    if not values:
        return None
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return Spread(mean=mean, deviation=0.0, count=1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Spread(mean=mean, deviation=math.sqrt(variance), count=len(values))


def summarize(
    agent_name: str, records: Iterable[AgentTurnEvaluationRecord]
) -> AgentEvaluationSummary:
    """Return the summary of an agent; failed and unscored turns are counted, not averaged."""
    own = [record for record in records if record.agent_name == agent_name]
    statuses = [record.status for record in own]
    spreads = {
        name: spread([value for record in own if (value := metric(record, name)) is not None])
        for name in METRIC_NAMES
    }
    tokens = [record.memory_tokens for record in own if record.memory_tokens is not None]
    return AgentEvaluationSummary(
        agent_name=agent_name,
        scored_turns=statuses.count(TurnStatus.SCORED),
        failed_turns=statuses.count(TurnStatus.FAILED),
        unscored_turns=statuses.count(TurnStatus.UNSCORED),
        outcome={name: spreads[name] for name in OUTCOME_NAMES},
        hallucination=spreads["hallucination"],
        drift=spreads["drift"],
        memory_tokens=spreads["memory_tokens"],
        last_memory_tokens=tokens[-1] if tokens else None,
    )
