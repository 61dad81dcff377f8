"""Retries and fallback of models."""

import logging
from collections.abc import AsyncIterator

import pytest

from acc import Agent, CallContext, Runner
from acc.adapters.models.retry import RetryingModel
from acc.adapters.models.wrappers import FallbackModel, stream_model
from acc.application.runtime.current_trace import current_trace_id
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.testing import ScriptedModel

PROMPT = ModelRequest.of("q")


def failed(
    reason: str = "server", *, retryable: bool = True, after: float | None = None
) -> ModelFailed:
    return ModelFailed(reason, reason=reason, retryable=retryable, retry_after=after)


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


class Breaks:
    """Streams a piece, then fails."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        raise failed()

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        yield "half"
        raise failed("cut_off")


class Plain:
    """Cannot stream."""

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return ModelResponse(text="whole")


async def pieces(model: object) -> list[str | ModelResponse]:
    return [piece async for piece in model.stream(PROMPT)]  # type: ignore[attr-defined]


async def test_transient_failures_are_retried_with_backoff() -> None:
    sleeps = Sleeps()
    inner = ScriptedModel(failed(), failed("rate_limit"), failed("timeout"), "at last")
    model = RetryingModel(inner, attempts=4, sleep=sleeps)
    assert (await model.complete(PROMPT)).text == "at last"
    assert [low <= s <= 2 * low for low, s in zip((0.25, 0.5, 1.0), sleeps, strict=True)] == [
        True
    ] * 3


async def test_retries_of_a_run_are_logged_with_attempt_trace_and_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = ScriptedModel(failed(), failed("rate_limit"), "at last")
    agent = Agent(name="desk", model=RetryingModel(inner, attempts=4, sleep=Sleeps()))
    with caplog.at_level(logging.WARNING, "acc.retry"):
        caller = CallContext(request_id="r-1", trace_id="t-17", caller="ann")
        result = await Runner(agent).run("hello", context=caller)
    assert result.text == "at last"
    records = [record for record in caplog.records if record.name == "acc.retry"]
    assert [vars(record)["attempt"] for record in records] == [1, 2]
    assert {vars(record)["trace_id"] for record in records} == {"t-17"}
    assert all("(trace t-17)" in record.getMessage() for record in records)
    assert current_trace_id() == ""


async def test_permanent_failure_is_raised_at_once() -> None:
    sleeps = Sleeps()
    inner = ScriptedModel(failed("key_refused", retryable=False))
    with pytest.raises(ModelFailed, match="key_refused"):
        await RetryingModel(inner, sleep=sleeps).complete(PROMPT)
    assert sleeps == []


async def test_retry_after_is_respected_up_to_max_wait() -> None:
    sleeps = Sleeps()
    inner = ScriptedModel(failed("rate_limit", after=7.0), "yes")
    await RetryingModel(inner, sleep=sleeps).complete(PROMPT)
    assert sleeps == [7.0]
    inner = ScriptedModel(failed("rate_limit", after=3600.0))
    with pytest.raises(ModelFailed, match="asks to wait 3600 s, max_wait is 60 s") as found:
        await RetryingModel(inner, sleep=sleeps).complete(PROMPT)
    assert (found.value.reason, found.value.retry_after) == ("rate_limit", 3600.0)


async def test_last_failure_says_the_number_of_attempts() -> None:
    inner = ScriptedModel(failed(), repeat=True)
    with pytest.raises(ModelFailed, match="3 attempts"):
        await RetryingModel(inner, attempts=3, sleep=Sleeps()).complete(PROMPT)
    with pytest.raises(ModelFailed, match=r"\(1 attempt\)"):
        await RetryingModel(inner, attempts=1, sleep=Sleeps()).complete(PROMPT)


async def test_stream_is_retried_only_before_the_first_piece() -> None:
    sleeps = Sleeps()
    model = RetryingModel(ScriptedModel(failed(), "a b"), sleep=sleeps)
    assert (await pieces(model))[:2] == ["a ", "b"]
    assert len(sleeps) == 1
    with pytest.raises(ModelFailed, match="cut_off"):
        await pieces(RetryingModel(Breaks(), sleep=sleeps))
    assert len(sleeps) == 1


async def test_model_that_cannot_stream_yields_one_response() -> None:
    assert [piece async for piece in stream_model(Plain(), PROMPT)] == [ModelResponse(text="whole")]


@pytest.mark.parametrize("reason", ["quota", "context_length", "refused"])
async def test_next_model_is_asked_if_the_first_cannot_answer(reason: str) -> None:
    first = ScriptedModel(failed(reason, retryable=False), failed(reason, retryable=False))
    model = FallbackModel([first, ScriptedModel("second", "second")])
    assert (await model.complete(PROMPT)).text == "second"
    assert (await pieces(model))[0] == "second"


async def test_fallback_is_logged_once_for_each_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = [ScriptedModel(failed(reason), repeat=True) for reason in ("server", "timeout")]
    model = FallbackModel([*inner, ScriptedModel("third", repeat=True)])
    for _ in range(2):
        assert (await model.complete(PROMPT)).text == "third"
        assert (await pieces(model))[0] == "third"
    assert caplog.messages == [
        "server; the next model is called instead",
        "timeout; the next model is called instead",
    ]


@pytest.mark.parametrize("reason", ["key_refused", "unknown_model", "rejected"])
async def test_configuration_error_is_raised_without_fallback(reason: str) -> None:
    first = ScriptedModel(failed(reason, retryable=False), repeat=True)
    second = ScriptedModel("never")
    with pytest.raises(ModelFailed, match=reason):
        await FallbackModel([first, second]).complete(PROMPT)
    with pytest.raises(ModelFailed, match=reason):
        await pieces(FallbackModel([first, second]))
    assert second.requests == []


async def test_error_of_all_models_has_every_message() -> None:
    model = FallbackModel(
        [ScriptedModel(failed("server"), repeat=True), ScriptedModel(failed("quota"), repeat=True)]
    )
    with pytest.raises(ModelFailed, match="no model answered: server; quota"):
        await model.complete(PROMPT)
    with pytest.raises(ModelFailed, match="no model answered: server; quota"):
        await pieces(model)


async def test_started_stream_has_no_fallback() -> None:
    second = ScriptedModel("never")
    with pytest.raises(ModelFailed, match="cut_off"):
        await pieces(FallbackModel([Breaks(), second]))
    assert second.requests == []


async def test_aclose_closes_every_model() -> None:
    closed: list[str] = []

    class ClosableModel(Plain):
        async def aclose(self) -> None:
            closed.append("closable")

    await FallbackModel([RetryingModel(ClosableModel()), Plain(), ClosableModel()]).aclose()
    assert closed == ["closable", "closable"]
