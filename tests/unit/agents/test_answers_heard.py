"""Answers of a person that a resumed run does not come to: told, unless it was cut off there."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_agents import WHO, Does, Killed, MortalStore, approved, payer, says, till

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
from acc.domain.errors import AccError, ReplayMismatch
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
    """Return an agent that asks another question each time it runs, and at last none."""
    left = list(questions)

    async def ask(ctx: RunContext) -> str:
        if left:
            await ctx.fork(left[0]).request_input(left.pop(0))
        return "paid"

    return Does(name="fickle", do=ask)


@pytest.mark.parametrize("answer", [approve, deny])
async def test_a_run_that_never_comes_to_an_answered_request_fails(
    answer: Callable[[str], InputAnswer],
) -> None:
    runner = Runner(fickle("First?"))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ReplayMismatch, match=r"^/fickle/First\?#0: request '.*' was answered"):
        await runner.resume(**WHO, answers=answer(paused.requests[0].id))
    assert (await runner.events(**WHO))[-1].detail == {"code": "replay_mismatch"}


async def test_an_answer_is_not_forgotten_while_the_run_asks_something_else() -> None:
    runner = Runner(fickle("First?", "Second?"))
    paused = await runner.run(**WHO, message="go")
    again = await runner.resume(**WHO, answers=[deny(paused.requests[0].id)])
    assert [request.message for request in again.requests] == ["Second?"]
    with pytest.raises(ReplayMismatch, match=r"^/fickle/First\?#0"):
        await approved(runner, again)


def team(*agents: BaseAgent, name: str = "team", **fields: Any) -> ParallelAgent:
    return ParallelAgent(name=name, sub_agents=agents, **fields)


def half_dead() -> ParallelAgent:
    """Return branches of which one fails while `a` waits in it, and `c` goes on waiting."""
    inner = team(asks("a"), fails("b"), name="inner")
    return team(inner, asks("c"), on_error="collect")


async def test_nobody_is_asked_about_what_was_cut_off_while_it_waited() -> None:
    runner = Runner(half_dead())
    paused = await runner.run(**WHO, message="go")
    asked = {e.request.agent: e.request for e in paused.events if e.request is not None}
    assert asked.keys() == {"a", "c"}
    assert await runner.pending(**WHO) == paused.requests == (asked["c"],)
    with pytest.raises(NothingPending, match=f"pending requests: {asked['c'].id}"):
        await runner.resume(**WHO, answers=approve(asked["a"].id))
    assert (await approved(runner, paused)).text == "c: approve"


def slowly(name: str) -> Does:
    async def ask(ctx: RunContext) -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        return (await ctx.request_input(f"{name}?")).verdict.value

    return Does(name=name, do=ask)


def cut_off() -> ParallelAgent:
    """Return branches of which one fails once it is answered, and another is slower to ask."""

    async def ask_and_fail(ctx: RunContext) -> None:
        await ctx.request_input("first?")
        raise RuntimeError("broken")

    inner = team(Does(name="first", do=ask_and_fail), slowly("second"), name="inner")
    return team(inner, says("beside"), on_error="collect")


async def test_a_branch_that_is_cancelled_before_it_comes_to_its_request_may_be() -> None:
    runner = Runner(cut_off())
    paused = await runner.run(**WHO, message="go")
    assert len(paused.requests) == 2
    assert (await approved(runner, paused)).text == "beside: beside"


async def test_so_may_one_whose_failure_is_on_record_when_the_process_dies() -> None:
    store = MortalStore(clock=FrozenClock())

    def die_once(ctx: RunContext) -> None:
        lived.append(1)
        store.dead = len(lived) == 1

    lived: list[int] = []
    tree = SequentialAgent(name="s", sub_agents=[cut_off(), Does(name="end", do=die_once)])
    runner = Runner(tree, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    assert (await runner.resume(**WHO)).text == "end done"


async def test_an_agent_that_goes_on_without_another_that_failed_may_do_so() -> None:
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
    assert (await approved(runner, await runner.run(**WHO, message="go"))).text == "went on"


async def test_an_agent_used_as_a_tool_may_have_ended_when_the_process_died() -> None:
    store = MortalStore(clock=FrozenClock())

    async def ask_in_branches(ctx: RunContext) -> None:
        await ctx.run_agent(inner)
        raise RuntimeError("broken")

    def die_once(ctx: RunContext) -> None:
        lived.append(1)
        store.dead = len(lived) == 1

    lived: list[int] = []
    inner = team(asks("a"), says("b"), name="inner")
    worker = Does(name="worker", description="Works.", do=ask_in_branches, sub_agents=[inner])
    dies = Does(name="dies", description="Dies.", do=die_once)
    model = ScriptedModel(call("worker", request="x"), call("dies", request="x"), "done")
    boss = Agent(name="boss", model=model, tools=[AgentTool(agent=worker), dies], memory=None)
    runner = Runner(boss, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    assert (await runner.resume(**WHO)).text == "done"


async def test_an_agent_for_which_another_stands_in_need_not_be_answered() -> None:
    runner = Runner(SequentialAgent(name="s", sub_agents=[asks("a"), says("b")]))
    paused = await runner.run(**WHO, message="go")
    result = await runner.resume(
        **WHO,
        answers=[approve(paused.requests[0].id)],
        config=RunConfig(stubs={"s": "nothing to do"}),
    )
    assert (result.status, result.text) == (RunStatus.COMPLETED, "nothing to do")


async def test_a_task_that_another_pause_cancels_is_heard_when_it_is_come_to() -> None:
    async def both(ctx: RunContext) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.run_agent(slow))
            group.create_task(ctx.run_agent(fast))

    slow, fast = slowly("slow"), asks("fast")
    runner = Runner(Does(name="root", do=both, sub_agents=[slow, fast]))
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await approved(runner, result)
    assert result.text == "root done"


async def test_a_run_is_not_resumed_with_another_agent_and_goes_on_waiting(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    pay, paid = till()
    right = Runner(payer("payer", pay, 5), store=store)
    paused = await right.run(**WHO, message="go")
    answer = approve(paused.requests[0].id)
    for other in (says("other"), SequentialAgent(name="pay", sub_agents=[payer("payer", pay, 5)])):
        wrong = Runner(other, store=store)
        told = f"'s1' was started by 'payer', not by '{other.name}'.*still waits"
        with pytest.raises(ReplayMismatch, match=told):
            await wrong.resume(**WHO, answers=answer)
    assert ((await right.resume(**WHO, answers=answer)).text, paid) == ("done", [5])


async def test_who_keeps_the_conversation_goes_on_under_a_root_with_another_name() -> None:
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

    pay, paid = till()
    store = (InMemorySessionStore(clock=FrozenClock()), InMemoryArtifactStore())
    runner = Runner(tree("desk"), store=store)
    await runner.run(**WHO, message="hello")
    paused = await runner.run(**WHO, message="pay")
    renamed = tree("front")
    found = renamed.find("clerk")
    assert isinstance(found, Agent)
    found.model = ScriptedModel("done")
    result = await approved(Runner(renamed, store=store), paused)
    assert (result.text, paid) == ("done", [5])


async def test_what_a_resumed_run_asked_before_it_was_killed_is_waited_for() -> None:
    async def ask_twice(ctx: RunContext) -> None:
        await ctx.request_input("First?")
        try:
            await ctx.request_input("Second?")
        except RunPaused:
            store.dead = True
            raise

    store = MortalStore(clock=FrozenClock())
    runner = Runner(Does(name="a", do=ask_twice), store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    waiting = await runner.pending(**WHO)
    assert [request.message for request in waiting] == ["Second?"]
    result = await runner.resume(**WHO, answers=approve(waiting[0].id))
    assert result.text == "a done"
