"""What a call would cost by the list that comes with the library."""

import pytest

from acc.adapters.providers.choice import parse_choice
from acc.adapters.providers.pricing import listed_cost


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
