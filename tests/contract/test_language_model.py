"""Contract of LanguageModelPort and StreamingModelPort."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from language_model_factories import MAKERS, TEXT_PROMPT, TOOL_PROMPT, WRAPPERS, make_model

from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    StreamingModelPort,
)
from acc.testing import ScriptedModel


@pytest.fixture(params=[*MAKERS, *WRAPPERS])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> LanguageModelPort:
    return make_model(request.param, tmp_path)


async def stream(model: LanguageModelPort, prompt: ModelRequest) -> tuple[list[str], ModelResponse]:
    """Return the pieces and the complete response of a stream."""
    assert isinstance(model, StreamingModelPort)
    *pieces, last = [item async for item in model.stream(prompt)]
    assert isinstance(last, ModelResponse)
    assert all(isinstance(artifact_chunk, str) for artifact_chunk in pieces)
    return cast("list[str]", pieces), last


async def test_complete_returns_text_for_question(model: LanguageModelPort) -> None:
    response = await model.complete(TEXT_PROMPT)
    assert isinstance(response, ModelResponse)
    assert "Mara Lindqvist" in response.text
    assert response.calls == ()


async def test_complete_returns_tool_call_for_known_tool(model: LanguageModelPort) -> None:
    response = await model.complete(TOOL_PROMPT)
    (call,) = response.calls
    assert (call.name, dict(call.arguments)) == ("current_weather", {"city": "Paris"})
    assert call.id


async def test_usage_is_never_negative(model: LanguageModelPort) -> None:
    usage = (await model.complete(TEXT_PROMPT)).usage
    assert min(usage.llm_calls, usage.input_tokens, usage.output_tokens) >= 0
    assert usage.cost is None or usage.cost >= 0


async def test_same_prompt_gives_same_text(model: LanguageModelPort) -> None:
    first = await model.complete(TEXT_PROMPT)
    assert (await model.complete(TEXT_PROMPT)).text == first.text


async def test_concurrent_calls_get_their_own_responses(model: LanguageModelPort) -> None:
    names = [f"Person N-{number}" for number in range(8)]
    prompts = [
        ModelRequest.of("Who is the lead?", memory=f"user: The lead is {name}.") for name in names
    ]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(model.complete(prompt)) for prompt in prompts]
    assert all(name in task.result().text for name, task in zip(names, tasks, strict=True))


async def test_stream_yields_pieces_then_complete_response(model: LanguageModelPort) -> None:
    pieces, last = await stream(model, TEXT_PROMPT)
    assert "".join(pieces) == last.text
    assert last.text == (await model.complete(TEXT_PROMPT)).text


async def test_stream_of_tool_call_ends_with_call(model: LanguageModelPort) -> None:
    pieces, last = await stream(model, TOOL_PROMPT)
    assert "".join(pieces) == last.text
    assert [call.name for call in last.calls] == ["current_weather"]


async def test_closed_stream_does_not_affect_next_call(model: LanguageModelPort) -> None:
    assert isinstance(model, StreamingModelPort)
    pieces = cast("AsyncGenerator[str | ModelResponse]", model.stream(TEXT_PROMPT))
    await anext(pieces)
    await pieces.aclose()
    assert "Mara Lindqvist" in (await model.complete(TEXT_PROMPT)).text


# --- wrappers -------------------------------------------------------------------------------------


class _CompleteOnlyModel:
    """Model without streaming."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ModelResponse(text="The lead is Bo.")


@pytest.mark.parametrize("name", WRAPPERS)
async def test_wrapper_streams_response_of_model_without_streaming(
    name: str, tmp_path: Path
) -> None:
    pieces, last = await stream(WRAPPERS[name](_CompleteOnlyModel(), tmp_path), TEXT_PROMPT)
    assert last.text == "The lead is Bo."
    assert "".join(pieces) in ("", last.text)


@pytest.mark.parametrize("name", WRAPPERS)
async def test_wrapper_raises_failure_of_model(name: str, tmp_path: Path) -> None:
    failure = ModelFailed("invalid key", reason="authentication", model="m", provider="p")
    model = WRAPPERS[name](ScriptedModel(failure, failure), tmp_path)
    with pytest.raises(ModelFailed) as caught:
        await model.complete(TEXT_PROMPT)
    assert caught.value.reason == "authentication"
    with pytest.raises(ModelFailed) as caught:
        await stream(model, TEXT_PROMPT)
    assert caught.value.reason == "authentication"
