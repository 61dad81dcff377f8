"""How the answers of a server of chat completions are read."""

import json
import time
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acc import ToolCall
from acc.adapters.chat.answering import Answer
from acc.adapters.chat.streams import (
    MOST_AT_ONCE,
    MOST_STREAMED,
    ServerFault,
    Unreadable,
    events,
)


async def stream(*found: Any, size: int = 7) -> AsyncIterator[bytes]:
    """Give events as bytes that are cut anywhere."""
    written = b": a comment\r\n\r\n"
    for event in found:
        data = event if isinstance(event, bytes) else msgspec.json.encode(event)
        written += b"data: " + data + b"\r\n\r\n"
    for start in range(0, len(written), size):
        yield written[start : start + size]


async def heard(answer: Answer, *found: Any) -> list[str]:
    pieces = [answer.add(data) async for data in events(stream(*found))]
    return [piece for piece in [*pieces, answer.close()] if piece]


def delta(**found: Any) -> dict[str, Any]:
    return {"choices": [{"delta": found, "finish_reason": None}]}


END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


async def test_a_call_that_comes_in_pieces_is_put_together() -> None:
    answer = Answer()
    first = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"ci'}}
    second = {"index": 0, "function": {"arguments": 'ty": "大阪"}'}, "extra_content": {"s": 1}}
    broken = {"index": 1, "function": {"name": "weather", "arguments": "[1]"}}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    found = await heard(
        answer,
        delta(content=None, reasoning_content="Let me "),
        delta(reasoning_content="look."),
        delta(tool_calls=[first]),
        delta(tool_calls=[second, broken]),
        END,
        usage,
        b"[DONE]",
    )
    assert found == []
    assert answer.finish == "stop"
    assert answer.calls[0] == ToolCall(id="c1", name="weather", arguments={"city": "大阪"})
    assert answer.calls[1].id == "call-2"
    assert "must be an object" in answer.calls[1].fault
    assert (answer.tokens.input_tokens, answer.tokens.output_tokens) == (5, 2)
    (said,) = answer.as_said()
    assert said["reasoning_content"] == "Let me look."
    assert said["tool_calls"][0]["extra_content"] == {"s": 1}
    assert said["tool_calls"][1]["id"] == "call-2"


@pytest.mark.parametrize("indexed", [{"index": 0}, {}])
async def test_calls_under_the_same_index_are_told_apart_by_their_ids(
    indexed: dict[str, int],
) -> None:
    def piece(call_id: str, name: str, arguments: str) -> dict[str, Any]:
        made = {"id": call_id, "function": {"name": name, "arguments": arguments}}
        return delta(tool_calls=[{**indexed, **made}])

    answer = Answer()
    await heard(
        answer,
        piece("a", "weather", '{"city":'),
        piece("", "", "1}"),
        piece("b", "weather", '{"city": 2}'),
        piece("c", "time", "{"),
        # Not every server says the same id again, where it goes on.
        piece("c-2", "", "}"),
        END,
    )
    assert answer.calls == (
        ToolCall(id="a", name="weather", arguments={"city": 1}),
        ToolCall(id="b", name="weather", arguments={"city": 2}),
        ToolCall(id="c", name="time"),
    )
    assert [call["id"] for call in answer.as_said()[0]["tool_calls"]] == ["a", "b", "c"]


async def test_a_stream_without_an_end_has_no_reason_for_it() -> None:
    answer = Answer()
    assert await heard(answer, delta(content="Hel")) == ["Hel"]
    assert answer.finish is None


async def test_the_last_event_needs_no_empty_line_after_it() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b'data: {"a":'
        yield b"1}"

    assert [data async for data in events(chunks())] == [b'{"a":1}']

    async def done() -> AsyncIterator[bytes]:
        yield b"data: 1\ndata: 2\n\ndata: [DONE]"

    assert [data async for data in events(done())] == [b"1\n2"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
async def test_lines_end_in_each_way_of_the_protocol(end: bytes, mark: bytes, size: int) -> None:
    written = mark + end.join([b"data: 1", b"data: 2", b"", b": x", b"data: 3", b"", b""])

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(written), size):
            yield written[start : start + size]
            yield b""

    assert [data async for data in events(chunks())] == [b"1\n2", b"3"]


@given(st.lists(st.text(max_size=20), max_size=6), st.integers(1, 40))
async def test_a_text_comes_whole_wherever_it_is_cut(texts: list[str], size: int) -> None:
    # U+2028 and the like end lines of text, but none of the protocol.
    found = [delta(content=f"x\u2028{text}") for text in texts]
    answer = Answer()
    async for data in events(stream(*found, END, size=size)):
        answer.add(data)
    answer.close()
    assert answer.text == "".join(f"x\u2028{text}" for text in texts)


