"""The cost of a call in US dollars, from the price list of genai-prices.

An unknown price is None, never 0.
"""

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from acc.application.models.names import MOVABLE, ModelName
from acc.domain.value_objects.content import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

try:
    import genai_prices
except ImportError:  # without the list no price is known
    genai_prices = None  # type: ignore[assignment]

#: Providers that the list has under another name.
_LISTED_AS = {"openai-chat": "openai", "openai-responses": "openai"}


def response_cost(name: ModelName, response: "ModelResponse", usage: Usage) -> float | None:
    """Return the cost of a response: as the provider reports it, or else from the list."""
    reported = response.usage.cost
    if reported is not None and reported >= 0:
        return float(reported)
    if name.provider in MOVABLE:
        return call_cost(name, usage, response.usage.cache_write_tokens)
    if not (usage.input_tokens or usage.output_tokens):
        return None
    try:
        return float(response.cost().total_price)
    except (LookupError, ValueError):  # no price, or inconsistent tokens
        return None


def call_cost(name: ModelName, usage: Usage, cache_write_tokens: int = 0) -> float | None:
    """Return the cost of a call, if the list has the model."""
    if not (usage.input_tokens or usage.output_tokens):
        return None
    uncached = max(0, usage.input_tokens - usage.cached_tokens)
    try:
        return _cost(
            name,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=min(cache_write_tokens, uncached),
        )
    except ValueError:  # inconsistent tokens
        return None


def listed_cost(name: ModelName, input_tokens: int, output_tokens: int) -> float | None:
    """Return the cost of a call of that size, if the list has the model."""
    return _cost(name, input_tokens=input_tokens, output_tokens=output_tokens)


def _cost(name: ModelName, **tokens: int) -> float | None:
    entry = _list_entry(name.provider, name.model, name.base_url)
    if entry is None:
        return None
    return _price(name.model, entry, {kind: n for kind, n in tokens.items() if n})


@lru_cache(maxsize=256)
def _list_entry(provider: str, model: str, url: str) -> dict[str, str] | None:
    """Return how to find a model in the list: by the server's URL, or by the provider.

    A compatible server may serve a model with the name of another provider's, at its own price.
    """
    entries = [{"provider_api_url": url}] if url else []
    if provider != "openai-compatible":
        entries.append({"provider_id": _LISTED_AS.get(provider, provider)})
    for entry in entries if genai_prices is not None else ():
        with suppress(LookupError):
            _price(model, entry, {"input_tokens": 1, "output_tokens": 1})
            return entry
    return None


def _price(model: str, entry: dict[str, Any], tokens: dict[str, int]) -> float:
    price = genai_prices.calc_price(genai_prices.Usage(**tokens), model, **entry)
    return float(price.total_price)
