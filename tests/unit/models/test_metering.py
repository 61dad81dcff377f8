"""Metered models, and models with a given price."""

import asyncio

import pytest

from acc.adapters.models.wrappers import MeteredModel, PricedModel
from acc.domain.cost import FREE, CostCategory, ModelCall, Price
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.content import Usage
from acc.ports.outbound.model_ports import LanguageModelPort, ModelRequest, ModelResponse

PROMPT = ModelRequest.of("?")
RESPONSE = ModelResponse(
    text="yes", usage=Usage(input_tokens=1_000, output_tokens=200, cached_tokens=5)
)


class FixedModel:
    """Returns one response, or raises."""

    def __init__(self, answer: object = RESPONSE, *, closed: bool = False) -> None:
        self.answer = answer
        self.closed = closed

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value] # a model may be anyone's code

    async def aclose(self) -> None:
        self.closed = True


def metered(model: LanguageModelPort) -> tuple[MeteredModel, list[ModelCall]]:
    calls: list[ModelCall] = []
    asked = ModelCall(category=CostCategory.COMPRESSOR, agent="acc", model="m")
    made = MeteredModel(model, asked, on_call=calls.append)
    return made, calls


async def test_call_is_reported_with_tokens_and_cost() -> None:
    inner = FixedModel()
    model, calls = metered(PricedModel(inner, Price(input=2, output=10)))
    assert (await model.complete(PROMPT)).text == "yes"
    pieces = [piece async for piece in model.stream(PROMPT)]
    assert isinstance(pieces[-1], ModelResponse)
    expected = ModelCall(
        category=CostCategory.COMPRESSOR,
        agent="acc",
        model="m",
        input_tokens=1_000,
        output_tokens=200,
        cached_tokens=5,
        cost=0.004,
    )
    assert calls == [expected, expected]
    await model.aclose()
    assert inner.closed


async def test_cached_response_is_reported_as_cached() -> None:
    response = ModelResponse(
        text="yes", usage=Usage(input_tokens=9, cost=0.0, priced_calls=1), from_cache=True
    )
    model, calls = metered(FixedModel(response))
    await model.complete(PROMPT)
    assert (calls[0].from_cache, calls[0].cost) == (True, 0.0)


@pytest.mark.parametrize("fault", [ModelFailed("no"), asyncio.CancelledError()])
async def test_failed_and_cancelled_calls_are_reported(fault: BaseException) -> None:
    model, calls = metered(FixedModel(fault))
    with pytest.raises(type(fault)):
        await model.complete(PROMPT)
    with pytest.raises(type(fault)):
        [piece async for piece in model.stream(PROMPT)]
    assert [call.failed for call in calls] == [True, True]


async def test_invalid_response_is_reported_as_failed() -> None:
    model, calls = metered(FixedModel("words"))
    await model.complete(PROMPT)
    assert calls[0].failed


async def test_cost_is_unknown_without_tokens_unless_the_price_is_zero() -> None:
    silent = FixedModel(ModelResponse(text="yes"))
    assert (await PricedModel(silent, Price(input=1, output=1)).complete(PROMPT)).usage.cost is None
    free = await PricedModel(silent, FREE).complete(PROMPT)
    assert (free.usage.cost, free.usage.priced_calls) == (0.0, 1)
