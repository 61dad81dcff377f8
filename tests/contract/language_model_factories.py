"""Language models without network access for the contract suite."""

from collections.abc import Callable
from pathlib import Path

from acc.adapters.embedded_model.model import EmbeddedModel
from acc.adapters.models.cache import CachedModel
from acc.adapters.models.retry import RetryingModel
from acc.adapters.models.wrappers import (
    FallbackModel,
    LimitedModel,
    MeteredModel,
    PricedModel,
    RateLimiter,
    RateLimits,
)
from acc.domain.cost import CostCategory, ModelCall, Price
from acc.domain.value_objects.content import ToolCall
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ToolSpec
from acc.testing import ScriptedModel, call

WEATHER = ToolSpec(
    name="current_weather",
    description="Return the weather in a city right now.",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
)
TEXT_PROMPT = ModelRequest.of("Who is the lead?", memory="user: The lead is Mara Lindqvist.")
TOOL_PROMPT = ModelRequest.of("What is the weather in Paris?", tools=(WEATHER,))


def _script(prompt: ModelRequest) -> str | ToolCall:
    if prompt.tools:
        return call("current_weather", city="Paris")
    return prompt.memory.removeprefix("user: ")


def _metered(model: LanguageModelPort) -> LanguageModelPort:
    call = ModelCall(category=CostCategory.AGENT, agent="a")
    return MeteredModel(model, call, on_call=lambda call: None)


#: Wrappers of another model.
WRAPPERS: dict[str, Callable[[LanguageModelPort, Path], LanguageModelPort]] = {
    "retrying": lambda model, path: RetryingModel(model, attempts=1),
    "fallback": lambda model, path: FallbackModel([model]),
    "limited": lambda model, path: LimitedModel(model, RateLimiter(RateLimits(concurrency=2))),
    "metered": lambda model, path: _metered(model),
    "priced": lambda model, path: PricedModel(model, Price(input=1.0, output=2.0)),
    "cached": lambda model, path: CachedModel(model, path, identity={"model": "m"}, name="m"),
}
MAKERS: dict[str, Callable[[Path], LanguageModelPort]] = {
    "embedded": lambda path: EmbeddedModel(),
    "scripted": lambda path: ScriptedModel(_script, repeat=True),
}


def make_model(name: str, path: Path) -> LanguageModelPort:
    """Return a model by its name; wrappers wrap the embedded model."""
    if name in MAKERS:
        return MAKERS[name](path)
    return WRAPPERS[name](EmbeddedModel(), path)
