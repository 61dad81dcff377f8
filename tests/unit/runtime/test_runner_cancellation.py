"""Cancelled at any moment: no task and no stream stays behind, the record is whole."""

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
    """A scripted model that waits, and knows how many of its streams are open."""

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
    """A rich tree that answers every message, and pauses for a payment."""

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
    """Await `work`, and cancel whoever does so when it waits for the n-th time."""
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
        except BaseException as error:  # noqa: BLE001 - it is for the one who waits
            fault = error


async def cancelled_after(rounds: int, work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Await `work`, and cancel whoever does so after n rounds of the loop."""
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


Cut = Callable[[int, Coroutine[Any, Any, RunResult]], Any]
CUTS: dict[str, Cut] = {"suspension": cancelled_at, "round of the loop": cancelled_after}


def step(storage: Storage, how: str, number: int) -> int:
    """Return how far on to cut next: waiting for a file, the loop goes round very often."""
    goes_round = how == "round of the loop" and isinstance(storage.sessions, SqliteSessionStore)
    return 1 + max(number, 0) // 4 if goes_round else 1


GREETING = scripted_agent(ScriptedModel("hello", repeat=True), name="greeting")


async def settle(harness: RunnerHarness, storage: Storage, session: str) -> None:
    """Check that nothing stayed behind, and that the session takes the next message."""
    assert no_tasks_remain(), (session, asyncio.all_tasks())
    assert SlowModel.open == 0
    stored = await harness.runner.services.sessions.read(harness.runner._key("ann", session))
    assert stored is None or stored.status is not RunStatus.WORKING
    async with asyncio.timeout(20):
        if stored is not None and stored.status is RunStatus.INPUT_REQUIRED:
            await harness.runner.abandon(user_id="ann", session_id=session)
        after = await storage.harness(GREETING).say("hi", session=session)
        # The memory that was cut off must not keep the tree from its next turn.
        again = harness.restarted(Tree().build())
        waiting = await again.say("pay", session=session)
    assert (after.text, waiting.status) == ("hello", RunStatus.INPUT_REQUIRED)
    await again.runner.abandon(user_id="ann", session_id=session)
    check_record(await harness.events(session))


async def cut(attempt: Coroutine[Any, Any, RunResult]) -> RunResult | None:
    """Run an attempt in a task of its own, as a server does."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attempt)
        await asyncio.wait([task])
    return None if task.cancelled() else task.result()


@pytest.mark.parametrize("how", sorted(CUTS))
async def test_a_run_can_be_cancelled_whenever_it_waits(storage: Storage, how: str) -> None:
    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        await storage.harness(GREETING).say("earlier", session=session)
        work = harness.say("pay", session=session)
        async with asyncio.TaskGroup() as group:
            beside = group.create_task(storage.harness(GREETING).say("hi", session=f"o{number}"))
            result = await cut(as_coroutine(CUTS[how](number, work)))
        assert beside.result().text == "hello"
        assert tree.payment.paid == []
        await settle(harness, storage, session)
    assert result.status is RunStatus.INPUT_REQUIRED
    assert number > 4


async def as_coroutine(work: Any) -> RunResult:
    return await work  # type: ignore[no-any-return]


@pytest.mark.parametrize("how", sorted(CUTS))
async def test_a_resumed_run_can_be_cancelled_whenever_it_waits(storage: Storage, how: str) -> None:
    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        requests = (await harness.say("pay", session=session)).requests
        work = harness.runner.resume(
            user_id="ann", session_id=session, answers=[approve(requests[0].id)]
        )
        result = await cut(as_coroutine(CUTS[how](number, work)))
        assert tree.payment.paid in ([], [5])
        await settle(harness, storage, session)
        assert tree.payment.paid in ([], [5])
    assert (result.status, tree.payment.paid) == (RunStatus.COMPLETED, [5])


async def collect(harness: RunnerHarness, session: str, most: int) -> list[Any]:
    """Listen to the first events of a run, then stop."""
    seen: list[Any] = []
    stream = harness.runner.stream(user_id="ann", session_id=session, message="pay")
    try:
        async for event in stream:
            seen.append(event)
            if len(seen) > most:
                break
    finally:
        await stream.aclose()  # type: ignore[attr-defined]
    return seen


async def test_whoever_stops_listening_cancels_the_run(storage: Storage) -> None:
    number, seen = -1, list[Any]()
    while len(seen) > number or number < 0:
        number += 1
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        seen = await collect(harness, session, number)
        stored = await harness.events(session)
        recorded_before = [event for event in seen if not event.partial]
        assert list(stored[: len(recorded_before)]) == recorded_before
        await settle(harness, storage, session)
    assert seen[-1].status is RunStatus.INPUT_REQUIRED
    assert number > 20


@pytest.mark.parametrize("how", sorted(CUTS))
async def test_a_listener_can_be_cancelled_whenever_it_waits(storage: Storage, how: str) -> None:
    async def listening(harness: RunnerHarness, session: str) -> Any:
        return await collect(harness, session, 10_000)

    number, result = -1, None
    while result is None:
        number += step(storage, how, number)
        session, tree = f"s{number}", Tree()
        harness = storage.harness(tree.build())
        result = await cut(as_coroutine(CUTS[how](number, listening(harness, session))))
        await settle(harness, storage, session)
    assert number > 4


class Waits(BaseAgent):
    """Waits for ever, after it has said something; unwinding takes it a moment."""

    async def run(self, ctx: RunContext) -> str:
        ctx.state["begun"] = True
        await ctx.say("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
        return "never"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_run_that_takes_too_long_fails_and_leaves_nothing_behind(
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


async def test_a_timeout_that_an_agent_raises_itself_is_its_own_failure(storage: Storage) -> None:
    class Impatient(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise TimeoutError("its own")

    with pytest.raises(AgentFailed, match="its own"):
        await storage.harness(Impatient(name="impatient"), timeout=60).say("go")


async def test_many_wait_in_line_and_any_of_them_may_leave(storage: Storage) -> None:
    gate, model = asyncio.Event(), ScriptedModel("hello", repeat=True)

    async def hold() -> str:
        await gate.wait()
        return "held"

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


async def test_the_last_in_line_may_leave_at_the_moment_the_first_is_done(storage: Storage) -> None:
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


async def test_whoever_was_called_and_cancelled_at_once_lets_the_next_one_in(
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
