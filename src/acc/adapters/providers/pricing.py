"""What an answer cost, where its price is known: a price that is not is no price, and never 0."""

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from acc.adapters.providers.choice import ModelChoice
from acc.domain.value_objects.content import Usage

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

try:
    import genai_prices
except ImportError:  # without the list nothing has a price
    genai_prices = None  # type: ignore[assignment]


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


#: Whose prices those are that go by another name.
_LISTED_AS = {"openai-chat": "openai", "openai-responses": "openai"}


def call_cost(choice: ModelChoice, usage: Usage, written: int = 0) -> float | None:
    """Return what a call cost in US dollars, if the list has the model.

    `written` are the tokens that went into the provider's cache, of those that were read anew.
    """
    if not (usage.input_tokens or usage.output_tokens):
        return None
    anew = max(0, usage.input_tokens - usage.cached_tokens)
    try:
        return _cost(
            choice,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cached_tokens,
            cache_write_tokens=min(written, anew),
        )
    except ValueError:  # the tokens do not add up
        return None


def listed_cost(choice: ModelChoice, input_tokens: int, output_tokens: int) -> float | None:
    """Return what a call of so many tokens would cost in US dollars, if the list has the model."""
    return _cost(choice, input_tokens=input_tokens, output_tokens=output_tokens)


def _cost(choice: ModelChoice, **tokens: int) -> float | None:
    where = _listed(choice.provider, choice.model, choice.base_url)
    if where is None:
        return None
    return _price(choice.model, where, {name: n for name, n in tokens.items() if n})


@lru_cache(maxsize=256)
def _listed(provider: str, model: str, url: str) -> dict[str, str] | None:
    """Return where the list has a model: by the server's address, or by the provider.

    Whoever imitates OpenAI, with models of the same name too, has prices of its own.
    """
    places = [{"provider_api_url": url}] if url else []
    if provider != "openai-compatible":
        places.append({"provider_id": _LISTED_AS.get(provider, provider)})
    for place in places if genai_prices is not None else ():
        with suppress(LookupError):
            _price(model, place, {"input_tokens": 1, "output_tokens": 1})
            return place
    return None


def _price(model: str, where: dict[str, Any], tokens: dict[str, int]) -> float:
    found = genai_prices.calc_price(genai_prices.Usage(**tokens), model, **where)
    return float(found.total_price)
