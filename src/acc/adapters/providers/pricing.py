"""What an answer cost, where its price is known: a price that is not is no price, and never 0."""

from genai_prices import calc_price
from pydantic_ai.messages import ModelResponse

from acc.adapters.providers.choice import ModelChoice


class Prices:
    """Prices the answers of one model; what has no price is not looked for twice."""

    def __init__(self, choice: ModelChoice) -> None:
        # Whoever imitates OpenAI, with models of the same name too, has prices of its own.
        self._only_by_url = choice.provider == "openai-compatible"
        self._unknown: set[str] = set()

    def cost(self, response: ModelResponse) -> float | None:
        """Return what an answer cost in US dollars, if that is known."""
        name, usage = response.model_name, response.usage
        if not name or name in self._unknown or not (usage.input_tokens or usage.output_tokens):
            return None
        if usage.cost is not None:
            return float(usage.cost)
        try:
            if self._only_by_url:
                found = calc_price(usage, name, provider_api_url=response.provider_url)
            else:
                found = response.cost()
        except LookupError:
            self._unknown.add(name)
            return None
        except ValueError:  # the tokens do not add up
            return None
        return float(found.total_price)