async def test_a_thought_in_tags_is_no_part_of_the_answer() -> None:
    thought = ["\n<th", "ink>It may", " be 30.</th", "ink>\n\n", "30 分", "です。"]
    answer = Answer()
    assert await heard(answer, *(delta(content=text) for text in thought), END) == [
        "30 分",
        "です。",
    ]
    endless = Answer()
    assert await heard(endless, delta(content="<think>and on"), END) == []
    short = Answer()
    assert await heard(short, delta(content="<th"), END) == ["<th"]
    assert short.text == "<th"
    later = Answer()
    assert await heard(later, delta(content="a <think> b"), END) == ["a <think> b"]


async def test_a_thought_of_which_only_the_end_is_sent_is_no_part_of_the_answer() -> None:
    for said in (
        "It may be 30.\n</think>\n\n30 分です。",
        "</think>\n\n30 分です。",
        "\n</think>30 分です。",
    ):
        answer = Answer()
        await heard(
            answer, *(delta(content=said[at : at + 5]) for at in range(0, len(said), 5)), END
        )
        assert answer.text == "30 分です。"
    named = Answer()
    await heard(named, delta(content="Write <think>\nso\n</think>\n or `</think>`."), END)
    assert named.text == "Write <think>\nso\n</think>\n or `</think>`."
    inline = Answer()
    await heard(inline, delta(content="The tag is\n`</think>`\nwith a slash."), END)
    assert inline.text == "The tag is\n`</think>`\nwith a slash."


async def test_a_long_thought_is_read_once() -> None:
    answer = Answer()
    begun = time.process_time()
    answer.add(msgspec.json.encode(delta(content="<think>")))
    piece = msgspec.json.encode(delta(content="0123456789" * 10))
    for _ in range(20_000):
        answer.add(piece)
    answer.add(msgspec.json.encode(delta(content="</think>30")))
    assert answer.text == "30"
    assert time.process_time() - begun < 3


async def test_a_stream_or_an_event_that_has_no_end_is_given_up() -> None:
    taken = 0

    async def endless(piece: bytes) -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += len(piece)
            yield piece

    for piece, most in (
        (b"data: " + b"x" * 2**20, MOST_AT_ONCE),
        (b"data: " + b"x" * 2**20 + b"\n", MOST_AT_ONCE),
        (b": nothing" + b" " * 2**20 + b"\n\n", MOST_STREAMED),
    ):
        taken = 0
        with pytest.raises(Unreadable, match=f"more than {most} bytes"):
            async for _ in events(endless(piece)):
                pass
        assert taken < most + 2**22


async def test_an_event_that_is_called_an_error_is_one() -> None:
    for written, told in (
        (b'{"message": "no room"}', {"message": "no room"}),
        (b'{"error": {"message": "no room"}}', {"message": "no room"}),
        (b"no room", "no room"),
        (b'"no room"', "no room"),
    ):

        async def chunks(data: bytes = written) -> AsyncIterator[bytes]:
            yield b"event: error\ndata: " + data + b"\n\n"

        with pytest.raises(ServerFault) as found:
            assert [data async for data in events(chunks())] == []
        assert found.value.error == told


def test_counts_that_cannot_be_are_not_told() -> None:
    answer = Answer()
    usage = {"prompt_tokens": 10**30, "completion_tokens": 10**9 + 1}
    answer.fill(json.dumps({"choices": [], "usage": usage}).encode())
    assert (answer.tokens.input_tokens, answer.tokens.output_tokens) == (0, 0)
    assert not answer.begun


def test_arguments_that_are_nested_too_deep_are_the_fault_of_the_call() -> None:
    answer = Answer()
    call = {"index": "a", "function": {"name": "t", "arguments": "[" * 100_000}}
    answer.fill(msgspec.json.encode({"choices": [{"message": {"tool_calls": [call]}}]}))
    assert "not JSON" in answer.calls[0].fault


async def test_an_error_in_mid_stream_is_told() -> None:
    with pytest.raises(ServerFault) as found:
        await heard(Answer(), delta(content="a"), {"error": {"message": "no more room"}})
    assert found.value.error == {"message": "no more room"}


def test_a_whole_answer_may_come_in_parts_and_with_arguments_as_an_object() -> None:
    answer = Answer()
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": {"a": 1}}}
    message = {"content": [{"type": "text", "text": "a"}, {"text": "b"}], "tool_calls": [call]}
    usage = {"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": 3}}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
    answer.fill(msgspec.json.encode(body))
    assert answer.text == "ab"
    assert answer.calls == (ToolCall(id="c", name="t", arguments={"a": 1}),)
    assert (answer.tokens.input_tokens, answer.tokens.cached_tokens) == (0, 3)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b"1",
        b"null",
        b'{"choices": 1}',
        b'{"choices": [1]}',
        b'{"choices": [{"message": "a"}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": [{"message": {"tool_calls": [3]}}]}',
        b'{"choices": [{"message": {"refusal": 3}}]}',
    ],
)
def test_what_is_no_chat_completion_cannot_be_read(body: bytes) -> None:
    with pytest.raises(Unreadable, match="no chat completion; check the URL"):
        Answer().fill(body)
