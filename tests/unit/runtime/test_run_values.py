"""Events and their parts."""

import dataclasses

import pytest

from acc.application.runtime.interrupts import RunPaused, paused_in_group
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import InputRequest, RequestKind
from acc.domain.value_objects.content import Part, ToolCall
from acc.domain.value_objects.event import Event, EventKind


@pytest.mark.parametrize(
    "current", [{}, {"text": "a", "data": {}}, {"url": "x", "call": ToolCall(id="1", name="t")}]
)
def test_part_requires_exactly_one_content(current: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="exactly one of text, data, raw, url, call and result"):
        Part(**current)  # type: ignore[arg-type]


def test_event_is_frozen_and_has_its_own_detail() -> None:
    event = Event(kind=EventKind.DELTA, run_id="r", author="a", parts=(Part(text="x"),))
    assert event == Event(kind=EventKind.DELTA, run_id="r", author="a", parts=(Part(text="x"),))
    assert event.partial
    assert event.text == "x"
    assert event.detail is not Event(kind=EventKind.DELTA, run_id="r", author="a").detail
    with pytest.raises(AttributeError):
        event.seq = 3  # type: ignore[misc]
    with pytest.raises(InvalidInput, match="run_id"):
        Event(kind=EventKind.DELTA, author="a")  # type: ignore[call-arg]


def test_question_contains_shortened_call() -> None:
    request = InputRequest(
        id="1",
        kind=RequestKind.CONFIRMATION,
        agent="a",
        message="May pay be called?",
        tool="pay",
        arguments={"amount": 12_000, "payee": "青葉"},
    )
    assert request.question == 'May pay be called? pay {"amount":12000,"payee":"青葉"}'
    assert len(dataclasses.replace(request, arguments={"note": "x" * 9_000}).question) < 2_100


def test_pauses_are_collected_from_nested_groups() -> None:
    def paused(name: str) -> RunPaused:
        request = InputRequest(id=name, kind=RequestKind.INPUT, agent="a", message="?")
        return RunPaused([request])

    inner = BaseExceptionGroup("inner", [paused("2"), paused("3")])
    found = paused_in_group(BaseExceptionGroup("outer", [paused("1"), inner]))
    assert found is not None
    assert [request.id for request in found.requests] == ["1", "2", "3"]
    assert paused_in_group(BaseExceptionGroup("mixed", [paused("1"), ValueError()])) is None
    assert paused_in_group(ValueError()) is None
