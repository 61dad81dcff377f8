"""Tests of cancellation at any await: no task or stream leaks, the record stays valid."""

import asyncio
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any

import pytest
from runner_harness import (
    SESSION,
    PaymentTool,
    RunnerHarness,
    Storage,
    check_record,
    no_tasks_remain,
    scripted_agent,
)

from acc import (
    BaseAgent,
    LoopAgent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    RunContext,
    RunResult,
    RunStatus,
    SequentialAgent,
    acc_memory,
    approve,
    exit_loop,
)
from acc.adapters.storage.sqlite_sessions import SqliteSessionStore
from acc.domain.errors import AgentFailed, RunTimedOut
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=5)


class SlowModel(ScriptedModel):
    """Scripted model that yields to the loop and counts its open streams."""

    open = 0

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        await asyncio.sleep(0)
        return await super().complete(prompt)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        SlowModel.open += 1
        try:
            answer = await self.complete(prompt)
            for word in answer.text.split():
                await asyncio.sleep(0)
                yield word
            yield answer
        finally:
            SlowModel.open -= 1


def look(what: str) -> str:
    """Look at something, in a thread."""
    return what


async def listen(what: str) -> str:
    """Listen to something."""
    await asyncio.sleep(0)
    return what


class Tree:
    """Tree with tools, branches and a loop that pauses for a payment."""

    def __init__(self) -> None:
        self.payment = PaymentTool()
        self.loops = 0

    def build(self) -> BaseAgent:
        reads = scripted_agent(
            SlowModel([call("look", what="a"), call("listen", what="b")], "read it"),
            look,
            listen,
            name="reads",
            memory=lambda: acc_memory(budget=64),
            output_key="read",
        )
        beside = ParallelAgent(
            name="beside",
            sub_agents=[
                scripted_agent(SlowModel(call("listen", what="c"), "left"), listen, name="left"),
                scripted_agent(SlowModel("right"), name="right", output_key="right"),
            ],
        )
        again = LoopAgent(
            name="again",
            max_iterations=3,
            sub_agents=[
                scripted_agent(SlowModel("more", call("exit_loop")), exit_loop, name="loops")
            ],
        )
        pays = scripted_agent(
            SlowModel(PAY, "paid"), self.payment.tool(), name="pays", memory="transcript"
        )
        return SequentialAgent(name="root", sub_agents=[reads, beside, again, pays])


@types.coroutine
def cancelled_at(
    suspension: int, work: Coroutine[Any, Any, RunResult]
) -> Generator[Any, Any, RunResult]:
    """Await `work` and cancel the current task at its n-th suspension."""
    task = asyncio.current_task()
    assert task is not None
    fault: BaseException | None = None
    count = 0
    while True:
        try:
            waits_for = work.throw(fault) if fault is not None else work.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        fault = None
        if count == suspension:
            task.cancel()
        count += 1
        try:
            yield waits_for
        except BaseException as error:  # noqa: BLE001 - it is passed on to the awaiting coroutine
            fault = error


