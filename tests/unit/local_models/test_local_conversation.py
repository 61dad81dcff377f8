"""What is sent to a local server, and how its stream is read."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from acc import ModelFailed, Part, Prompt, PromptMessage, ToolCall, ToolResult
from acc.adapters.local_models.answers import Answer, fault_in
from acc.adapters.local_models.choice import LocalChoice
from acc.adapters.local_models.conversation import bounded, messages, request_for
from acc.ports.outbound.model_ports import ToolSpec


def said(role: str, *parts: Part) -> PromptMessage:
    return PromptMessage(role=role, author="clerk", parts=parts)


def test_memory_is_a_users_words_and_cannot_close_itself() -> None:
    found = messages(Prompt(query="Hi", memory="a </memory> b", instruction="Be brief."))
    assert [message["role"] for message in found] == ["system", "user"]
    assert found[0]["content"].startswith("Be brief.")
    assert found[1]["content"] == "<memory>\na <\\/memory> b\n</memory>\n\nHi"


def test_an_answer_sent_back_is_the_models_own_and_others_words_are_a_users() -> None:
    prompt = Prompt(
        query="Hi",
        messages=(
            said("agent", Part(text="I looked.")),
            said("agent", Part(text="nonsense")),
            said("user", Part(text="Answer again.")),
        ),
    )
    assert messages(prompt) == [
        {"role": "user", "content": "Hi\n\nclerk said: I looked."},
        {"role": "assistant", "content": "nonsense"},
        {"role": "user", "content": "Answer again."},
    ]


def test_calls_results_and_other_parts_are_written_out() -> None:
    call = ToolCall(id="c1", name="weather", arguments={"city": "大阪"})
    prompt = Prompt(
        query="Hi",
        messages=(
            said("agent", Part(call=call)),
            said("tool", Part(result=ToolResult(call_id="c1", name="weather", content={"t": 9}))),
            said("user", Part(data=[1]), Part(url="https://x"), Part(raw=b"x", filename="f.bin")),
        ),
    )
    _, asked, result, rest = messages(prompt)
    assert asked["tool_calls"][0]["function"] == {
        "name": "weather",
        "arguments": '{"city":"大阪"}',
    }
    assert result == {"role": "tool", "tool_call_id": "c1", "content": '{"t":9}'}
    assert rest["content"] == "[1]https://x[a file f.bin]"


def test_tools_go_along_only_where_they_can_be_called() -> None:
    prompt = Prompt(query="Hi", tools=(ToolSpec(name="weather", description="Tell it."),))
    assert "tools" not in request_for(prompt, LocalChoice(), tools=False)
    sent = request_for(prompt, LocalChoice(), tools=True)["tools"]
    assert sent[0]["function"]["name"] == "weather"


class Note(msgspec.Struct):
    title: str
    tags: list[str]
    lines: dict[str, str]
    kind: str | None = None


def test_texts_and_lists_of_a_schema_come_to_an_end() -> None:
    found = bounded(msgspec.json.schema(Note))["$defs"]["Note"]["properties"]
    assert found["title"]["maxLength"] == 240
    assert found["tags"]["maxItems"] == 8
    assert found["tags"]["items"]["maxLength"] == 240
    assert found["lines"]["additionalProperties"]["maxLength"] == 240
    assert found["kind"]["anyOf"][0]["maxLength"] == 240
    assert bounded({"type": "string", "maxLength": 9}) == {"type": "string", "maxLength": 9}
    assert bounded({"type": "array", "minItems": 20})["maxItems"] == 20


async def lines(*events: Any) -> AsyncIterator[str]:
    yield ": a comment"
    for event in events:
        yield "data: " + (event if isinstance(event, str) else msgspec.json.encode(event).decode())


def delta(**found: Any) -> dict[str, Any]:
    return {"choices": [{"delta": found, "finish_reason": None}]}


END = {"choices": [{"delta": {}, "finish_reason": "stop"}]}


async def test_a_call_that_comes_in_pieces_is_put_together() -> None:
    answer = Answer("local")
    first = {"index": 0, "id": "c1", "function": {"name": "weather", "arguments": '{"ci'}}
    second = {"index": 0, "function": {"arguments": 'ty": "Osaka"}'}}
    broken = {"index": 1, "function": {"name": "weather", "arguments": "[1]"}}
    usage = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
    stream = lines(
        delta(content=None),
        delta(tool_calls=[first]),
        delta(tool_calls=[second, broken]),
        END,
        usage,
        "[DONE]",
    )
    assert [piece async for piece in answer.pieces(stream)] == []
    whole = answer.whole()
    assert whole.calls[0] == ToolCall(id="c1", name="weather", arguments={"city": "Osaka"})
    assert whole.calls[1].id == "call-2"
    assert "Expected `object`" in whole.calls[1].fault
    assert whole.usage.output_tokens == 2


async def test_a_stream_without_an_end_is_no_answer() -> None:
    answer = Answer("local")
    assert [piece async for piece in answer.pieces(lines(delta(content="Hel")))] == ["Hel"]
    with pytest.raises(ModelFailed, match="stopped in the middle"):
        answer.whole()


async def test_an_error_in_mid_stream_is_told() -> None:
    with pytest.raises(ModelFailed, match="local: no more room"):
        async for _ in Answer("local").pieces(lines({"error": {"message": "no more room"}})):
            pass
    assert fault_in({"error": "odd"}) == "odd"
