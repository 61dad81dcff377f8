"""What is sent to a server of chat completions."""

import msgspec

from acc import Part, Prompt, PromptMessage, ToolCall, ToolResult
from acc.adapters.chat.asking import function, messages
from acc.adapters.chat.turns import in_words, unfolded
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
    assert rest["content"] == "[1]https://x[a file f.bin, unknown type]"


def test_images_are_sent_where_they_can_be_seen_and_named_where_not() -> None:
    picture = Part(raw=b"\x89PNG", media_type="image/png", filename="a.png")
    note = Part(raw="期限は30分".encode(), media_type="text/plain")
    broken = Part(raw=b"\xff", media_type="text/plain", filename="b.txt")
    prompt = Prompt(query="Hi", messages=(said("agent", picture, note, broken),))
    (blind,) = messages(prompt)
    assert blind["content"] == (
        "Hi\n\nclerk said: [a file a.png, image/png]期限は30分[a file b.txt, text/plain]"
    )
    _, seeing = messages(prompt, images=True)
    assert seeing["content"][0] == {"type": "text", "text": "clerk said: "}
    assert seeing["content"][1]["image_url"]["url"] == "data:image/png;base64,iVBORw=="
    assert seeing["content"][2]["text"] == "期限は30分"


def test_results_and_words_of_one_message_are_both_told() -> None:
    result = Part(result=ToolResult(call_id="c1", name="t", content=1))
    prompt = Prompt(query="Hi", messages=(said("tool", result, Part(text="and more")),))
    assert messages(prompt)[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "user", "content": "and more"},
    ]


def test_a_tool_without_a_description_or_arguments_is_still_a_function() -> None:
    found = function(ToolSpec(name="now", description=""))
    assert found["function"] == {
        "name": "now",
        "parameters": {"type": "object", "properties": {}},
    }


class Found(msgspec.Struct):
    count: int


def test_a_schema_has_no_reference_at_its_root() -> None:
    found = unfolded(msgspec.json.schema(Found))
    assert found["type"] == "object"
    assert "$ref" not in found
    assert unfolded({"type": "array"}) == {"type": "array"}
    assert '"count"' in in_words(found)


def test_a_failure_of_a_tool_is_told_as_one() -> None:
    result = ToolResult(call_id="c1", name="t", content="no such city", is_error=True)
    prompt = Prompt(query="Hi", messages=(said("tool", Part(result=result)),))
    assert messages(prompt)[1]["content"] == '{"error":"no such city"}'


def test_who_takes_messages_as_they_come_gets_memory_and_query_apart() -> None:
    found = messages(Prompt(query="Hi", memory="a"), by_turns=False)
    assert [message["role"] for message in found] == ["system", "user", "user"]
    assert found[2]["content"] == "Hi"
