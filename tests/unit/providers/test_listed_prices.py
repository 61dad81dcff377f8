"""What a call would cost by the list that comes with the library."""

import pytest
from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from acc.adapters.providers.choice import parse_choice
from acc.adapters.providers.pricing import Prices, call_cost, listed_cost
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
def test_a_model_on_the_list_has_a_price_by_its_provider_or_its_url(name: str) -> None:
    choice = parse_choice(name)
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
def test_a_model_that_is_not_on_the_list_has_none(name: str) -> None:
    assert listed_cost(parse_choice(name), 1_000, 100) is None


def test_what_a_call_cost_knows_of_caches() -> None:
    choice = parse_choice("anthropic:claude-opus-4-8")
    usage = Usage(llm_calls=1, input_tokens=1_000, output_tokens=0)
    plain, written = call_cost(choice, usage), call_cost(choice, usage, 1_000)
    read = call_cost(choice, Usage(llm_calls=1, input_tokens=1_000, cached_tokens=1_000))
    assert plain is not None and written is not None and read is not None
    assert read < plain < written
    # No token is both written and read from the cache, or written twice.
    assert call_cost(choice, usage, 2_000) == written
    half = Usage(llm_calls=1, input_tokens=1_000, cached_tokens=500)
    assert call_cost(choice, half, 900) == pytest.approx((read + written) / 2)
    assert call_cost(choice, Usage(llm_calls=1)) is None
    # What does not add up has no price.
    assert call_cost(choice, Usage(llm_calls=1, input_tokens=1, cached_tokens=9)) is None


def test_the_library_prices_what_it_asked() -> None:
    prices = Prices()

    def response(model: str, tokens: int) -> ModelResponse:
        usage = RequestUsage(input_tokens=tokens)
        return ModelResponse([], usage=usage, model_name=model, provider_name="openai")

    assert prices.cost(response("gpt-5.2", 1_000_000)) == pytest.approx(1.75)
    assert prices.cost(response("gpt-5.2", 0)) is None
    for _ in range(2):
        assert prices.cost(response("no-such-model", 1)) is None
