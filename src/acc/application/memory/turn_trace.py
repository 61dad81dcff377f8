"""The trace of a memory's turn as JSON data."""

import msgspec

from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Usage
from acc.domain.value_objects.memory import TurnTrace
from acc.domain.value_objects.reading import Act

_MAX_TRACED_LENGTH = 300
_MAX_TRACED_REJECTIONS = 12


def trace_data(trace: TurnTrace, ccs: str) -> dict[str, object]:
    """Return a trace as JSON data, for events, records and reports."""
    data: dict[str, object] = {
        "ccs": ccs,
        "read": [
            {"text": r.text, "act": r.act.value, "confidence": round(r.confidence, 3)}
            for r in trace.readings
            if r.act is not Act.OTHER
        ],
        "recalled": [match.passage.id for match in trace.recalled],
        "qualified": [{"id": p.id, "text": p.text[:_MAX_TRACED_LENGTH]} for p in trace.qualified],
        "rejected": [
            {
                "id": rejection.passage.id,
                "text": rejection.passage.text[:_MAX_TRACED_LENGTH],
                "reason": rejection.reason.value,
                "explanation": rejection.explanation,
            }
            for rejection in trace.rejected[:_MAX_TRACED_REJECTIONS]
        ],
        "dropped": list(trace.dropped),
        "notes": list(trace.notes),
    }
    if trace.usage.llm_calls:
        # Without the cost, which is 0 if the same response comes from a cache.
        usage: Usage = replace(trace.usage, cost=None, priced_calls=0)
        data["compressor"] = {"usage": msgspec.to_builtins(usage), "fallback": trace.fallback}
    return data
