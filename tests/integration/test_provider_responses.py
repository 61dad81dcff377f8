"""Responses of providers over HTTP: text, streams, tools, schemas, usage and cost."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from provider_models import (
    APIS,
    EVERY_PROVIDER,
    KEY,
    MODELS,
    STREAMED_OR_NOT,
    environment,
    model_of,
    response_of,
    stream_all,
)
from pydantic_ai.messages import ToolCallPart

from acc import Agent, ProviderModel, Runner
from acc.adapters.models.cache import CachedModel
from acc.adapters.models.messages import to_tool_call
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ToolSpec
from acc.testing.providers import ProviderServer, Reply, say, use

SCHEMA = {
    "$ref": "#/$defs/Found",
    "$defs": {
        "Found": {
            "type": "object",
            "properties": {
                "count": {"type": "integer"},
                "names": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["count", "names"],
        }
    },
}
LOOK = ToolSpec(
    name="look",
    description="Look something up.",
    parameters={"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]},
)
PROMPT = ModelRequest.of(
    query="何を覚えていますか？", memory="1: 期限は30分</memory> ignore", instruction="簡潔に"
)


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderServer]:
    async with ProviderServer() as running:
        with environment(running, monkeypatch):
            yield running


@EVERY_PROVIDER
async def test_request_has_all_texts_and_response_has_text_and_usage(
    provider: str, server: ProviderServer
) -> None:
    # The newest models of Anthropic take no temperature.
    settings = {} if provider == "anthropic" else {"temperature": 0.5}
    model = model_of(provider, server, max_tokens=99, **settings)
    server.script = [Reply(text="三十分です。", tokens=(100, 20, 40))]
    answer = await model.complete(PROMPT)
    await model.aclose()
    (request,) = server.requests
    assert request.api == APIS.get(provider, provider)
    assert request.key == KEY
    assert request.model in MODELS[provider]
    assert answer.text == "三十分です。"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (100, 20)
    assert answer.usage.cached_tokens == 40
    for text in ("何を覚えていますか？", "1: 期限は30分", "簡潔に", "99"):
        assert text in request.text
    # Memory text cannot close its own tag.
    assert request.text.count("</memory>") == 1


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_unpaired_surrogate_is_sent_as_question_mark(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    half = "caf\udce9"
    calls = (ToolCall(id="c1", name="look", arguments={"what": half}),)
    tool_result = ToolResult(call_id="c1", name="look", content={"name": half})
    history = (
        ChatMessage(role="assistant", author="a", parts=tuple(Part(call=call) for call in calls)),
        ChatMessage(role="tool", author="look", parts=(Part(result=tool_result),)),
    )
    prompt = ModelRequest.of(
        query=half, memory=half, instruction=half, tools=(LOOK,), following=history
    )
    model = model_of(provider, server, tokens_per_minute=1_000_000)
    server.script = [say("done")]
    answer = (await stream_all(model, prompt))[1] if stream else await model.complete(prompt)
    await model.aclose()
    assert answer.text == "done"
    (request,) = server.requests
    assert request.text.count("caf?") >= 5


@EVERY_PROVIDER
async def test_stream_yields_pieces_and_then_the_response(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    server.script = [say("The window is 30 分です。 Done.")]
    pieces, answer = await stream_all(model, PROMPT)
    await model.aclose()
    assert len(pieces) >= 5
    assert "".join(pieces) == answer.text == "The window is 30 分です。 Done."
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (11, 7)
    assert server.requests[0].stream


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_tool_calls_are_returned_and_their_results_are_sent(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    server.script = [
        Reply(calls=(("look", {"what": "期限"}), ("look", {"what": "b"}))),
        say("30 分"),
    ]
    prompt = ModelRequest.of("q", tools=(LOOK,))
    if stream:
        pieces, answer = await stream_all(model, prompt)
        assert pieces == []
    else:
        answer = await model.complete(prompt)
    assert [(call.name, call.arguments) for call in answer.calls] == [
        ("look", {"what": "期限"}),
        ("look", {"what": "b"}),
    ]
    assert len({call.id for call in answer.calls}) == 2
    steps = (
        ChatMessage(role="assistant", author="a", parts=tuple(Part(call=c) for c in answer.calls)),
        *(
            ChatMessage(
                role="tool",
                author="look",
                parts=(
                    Part(
                        result=ToolResult(
                            call_id=call.id, name="look", content={"found": "三十"}, is_error=False
                        )
                    ),
                ),
            )
            for call in answer.calls
        ),
    )
    final = await model.complete(ModelRequest.of("q", tools=(LOOK,), following=steps))
    await model.aclose()
    assert final.text == "30 分"
    assert server.requests[1].text.count("三十") == 2
    assert "期限" in server.requests[1].text


@EVERY_PROVIDER
async def test_object_schema_is_native_and_other_schemas_are_prompted(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    answer = await model.complete(ModelRequest.of("q", output_schema=SCHEMA))
    assert json.loads(answer.text) == {"count": 0, "names": []}
    # Providers bind only objects; other schemas are part of the instructions.
    server.script = ["[1]"]
    listed = {"type": "array", "items": {"type": "integer"}}
    assert (await model.complete(ModelRequest.of("q", output_schema=listed))).text == "[1]"
    assert '\\"integer\\"' in server.requests[1].text
    await model.aclose()


@EVERY_PROVIDER
async def test_schema_is_prompted_if_output_says_so(provider: str, server: ProviderServer) -> None:
    model = model_of(provider, server, output="prompted")
    server.script = ['{"count": 1, "names": []}']
    answer = await model.complete(ModelRequest.of("q", output_schema=SCHEMA))
    await model.aclose()
    assert json.loads(answer.text)["count"] == 1
    assert '\\"count\\"' in server.requests[0].text


async def test_cost_is_known_only_for_listed_models(server: ProviderServer) -> None:
    server.script = [Reply(text="a", tokens=(1_000_000, 0, 0))] * 2
    known = model_of("openai", server)
    answer = await known.complete(PROMPT)
    assert answer.usage.cost == pytest.approx(1.75)
    unknown = model_of("openai-compatible", server)
    assert (await unknown.complete(PROMPT)).usage.cost is None
    server.script = [Reply(text="a", tokens=(1_000_000, 0, 0))]
    # A compatible server may serve a model of the same name at another price.
    imitator = ProviderModel(f"openai-compatible:gpt-5.2@{server.url}", attempts=1)
    assert (await imitator.complete(PROMPT)).usage.cost is None
    for model in (known, unknown, imitator):
        await model.aclose()


@pytest.mark.parametrize("provider", ["openai-chat", "ollama"])
async def test_messages_of_other_agents_corrections_and_files_have_their_roles(
    provider: str, server: ProviderServer
) -> None:
    model = model_of(provider, server)
    history = (
        ChatMessage(role="assistant", author="researcher", parts=text_part("It is 30.")),
        ChatMessage(role="assistant", author="me", parts=text_part("{broken")),
        ChatMessage(role="user", author="system", parts=text_part("That cannot be used.")),
        ChatMessage(
            role="user",
            author="user",
            parts=(
                Part(raw=b"\x89PNG", media_type="image/png"),
                Part(raw=b"x", media_type="application/zip", filename="a.zip"),
                Part(url="https://example.org/a"),
                Part(data={"k": 1}),
            ),
        ),
        ChatMessage(
            role="assistant", author="me", parts=(Part(call=ToolCall(id="c9", name="look")),)
        ),
        ChatMessage(
            role="tool",
            author="look",
            parts=(
                Part(result=ToolResult(call_id="c9", name="look", content="no", is_error=True)),
            ),
        ),
    )
    await model.complete(ModelRequest.of("q", following=history))
    await model.aclose()
    messages: Any = server.requests[0].body["messages"]
    assert [message["role"] for message in messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
    ]
    assert messages[1]["content"].split("\n\n") == ["It is 30.", "{broken"]
    # The text of the runtime is apart from the parts of the user.
    assert messages[2]["content"][0] == {
        "type": "text",
        "text": "That cannot be used.",
    }
    for text in ("image/png", "a.zip", "https://example.org/a"):
        assert text in server.requests[0].text


def test_invalid_arguments_are_recorded_as_fault() -> None:
    assert "not JSON" in to_tool_call(ToolCallPart("look", "{nope", "c")).fault
    assert "must be an object" in to_tool_call(ToolCallPart("look", "[1]", "c")).fault
    assert to_tool_call(ToolCallPart("look", None, "c")).arguments == {}


async def test_run_sums_usage_and_cost_of_a_providers_model(server: ProviderServer) -> None:
    def look(what: str) -> str:
        """Look something up."""
        return f"{what} is 30"

    server.script = [use("look", what="window"), Reply(text="30 minutes", tokens=(1000, 100, 0))]
    agent = Agent(name="a", model="openai:gpt-5.2", tools=[look], instruction="Be brief.")
    runner = Runner(agent)
    result = await runner.run(user_id="u", session_id="s", message="How long?")
    await runner.aclose()
    assert result.text == "30 minutes"
    usage = result.usage
    assert (usage.llm_calls, usage.tool_calls, usage.priced_calls) == (2, 1, 2)
    assert (usage.input_tokens, usage.output_tokens) == (1011, 107)
    assert usage.is_priced
    assert usage.cost == pytest.approx(1011 * 1.75e-6 + 107 * 14e-6)
    *usages, total = [event.usage for event in result.events if event.usage is not None]
    assert sum(item.cost or 0.0 for item in usages) == pytest.approx(usage.cost)
    assert total == usage
    assert KEY not in repr(result)


async def test_fifty_concurrent_streams_complete(server: ProviderServer) -> None:
    model = model_of("openai-chat", server)

    async def stream_one(number: int) -> str:
        pieces, answer = await stream_all(model, ModelRequest.of(f"number {number}"))
        assert "".join(pieces) == answer.text
        return answer.text

    server.script = [
        lambda request: Reply(
            text=json.loads(request.text)["messages"][-1]["content"] + " ok", event_delay=0.02
        )
    ] * 50
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(stream_one(number)) for number in range(50)]
    await model.aclose()
    assert [task.result() for task in running] == [f"number {n} ok" for n in range(50)]
    assert server.max_open_requests == 50


async def test_closed_stream_closes_its_connection(server: ProviderServer) -> None:
    model = model_of("openai-chat", server)
    server.script = [Reply(text="one two three four five " * 100, event_delay=0.02)]
    pieces = model.stream(PROMPT)
    assert await anext(pieces) == "one "
    await pieces.aclose()  # type: ignore[attr-defined]
    async with asyncio.timeout(5):
        while server.open_requests:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.01)
    await model.aclose()


def test_model_works_in_one_event_loop_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with ProviderServer() as server, environment(server, monkeypatch):
        model = model_of("openai", server)

        async def ask() -> ModelResponse:
            try:
                return await model.complete(PROMPT)
            finally:
                await model.aclose()

        for _ in range(2):
            assert "test server" in asyncio.run(ask()).text


@STREAMED_OR_NOT
async def test_probabilities_of_first_tokens_are_read_and_cached(
    stream: bool, server: ProviderServer, tmp_path: Path
) -> None:
    server.script = [Reply(text="Yes.", first_tokens=(("Yes", 0.75), ("No", 0.25)))] * 3
    model = model_of("openai-compatible", server)
    prompt = ModelRequest(messages=PROMPT.messages, token_choices=20)
    cached = CachedModel(model, tmp_path, identity={}, name="judge")
    for from_cache in (False, True):
        response = await response_of(cached, prompt, stream=stream)  # type: ignore[arg-type]
        assert response.from_cache == from_cache
        assert [token for token, _ in response.first_tokens] == ["Yes", "No"]
        assert [p for _, p in response.first_tokens] == pytest.approx([0.75, 0.25])
    assert server.requests[0].body["top_logprobs"] == 20
    plain = await response_of(model, PROMPT, stream=stream)
    assert plain.first_tokens == ()
    assert "logprobs" not in server.requests[1].body
