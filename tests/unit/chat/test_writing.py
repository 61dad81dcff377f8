"""What is written as JSON, whatever people and tools bring."""

from pathlib import Path

import pytest

from acc.adapters.chat.turns import plain
from acc.adapters.chat.writing import as_json, sendable, sorted_json
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, text_part
from acc.ports.outbound.model_ports import Prompt, PromptMessage, ToolSpec

HALF = "caf\udce9"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (HALF, b'"caf?"'),
        ({HALF: [HALF, 1, (HALF, None)]}, b'{"caf?":["caf?",1,["caf?",null]]}'),
        (Path(HALF), b'"caf?"'),
        ([Path(HALF), HALF], b'["caf?","caf?"]'),
        (text_part(HALF), b'[{"text":"caf?"}]'),
        ({"b": "日本", "a": Path("x")}, '{"b":"日本","a":"x"}'.encode()),
    ],
)
def test_half_a_character_becomes_a_question_mark(value: object, written: bytes) -> None:
    assert as_json(value) == written


def test_what_is_sorted_does_not_depend_on_the_order_of_keys() -> None:
    assert sorted_json({"b": HALF, "a": 1}) == sorted_json({"a": 1, "b": HALF})
    assert plain({"b": HALF, "a": 1}) == '{"b":"caf?","a":1}'


def test_a_prompt_goes_as_it_is_unless_there_is_half_a_character_in_it() -> None:
    prompt = Prompt(query="q", tools=(ToolSpec(name="t", description="d"),))
    assert sendable(prompt) is prompt
    said = (
        Part(text=HALF),
        Part(raw=b"\xff\x00", media_type="image/png"),
        Part(call=ToolCall(id="c", name="t", arguments={"x": HALF})),
        Part(result=ToolResult(call_id="c", name="t", content=[HALF])),
        Part(is_null=True),
    )
    odd = Prompt(
        query=HALF,
        tools=prompt.tools,
        messages=(PromptMessage(role="agent", author="a", parts=said),),
    )
    found = sendable(odd)
    assert found.query == "caf?"
    assert found.tools == prompt.tools
    parts = found.messages[0].parts
    assert (parts[0].text, parts[1], parts[4]) == ("caf?", said[1], said[4])
    assert parts[2].call is not None and parts[2].call.arguments == {"x": "caf?"}
    assert parts[3].result is not None and parts[3].result.content == ["caf?"]
