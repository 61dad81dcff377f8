"""Spans of evaluated turns, with the scores of the judge."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from acc.application.tracing import conventions as names
from acc.domain.metrics import METRIC_NAMES, metric
from acc.domain.value_objects.evaluation import AgentTurnEvaluationRecord, TurnStatus
from acc.ports.outbound.tracing_ports import AttributeValue, SpanPort, TracerPort


class EvaluatedTurn:
    """The spans of one turn: one for each agent, from its query to its scores."""

    def __init__(self, spans: dict[str, SpanPort], *, captures_content: bool) -> None:
        self._spans = spans
        self._captures_content = captures_content

    def span_of(self, agent: str) -> SpanPort | None:
        """Return the span of an agent, None if evaluations are not traced."""
        return self._spans.get(agent)

    def add_records(self, records: Sequence[AgentTurnEvaluationRecord]) -> None:
        """Add the scores to the spans and end them."""
        for record in records:
            span = self._spans.pop(record.agent_name, None)
            if span is None:
                continue
            span.set_attributes({names.ACC_EVALUATION_STATUS: record.status.value})
            for name, score, explanation in _scores(record):
                attributes: dict[str, AttributeValue] = {
                    names.GEN_AI_EVALUATION_NAME: name,
                    names.GEN_AI_EVALUATION_SCORE_VALUE: score,
                }
                if explanation and self._captures_content:
                    attributes[names.GEN_AI_EVALUATION_EXPLANATION] = explanation
                span.add_event(names.GEN_AI_EVALUATION_RESULT, attributes)
            if record.status is TurnStatus.UNSCORED:
                span.add_event(names.GEN_AI_EVALUATION_RESULT, {names.ERROR_TYPE: "judge_failed"})
            span.end("agent_failed" if record.status is TurnStatus.FAILED else "")

    def end(self, error: str) -> None:
        """End the spans without scores."""
        for span in self._spans.values():
            span.end(error)
        self._spans.clear()


@contextmanager
def trace_turn(
    tracer: TracerPort | None, agents: Sequence[str], *, turn_id: int
) -> Iterator[EvaluatedTurn]:
    """Start a span for the turn of each agent; those without a record end as canceled."""
    spans: dict[str, SpanPort] = {}
    if tracer is not None:
        for agent in agents:
            attributes: dict[str, AttributeValue] = {
                names.GEN_AI_OPERATION_NAME: names.INVOKE_AGENT,
                names.GEN_AI_AGENT_NAME: agent,
                names.ACC_EVALUATION_TURN: turn_id,
                names.OPENINFERENCE_SPAN_KIND: names.KIND_AGENT,
            }
            spans[agent] = tracer.start_span(f"{names.INVOKE_AGENT} {agent}", attributes=attributes)
    turn = EvaluatedTurn(spans, captures_content=tracer is not None and tracer.captures_content)
    try:
        yield turn
    finally:
        turn.end("canceled")


def _scores(record: AgentTurnEvaluationRecord) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and explanation of each score that is defined."""
    for name in METRIC_NAMES:
        score = metric(record, name)
        if score is None or name == "memory_tokens":
            continue
        reasons: list[str] = []
        if name == "hallucination" and record.hallucination is not None:
            claims = record.hallucination.claims
            reasons = [f"{one.claim}: {one.reason}" for one in claims if not one.supported]
        elif name == "drift" and record.drift is not None:
            reasons = [f"{one.constraint}: {one.reason}" for one in record.drift.findings]
        yield name, score, "\n".join(reasons)
