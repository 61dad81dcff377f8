"""Sizes of messages, and messages that are shortened (`application/memory/messages.py`)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc.application.memory.messages import (
    FILE_TOKENS,
    MESSAGE_TOKENS,
    READ_RESULT_TOOL,
    count_tokens,
    fit_messages,
    part_text,
    shorten_message,
    shorten_text,
)
from acc.application.runtime.turn_window import message_bytes
from acc.domain.value_objects.content import (
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    text_part,
    user_message,
)
from acc.testing import WordCounter

COUNT = WordCounter().count
IMAGE = Part(raw=b"\x89PNG", media_type="image/png", filename="a.png")


def test_text_file_counts_as_its_text_and_an_image_as_a_constant() -> None:
    def size(file: Part) -> int:
        return count_tokens(ChatMessage(role="user", author="user", parts=(file,)), COUNT)

    name = MESSAGE_TOKENS + 1
    text = b"one two three four"
    assert size(Part(raw=text, media_type="text/csv", filename="a.csv")) == name + 4
    assert size(IMAGE) == name + FILE_TOKENS
    long = Part(raw=b"ab " * 500_000, media_type="text/plain", filename="b.txt")
    assert size(long) == name + 500_000


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role="assistant", author="a", parts=text_part(text))


def exchange(number: int, content: object, *files: Part, seq: int = 0) -> list[ChatMessage]:
    """Return a call and its result."""
    call = ToolCall(id=f"c{number}", name="look", arguments={"at": number})
    result = ToolResult(call_id=call.id, name="look", content=content, files=files)
    return [
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="look", parts=(Part(result=result),), seq=seq),
    ]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (Part(text="words"), "words"),
        (Part(call=ToolCall(id="c", name="look", arguments={"a": "大阪"})), 'look {"a":"大阪"}'),
        (Part(result=ToolResult(call_id="c", name="look", content="plain")), "plain"),
        (Part(result=ToolResult(call_id="c", name="look", content=[1, None])), "[1,null]"),
        (Part(data={"a": 1}), '{"a":1}'),
        (Part(is_null=True), "null"),
        (Part(url="https://x"), "https://x"),
        (IMAGE, "a.png"),
    ],
)
def test_part_text_is_what_a_model_reads(part: Part, expected: str) -> None:
    assert part_text(part) == expected


def test_tokens_include_files_of_messages_and_results() -> None:
    assert count_tokens(user_message("three small words"), COUNT) == MESSAGE_TOKENS + 3
    with_file = ChatMessage(role="user", parts=(Part(text="look"), IMAGE))
    assert count_tokens(with_file, COUNT) == MESSAGE_TOKENS + 2 + FILE_TOKENS
    _, result = exchange(1, "two words", IMAGE, IMAGE)
    assert count_tokens(result, COUNT) == MESSAGE_TOKENS + 2 + 2 * FILE_TOKENS


@given(st.text(max_size=200), st.integers(0, 3))
def test_bytes_are_not_fewer_than_tokens(text: str, files: int) -> None:
    for message in (user_message(text), *exchange(1, text, *[IMAGE] * files)):
        assert message_bytes(message) >= count_tokens(message, lambda t: len(t.encode()))


@given(st.text(min_size=1, max_size=2_000), st.integers(40, 400))
def test_shortened_text_has_start_end_and_the_number_of_missing_characters(
    text: str, length: int
) -> None:
    shorter = shorten_text(text, length)
    if shorter == text:
        assert len(text) <= length + 120
        return
    head, note, tail = shorter.partition(f" [... {len(text) - length:,} characters left out ...] ")
    assert note
    assert text.startswith(head) and text.endswith(tail)
    assert len(head) + len(tail) == length
    assert len(shorter) < len(text)


def test_shortened_message_keeps_role_author_and_call() -> None:
    call, result = exchange(1, "x" * 5_000, seq=7)
    shorter = shorten_message(result, 300)
    assert (shorter.role, shorter.author, shorter.seq) == ("tool", "look", 7)
    assert shorter.is_shortened and not result.is_shortened
    assert shorter.results[0].call_id == call.calls[0].id
    assert f"{READ_RESULT_TOOL}(number=7)" in shorter.results[0].content
    assert len(shorter.results[0].content) < 500


def test_short_message_is_unchanged() -> None:
    for message in (user_message("short"), *exchange(1, {"a": 1})):
        assert shorten_message(message, 300) is message


def test_long_arguments_are_shortened_and_stay_arguments() -> None:
    call = ToolCall(id="c", name="send", arguments={"to": "Bo", "text": "x" * 5_000, "n": 3})
    message = ChatMessage(role="assistant", author="a", parts=(Part(call=call),))
    (shorter,) = shorten_message(message, 300).calls
    assert (shorter.id, shorter.name) == ("c", "send")
    assert (shorter.arguments["to"], shorter.arguments["n"]) == ("Bo", 3)
    assert "characters left out" in shorter.arguments["text"]


def test_files_are_named_when_a_message_is_shortened() -> None:
    message = ChatMessage(role="user", author="user", parts=(Part(text="look"), IMAGE))
    assert shorten_message(message, 300).text == "look[file a.png, image/png]"
    _, result = exchange(1, "done", IMAGE)
    (shorter,) = shorten_message(result, 300).results
    assert shorter.files == ()
    assert shorter.content == "done [files not shown: a.png]"


def test_messages_within_the_budget_are_unchanged() -> None:
    messages = (user_message("go"), *exchange(1, "x" * 500), assistant("done"))
    size = sum(count_tokens(message, COUNT) for message in messages)
    assert fit_messages(messages, size, COUNT) == (messages, size)
    assert fit_messages((), 0, COUNT) == ((), 0)


def test_long_messages_are_shortened_before_others() -> None:
    messages = (user_message("go on"), *exchange(1, "word " * 500), assistant("done"))
    fitted, size = fit_messages(messages, 100, COUNT)
    assert [message.role for message in fitted] == ["user", "assistant", "tool", "assistant"]
    assert fitted[0] == messages[0] and fitted[1] == messages[1] and fitted[3] == messages[3]
    assert size == sum(count_tokens(message, COUNT) for message in fitted) <= 100


def test_note_of_a_message_that_is_shortened_repeatedly_counts_from_the_original() -> None:
    text = " ".join(str(number) for number in range(5_000))
    ((shorter,), _) = fit_messages((user_message(text),), 80, COUNT)
    head, _, rest = shorter.text.partition(" [... ")
    number, _, tail = rest.partition(" characters left out ...] ")
    assert int(number.replace(",", "")) == len(text) - len(head) - len(tail)
    assert text.startswith(head) and text.endswith(tail)


def test_question_and_answer_remain_if_calls_do_not_fit() -> None:
    calls = [message for number in range(30) for message in exchange(number, "a b c")]
    messages = (user_message("go"), *calls, assistant("done"))
    fitted, size = fit_messages(messages, 20, COUNT)
    assert fitted == (messages[0], messages[-1])
    assert size <= 20
    assert fit_messages(messages, 3, COUNT) == ((), 0)


def has_pairs(messages: Sequence[ChatMessage]) -> bool:
    """Return True if every result follows its call and every call has a result."""
    waiting: set[str] = set()
    for message in messages:
        if message.role != "tool" and waiting:
            return False
        results = {result.call_id for result in message.results}
        if not results <= waiting:
            return False
        waiting = (waiting - results) | {call.id for call in message.calls}
    return not waiting


@given(
    lengths=st.lists(st.integers(0, 400), max_size=6),
    budget=st.integers(0, 400),
    starts=st.booleans(),
    ends=st.booleans(),
)
def test_fitted_messages_have_results_with_their_calls(
    lengths: list[int], budget: int, starts: bool, ends: bool
) -> None:
    messages = [user_message("go")] if starts else []
    for number, length in enumerate(lengths):
        messages += exchange(number, "word " * length)
    messages += [assistant("done")] if ends else []
    fitted, size = fit_messages(messages, budget, COUNT)
    assert size <= budget
    assert has_pairs(fitted)
