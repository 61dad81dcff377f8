"""No more at once, and no more in a minute, than was said."""

import asyncio

from acc.adapters.providers.limiting import LimitedModel, Limiter, Limits
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
