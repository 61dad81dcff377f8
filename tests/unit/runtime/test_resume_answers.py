"""Answers that a resumed run uses or does not reach."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_support import (
    WHO,
    CrashingStore,
    Does,
    ProcessKilled,
    approve_all,
    payer,
    payment_tool,
    says,
)

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    InputAnswer,
    NothingPending,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
    approve,
    deny,
)
from acc.adapters.storage.in_memory import InMemoryArtifactStore, InMemorySessionStore
from acc.application.runtime.interrupts import RunPaused
from acc.domain.errors import AccError, InvalidInput, ReplayMismatch
from acc.testing import FrozenClock, ScriptedModel, call


def asks(name: str) -> Does:
    async def ask(ctx: RunContext) -> str:
        return (await ctx.request_input(f"{name}?")).verdict.value

    return Does(name=name, do=ask)


def fails(name: str) -> Does:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError("broken")

    return Does(name=name, do=fail)


def fickle(*questions: str) -> Does:
    """Return an agent that asks a different question in each run and finally none."""
    left = list(questions)

    async def ask(ctx: RunContext) -> str:
        if left:
            await ctx.fork(left[0]).request_input(left.pop(0))
        return "paid"

    return Does(name="fickle", do=ask)


@pytest.mark.parametrize("answer", [approve, deny])
async def test_resume_fails_when_answered_request_is_not_reached(
    answer: Callable[[str], InputAnswer],
) -> None:
    runner = Runner(fickle("First?"))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ReplayMismatch, match=r"^/fickle/First\?#0: request '.*' was answered"):
        await runner.resume(**WHO, answers=answer(paused.requests[0].id))
    assert (await runner.events(**WHO))[-1].detail == {"code": "replay_mismatch"}


async def test_unused_answer_fails_after_further_pause() -> None:
    runner = Runner(fickle("First?", "Second?"))
    paused = await runner.run(**WHO, message="go")
    again = await runner.resume(**WHO, answers=[deny(paused.requests[0].id)])
    assert [request.message for request in again.requests] == ["Second?"]
    with pytest.raises(ReplayMismatch, match=r"^/fickle/First\?#0"):
        await approve_all(runner, again)


def team(*agents: BaseAgent, name: str = "team", **fields: Any) -> ParallelAgent:
    return ParallelAgent(name=name, sub_agents=agents, **fields)


def tree_with_failed_branch() -> ParallelAgent:
    """Return branches: one fails while `a` waits in it, `c` stays pending."""
    inner = team(asks("a"), fails("b"), name="inner")
    return team(inner, asks("c"), on_error="collect")


async def test_request_of_cancelled_branch_is_not_pending() -> None:
    runner = Runner(tree_with_failed_branch())
    paused = await runner.run(**WHO, message="go")
    asked = {e.request.agent: e.request for e in paused.events if e.request is not None}
    assert asked.keys() == {"a", "c"}
    assert await runner.pending(**WHO) == paused.requests == (asked["c"],)
    with pytest.raises(NothingPending, match=f"pending requests: {asked['c'].id}"):
        await runner.resume(**WHO, answers=approve(asked["a"].id))
    assert (await approve_all(runner, paused)).text == "c: approve"


def asks_later(name: str) -> Does:
    async def ask(ctx: RunContext) -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        return (await ctx.request_input(f"{name}?")).verdict.value

    return Does(name=name, do=ask)


def tree_with_cancelled_branch() -> ParallelAgent:
    """Return branches: one fails after its answer, another asks later."""

    async def ask_and_fail(ctx: RunContext) -> None:
        await ctx.request_input("first?")
        raise RuntimeError("broken")

    inner = team(Does(name="first", do=ask_and_fail), asks_later("second"), name="inner")
    return team(inner, says("beside"), on_error="collect")


async def test_branch_cancelled_before_its_request_does_not_fail_resume() -> None:
    runner = Runner(tree_with_cancelled_branch())
    paused = await runner.run(**WHO, message="go")
    assert len(paused.requests) == 2
    assert (await approve_all(runner, paused)).text == "beside: beside"


async def test_recorded_branch_failure_does_not_fail_resume_after_crash() -> None:
    store = CrashingStore(clock=FrozenClock())

    def die_once(ctx: RunContext) -> None:
        lived.append(1)
        store.is_crashed = len(lived) == 1

    lived: list[int] = []
    tree = SequentialAgent(
        name="s", sub_agents=[tree_with_cancelled_branch(), Does(name="end", do=die_once)]
    )
    runner = Runner(tree, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    assert (await runner.resume(**WHO)).text == "end done"


async def test_agent_may_handle_failure_of_agent_that_asked() -> None:
    async def ask_or_fail(ctx: RunContext) -> None:
        if ctx.run.journal.steps:
            raise RuntimeError("no longer there")
        await ctx.request_input("Go on?")

    async def try_it(ctx: RunContext) -> str:
        try:
            await ctx.run_agent(tried)
        except AccError:
            return "went on"
        return "done"

    tried = Does(name="tried", do=ask_or_fail)
    runner = Runner(Does(name="root", do=try_it, sub_agents=[tried]))
    assert (await approve_all(runner, await runner.run(**WHO, message="go"))).text == "went on"


async def test_agent_tool_completed_before_crash_is_not_required_to_ask() -> None:
    store = CrashingStore(clock=FrozenClock())

    async def ask_in_branches(ctx: RunContext) -> None:
        await ctx.run_agent(inner)
        raise RuntimeError("broken")

    def die_once(ctx: RunContext) -> None:
        lived.append(1)
        store.is_crashed = len(lived) == 1

    lived: list[int] = []
    inner = team(asks("a"), says("b"), name="inner")
    worker = Does(name="worker", description="Works.", do=ask_in_branches, sub_agents=[inner])
    dies = Does(name="dies", description="Dies.", do=die_once)
    model = ScriptedModel(call("worker", request="x"), call("dies", request="x"), "done")
    boss = Agent(name="boss", model=model, tools=[AgentTool(agent=worker), dies], memory=None)
    runner = Runner(boss, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    assert (await runner.resume(**WHO)).text == "done"


async def test_stub_replaces_agent_with_answered_request() -> None:
    runner = Runner(SequentialAgent(name="s", sub_agents=[asks("a"), says("b")]))
    paused = await runner.run(**WHO, message="go")
    result = await runner.resume(
        **WHO,
        answers=[approve(paused.requests[0].id)],
        config=RunConfig(stubs={"s": "nothing to do"}),
    )
    assert (result.status, result.text) == (RunStatus.COMPLETED, "nothing to do")


async def test_task_cancelled_by_pause_asks_when_resumed() -> None:
    async def both(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run_agent(slow))
            group.create_task(ctx.run_agent(fast))

    slow, fast = asks_later("slow"), asks("fast")
    runner = Runner(Does(name="root", do=both, sub_agents=[slow, fast]))
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await approve_all(runner, result)
    assert result.text == "root done"


async def test_resume_fails_when_agent_differs(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    pay, paid = payment_tool()
    right = Runner(payer("payer", pay, 5), store=store)
    paused = await right.run(**WHO, message="go")
    answer = approve(paused.requests[0].id)
    for other in (says("other"), SequentialAgent(name="pay", sub_agents=[payer("payer", pay, 5)])):
        wrong = Runner(other, store=store)
        actual = f"'s1' was started by 'payer', not by '{other.name}'.*still waits"
        with pytest.raises(ReplayMismatch, match=actual):
            await wrong.resume(**WHO, answers=answer)
    assert ((await right.resume(**WHO, answers=answer)).text, paid) == ("done", [5])


async def test_resume_accepts_renamed_root_of_same_agent() -> None:
    def tree(name: str) -> Agent:
        clerk = Agent(
            name="clerk",
            description="Pays.",
            model=ScriptedModel("yes?", call("pay", amount=5), "done"),
            tools=[pay],
            memory=None,
        )
        hand_over = call("transfer_to_agent", agent_name="clerk")
        return Agent(name=name, model=ScriptedModel(hand_over), sub_agents=[clerk], memory=None)

    pay, paid = payment_tool()
    store = (InMemorySessionStore(clock=FrozenClock()), InMemoryArtifactStore())
    runner = Runner(tree("desk"), store=store)
    await runner.run(**WHO, message="hello")
    paused = await runner.run(**WHO, message="pay")
    renamed = tree("front")
    found = renamed.find("clerk")
    assert isinstance(found, Agent)
    found.model = ScriptedModel("done")
    result = await approve_all(Runner(renamed, store=store), paused)
    assert (result.text, paid) == ("done", [5])


async def test_request_recorded_before_crash_is_pending() -> None:
    async def ask_twice(ctx: RunContext) -> None:
        await ctx.request_input("First?")
        try:
            await ctx.request_input("Second?")
        except RunPaused:
            store.is_crashed = True
            raise

    store = CrashingStore(clock=FrozenClock())
    runner = Runner(Does(name="a", do=ask_twice), store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    waiting = await runner.pending(**WHO)
    assert [request.message for request in waiting] == ["Second?"]
    result = await runner.resume(**WHO, answers=approve(waiting[0].id))
    assert result.text == "a done"


async def test_wrong_answers_name_the_functions_that_create_them() -> None:
    runner = Runner(asks("a"))
    paused = await runner.run(**WHO, message="go")
    (request,) = paused.requests
    with pytest.raises(InvalidInput, match=r"approve\(request.id, value=...\)"):
        await runner.resume(**WHO, answers=[{request.id: "yes"}])  # type: ignore[list-item]
    with pytest.raises(AttributeError, match=r"pass acc.approve\(request.id\) to resume"):
        _ = request.approve  # type: ignore[attr-defined]
    assert not hasattr(request, "args")
