"""JSON of requests, with unpaired surrogates and unusual objects."""

from pathlib import Path

import pytest

from acc.adapters.models.request_json import (
    to_json,
    to_sorted_json,
    to_text,
    without_surrogates,
)
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part
from acc.ports.outbound.model_ports import ModelRequest, ToolSpec

SURROGATE = "caf\udce9"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (SURROGATE, b'"caf?"'),
        ({SURROGATE: [SURROGATE, 1, (SURROGATE, None)]}, b'{"caf?":["caf?",1,["caf?",null]]}'),
        (Path(SURROGATE), b'"caf?"'),
        ([Path(SURROGATE), SURROGATE], b'["caf?","caf?"]'),
        (text_part(SURROGATE), b'[{"text":"caf?"}]'),
        ({"b": "日本", "a": Path("x")}, '{"b":"日本","a":"x"}'.encode()),
    ],
)
def test_unpaired_surrogate_becomes_a_question_mark(value: object, written: bytes) -> None:
    assert to_json(value) == written


def test_sorted_json_does_not_depend_on_key_order() -> None:
    assert to_sorted_json({"b": SURROGATE, "a": 1}) == to_sorted_json({"a": 1, "b": SURROGATE})
    assert to_text({"b": SURROGATE, "a": 1}) == '{"b":"caf?","a":1}'


def test_request_is_copied_only_if_it_has_unpaired_surrogates() -> None:
    prompt = ModelRequest.of("q", tools=(ToolSpec(name="t", description="d"),))
    assert without_surrogates(prompt) is prompt
    original = (
        Part(text=SURROGATE),
        Part(raw=b"\xff\x00", media_type="image/png"),
        Part(call=ToolCall(id="c", name="t", arguments={"x": SURROGATE})),
        Part(result=ToolResult(call_id="c", name="t", content=[SURROGATE])),
        Part(is_null=True),
    )
    odd = ModelRequest.of(
        query=SURROGATE,
        tools=prompt.tools,
        following=(ChatMessage(role="assistant", author="a", parts=original),),
    )
    found = without_surrogates(odd)
    assert found.query == "caf?"
    assert found.tools == prompt.tools
    parts = found.following[0].parts
    assert (parts[0].text, parts[1], parts[4]) == ("caf?", original[1], original[4])
    assert parts[2].call is not None and parts[2].call.arguments == {"x": "caf?"}
    assert parts[3].result is not None and parts[3].result.content == ["caf?"]
