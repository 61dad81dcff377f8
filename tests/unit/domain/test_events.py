"""Events and their parts."""

import pytest

from acc.domain.value_objects.event import Event, EventKind, Part, ToolCall


@pytest.mark.parametrize(
    "held", [{}, {"text": "a", "data": {}}, {"url": "x", "call": ToolCall(id="1", name="t")}]
)
def test_a_part_holds_exactly_one_thing(held: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="exactly one of text, data, raw, url, call and result"):
        Part(**held)  # type: ignore[arg-type]


def test_a_value_is_frozen_and_shares_nothing() -> None:
    event = Event(kind=EventKind.DELTA, run_id="r", author="a", parts=(Part(text="x"),))
    assert event == Event(kind=EventKind.DELTA, run_id="r", author="a", parts=(Part(text="x"),))
    assert event.partial
    assert event.text == "x"
    assert event.detail is not Event(kind=EventKind.DELTA, run_id="r", author="a").detail
    with pytest.raises(AttributeError):
        event.seq = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="run_id"):
        Event(kind=EventKind.DELTA, author="a")  # type: ignore[call-arg]
