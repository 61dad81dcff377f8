"""The circuit breaker of models (section 12.3), and the status of all circuits of a process."""

from typing import Any

import pytest

from acc.adapters.models.breaker import BreakerModel
from acc.adapters.models.wrappers import FallbackModel
from acc.domain.circuit_breaker import CircuitBreaker, CircuitState, list_circuits
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedModel

REQUEST = ModelRequest(messages=())


class Time:
    def __init__(self) -> None:
        self.now = 2_000_000_000.0

    def __call__(self) -> float:
        return self.now


def down(reason: str = "unavailable", *, retryable: bool = True) -> ModelFailed:
    return ModelFailed("down", reason=reason, retryable=retryable)


def guarded(clock: Time, *responses: Any) -> tuple[BreakerModel, ScriptedModel, CircuitBreaker]:
    model = ScriptedModel(*responses)
    breaker = CircuitBreaker("openai:test", failures=2, reset=30, now=clock)
    return BreakerModel(model, breaker), model, breaker


async def fail(model: BreakerModel) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await model.complete(REQUEST)
    return caught.value


async def test_repeated_failures_open_the_circuit_and_a_probe_closes_it() -> None:
    clock = Time()
    model, inner, breaker = guarded(clock, down(), down(), down(), "fine", "fine")
    await fail(model)
    await fail(model)
    error = await fail(model)
    assert error.reason == "circuit_open"
    assert error.retryable
    assert "next attempt is possible at 2033-05-18T03:33:50" in str(error)
    assert len(inner.requests) == 2
    (status,) = [one for one in list_circuits() if one.name == "openai:test"]
    assert (status.state, status.failures) == (CircuitState.OPEN, 2)
    assert status.next_attempt == clock.now + 30
    clock.now += 31
    assert (await fail(model)).reason == "unavailable"  # the probe
    assert breaker.status.state is CircuitState.OPEN
    clock.now += 31
    assert (await model.complete(REQUEST)).text == "fine"
    assert breaker.state is CircuitState.CLOSED
    assert [one for one in list_circuits() if one.name == "openai:test"] == []


@pytest.mark.parametrize(
    "error", [down("rate_limit"), down("quota"), down("refused", retryable=False)]
)
async def test_responses_of_the_provider_do_not_open_the_circuit(error: ModelFailed) -> None:
    model, inner, breaker = guarded(Time(), *[error] * 5)
    for _ in range(5):
        await fail(model)
    assert breaker.state is CircuitState.CLOSED
    assert len(inner.requests) == 5


async def test_streams_are_guarded_too() -> None:
    model, inner, _ = guarded(Time(), down(), down(), "never")
    for _ in range(3):
        with pytest.raises(ModelFailed):
            _ = [piece async for piece in model.stream(REQUEST)]
    assert len(inner.requests) == 2


async def test_open_circuit_uses_the_fallback_model() -> None:
    model, inner, _ = guarded(Time(), down(), down(), "never")
    other = ScriptedModel("second", repeat=True)
    chain = FallbackModel([model, other])
    for _ in range(4):
        assert (await chain.complete(REQUEST)).text == "second"
    assert len(inner.requests) == 2
