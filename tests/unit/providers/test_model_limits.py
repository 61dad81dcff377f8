"""No more at once, and no more in a minute, than was said."""

import asyncio
import contextlib

import pytest

from acc.adapters.providers.limiting import LimitedModel, Limiter, Limits
from acc.application.waiting.patience import Patience
from acc.domain.value_objects.event import Usage, text_part
from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage
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

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0.01)
        self.now -= 1
        return ModelAnswer(text="done")


def limited(limits: Limits, *answers: ModelAnswer) -> tuple[LimitedModel, Clock]:
    clock = Clock()
    inner = ScriptedModel(*(answers or (ModelAnswer(text="a"),)), repeat=True)
    return LimitedModel(inner, Limiter(limits, now=clock.now, sleep=clock.sleep)), clock


async def test_no_more_calls_run_at_once_than_the_limit_says() -> None:
    slow = Slow()
    limiter = Limiter(Limits(concurrency=3))
    async with asyncio.TaskGroup() as group:
        for _ in range(12):
            # Whoever asks the model shares its limiter.
            group.create_task(LimitedModel(slow, limiter).complete(Prompt(query="q")))
    assert slow.most == 3


def test_a_limiter_serves_one_loop_after_another() -> None:
    slow, limiter = Slow(), Limiter(Limits(concurrency=1))
    model = LimitedModel(slow, limiter)
    for _ in range(2):
        assert asyncio.run(model.complete(Prompt(query="q"))).text == "done"


async def test_requests_beyond_a_minutes_worth_wait_in_line() -> None:
    model, clock = limited(Limits(requests_per_minute=2))
    for _ in range(5):
        await model.complete(Prompt(query="q"))
    assert clock.slept == [30.0, 30.0, 30.0]


async def test_less_than_one_request_in_a_minute_is_one_now_and_then() -> None:
    model, clock = limited(Limits(requests_per_minute=0.1))
    for _ in range(3):
        await model.complete(Prompt(query="q"))
    assert clock.slept == [600.0, 600.0]


async def test_tokens_that_were_spent_count_and_not_those_that_were_guessed() -> None:
    spent = ModelAnswer(text="a", usage=Usage(input_tokens=500, output_tokens=100))
    model, clock = limited(Limits(tokens_per_minute=600), spent)
    said = PromptMessage(role="user", author="u", parts=text_part("日本語"))
    prompt = Prompt(query="q" * 400, messages=(said,))
    await model.complete(prompt)
    assert clock.slept == []
    assert [type(piece) async for piece in model.stream(prompt)] == [str, ModelAnswer]
    assert len(clock.slept) == 1
    assert 10 <= clock.slept[0] <= 13  # for about 110 tokens, at 10 a second


async def test_one_prompt_that_is_larger_than_a_minutes_worth_is_still_asked() -> None:
    model, clock = limited(Limits(tokens_per_minute=10))
    await model.complete(Prompt(query="q" * 4000))
    assert clock.slept == []
    await model.complete(Prompt(query="q" * 4000))
    assert clock.slept == [60.0 * 1]
    await model.aclose()


async def in_line(model: LimitedModel, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await model.complete(Prompt(query="q"))


async def test_one_who_gives_up_in_line_makes_room_for_those_behind() -> None:
    inner = ScriptedModel("a", repeat=True)
    limits, clock = Limits(requests_per_minute=600, tokens_per_minute=6_000), Clock()
    model = LimitedModel(inner, Limiter(limits, now=clock.now))
    for _ in range(600):
        await model.complete(Prompt(query="q"))
    async with asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(in_line(model, 0.01))
    assert len(inner.asked) == 600
    await clock.sleep(0.2)
    async with asyncio.timeout(2):  # with the places of all forty it would take four seconds
        await model.complete(Prompt(query="q"))


async def test_time_in_line_is_none_that_the_model_took() -> None:
    slow, limiter = Slow(), Limiter(Limits(concurrency=1, requests_per_minute=600))
    model = LimitedModel(slow, limiter)
    for _ in range(600):
        async with limiter.turn(Prompt(query="q")):
            pass

    async def asked() -> ModelAnswer:
        async with Patience(0.3):
            return await model.complete(Prompt(query="q"))

    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(asked()) for _ in range(5)]  # 100 ms apart
    assert [call.result().text for call in calls] == ["done"] * 5


async def test_time_that_the_model_takes_after_the_line_counts() -> None:
    class Hanging:
        async def complete(self, prompt: Prompt) -> ModelAnswer:
            await asyncio.sleep(60)
            raise AssertionError

    model = LimitedModel(Hanging(), Limiter(Limits(requests_per_minute=600)))
    with pytest.raises(TimeoutError):
        async with Patience(0.02):
            await model.complete(Prompt(query="q"))


async def test_a_long_line_is_told_of_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    limiter = Limiter(Limits(requests_per_minute=4), name="a:b", now=clock.now, sleep=clock.sleep)
    model = LimitedModel(ScriptedModel("a", repeat=True), limiter)
    async with asyncio.TaskGroup() as group:
        for _ in range(10):
            group.create_task(model.complete(Prompt(query="q")))
    assert [record.getMessage() for record in caplog.records] == [
        "a:b is held back by its limits: a call waits 15 s for its turn",
        "a:b is held back by its limits: a call waits 60 s for its turn",
    ]
