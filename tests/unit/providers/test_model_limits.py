"""No more at once, and no more in a minute, than was said."""

import asyncio
import contextlib
import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from acc.adapters.providers import limiting
from acc.adapters.providers.limiting import LimitedModel, Limiter, Limits, Seats
from acc.application.runtime.deadlines import PausableTimeout
from acc.domain.value_objects.content import Usage, text_part
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


def test_no_more_calls_run_at_once_in_all_loops_together_than_the_limit_says() -> None:
    guard, slow, limiter = threading.Lock(), Slow(), Limiter(Limits(concurrency=2))

    class Shared:
        async def complete(self, prompt: Prompt) -> ModelAnswer:
            with guard:
                slow.now += 1
                slow.most = max(slow.most, slow.now)
            await asyncio.sleep(0.005)
            with guard:
                slow.now -= 1
            return ModelAnswer(text="done")

    async def several() -> int:
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                model = LimitedModel(Shared(), limiter)
                group.create_task(model.complete(Prompt(query="q")))
        return 10

    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(asyncio.run, several()) for _ in range(3)]
        assert [found.result(20) for found in running] == [10] * 3
    assert slow.most == 2


async def test_one_who_gives_up_leaves_the_seat_to_the_next() -> None:
    seats = Seats(1)
    order: list[str] = []

    async def sits(name: str) -> None:
        async with seats.one():
            order.append(name)
            await asyncio.sleep(0.001)

    async with asyncio.TaskGroup() as group:
        async with seats.one():
            given_up, offered = (group.create_task(sits(name)) for name in ("a", "b"))
            kept = group.create_task(sits("c"))
            await asyncio.sleep(0)
            given_up.cancel()
            await asyncio.sleep(0)
        # It is offered the seat by now, and has not sat down.
        offered.cancel()
        await kept
    assert order == ["c"]
    async with asyncio.timeout(1), seats.one():
        pass


def test_a_seat_in_a_loop_that_is_closed_is_free() -> None:
    seats = Seats(1)
    loop = asyncio.new_event_loop()
    here, waits = seats.one(), seats.one()
    loop.run_until_complete(here.__aenter__())
    waiting = loop.create_task(waits.__aenter__())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined] # it was cut off on purpose

    async def sits() -> str:
        async with asyncio.timeout(1), seats.one():
            return "sat"

    assert [asyncio.run(sits()) for _ in range(2)] == ["sat", "sat"]
    del here, waits, waiting
    gc.collect()
    assert asyncio.run(sits()) == "sat"


def test_who_waits_finds_a_seat_that_was_left_in_a_loop_which_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limiting, "_LOOK_EVERY", 0.02)
    seats, sat = Seats(1), threading.Event()

    async def sits() -> None:
        async with asyncio.timeout(5), seats.one():
            sat.set()

    async def takes() -> None:
        await here.__aenter__()
        beside.start()
        await asyncio.sleep(0.05)  # the other one has come and waits

    here = seats.one()
    beside = threading.Thread(target=asyncio.run, args=(sits(),))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(takes())
    assert not sat.is_set()
    beside.join()  # the loop is neither closed nor does it run
    assert sat.is_set()
    loop.run_until_complete(here.__aexit__(None, None, None))
    loop.close()


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
        async with PausableTimeout(0.3):
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
        async with PausableTimeout(0.02):
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
