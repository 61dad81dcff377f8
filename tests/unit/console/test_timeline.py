"""The timeline of a run."""

from typing import Any

from acc.application.console.timeline import SpanKind, build_timeline
from acc.domain.value_objects.approval import InputAnswer, InputRequest, RequestKind
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, Usage
from acc.domain.value_objects.event import Event, EventKind

ASKED = InputRequest(
    id="q", kind=RequestKind.CONFIRMATION, agent="desk", message="?", tool="refund"
)


def event(seq: int, at: float, kind: EventKind, **fields: Any) -> Event:
    return Event(kind=kind, run_id="r", author="desk", seq=seq, at=100.0 + at, **fields)


def test_spans_have_duration_kind_and_depth() -> None:
    call = Part(call=ToolCall(id="c", name="refund"))
    result = Part(result=ToolResult(call_id="c", name="refund", is_error=True))
    spans = build_timeline(
        [
            event(1, 0, EventKind.MESSAGE, parts=(Part(text="hi"),)),
            event(2, 1, EventKind.MEMORY, step="/desk#0"),
            event(3, 3, EventKind.TOOL_CALLS, step="/desk#1", parts=(call,), usage=Usage()),
            event(4, 3.5, EventKind.INPUT_REQUIRED, step="/desk/refund#0", request=ASKED),
            event(5, 10, EventKind.INPUT, answer=InputAnswer(request_id="q")),
            event(6, 11, EventKind.TOOL_RESULT, step="/desk/refund#1", parts=(result,)),
            event(7, 12, EventKind.MESSAGE, step="/desk#2", usage=Usage()),
            event(8, 12, EventKind.ENDED, usage=Usage()),
        ]
    )
    assert [(s.kind, s.name, s.start, s.end, s.seq) for s in spans] == [
        (SpanKind.AGENT, "desk", 0.0, 12.0, 7),
        (SpanKind.MEMORY, "desk", 0.0, 1.0, 2),
        (SpanKind.MODEL, "desk", 1.0, 3.0, 3),
        (SpanKind.WAIT, "refund", 3.5, 10.0, 5),
        (SpanKind.TOOL, "refund", 10.0, 11.0, 6),
        (SpanKind.MODEL, "desk", 11.0, 12.0, 7),
    ]
    assert [span.is_error for span in spans if span.kind is SpanKind.TOOL] == [True]
    assert [(s.depth, s.asked) for s in spans] == [(1, 0), (2, 0), (2, 0), (2, 4), (2, 3), (2, 0)]


def test_recorded_request_is_part_of_the_model_call() -> None:
    detail = {"seconds": 1.5, "error": ""}
    spans = build_timeline(
        [
            event(1, 0, EventKind.MESSAGE),
            event(2, 5, EventKind.MODEL_REQUEST, usage=Usage(), detail=detail),
            event(3, 6, EventKind.MESSAGE, step="/desk#0", usage=Usage()),
        ]
    )
    assert [(s.kind, s.start, s.end, s.seq, s.asked) for s in spans] == [
        (SpanKind.AGENT, 0.0, 6.0, 3, 0),
        (SpanKind.MODEL, 3.5, 5.0, 3, 2),
    ]


def test_failed_model_call_has_a_request_and_no_response() -> None:
    detail = {"seconds": 2.0, "error": "model_failed"}
    failed = event(2, 2, EventKind.MODEL_REQUEST, detail=detail)
    (span,) = build_timeline([event(1, 0, EventKind.MESSAGE), failed])
    assert (span.kind, span.seconds, span.is_error, span.seq, span.asked) == (
        SpanKind.MODEL,
        2.0,
        True,
        2,
        2,
    )


def test_steps_of_parallel_agents_begin_together_below_their_agent() -> None:
    legal: dict[str, Any] = {"branch": "checks.legal", "step": "/team/checks/legal#0"}
    finance: dict[str, Any] = {"branch": "checks.finance", "step": "/team/checks/finance#0"}
    spans = build_timeline(
        [
            event(1, 0, EventKind.MESSAGE),
            event(2, 1, EventKind.MESSAGE, step="/team/reader#0", usage=Usage()),
            event(3, 4, EventKind.MESSAGE, usage=Usage(), **legal),
            event(4, 5, EventKind.MESSAGE, usage=Usage(), **finance),
            event(5, 6, EventKind.MESSAGE, step="/team/writer#0", usage=Usage()),
        ]
    )
    agents = [(s.name, s.start, s.end) for s in spans if s.kind is SpanKind.AGENT]
    assert agents == [
        ("team", 0.0, 6.0),
        ("reader", 0.0, 1.0),
        ("checks", 1.0, 5.0),
        ("finance", 1.0, 5.0),
        ("legal", 1.0, 4.0),
        ("writer", 5.0, 6.0),
    ]
    kinds = [(s.depth, s.seq) for s in spans if s.kind is SpanKind.MODEL]
    assert kinds == [(3, 2), (4, 4), (4, 3), (3, 5)]


def test_run_without_events_has_no_spans() -> None:
    assert build_timeline([]) == ()
