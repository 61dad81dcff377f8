"""What goes to the named providers over their HTTP, and comes back, with no library in between."""

import asyncio
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from provider_wires import DIRECT, KEY, keys, model_for, streamed

from acc.bootstrap.models import ProviderModel
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.content import Part, ToolCall, ToolResult, text_part
from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage, ToolSpec
from acc.testing.replies import Asked, Reply, fail, say
from acc.testing.stand_in import ProviderStandIn

PROMPT = Prompt(query="q")
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})
NAMED = tuple(name for name in DIRECT if name != "compatible")
EVERY = pytest.mark.parametrize("wire", DIRECT)
EITHER = pytest.mark.parametrize("streams", [False, True])
SEALED = "c2VhbGVk"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderStandIn]:
    async with ProviderStandIn() as running:
        with keys(running, monkeypatch):
            yield running


async def answer_of(model: ProviderModel, prompt: Prompt, *, streams: bool) -> ModelAnswer:
    return (await streamed(model, prompt))[1] if streams else await model.complete(prompt)


def after(answer: ModelAnswer) -> tuple[PromptMessage, ...]:
    """Return what follows an answer with calls: the calls, and what they brought."""
    results = [
        ToolResult(call_id=call.id, name=call.name, content="三十", is_error=place == 1)
        for place, call in enumerate(answer.calls)
    ]
    return (
        PromptMessage(role="agent", author="a", parts=tuple(Part(call=c) for c in answer.calls)),
        *(PromptMessage(role="tool", author="t", parts=(Part(result=r),)) for r in results),
    )