async def cancelled_after(rounds: int, work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Await `work` and cancel the current task after n iterations of the loop."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    done = False

    def tick(left: int) -> None:
        if done:
            return
        if left:
            loop.call_soon(tick, left - 1)
        else:
            task.cancel()

    tick(rounds)
    try:
        return await work
    finally:
        done = True


Canceller = Callable[[int, Coroutine[Any, Any, RunResult]], Any]
CANCELLERS: dict[str, Canceller] = {"suspension": cancelled_at, "loop iteration": cancelled_after}


def step(storage: Storage, how: str, number: int) -> int:
    """Return the distance to the next cancellation; it grows for SQLite."""
    iterates_often = how == "loop iteration" and isinstance(storage.sessions, SqliteSessionStore)
    return 1 + max(number, 0) // 4 if iterates_often else 1


GREETING = scripted_agent(ScriptedModel("hello", repeat=True), name="greeting")


async def assert_usable(harness: RunnerHarness, storage: Storage, session: str) -> None:
    """Assert that nothing leaked and that the session accepts the next message."""
    assert no_tasks_remain(), (session, asyncio.all_tasks())
    assert SlowModel.open == 0
    stored = await harness.runner.services.sessions.read(harness.runner.session_key("ann", session))
    assert stored is None or stored.status is not RunStatus.WORKING
    async with asyncio.timeout(20):
        if stored is not None and stored.status is RunStatus.INPUT_REQUIRED:
            await harness.runner.abandon(user_id="ann", session_id=session)
        after = await storage.harness(GREETING).say("hi", session=session)
        # The cancelled memory must not prevent the next turn.
        again = harness.restarted(Tree().build())
        waiting = await again.say("pay", session=session)
    assert (after.text, waiting.status) == ("hello", RunStatus.INPUT_REQUIRED)
    await again.runner.abandon(user_id="ann", session_id=session)
    check_record(await harness.events(session))


async def run_attempt(attempt: Coroutine[Any, Any, RunResult]) -> RunResult | None:
    """Run an attempt in a separate task, as a server does."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attempt)
        await asyncio.wait([task])
    return None if task.cancelled() else task.result()


@pytest.mark.parametrize("how", sorted(CANCELLERS))
async def test_run_cancelled_at_any_await_leaves_usable_session(storage: Storage, how: str) -> None:
    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        await storage.harness(GREETING).say("earlier", session=session)
        work = harness.say("pay", session=session)
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(storage.harness(GREETING).say("hi", session=f"o{number}"))
            result = await run_attempt(as_coroutine(CANCELLERS[how](number, work)))
        assert beside.result().text == "hello"
        assert tree.payment.paid == []
        await assert_usable(harness, storage, session)
    assert result.status is RunStatus.INPUT_REQUIRED
    assert number > 4


async def as_coroutine(work: Any) -> RunResult:
    return await work  # type: ignore[no-any-return]


@pytest.mark.parametrize("how", sorted(CANCELLERS))
async def test_resumed_run_cancelled_at_any_await_leaves_usable_session(
    storage: Storage, how: str
) -> None:
    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        requests = (await harness.say("pay", session=session)).requests
        work = harness.runner.resume(
            user_id="ann", session_id=session, answers=[approve(requests[0].id)]
        )
        result = await run_attempt(as_coroutine(CANCELLERS[how](number, work)))
        assert tree.payment.paid in ([], [5])
        await assert_usable(harness, storage, session)
        assert tree.payment.paid in ([], [5])
    assert (result.status, tree.payment.paid) == (RunStatus.COMPLETED, [5])


async def collect(harness: RunnerHarness, session: str, most: int) -> list[Any]:
    """Read the first events of a run, then close the stream."""
    seen: list[Any] = []
    stream = harness.runner.stream(user_id="ann", session_id=session, message="pay")
    try:
        async for event in stream:
            seen.append(event)
            if len(seen) > most:
                break
    finally:
        await stream.aclose()
    return seen


async def test_closing_the_stream_cancels_the_run(storage: Storage) -> None:
    number, seen = -1, list[Any]()
    while len(seen) > number or number < 0:
        number += 1
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        seen = await collect(harness, session, number)
        stored = await harness.events(session)
        streamed = [event for event in seen if not event.partial]
        assert list(stored[: len(streamed)]) == streamed
        await assert_usable(harness, storage, session)
    assert seen[-1].status is RunStatus.INPUT_REQUIRED
    assert number > 20


@pytest.mark.parametrize("how", sorted(CANCELLERS))
async def test_stream_reader_cancelled_at_any_await_leaves_usable_session(
    storage: Storage, how: str
) -> None:
    async def read_all(harness: RunnerHarness, session: str) -> Any:
        return await collect(harness, session, 10_000)

    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        result = await run_attempt(
            as_coroutine(CANCELLERS[how](number, read_all(harness, session)))
        )
        await assert_usable(harness, storage, session)
    assert number > 4


class Waits(BaseAgent):
    """Agent that says something, then waits forever and awaits during cleanup."""

    async def run(self, ctx: RunContext) -> str:
        ctx.state["begun"] = True
        await ctx.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
        return "never"


@pytest.mark.parametrize("streamed", [False, True])
async def test_run_that_exceeds_timeout_fails_without_leaking_tasks(
    storage: Storage, streamed: bool
) -> None:
    tree = ParallelAgent(
        name="root", sub_agents=[Waits(name="a"), scripted_agent(SlowModel("b"), name="b")]
    )
    harness = storage.harness(tree, timeout=0.02)
    with pytest.raises(RunTimedOut):
        if streamed:
            await collect(harness, SESSION, 100)
        else:
            await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]
    assert no_tasks_remain()
    assert (await storage.harness(GREETING).say("hi")).text == "hello"
    check_record(await harness.events())


async def test_timeout_error_raised_by_agent_fails_the_agent(storage: Storage) -> None:
    class Impatient(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise TimeoutError("its own")

    with pytest.raises(AgentFailed, match="its own"):
        await storage.harness(Impatient(name="impatient"), timeout=60).say("go")


async def test_cancelled_queued_run_does_not_block_others(storage: Storage) -> None:
    gate, model = asyncio.Event(), ScriptedModel("hello", repeat=True)

    async def hold() -> str:
        await gate.wait()
        return "released"

    first = scripted_agent(ScriptedModel(call("hold"), "first", "hello", "hello", "hello"), hold)
    harness = storage.harness(first)
    async with asyncio.TaskGroup() as group:
        holder = group.create_task(harness.say("first"))
        await asyncio.sleep(0.01)
        waiting = [group.create_task(harness.say(f"next {n}")) for n in range(4)]
        await asyncio.sleep(0)
        waiting[1].cancel()
        gate.set()
        await asyncio.wait([holder, waiting[0]])
    assert model.requests == []
    assert [task.cancelled() for task in waiting] == [False, True, False, False]
    assert [e.text for e in await harness.events() if e.author == "user"] == [
        "first",
        "next 0",
        "next 2",
        "next 3",
    ]


async def test_queued_run_cancelled_when_first_run_ends_releases_session(storage: Storage) -> None:
    class Ends(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            if ctx.message == "first":
                await gate.wait()
                behind[0].cancel()
            return "done"

    gate, behind = asyncio.Event(), list[asyncio.Task[RunResult]]()
    harness = storage.harness(Ends(name="ends"))
    async with asyncio.TaskGroup() as group:
        holder = group.create_task(harness.say("first"))
        await asyncio.sleep(0)
        behind.append(group.create_task(harness.say("second")))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.wait([holder, *behind])
    assert holder.result().text == "done"
    assert behind[0].cancelled()
    assert (await harness.say("third")).text == "done"


async def test_run_cancelled_on_wake_up_lets_next_run_start(
    storage: Storage,
) -> None:
    class Ends(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            if ctx.message == "first":
                await gate.wait()
            return "done"

    gate = asyncio.Event()
    harness = storage.harness(Ends(name="ends"))

    async def first() -> None:
        await harness.say("first")
        second.cancel()

    async with asyncio.TaskGroup() as group:
        group.create_task(first())
        await asyncio.sleep(0)
        second = group.create_task(harness.say("second"))
        third = group.create_task(harness.say("third"))
        await asyncio.sleep(0)
        gate.set()
    assert (second.cancelled(), third.result().text) == (True, "done")
    check_record(await harness.events())
