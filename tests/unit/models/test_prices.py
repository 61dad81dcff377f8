"""The cost of calls from the price list."""

from decimal import Decimal

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from acc.adapters.models.prices import call_cost, listed_cost, response_cost
from acc.application.models.names import parse_model_name
from acc.domain.value_objects.content import Usage


@pytest.mark.parametrize(
    "name",
    [
        "openai:gpt-5.2",
        "openai-chat:gpt-5.2?temperature=0",
        "openai-responses:gpt-5.2@http://127.0.0.1:9/v1",
        "openai-compatible:gpt-5.2@https://api.openai.com/v1",
        "anthropic:claude-opus-4-8",
        "google:gemini-3-pro-preview",
    ],
)
def test_listed_model_has_a_price_by_provider_or_url(name: str) -> None:
    choice = parse_model_name(name)
    one, ten = listed_cost(choice, 1_000, 100), listed_cost(choice, 10_000, 1_000)
    assert one is not None and ten is not None
    assert 0 < one < 1
    assert ten == pytest.approx(10 * one)


@pytest.mark.parametrize(
    "name",
    [
        "openai:no-such-model",
        "openai-compatible:gpt-5.2@http://127.0.0.1:8080/v1",
        "vllm:anything",
    ],
)
def test_unlisted_model_has_no_price(name: str) -> None:
    assert listed_cost(parse_model_name(name), 1_000, 100) is None


def test_cost_depends_on_cached_tokens() -> None:
    choice = parse_model_name("anthropic:claude-opus-4-8")
    usage = Usage(llm_calls=1, input_tokens=1_000, output_tokens=0)
    plain, written = call_cost(choice, usage), call_cost(choice, usage, 1_000)
    read = call_cost(choice, Usage(llm_calls=1, input_tokens=1_000, cached_tokens=1_000))
    assert plain is not None and written is not None and read is not None
    assert read < plain < written
    # No token is both written to and read from the cache, or written twice.
    assert call_cost(choice, usage, 2_000) == written
    half = Usage(llm_calls=1, input_tokens=1_000, cached_tokens=500)
    assert call_cost(choice, half, 900) == pytest.approx((read + written) / 2)
    assert call_cost(choice, Usage(llm_calls=1)) is None
    # Inconsistent tokens have no price.
    assert call_cost(choice, Usage(llm_calls=1, input_tokens=1, cached_tokens=9)) is None


def test_response_cost_prefers_the_cost_that_the_provider_reports() -> None:
    usage = Usage(llm_calls=1, input_tokens=1_000_000)

    def response(model: str, cost: Decimal | None = None) -> ModelResponse:
        reported = RequestUsage(input_tokens=1_000_000, cost=cost)
        return ModelResponse([], usage=reported, model_name=model, provider_name="openai")

    openai, azure = parse_model_name("openai:gpt-5.2"), parse_model_name("azure:gpt-5.2")
    assert response_cost(openai, response("gpt-5.2"), usage) == pytest.approx(1.75)
    assert response_cost(openai, response("gpt-5.2", Decimal("0.5")), usage) == 0.5
    assert response_cost(azure, response("gpt-5.2"), usage) == pytest.approx(1.75)
    assert response_cost(azure, response("no-such-model"), usage) is None
    assert response_cost(azure, response("gpt-5.2"), Usage(llm_calls=1)) is None
