"""Whatever a tool and its arguments are called, every provider takes their names."""

import re

from hypothesis import given
from hypothesis import strategies as st

from acc.adapters.chat.naming import Spoken
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage, ToolSpec

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
# What `check_name` lets be a tool.
NAMES = st.text(min_size=1, max_size=64).filter(str.isidentifier)
KEYS = st.text(min_size=1, max_size=80)


def tool(name: str, *keys: str, description: str = "") -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in keys},
        "required": list(keys[:1]),
    }
    return ToolSpec(name=name, description=description, parameters=schema)


@given(
    tools=st.dictionaries(NAMES, st.lists(KEYS, max_size=4, unique=True), max_size=4),
    arguments=st.booleans(),
)
def test_what_goes_out_is_plain_and_comes_back_as_it_was(
    tools: dict[str, list[str]], arguments: bool
) -> None:
    specs = tuple(tool(name, *keys) for name, keys in tools.items())
    calls = tuple(
        ToolCall(id=name, name=name, arguments=dict.fromkeys(keys, "x"))
        for name, keys in tools.items()
    )
    results = tuple(ToolResult(call_id=call.id, name=call.name, content=1) for call in calls)
    messages = (
        PromptMessage(role="agent", author="a", parts=tuple(Part(call=call) for call in calls)),
        PromptMessage(role="tool", author="t", parts=tuple(Part(result=held) for held in results)),
        PromptMessage(role="user", author="u", parts=(Part(text="日本語"),)),
    )
    spoken = Spoken(Prompt(query="q", tools=specs, messages=messages), arguments=arguments)
    prompt = spoken.prompt
    for spec, (_, keys) in zip(prompt.tools, tools.items(), strict=True):
        assert PLAIN.fullmatch(spec.name)
        fields = spec.parameters["properties"]
        assert list(fields) == keys or (arguments and len(fields) == len(keys))
        assert spec.parameters["required"] == list(fields)[:1]
        if arguments:
            assert all(map(KEY.fullmatch, fields))
    said = [part.call for part in prompt.messages[0].parts if part.call is not None]
    told = [part.result for part in prompt.messages[1].parts if part.result is not None]
    known = {spec.name: set(spec.parameters["properties"]) for spec in prompt.tools}
    assert [(call.name, set(call.arguments)) for call in said] == list(known.items())
    assert [result.name for result in told] == list(known)
    assert prompt.messages[2] == messages[2]
    answer = ModelAnswer(text="t", calls=tuple(said))
    assert spoken.heard(answer) == ModelAnswer(text="t", calls=calls)


def test_a_model_learns_the_names_that_people_use() -> None:
    prompt = Prompt(query="q", tools=(tool("天気", "都市", description="天気を調べる。"),))
    (spec,) = Spoken(prompt, arguments=True).prompt.tools
    assert re.fullmatch(r"tool_[0-9a-f]{8}", spec.name)
    assert spec.description == "天気: 天気を調べる。"
    (field,) = spec.parameters["properties"].values()
    assert field["description"] == "都市"
    assert Spoken(prompt, arguments=True).prompt == Spoken(prompt, arguments=True).prompt


def test_names_that_are_plain_stay() -> None:
    prompt = Prompt(query="q", tools=(tool("look_up", "city.name"),))
    spoken = Spoken(prompt, arguments=True)
    assert spoken.prompt is prompt
    answer = ModelAnswer(calls=(ToolCall(id="1", name="look_up"),))
    assert spoken.heard(answer) is answer


def test_a_schema_that_is_none_stays() -> None:
    for fields in (None, ["都市"], "都市"):
        spec = ToolSpec(name="look", description="", parameters={"properties": fields})
        prompt = Prompt(query="q", tools=(spec,))
        assert Spoken(prompt, arguments=True).prompt is prompt


def test_a_tool_that_nobody_offered_keeps_its_name() -> None:
    spoken = Spoken(Prompt(query="q", tools=(tool("天気"),)), arguments=True)
    answer = ModelAnswer(calls=(ToolCall(id="1", name="nothing", arguments={"a": 1}),))
    assert spoken.heard(answer) == answer