@EVERY
@EITHER
async def test_what_a_model_thought_goes_back_to_it_with_the_results_and_is_no_answer(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    model = model_for(wire, server)
    calls: Any = (("look", {"what": "a"}), ("look", {}))
    server.script = [Reply(thought="期限を見る", text="I look.", calls=calls), say("30")]
    prompt = Prompt(query="q", tools=(LOOK,))
    answer = await answer_of(model, prompt, streams=streams)
    assert answer.text == "I look."
    messages = after(answer)
    assert (await model.complete(Prompt(query="q", tools=(LOOK,), messages=messages))).text == "30"
    await model.aclose()
    said = server.asked[1].text
    assert said.count("期限を見る") == said.count("I look.") == 1
    # Imitators of OpenAI sign nothing.
    assert said.count(SEALED) == (0 if "chat" in server.asked[1].wire else 1)
    assert said.count("三十") == 2


@EVERY
async def test_nobody_is_told_what_was_said_in_another_conversation(
    wire: str, server: ProviderStandIn
) -> None:
    model = model_for(wire, server)
    server.script = [
        Reply(thought="Bob has the flu", text="Mr Bob, I look.", calls=(("look", {}),)),
        Reply(thought="Ann is well", text="Ms Ann, I look.", calls=(("look", {}),)),
        say("30"),
    ]
    await model.complete(Prompt(query="I am Bob", tools=(LOOK,)))
    answer = await model.complete(Prompt(query="I am Ann", tools=(LOOK,)))
    same = ModelAnswer(calls=(ToolCall(id=answer.calls[0].id, name="look"),))
    await model.complete(Prompt(query="I am Ann", tools=(LOOK,), messages=after(same)))
    await model.aclose()
    assert "Bob" not in server.asked[2].text
    assert "Ann is well" in server.asked[2].text


@EVERY
@EITHER
async def test_a_call_that_was_cut_off_is_not_made(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    model = model_for(wire, server)
    server.script = [Reply(calls=(("look", {}),), finish="length")]
    prompt = Prompt(query="q", tools=(LOOK,))
    (call,) = (await answer_of(model, prompt, streams=streams)).calls
    await model.aclose()
    assert (call.name, call.arguments) == ("look", {})
    assert "cut off" in call.fault


async def test_thoughts_that_belong_to_another_conversation_are_left_out(
    server: ProviderStandIn,
) -> None:
    model = model_for("anthropic", server)
    refused = fail(400, "messages.1: The block is bound to a different conversation")
    thinking = Reply(thought="deep", text="I look.", calls=(("look", {}),))
    server.script = [thinking, refused, say("30")]
    answer = await model.complete(Prompt(query="q", tools=(LOOK,)))
    prompt = Prompt(query="q", memory="other", tools=(LOOK,), messages=after(answer))
    assert (await model.complete(prompt)).text == "30"
    await model.aclose()
    assert ["deep" in asked.text for asked in server.asked] == [False, True, False]


async def test_a_tool_that_says_nothing_is_told_in_words(server: ProviderStandIn) -> None:
    model = model_for("anthropic", server)
    calls = PromptMessage(role="agent", author="a", parts=(Part(call=ToolCall(id="1", name="x")),))
    result = ToolResult(call_id="1", name="x", content=" ")
    back = PromptMessage(role="tool", author="x", parts=(Part(result=result),))
    await model.complete(Prompt(query="q", tools=(LOOK,), messages=(calls, back)))
    await model.aclose()
    said = server.asked[0].body["messages"][-1]["content"][0]["content"]
    assert said == [{"type": "text", "text": "(nothing)"}]


async def test_a_proxy_does_not_hear_what_goes_over_plain_http(
    server: ProviderStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    model = model_for("openai-chat", server)
    assert (await model.complete(PROMPT)).text
    await model.aclose()


def test_a_model_may_be_asked_and_closed_in_one_loop_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with ProviderStandIn() as running, keys(running, monkeypatch):
        model = model_for("openai-chat", running)
        asyncio.run(_asked(model))
        asyncio.run(model.aclose())
        asyncio.run(_asked(model))


async def _asked(model: ProviderModel) -> None:
    assert (await model.complete(PROMPT)).text
    await model.aclose()


#: How providers say that they do not take a setting.
REFUSALS: dict[str, Callable[[str], Reply]] = {
    "openai": lambda name: fail(
        400, f"Unsupported parameter: '{name}'.", kind="unsupported_parameter", param=name
    ),
    "openai-chat": lambda name: fail(
        400, "Only the default (1) value is taken.", kind="unsupported_value", param=name
    ),
    "anthropic": lambda name: fail(400, f"`{name}` is deprecated for this model."),
    "google": lambda name: fail(400, f"{name} is not supported by this model."),
    "compatible": lambda name: fail(422, f"unknown field: {name}"),
}
SPELLED = {
    "openai": {"temperature": "temperature", "top_p": "top_p", "thinking": "reasoning.effort"},
    "openai-chat": {"temperature": "temperature", "top_p": "top_p", "thinking": "reasoning_effort"},
    "anthropic": {"temperature": "temperature", "top_p": "top_p", "thinking": "thinking"},
    "google": {"temperature": "temperature", "top_p": "topP", "thinking": "Thinking level"},
    "compatible": {"temperature": "temperature", "top_p": "top_p", "thinking": "reasoning_effort"},
}
SENT = {
    "temperature": ('"temperature"',),
    "top_p": ('"top_p"', '"topP"'),
    "thinking": ('"reasoning"', '"reasoning_effort"', '"thinking"', '"thinkingConfig"', '"effort"'),
}


def picky(wire: str, *settings: str) -> Callable[[Asked], Reply]:
    """Return a model that takes none of some settings, and complains about one at a time."""

    def answer(asked: Asked) -> Reply:
        for setting in settings:
            if any(name in asked.text for name in SENT[setting]):
                return REFUSALS[wire](SPELLED[wire][setting])
        return say("ok")

    return answer


@EVERY
@EITHER
async def test_a_setting_that_a_model_does_not_take_is_left_out_and_not_sent_again(
    wire: str, streams: bool, server: ProviderStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_for(wire, server, temperature=0.5, top_p=0.9, thinking="high", max_tokens=77)
    server.script = [picky(wire, "temperature", "thinking")] * 4
    assert (await answer_of(model, PROMPT, streams=streams)).text == "ok"
    assert server.count == 3
    assert (await model.complete(PROMPT)).text == "ok"
    await model.aclose()
    assert server.count == 4
    for name in (*SENT["temperature"], *SENT["thinking"]):
        assert name not in server.asked[3].text
    assert "0.9" in server.asked[3].text and "77" in server.asked[3].text
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [message.partition(" does not take ")[2] for message in warned] == [
        "temperature, which is left out",
        "thinking, which is left out",
    ]
    assert KEY not in caplog.text


@EVERY
async def test_a_setting_is_left_out_once_and_then_the_refusal_is_told(
    wire: str, server: ProviderStandIn
) -> None:
    refusal = REFUSALS[wire](SPELLED[wire]["temperature"])
    server.script = [refusal] * 10
    model = model_for(wire, server, temperature=0.5)
    with pytest.raises(ModelFailed) as found:
        await model.complete(PROMPT)
    await model.aclose()
    assert (found.value.reason, server.count) == ("rejected", 2)


@EVERY
@pytest.mark.parametrize(
    "words",
    [
        "temperature: 9.0 is greater than the maximum of 2.0",
        "the model stopped: unsupported content",
        "max_tokens is not supported",
    ],
)
async def test_a_mistake_in_a_setting_is_told_and_nothing_is_left_out(
    wire: str, words: str, server: ProviderStandIn
) -> None:
    server.script = [fail(400, words)] * 3
    model = model_for(wire, server, temperature=9, top_p=0.9, max_tokens=5)
    with pytest.raises(ModelFailed, match="it rejected the request"):
        await model.complete(PROMPT)
    await model.aclose()
    assert server.count == 1


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_seed_that_a_provider_has_no_word_for_is_told_to_be_left_out(
    wire: str, server: ProviderStandIn, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    model = model_for(wire, server, seed=7)
    assert (await model.complete(PROMPT)).text
    await model.aclose()
    assert "seed" not in server.asked[0].body
    assert "does not take seed, which is left out" in caplog.text


@pytest.mark.parametrize(
    ("wire", "kind", "reason", "retryable"),
    [
        *((wire, "", "server", True) for wire in DIRECT),
        ("openai", "rate_limit_exceeded", "rate_limit", True),
        ("openai-chat", "insufficient_quota", "quota", False),
        ("anthropic", "overloaded_error", "overloaded", True),
        ("anthropic", "invalid_request_error", "rejected", False),
        ("anthropic", "authentication_error", "key_refused", False),
        ("compatible", "context_length_exceeded", "context_length", False),
    ],
)
async def test_an_error_within_a_stream_is_told(
    wire: str, kind: str, reason: str, retryable: bool, server: ProviderStandIn
) -> None:
    reply = say("one two three four five six", breaks=4, kind=kind, message=f"no room, {KEY}")
    server.script = [reply]
    model = model_for(wire, server)
    with pytest.raises(ModelFailed) as found:
        await streamed(model, PROMPT)
    await model.aclose()
    assert (found.value.reason, found.value.retryable) == (reason, retryable)
    assert ("no room" in str(found.value)) is (reason != "key_refused")
    assert KEY not in f"{found.value!r}"


async def test_every_provider_gets_its_key_as_it_wants_it(
    server: ProviderStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    for wire in NAMED:
        model = model_for(wire, server)
        await model.complete(PROMPT)
        await model.aclose()
    by_wire = {asked.wire: asked.headers for asked in server.asked}
    for wire in ("openai", "openai-chat", "anthropic"):
        assert by_wire[wire]["authorization"] == f"Bearer {KEY}"
    for wire in ("openai", "openai-chat"):
        assert by_wire[wire]["openai-project"] == "proj_1"
    assert by_wire["anthropic"]["anthropic-version"]
    assert by_wire["google"]["x-goog-api-key"] == KEY
    assert "authorization" not in by_wire["google"]


FILES = PromptMessage(
    role="user",
    author="user",
    parts=(
        *text_part("see"),
        Part(raw=b"\x89PNG", media_type="image/png"),
        Part(raw=b"%PDF", media_type="application/pdf", filename="a.pdf"),
        Part(raw="期限".encode(), media_type="text/plain", filename="m.txt"),
        Part(raw=b"PK", media_type="application/zip", filename="a.zip"),
        Part(raw=b"RIFF", media_type="audio/wav", filename="a.wav"),
    ),
)


@EVERY
async def test_files_are_shown_where_they_can_be_seen_and_named_where_not(
    wire: str, server: ProviderStandIn
) -> None:
    model = model_for(wire, server)
    await model.complete(Prompt(query="q", messages=(FILES,)))
    await model.aclose()
    said = server.asked[0].text
    for words in ("iVBORw==", "期限", "[a file a.zip, application/zip]"):
        assert words in said
    assert ("JVBERg==" in said) is (wire != "compatible")
    assert ("UklGRg==" in said) is (wire in ("openai-chat", "google"))
    assert ("[a file a.wav, audio/wav]" in said) is (wire not in ("openai-chat", "google"))


async def test_what_a_model_of_anthropic_may_write_at_length_is_streamed(
    server: ProviderStandIn,
) -> None:
    most: Any = []
    for settings in ({}, {"max_tokens": 99}):
        model = model_for("anthropic", server, **settings)
        assert "stand-in" in (await model.complete(PROMPT)).text
        await model.aclose()
        asked = server.asked[-1]
        most.append((asked.body["max_tokens"], asked.stream))
    assert most == [(128_000, True), (99, False)]


ASKING = """
import asyncio, json, sys
sys.modules.update(dict.fromkeys({blocked!r}))
from acc.bootstrap.models import ProviderModel
from acc.ports.outbound.model_ports import Prompt

async def ask(name):
    model = ProviderModel(name)
    answer = await model.complete(Prompt(query="q"))
    last = [piece async for piece in model.stream(Prompt(query="q"))][-1]
    await model.aclose()
    return [answer.text, last.text, answer.usage.cost]

found = [asyncio.run(ask(name)) for name in {names!r}]
loaded = sorted(set({libraries!r}) & {{name for name, held in sys.modules.items() if held}})
print(json.dumps([found, loaded]))
"""
LIBRARIES = ["anthropic", "google.genai", "openai", "pydantic_ai"]


@pytest.mark.parametrize("blocked", [[], [*LIBRARIES, "genai_prices"]])
def test_the_named_providers_are_asked_with_no_library_loaded_or_even_installed(
    blocked: list[str],
) -> None:
    names = [
        "openai:gpt-5.2",
        "openai-chat:gpt-5.2",
        "anthropic:claude-opus-4-8",
        "google:gemini-3-pro-preview",
    ]
    code = ASKING.format(blocked=blocked, names=names, libraries=LIBRARIES)
    with ProviderStandIn() as server:
        run = subprocess.run(  # noqa: S603 - our own interpreter
            [sys.executable, "-c", code],
            env={**os.environ, **server.environment(KEY), "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    found, loaded = json.loads(run.stdout)
    assert loaded == []
    for whole, last, cost in found:
        assert "ここは代役です" in whole and whole == last
        # Without the list nothing has a price.
        assert (cost is None) is bool(blocked)


@pytest.mark.parametrize("wire", [*DIRECT, "library"])
@EITHER
async def test_tools_may_have_names_in_any_script(
    wire: str, streams: bool, server: ProviderStandIn
) -> None:
    model = model_for(wire, server)
    schema = {"type": "object", "properties": {"都市": {"type": "string"}}, "required": ["都市"]}
    tool = ToolSpec(name="天気", description="天気を調べる。", parameters=schema)

    def call(asked: Asked) -> Reply:
        (named,) = re.findall(r"tool_[0-9a-f]{8}", asked.text)
        (key,) = re.findall(r'"required": \["([^"]+)"\]', asked.text)
        return Reply(calls=((named, {key: "札幌"}),))

    server.script = [call, say("晴れ")]
    answer = await answer_of(model, Prompt(query="q", tools=(tool,)), streams=streams)
    assert [(c.name, c.arguments) for c in answer.calls] == [("天気", {"都市": "札幌"})]
    prompt = Prompt(query="q", tools=(tool,), messages=after(answer))
    assert (await answer_of(model, prompt, streams=streams)).text == "晴れ"
    await model.aclose()
    for asked in server.asked:
        names = re.findall(r'"name": "([^"]*)"', asked.text)
        assert names
        assert all(map(str.isascii, names))
        assert "天気: 天気を調べる。" in asked.text


async def test_a_run_that_goes_on_elsewhere_goes_on_without_the_thoughts_that_stayed_behind(
    server: ProviderStandIn,
) -> None:
    thinks: Any = {"attempts": 1, "thinking": "on"}
    server.script = [Reply(thought="期限を見る", calls=(("look", {}),)), say("30"), say("31")]
    here = ProviderModel("anthropic:claude-sonnet-4-5", **thinks)
    answer = await here.complete(Prompt(query="q", tools=(LOOK,)))
    later = Prompt(query="q", tools=(LOOK,), messages=after(answer))
    await here.complete(later)
    await here.aclose()
    elsewhere = ProviderModel("anthropic:claude-sonnet-4-5", **thinks)
    assert (await elsewhere.complete(later)).text == "31"
    await elsewhere.aclose()
    first, second, third = server.asked
    assert first.body["thinking"] == second.body["thinking"]
    assert second.body["messages"][1]["content"][0]["type"] == "thinking"
    assert "thinking" not in third.text
    assert third.body["max_tokens"] == first.body["max_tokens"]
