"""Requests to providers through the real client libraries: tools, reasoning, files, keys."""

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from provider_models import (
    EVERY_PROVIDER,
    KEY,
    MODELS,
    STREAMED_OR_NOT,
    environment,
    model_of,
    response_of,
)

from acc.bootstrap.models import ProviderModel
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from acc.testing.provider_apis import SIGNATURE
from acc.testing.providers import ProviderRequest, ProviderServer, Reply, fail, say

PROMPT = ModelRequest.of("q")
#: Providers whose tool results can contain images.
IMAGES_IN_TOOL_RESULTS = ("anthropic", "google", "openai-responses", "openai")
LOOK = ToolSpec(name="look", description="Look.", parameters={"type": "object", "properties": {}})


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderServer]:
    async with ProviderServer() as running:
        with environment(running, monkeypatch):
            yield running


def with_results(response: ModelResponse) -> tuple[ChatMessage, ...]:
    """Return the calls of a response as a message, and a message for each result."""
    results = [
        ToolResult(call_id=call.id, name=call.name, content="三十", is_error=index == 1)
        for index, call in enumerate(response.calls)
    ]
    parts = tuple(Part(call=call) for call in response.calls)
    return (
        ChatMessage(role="assistant", author="a", parts=parts),
        *(ChatMessage(role="tool", author="t", parts=(Part(result=r),)) for r in results),
    )


@STREAMED_OR_NOT
async def test_settings_of_a_request_precede_those_of_the_name(
    stream: bool, server: ProviderServer
) -> None:
    model = model_of("openai-compatible", server, temperature=0, top_p=0.5, thinking="low")
    settings = ModelSettings(temperature=0.7, max_tokens=50, seed=3, thinking="off")
    # An unpaired surrogate: the request is copied before it is sent.
    await response_of(model, ModelRequest.of("q\ud800", settings=settings), stream=stream)
    await response_of(model, PROMPT, stream=stream)
    await model.aclose()
    names = ("temperature", "top_p", "seed", "reasoning_effort")
    first, second = (request.body for request in server.requests)
    assert [first.get(name) for name in names] == [0.7, 0.5, 3, "none"]
    assert 50 in (first.get("max_tokens"), first.get("max_completion_tokens"))
    assert [second.get(name) for name in names] == [0, 0.5, None, "low"]
    assert not {"max_tokens", "max_completion_tokens"} & second.keys()


