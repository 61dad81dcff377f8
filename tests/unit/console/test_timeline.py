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
        (SpanKind.WAIT, "refund", 3.5, 10.0, 4),
        (SpanKind.TOOL, "refund", 10.0, 11.0, 6),
        (SpanKind.MODEL, "desk", 11.0, 12.0, 7),
    ]
    assert [span.is_error for span in spans if span.kind is SpanKind.TOOL] == [True]


def test_recorded_duration_of_a_model_call_is_used() -> None:
    spans = build_timeline(
        [
            event(1, 0, EventKind.MESSAGE),
            event(
                2,
                5,
                EventKind.MODEL_REQUEST,
                step="/desk#0",
                usage=Usage(),
                detail={"seconds": 1.5},
            ),
        ]
    )
    model = next(span for span in spans if span.kind is SpanKind.MODEL)
    assert (model.start, model.seconds) == (3.5, 1.5)


def test_run_without_events_has_no_spans() -> None:
    assert build_timeline([]) == ()
