"""What an answer cost, where its price is known: a price that is not is no price, and never 0."""

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from genai_prices import Usage as Tokens
from genai_prices import calc_price

from acc.adapters.providers.choice import ModelChoice
from acc.domain.value_objects.event import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


class Prices:
    """Prices the answers of one model; what has no price is not looked for twice."""

    def __init__(self) -> None:
        self._unknown: set[str] = set()

    def cost(self, response: "ModelResponse") -> float | None:
        """Return what an answer cost in US dollars, if that is known."""
        name, usage = response.model_name, response.usage
        if not name or name in self._unknown or not (usage.input_tokens or usage.output_tokens):
            return None
        if usage.cost is not None:
            return float(usage.cost)
        try:
            found = response.cost()
        except LookupError:
            self._unknown.add(name)
            return None
        except ValueError:  # the tokens do not add up
            return None
        return float(found.total_price)


def price_by_address(model: str, url: str, usage: Usage) -> float | None:
    """Return what an answer cost in US dollars, if the server at the address has known prices.

    Whoever imitates OpenAI, with models of the same name too, has prices of its own.
    """
    if not (usage.input_tokens or usage.output_tokens) or not _has_prices(model, url):
        return None
    tokens = Tokens(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cached_tokens,
    )
    try:
        return float(calc_price(tokens, model, provider_api_url=url).total_price)
    except ValueError:  # the tokens do not add up
        return None


@lru_cache(maxsize=256)
def _has_prices(model: str, url: str) -> bool:
    try:
        calc_price(Tokens(input_tokens=1, output_tokens=1), model, provider_api_url=url)
    except LookupError:
        return False
    return True


#: Whose prices those are that go by another name.
_LISTED_AS = {"openai-chat": "openai", "openai-responses": "openai"}


def listed_cost(choice: ModelChoice, input_tokens: int, output_tokens: int) -> float | None:
    """Return what a call of so many tokens would cost in US dollars, if the list has the model."""
    usage = Tokens(input_tokens=input_tokens, output_tokens=output_tokens)
    if choice.base_url:
        with suppress(LookupError):
            found = calc_price(usage, choice.model, provider_api_url=choice.base_url)
            return float(found.total_price)
    if choice.provider == "openai-compatible":
        return None
    provider = _LISTED_AS.get(choice.provider, choice.provider)
    try:
        return float(calc_price(usage, choice.model, provider_id=provider).total_price)
    except LookupError:
        return None
