"""Events on pages."""

from acc.adapters.console.event_views import is_in_conversation, summary, view_event, visible
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus


def message(text: str) -> Event:
    return Event(kind=EventKind.MESSAGE, run_id="r", author="desk", seq=3, parts=text_part(text))


def ended(status: RunStatus, text: str = "") -> Event:
    parts = text_part(text) if text else ()
    return Event(kind=EventKind.ENDED, run_id="r", author="desk", status=status, parts=parts)


def test_hidden_characters_are_shown_by_their_code_point() -> None:
    assert visible("a\u202eb\x1bc\r\nd\te") == "a[U+202E]b[U+001B]c\nd\te"
    assert visible("مرحبا 日本語") == "مرحبا 日本語"


def test_long_text_is_clipped_with_a_mark() -> None:
    block = view_event(message("x" * 50), limit=10).blocks[0]
    assert (block.text, block.is_clipped) == ("x" * 10 + "…", True)
    block = view_event(message("x" * 50), limit=None).blocks[0]
    assert (block.text, block.is_clipped) == ("x" * 50, False)


def test_summary_is_one_line() -> None:
    assert summary(message("one\n two\t three")) == "one two three"
    assert len(summary(message("word " * 100))) == 161


def test_end_is_part_of_the_conversation_unless_a_message_has_its_text() -> None:
    assert not is_in_conversation(ended(RunStatus.COMPLETED, "answer"), [message("answer")])
    assert is_in_conversation(ended(RunStatus.COMPLETED, "answer"), [message("other")])
    assert not is_in_conversation(ended(RunStatus.COMPLETED), [])
    assert is_in_conversation(ended(RunStatus.FAILED, "no model"), [])
    assert not is_in_conversation(ended(RunStatus.INPUT_REQUIRED), [])