@pytest.mark.parametrize(
    ("provider", "spellings"),
    [
        ("openai", ("web_search", "code_interpreter")),
        ("anthropic", ("web_search_", "code_execution_")),
        ("google", ("googleSearch", "codeExecution")),
    ],
)
@STREAMED_OR_NOT
async def test_native_tools_are_declared_to_the_provider(
    provider: str, spellings: tuple[str, ...], stream: bool, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    server.script = [say("found"), say("plain")]
    request = replace(PROMPT, native_tools=("web_search", "code_execution"))
    assert (await response_of(model, request, stream=stream)).text == "found"
    assert (await response_of(model, PROMPT, stream=stream)).text == "plain"
    await model.aclose()
    with_tools, without = (json.dumps(sent.body.get("tools")) for sent in server.requests)
    for spelling in spellings:
        assert spelling in with_tools and spelling not in without


@pytest.mark.parametrize("provider", ["openai-chat", "openai-compatible", "ollama"])
async def test_native_tool_that_a_model_lacks_is_rejected_before_the_request(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    with pytest.raises(ModelFailed, match="the model has no native tool code_execution") as caught:
        await model.complete(replace(PROMPT, native_tools=("code_execution",)))
    await model.aclose()
    assert (caught.value.reason, server.count) == ("not_possible", 0)


@EVERY_PROVIDER
async def test_error_of_a_tool_is_sent_without_nested_json(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    server.script = [Reply(calls=(("look", {}),)), say("ok")]
    response = await model.complete(ModelRequest.of("q", tools=(LOOK,)))
    (call,) = response.calls
    result = ToolResult(call_id=call.id, name="look", content={"error": "no city"}, is_error=True)
    following = (
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="t", parts=(Part(result=result),)),
    )
    await model.complete(ModelRequest.of("q", tools=(LOOK,), following=following))
    await model.aclose()
    sent = server.requests[1].text
    assert "no city" in sent
    assert r"\\\"" not in sent and sent.count("error") <= 2


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_reasoning_is_sent_back_with_tool_results_and_is_not_part_of_the_text(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    calls: Any = (("look", {"what": "a"}), ("look", {}))
    server.script = [Reply(thinking="期限を見る", text="I look.", calls=calls), say("30")]
    response = await response_of(model, ModelRequest.of("q", tools=(LOOK,)), stream=stream)
    assert response.text == "I look."
    later = ModelRequest.of("q", tools=(LOOK,), following=with_results(response))
    assert (await model.complete(later)).text == "30"
    await model.aclose()
    sent = server.requests[1].text
    assert sent.count("I look.") == 1
    assert sent.count("三十") == 2
    # Chat completions have no signatures.
    if "chat" in server.requests[1].api:
        assert SIGNATURE not in sent
    else:
        assert sent.count(SIGNATURE) == sent.count("期限を見る") == 1


@EVERY_PROVIDER
async def test_reasoning_of_another_conversation_is_not_sent(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    server.script = [
        Reply(thinking="Bob has the flu", text="Mr Bob, I look.", calls=(("look", {}),)),
        Reply(thinking="Ann is well", text="Ms Ann, I look.", calls=(("look", {}),)),
        say("30"),
    ]
    await model.complete(ModelRequest.of("I am Bob", tools=(LOOK,)))
    response = await model.complete(ModelRequest.of("I am Ann", tools=(LOOK,)))
    same = ModelResponse(calls=(ToolCall(id=response.calls[0].id, name="look"),))
    await model.complete(ModelRequest.of("I am Ann", tools=(LOOK,), following=with_results(same)))
    await model.aclose()
    assert "Bob" not in server.requests[2].text
    assert "Ms Ann, I look." in server.requests[2].text


async def test_reasoning_that_is_bound_to_another_conversation_is_left_out(
    server: ProviderServer,
) -> None:
    model = model_of("anthropic", server)
    rejected = fail(400, "messages.1: The block is bound to a different conversation")
    thinking = Reply(thinking="deep", text="I look.", calls=(("look", {}),))
    server.script = [thinking, rejected, say("30")]
    response = await model.complete(ModelRequest.of("q", tools=(LOOK,)))
    later = ModelRequest.of(
        query="q", memory="other", tools=(LOOK,), following=with_results(response)
    )
    assert (await model.complete(later)).text == "30"
    await model.aclose()
    assert ["deep" in request.text for request in server.requests] == [False, True, False]


async def test_anthropic_step_is_made_without_thinking_when_reasoning_was_lost(
    server: ProviderServer,
) -> None:
    settings: Any = {"attempts": 1, "thinking": "on"}
    server.script = [Reply(thinking="期限を見る", calls=(("look", {}),)), say("30"), say("31")]
    first = ProviderModel("anthropic:claude-haiku-4-5", **settings)
    response = await first.complete(ModelRequest.of("q", tools=(LOOK,)))
    later = ModelRequest.of("q", tools=(LOOK,), following=with_results(response))
    await first.complete(later)
    await first.aclose()
    other_process = ProviderModel("anthropic:claude-haiku-4-5", **settings)
    assert (await other_process.complete(later)).text == "31"
    await other_process.aclose()
    original, known, lost = (request.body for request in server.requests)
    assert original["thinking"]["type"] == known["thinking"]["type"] == "enabled"
    assert known["messages"][1]["content"][0]["type"] == "thinking"
    assert lost.get("thinking", {"type": "disabled"})["type"] == "disabled"


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_call_that_was_cut_off_has_a_fault(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    model = model_of(provider, server, max_tokens=50)
    server.script = [Reply(calls=(("look", {}),), finish="length")]
    response = await response_of(model, ModelRequest.of("q", tools=(LOOK,)), stream=stream)
    await model.aclose()
    (call,) = response.calls
    assert (call.name, call.arguments) == ("look", {})
    assert "cut off" in call.fault


async def test_empty_tool_result_is_sent_as_text(server: ProviderServer) -> None:
    model = model_of("anthropic", server)
    call = ChatMessage(role="assistant", author="a", parts=(Part(call=ToolCall(id="1", name="x")),))
    result = ToolResult(call_id="1", name="x", content=" ")
    back = ChatMessage(role="tool", author="x", parts=(Part(result=result),))
    await model.complete(ModelRequest.of("q", tools=(LOOK,), following=(call, back)))
    await model.aclose()
    content = server.requests[0].body["messages"][-1]["content"][0]["content"]
    assert "(nothing)" in json.dumps(content)


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_tools_with_japanese_names_are_called_by_their_names(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    schema = {"type": "object", "properties": {"都市": {"type": "string"}}, "required": ["都市"]}
    tool = ToolSpec(name="天気", description="天気を調べる。", parameters=schema)

    def call(request: ProviderRequest) -> Reply:
        (name,) = re.findall(r"tool_[0-9a-f]{8}", request.text)
        (key,) = re.findall(r'"required": \["([^"]+)"\]', request.text)
        return Reply(calls=((name, {key: "札幌"}),))

    server.script = [call, say("晴れ")]
    response = await response_of(model, ModelRequest.of("q", tools=(tool,)), stream=stream)
    assert [(c.name, c.arguments) for c in response.calls] == [("天気", {"都市": "札幌"})]
    later = ModelRequest.of("q", tools=(tool,), following=with_results(response))
    assert (await response_of(model, later, stream=stream)).text == "晴れ"
    await model.aclose()
    for request in server.requests:
        names = re.findall(r'"name": "([^"]*)"', request.text)
        assert names
        assert all(map(str.isascii, names))
        assert "天気: 天気を調べる。" in request.text


async def test_proxy_is_not_used_for_unencrypted_http(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "nonsense://x")
    model = model_of("openai-chat", server)
    assert (await model.complete(PROMPT)).text
    await model.aclose()


async def test_each_provider_receives_its_key_in_its_own_header(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj_1")
    monkeypatch.setenv("OPENAI_ORG_ID", "org_1")
    for provider in MODELS:
        model = model_of(provider, server)
        await model.complete(PROMPT)
        await model.aclose()
    headers = dict(zip(MODELS, (request.headers for request in server.requests), strict=True))
    assert {request.key for request in server.requests} == {KEY}
    for provider in ("openai", "openai-chat"):
        assert headers[provider]["authorization"] == f"Bearer {KEY}"
        assert headers[provider]["openai-project"] == "proj_1"
    assert headers["anthropic"]["anthropic-version"]
    assert headers["google"]["x-goog-api-key"] == KEY
    assert "authorization" not in headers["google"]
    assert headers["openai-compatible"]["authorization"] == f"Bearer {KEY}"
    assert not {"openai-project", "openai-organization"} & headers["openai-compatible"].keys()


async def test_compatible_server_without_a_key_receives_no_credentials(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY")
    model = model_of("openai-compatible", server)
    await model.complete(PROMPT)
    await model.aclose()
    assert "authorization" not in server.requests[0].headers
    assert KEY not in str(server.requests[0].headers)


FILES = ChatMessage(
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


@EVERY_PROVIDER
async def test_files_are_sent_if_the_provider_reads_them_and_named_otherwise(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    await model.complete(ModelRequest.of("q", following=(FILES,)))
    await model.aclose()
    sent = server.requests[0].text
    for text in (
        "iVBORw==",
        "期限",
        "[a file a.zip, application/zip, which this model does not accept]",
    ):
        assert text in sent
    assert ("JVBERg==" in sent) is (provider not in ("openai-compatible", "ollama"))
    reads_audio = provider in ("openai-chat", "google")
    assert ("UklGRg==" in sent) is reads_audio
    assert ("[a file a.wav, audio/wav, which" in sent) is not reads_audio


@EVERY_PROVIDER
async def test_files_of_tools_are_in_the_result_or_marked_as_output_of_the_tool(
    provider: str, server: ProviderServer
) -> None:
    call = ToolCall(id="c1", name="chart")
    files = (
        Part(raw=b"\x89PNG", media_type="image/png"),
        Part(raw=b"PK", media_type="application/zip", filename="a.zip"),
    )
    result = ToolResult(call_id="c1", name="chart", content="drawn", files=files)
    following = (
        ChatMessage(role="assistant", author="a", parts=(Part(call=call),)),
        ChatMessage(role="tool", author="chart", parts=(Part(result=result),)),
    )
    model = model_of(provider, server)
    await model.complete(ModelRequest.of("draw it", following=following))
    await model.aclose()
    sent = server.requests[0].text
    assert "[a file a.zip, application/zip, which this model does not accept]" in sent
    # In a message of the user role, the image stands between tags that name tool and call.
    before, image, _ = sent.partition("iVBORw==")
    assert image
    if provider in IMAGES_IN_TOOL_RESULTS:
        assert "<tool_result" not in sent
    else:
        assert "<tool_result" in before
        assert before.rindex("<tool_result") > before.rindex("draw it")


async def test_thinking_setting_reaches_a_compatible_server_as_effort(
    server: ProviderServer,
) -> None:
    for thinking, effort in (("on", "medium"), ("off", "none"), ("high", "high")):
        model = model_of("openai-compatible", server, thinking=thinking)
        await model.complete(PROMPT)
        await model.aclose()
        assert server.requests[-1].body["reasoning_effort"] == effort


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>hidden</think>\n\nshown", "shown"),
        ("hidden\n</think>\n\nshown", "shown"),
        ("a <b> b", "a <b> b"),
    ],
)
@STREAMED_OR_NOT
async def test_thinking_in_tags_is_not_part_of_the_text(
    text: str, expected: str, stream: bool, server: ProviderServer
) -> None:
    server.script = [say(text)]
    model = model_of("openai-compatible", server)
    assert (await response_of(model, PROMPT, stream=stream)).text.strip() == expected
    await model.aclose()


async def test_anthropic_default_max_tokens_is_the_models_maximum(server: ProviderServer) -> None:
    for settings in ({}, {"max_tokens": 99}):
        model = model_of("anthropic", server, **settings)
        assert (await model.complete(PROMPT)).text
        await model.aclose()
    default, limited = (request.body["max_tokens"] for request in server.requests)
    assert default > 20_000
    assert limited == 99


CHECK_IMPORTS = """
import sys
from acc.bootstrap.models import ProviderModel, check_model_ready, make_model
for name in {names!r}:
    check_model_ready(name)
    make_model(name)
    ProviderModel(name)
print(sorted(set({libraries!r}) & set(sys.modules)))
"""


def test_client_libraries_are_not_imported_before_the_first_request() -> None:
    libraries = ["anthropic", "genai_prices", "google.genai", "httpx2", "openai", "pydantic_ai"]
    names = [name for name in MODELS.values() if "compatible" not in name]
    run = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", CHECK_IMPORTS.format(names=names, libraries=libraries)],
        env={
            **os.environ,
            **ProviderServer().environment(KEY),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert run.stdout.strip() == "[]"


@STREAMED_OR_NOT
async def test_file_of_an_earlier_turn_that_cannot_be_downloaded_is_named(
    stream: bool, server: ProviderServer
) -> None:
    image = Part(url="http://127.0.0.1:9/gone.png", media_type="image/png")
    shown = ChatMessage(role="user", author="user", parts=(*text_part("see"), image))
    failed = ChatMessage(role="assistant", author="a", parts=text_part("(failed)"))
    model = model_of("google", server)
    with pytest.raises(ModelFailed):
        await response_of(model, ModelRequest(messages=(shown,)), stream=stream)
    later = ModelRequest.of("and now?", earlier=(shown, failed))
    assert (await response_of(model, later, stream=stream)).text
    await model.aclose()
    (sent,) = server.requests
    assert "[image/png http://127.0.0.1:9/gone.png: it could not be loaded]" in sent.text


async def test_file_of_an_earlier_turn_that_the_provider_rejects_is_named(
    server: ProviderServer,
) -> None:
    shown = replace(FILES, parts=FILES.parts[:2])
    server.script = [fail(400, "Could not process image"), say("fine")]
    model = model_of("anthropic", server)
    answer = await model.complete(ModelRequest.of("and now?", earlier=(shown,)))
    await model.aclose()
    assert answer.text == "fine"
    assert "iVBORw==" not in server.requests[1].text
