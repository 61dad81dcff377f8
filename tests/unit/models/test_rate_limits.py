"""Rate limits of models."""

import asyncio
import contextlib

import pytest

from acc.adapters.models.wrappers import LimitedModel, RateLimiter, RateLimits
from acc.application.runtime.pausable_timeout import PausableTimeout
from acc.domain.value_objects.content import ChatMessage, Usage, text_part
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.testing import ScriptedModel


class Clock:
    def __init__(self) -> None:
        self.time = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds
        await asyncio.sleep(0)


class Slow:
    def __init__(self) -> None:
        self.now = 0
        self.most = 0

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return ModelResponse(text="done")


def limited(limits: RateLimits, *answers: ModelResponse) -> tuple[LimitedModel, Clock]:
    clock = Clock()
    inner = ScriptedModel(*(answers or (ModelResponse(text="a"),)), repeat=True)
    return LimitedModel(inner, RateLimiter(limits, now=clock.now, sleep=clock.sleep)), clock


async def test_concurrency_is_limited_for_all_models_of_a_limiter() -> None:
    slow = Slow()
    limiter = RateLimiter(RateLimits(concurrency=3))
    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            group.create_task(LimitedModel(slow, limiter).complete(ModelRequest.of("q")))
    assert slow.most == 3


def test_limiter_works_in_one_event_loop_after_another() -> None:
    slow, limiter = Slow(), RateLimiter(RateLimits(concurrency=1))
    model = LimitedModel(slow, limiter)
    for _ in range(2):
        assert asyncio.run(model.complete(ModelRequest.of("q"))).text == "done"


async def test_cancelled_waiter_leaves_its_slot_to_the_next() -> None:
    limiter = RateLimiter(RateLimits(concurrency=1))
    order: list[str] = []

    async def run(name: str) -> None:
        async with limiter.slot(ModelRequest.of("q")):
            order.append(name)
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        async with limiter.slot(ModelRequest.of("q")):
            first, second = (group.create_task(run(name)) for name in ("a", "b"))
            third = group.create_task(run("c"))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.sleep(0)
        second.cancel()  # the slot was just given to it
        await third
    assert order == ["c"]


async def test_requests_beyond_the_limit_wait() -> None:
    model, clock = limited(RateLimits(requests_per_minute=2))
    for _ in range(5):
        await model.complete(ModelRequest.of("q"))
    assert clock.slept == [30.0, 30.0, 30.0]


async def test_limit_below_one_request_per_minute_works() -> None:
    model, clock = limited(RateLimits(requests_per_minute=0.1))
    for _ in range(3):
        await model.complete(ModelRequest.of("q"))
    assert clock.slept == [600.0, 600.0]


async def test_reported_tokens_replace_the_estimate() -> None:
    spent = ModelResponse(text="a", usage=Usage(input_tokens=500, output_tokens=100))
    model, clock = limited(RateLimits(tokens_per_minute=600), spent)
    message = ChatMessage(role="user", author="u", parts=text_part("日本語"))
    prompt = ModelRequest.of("q" * 400, following=(message,))
    await model.complete(prompt)
    assert clock.slept == []
    assert [type(piece) async for piece in model.stream(prompt)] == [str, ModelResponse]
    assert len(clock.slept) == 1
    assert 10 <= clock.slept[0] <= 13  # for about 110 tokens, at 10 a second


async def test_request_larger_than_the_limit_is_made() -> None:
    model, clock = limited(RateLimits(tokens_per_minute=10))
    await model.complete(ModelRequest.of("q" * 4000))
    assert clock.slept == []
    await model.complete(ModelRequest.of("q" * 4000))
    assert clock.slept == [60.0 * 1]
    await model.aclose()


async def complete_or_time_out(model: LimitedModel, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await model.complete(ModelRequest.of("q"))


async def test_cancelled_request_has_used_nothing() -> None:
    inner = ScriptedModel("a", repeat=True)
    limits, clock = RateLimits(requests_per_minute=600, tokens_per_minute=6_000), Clock()
    model = LimitedModel(inner, RateLimiter(limits, now=clock.now))
    for _ in range(600):
        await model.complete(ModelRequest.of("q"))
    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(complete_or_time_out(model, 0.01))
    assert len(inner.requests) == 600
    await clock.sleep(0.2)
    async with asyncio.timeout(2):  # with the places of all forty it would take four seconds
        await model.complete(ModelRequest.of("q"))


async def test_deadline_is_paused_while_a_request_waits() -> None:
    slow, limiter = Slow(), RateLimiter(RateLimits(concurrency=1, requests_per_minute=600))
    model = LimitedModel(slow, limiter)
    for _ in range(600):
        async with limiter.slot(ModelRequest.of("q")):
            pass

    async def asked() -> ModelResponse:
        async with PausableTimeout(0.3):
            return await model.complete(ModelRequest.of("q"))

    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(asked()) for _ in range(5)]  # 100 ms apart
    assert [call.result().text for call in calls] == ["done"] * 5


async def test_deadline_runs_while_the_model_answers() -> None:
    class Hanging:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            await asyncio.sleep(60)
            raise AssertionError

    model = LimitedModel(Hanging(), RateLimiter(RateLimits(requests_per_minute=600)))
    with pytest.raises(TimeoutError):
        async with PausableTimeout(0.02):
            await model.complete(ModelRequest.of("q"))


async def test_long_wait_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    limiter = RateLimiter(
        RateLimits(requests_per_minute=4), name="a:b", now=clock.now, sleep=clock.sleep
    )
    model = LimitedModel(ScriptedModel("a", repeat=True), limiter)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(model.complete(ModelRequest.of("q")))
    assert [record.getMessage() for record in caplog.records] == [
        "rate limit of a:b: a call waits 15 s",
        "rate limit of a:b: a call waits 60 s",
    ]
