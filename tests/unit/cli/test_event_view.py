import io
from typing import Any

import pytest
from rich.console import Console

from acc import Event, EventKind, RunStatus
from acc.cli.event_view import EventPrinter, describe, make_console, one_line, show_events
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import EventActions


def event(kind: EventKind, text: str = "", **fields: Any) -> Event:
    parts = (Part(text=text),) if text else ()
    return Event(kind=kind, run_id="r", author=fields.pop("author", "a"), parts=parts, **fields)


def printed(*events: Event, stream: bool = True, answer_only: bool = False) -> str:
    output = io.StringIO()
    printer = EventPrinter(make_console(output), stream=stream, answer_only=answer_only)
    for one in events:
        printer.show(one)
    return output.getvalue()


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ({"to": "travel", "reason": "rule"}, "chooses travel (rule)"),
        ({"from": "judge", "to": ["edit", "print"]}, "judge → edit, print"),
        ({"from": "judge", "to": []}, "judge → nowhere"),
    ],
)
def test_route_is_described_by_its_targets(detail: dict[str, Any], text: str) -> None:
    assert describe(event(EventKind.ROUTE, detail=detail)) == text


@pytest.mark.parametrize(
    ("detail", "text"),
    [
        ({"plan": ["send"]}, "plans send"),
        ({"plan": []}, "plans no tools with effects"),
        (
            {"tool": "send", "decision": "refuse", "reasons": ["not planned", "not the user's"]},
            "send: refuse (not planned; not the user's)",
        ),
    ],
)
def test_decision_of_the_policy_is_described_with_reasons(
    detail: dict[str, Any], text: str
) -> None:
    assert describe(event(EventKind.FLOW, detail=detail)) == text


def test_start_of_a_tool_and_reason_of_a_failure_are_described() -> None:
    assert describe(event(EventKind.STATE, detail={"started": "pay"})) == "starts pay"
    interrupted = event(EventKind.ENDED, "the process was interrupted", status=RunStatus.FAILED)
    assert describe(interrupted) == "failed: the process was interrupted"


def test_interrupted_call_is_reported_on_stderr_if_only_the_answer_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    notice = event(EventKind.PROGRESS, "pay was started", detail={"code": "interrupted"})
    progress = event(EventKind.PROGRESS, "half done")
    end = event(EventKind.ENDED, "Hello", status=RunStatus.COMPLETED)
    assert printed(notice, progress, end, answer_only=True) == "Hello\n"
    assert capsys.readouterr().err == "a: pay was started\n"
    printed(notice, end)
    assert capsys.readouterr().err == ""


def test_streamed_message_is_printed_once() -> None:
    deltas = [event(EventKind.DELTA, text) for text in ("Hel", "lo")]
    message = event(EventKind.MESSAGE, "Hello")
    end = event(EventKind.ENDED, "Hello", status=RunStatus.COMPLETED)
    assert printed(*deltas, message, end) == "a › Hello\n"
    assert printed(*deltas, message, end, stream=False) == "a › Hello\n"


def test_partial_outputs_are_not_printed() -> None:
    partial = Event(
        kind=EventKind.PARTIAL_OUTPUT, run_id="r", author="a", parts=(Part(data={"city": "K"}),)
    )
    assert printed(partial) == ""


def test_deltas_of_branches_are_printed_when_the_message_is_complete() -> None:
    delta = event(EventKind.DELTA, "Hel", branch="both.left")
    message = event(EventKind.MESSAGE, "Hello", branch="both.left")
    assert printed(delta) == ""
    assert printed(delta, message) == "a [both.left] › Hello\n"


def test_only_the_answer_is_printed_for_a_pipe() -> None:
    message = event(EventKind.MESSAGE, "Working.")
    fault = event(EventKind.FAULT, "no JSON")
    end = event(EventKind.ENDED, "Hello", status=RunStatus.COMPLETED)
    assert printed(message, fault, end, answer_only=True) == "Hello\n"
    assert (
        printed(message, fault, end)
        == "a › Working.\n  a: unusable response of the model: no JSON\na › Hello\n"
    )


def test_rejection_is_printed_with_its_reason() -> None:
    end = event(EventKind.ENDED, "Not allowed.", status=RunStatus.REJECTED)
    assert printed(end) == "Not allowed.\n"
    assert printed(end, answer_only=True) == "Not allowed.\n"


def test_control_characters_are_visible_everywhere() -> None:
    hostile = "a\x1b]0;title\x07b"
    message = event(EventKind.MESSAGE, hostile, author="x\x1by", branch="p\x1bq")
    assert "\x1b" not in printed(message)
    output = io.StringIO()
    show_events(make_console(output), [message])
    assert "\x1b" not in output.getvalue()
    assert "a␛]0;title␇b" in output.getvalue()


def test_line_of_an_event_shows_state_changes() -> None:
    actions = EventActions(state_delta={"city": "Oslo"}, state_removed=("draft",))
    output = io.StringIO()
    show_events(Console(file=output, width=200), [event(EventKind.STATE, actions=actions)])
    assert "{city = Oslo; removes draft}" in output.getvalue()


def test_long_value_is_shortened_to_one_line() -> None:
    assert one_line("a\nb") == "a⏎b"
    assert one_line("abcdef", 3) == "abc… (6 characters)"
