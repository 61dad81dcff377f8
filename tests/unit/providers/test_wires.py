"""What goes by each wire, and how odd answers of its provider are read."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from acc.adapters.chat.heard import Heard
from acc.adapters.chat.streams import ServerFault
from acc.adapters.providers.choice import parse_choice
from acc.adapters.providers.wires.anthropic import AnthropicWire
from acc.adapters.providers.wires.chat import CompatibleWire, OpenAIChatWire
from acc.adapters.providers.wires.google import GoogleWire
from acc.adapters.providers.wires.responses import ResponsesWire
from acc.adapters.providers.wires.wire import Wire, merged
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.ports.outbound.model_ports import Prompt, PromptMessage, ToolSpec

WIRES: dict[str, Any] = {
    "anthropic": AnthropicWire,
    "google": GoogleWire,
    "openai": ResponsesWire,
    "openai-chat": OpenAIChatWire,
    "openai-compatible": CompatibleWire,
}
FOUND = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}


def wire_of(name: str) -> Wire:
    choice = parse_choice(name)
    made: Wire = WIRES[choice.provider](choice)
    return made


def nothing_kept(_: Sequence[ToolCall]) -> None:
    return None


def body_of(name: str, prompt: Prompt) -> dict[str, Any]:
    wire = wire_of(name)
    return merged(*wire.settings().values(), wire.body(prompt, nothing_kept, streams=False))


def heard(provider: str, *events: dict[str, Any], whole: bool = False) -> Heard:
    answer = wire_of(f"{provider}:m").heard()
    for event in events:
        if whole:
            answer.fill(msgspec.json.encode(event))
        else:
            answer.add(msgspec.json.encode(event))
    return answer


@pytest.mark.parametrize(
    ("model", "most", "thinking", "effort"),
    [
        ("claude-opus-4-8", 128_000, {"type": "adaptive"}, "high"),
        ("claude-haiku-5-5", 128_000, {"type": "adaptive"}, "high"),
        ("claude-sonnet-4-5", 64_000, {"type": "enabled", "budget_tokens": 16_384}, None),
        ("claude-sonnet-4-20250514", 20_480, {"type": "enabled", "budget_tokens": 16_384}, None),
        ("claude-3-5-haiku-latest", 20_480, {"type": "enabled", "budget_tokens": 16_384}, None),
        ("someone-elses", 16_384, {"type": "adaptive"}, "high"),
    ],
)
def test_how_a_model_of_anthropic_is_asked_to_think_depends_on_its_version(
    model: str, most: int, thinking: dict[str, Any], effort: str | None
) -> None:
    body = body_of(f"anthropic:{model}?thinking=high", Prompt(query="q"))
    assert (body["max_tokens"], body["thinking"]) == (most, thinking)
    assert body.get("output_config", {}).get("effort") == effort


@pytest.mark.parametrize(
    ("level", "sent"),
    [
        ("claude-opus-4-8?thinking=off", None),
        ("claude-opus-5?thinking=off", {"type": "disabled"}),
        ("claude-opus-4-8?thinking=on", {"type": "adaptive"}),
        ("claude-opus-4-5?thinking=on", {"type": "enabled", "budget_tokens": 10_000}),
        ("claude-opus-4-5?thinking=max", {"type": "enabled", "budget_tokens": 32_768}),
    ],
)
def test_thinking_is_switched_as_the_version_has_it(
    level: str, sent: dict[str, Any] | None
) -> None:
    assert body_of(f"anthropic:{level}", Prompt(query="q")).get("thinking") == sent


def test_the_highest_effort_of_a_model_of_anthropic_is_the_nearest_that_it_has() -> None:
    for name, effort in (("4-6?thinking=xhigh", "max"), ("4-7?thinking=xhigh", "xhigh")):
        body = body_of(f"anthropic:claude-opus-{name}", Prompt(query="q", output_schema=FOUND))
        # How much it thinks and what its answer fits stand in one place.
        assert body["output_config"]["effort"] == effort
        assert body["output_config"]["format"]["type"] == "json_schema"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("gemini-3-pro-preview?thinking=off", {"thinkingLevel": "LOW"}),
        ("gemini-3-flash?thinking=off", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.5-pro?thinking=off", {"thinkingBudget": 128}),
        ("gemini-2.5-flash?thinking=off", {"thinkingBudget": 0}),
        ("gemini-2.5-flash?thinking=on", {"includeThoughts": True}),
        ("gemini-2.5-flash?thinking=low", {"includeThoughts": True, "thinkingBudget": 2_048}),
        ("gemini-3-flash?thinking=max", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
    ],
)
def test_how_a_model_of_google_is_asked_to_think_depends_on_its_version(
    name: str, sent: dict[str, Any]
) -> None:
    body = body_of(f"google:{name}", Prompt(query="q"))
    assert body["generationConfig"]["thinkingConfig"] == sent


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("gpt-5.2", True),
        ("o3", True),
        ("gpt-6-sol", True),
        ("gpt-4o", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_sealed_thoughts_are_asked_of_models_that_think(model: str, thinks: bool) -> None:
    body = body_of(f"openai:{model}", Prompt(query="q"))
    assert body.get("include") == (["reasoning.encrypted_content"] if thinks else None)


def test_older_models_of_google_cannot_call_and_keep_to_a_schema_at_once() -> None:
    prompt = Prompt(query="q", tools=(ToolSpec(name="t", description=""),), output_schema=FOUND)
    new = body_of("google:gemini-3-flash", prompt)
    assert new["generationConfig"]["responseJsonSchema"]["type"] == "object"
    assert new["toolConfig"]["functionCallingConfig"]["mode"] == "VALIDATED"
    old = body_of("google:gemini-2.0-flash", prompt)
    assert "generationConfig" not in old
    assert "fits this JSON schema" in old["systemInstruction"]["parts"][0]["text"]
    assert old["toolConfig"]["functionCallingConfig"]["mode"] == "AUTO"


def test_a_schema_that_leaves_something_open_binds_nobody_who_wants_it_closed() -> None:
    free = {"type": "object", "properties": {"any": {"type": "object"}}, "required": ["any"]}
    prompt = Prompt(query="q", output_schema=free)
    assert body_of("openai:gpt-5.2", prompt)["text"]["format"]["strict"] is False
    chat = body_of("openai-chat:gpt-5.2", prompt)["response_format"]["json_schema"]
    assert chat["strict"] is False
    body = body_of("anthropic:claude-opus-4-8", prompt)
    assert "output_config" not in body and "fits this JSON schema" in body["system"]
    closed = Prompt(query="q", output_schema=FOUND)
    bound = body_of("openai:gpt-5.2", closed)["text"]["format"]
    assert bound["strict"] is True and bound["schema"]["additionalProperties"] is False
    old = body_of("anthropic:claude-3-5-haiku-latest", closed)
    assert "output_config" not in old


def test_results_of_calls_that_nobody_remembers_follow_calls_made_up_of_the_prompt() -> None:
    call = ToolCall(id="c1", name="look", arguments={"what": "a"})
    result = ToolResult(call_id="c1", name="look", content={"n": 1}, is_error=True)
    messages = (
        PromptMessage(role="agent", author="a", parts=(Part(text="I look."), Part(call=call))),
        PromptMessage(role="tool", author="t", parts=(Part(result=result),)),
        PromptMessage(role="user", author="u", parts=(Part(text="go on"),)),
    )
    prompt = Prompt(query="q", messages=messages)
    contents = body_of("google:gemini-3-flash", prompt)["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert contents[1]["parts"][1]["thoughtSignature"]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"error": '{"n":1}'}
    said = body_of("anthropic:claude-opus-4-8", prompt)["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert [block["type"] for block in said[2]["content"]] == ["tool_result", "text"]
    assert said[2]["content"][0]["is_error"] is True
    items = body_of("openai:gpt-5.2", prompt)["input"]
    assert items[2]["call_id"] == items[3]["call_id"] == "c1"
    assert items[3]["output"] == '{"error":{"n":1}}'


def test_a_prompt_that_google_blocks_is_a_refusal() -> None:
    answer = heard("google", {"promptFeedback": {"blockReason": "SAFETY"}}, whole=True)
    assert (answer.finish, answer.refusal) == ("content_filter", "SAFETY")


@pytest.mark.parametrize(
    "reason",
    [
        "LANGUAGE",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "OTHER",
        "TOO_MANY_TOOL_CALLS",
        "UNEXPECTED_TOOL_CALL",
    ],
)
def test_what_google_fails_at_is_no_answer_whatever_was_said_before(reason: str) -> None:
    said = {"content": {"parts": [{"text": "Let me look."}]}}
    with pytest.raises(ServerFault):
        heard("google", {"candidates": [{"finishReason": reason}]}, whole=True)
    with pytest.raises(ServerFault):
        heard("google", {"candidates": [said]}, {"candidates": [{"finishReason": reason}]})


def test_a_reason_of_google_that_nobody_knows_ends_an_answer_but_is_none() -> None:
    said = {"content": {"parts": [{"text": "a"}]}, "finishReason": "SOMEDAY"}
    assert heard("google", {"candidates": [said]}, whole=True).finish == "stop"
    with pytest.raises(ServerFault):
        heard("google", {"candidates": [{"finishReason": "SOMEDAY"}]}, whole=True)


def test_a_model_of_google_may_be_named_with_its_folder() -> None:
    for model in ("gemini-2.5-flash", "gemini-3-pro-preview"):
        plain, named = (f"google:{folder}{model}?thinking=low" for folder in ("", "models/"))
        assert body_of(plain, Prompt(query="q")) == body_of(named, Prompt(query="q"))


def test_the_pieces_of_a_stream_of_google_are_put_together_but_for_what_is_signed() -> None:
    parts = [
        {"text": "hm", "thought": True},
        {"text": "m", "thought": True},
        {"text": "a"},
        {"text": "b"},
        {"text": "c", "thoughtSignature": "s"},
        {"functionCall": {"name": "t", "args": {}}},
    ]
    events = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    answer = heard("google", *events)
    assert answer.text == "abc"
    (said,) = answer.as_said()
    assert [part.get("text") for part in said["parts"]] == ["hmm", "ab", "c", None]
    assert said["parts"][3]["functionCall"]["id"] == answer.calls[0].id
    assert answer.finish is None


def test_tokens_of_thoughts_and_of_caches_are_counted() -> None:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "thoughtsTokenCount": 5}
    google = heard("google", {"usageMetadata": usage, "candidates": []}).tokens
    assert (google.input_tokens, google.output_tokens) == (10, 7)
    spent = {"input_tokens": 1, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 5}
    start = {"type": "message_start", "message": {"content": [], "usage": spent}}
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    answer = heard("anthropic", start, {**end, "usage": {"output_tokens": 3}})
    tokens = answer.tokens
    assert (tokens.input_tokens, tokens.output_tokens, tokens.cached_tokens) == (10, 3, 4)
    assert answer.written == 5


def test_what_openai_writes_into_its_cache_is_among_the_tokens_read() -> None:
    details = {"cached_tokens": 3, "cache_write_tokens": 5}
    usage = {"input_tokens": 10, "output_tokens": 1, "input_tokens_details": details}
    response = {"status": "completed", "output": [], "usage": usage}
    answer = heard("openai", {"type": "response.completed", "response": response})
    assert (answer.tokens.input_tokens, answer.tokens.cached_tokens, answer.written) == (10, 3, 5)
    chat = {"prompt_tokens": 10, "completion_tokens": 1, "prompt_tokens_details": details}
    answer = heard("openai-chat", {"choices": [], "usage": chat})
    assert (answer.tokens.input_tokens, answer.tokens.cached_tokens, answer.written) == (10, 3, 5)


def test_thoughts_that_anthropic_keeps_to_itself_go_back_as_they_came() -> None:
    hidden = {"type": "redacted_thinking", "data": "x"}
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": "{nope"}
    answer = heard(
        "anthropic",
        {"type": "message_start", "message": {"content": [], "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": hidden},
        {"type": "content_block_start", "index": 1, "content_block": use},
        {"type": "content_block_delta", "index": 1, "delta": delta},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "someday"}},
        {"type": "ping"},
    )
    assert "not JSON" in answer.calls[0].fault
    assert answer.as_said() == [{"role": "assistant", "content": [hidden, use]}]


def test_a_refusal_of_anthropic_is_told_in_its_words() -> None:
    details = {"type": "refusal", "explanation": "not this"}
    event = {"type": "message", "content": [], "stop_reason": "refusal", "stop_details": details}
    assert heard("anthropic", event, whole=True).refusal == "not this"


def test_a_response_that_ends_with_nothing_in_it_is_what_was_streamed() -> None:
    call = {"type": "function_call", "id": "f", "call_id": "c", "name": "t", "arguments": "{}"}
    ended: Any = {"status": "completed", "output": [], "usage": None}
    answer = heard(
        "openai",
        {"type": "response.output_text.delta", "delta": "a"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**call, "status": None}},
        {"type": "response.completed", "response": ended},
    )
    assert (answer.text, answer.finish, answer.calls[0].id) == ("a", "stop", "c")
    assert answer.as_said() == [call]


@pytest.mark.parametrize(
    ("status", "finish"), [("cancelled", None), ("in_progress", None), ("incomplete", "steered")]
)
def test_a_response_that_did_not_end_is_cut_off(status: str, finish: str | None) -> None:
    response = {"status": status, "output": [], "incomplete_details": {"reason": "steered"}}
    assert heard("openai", response, whole=True).finish == finish
