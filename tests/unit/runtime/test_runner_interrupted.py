"""Tests of crashes during a run: no tool is repeated, and the session continues.

A crash is a copy of the store, taken in the middle of a run and opened as another process would.
"""

from typing import Any

import pytest
from runner_harness import Crash, PaymentTool, Storage, check_record, scripted_agent

from acc import BaseAgent, RunContext, RunStatus, SequentialAgent, ToolContext, approve, deny, tool
from acc.domain.errors import InvalidInput, SessionWaiting
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=5)


async def test_next_message_closes_run_of_killed_process(storage: Storage, crash: Crash) -> None:
    def crashing(ctx: ToolContext) -> str:
        crash.now()
        return "done"

    tree = scripted_agent(ScriptedModel(call("crashing"), "never said", "hello"), crashing)
    await storage.harness(tree).say("go")
    harness = crash.harness(tree)
    assert [event.kind for event in await harness.events()] == [
        EventKind.MESSAGE,
        EventKind.TOOL_CALLS,
    ]
    assert (await harness.say("are you there?")).text == "hello"
    assert await harness.ends() == [RunStatus.FAILED, RunStatus.COMPLETED]
    closed = next(event for event in await harness.events() if event.status is RunStatus.FAILED)
    assert (closed.text, closed.detail) == (
        "the process was interrupted",
        {"code": "interrupted"},
    )
    check_record(await harness.events())


@pytest.mark.parametrize("idempotent", [False, True])
async def test_resume_continues_run_of_killed_process(
    storage: Storage, crash: Crash, idempotent: bool
) -> None:
    started: list[str] = []

    @tool(idempotent=idempotent)
    def crashing() -> str:
        """Look."""
        started.append("")
        crash.now()
        return "done"

    model = ScriptedModel(call("crashing"), "before", "after")
    tree = scripted_agent(model, crashing)
    await storage.harness(tree).say("go")
    harness = crash.harness(tree)
    done = await harness.answer()
    assert (done.status, done.text) == (RunStatus.COMPLETED, "after")
    (result,) = [result for m in model.requests[-1].following for result in m.results]
    assert len(started) == (2 if idempotent else 1)
    assert result.is_error is not idempotent
    assert idempotent or "unknown" in result.content["error"]
    assert await harness.ends() == [RunStatus.COMPLETED]
    check_record(await harness.events())


def crashing_payment(crash: Crash, paid: list[int], *, save: bool = False, **options: Any) -> Any:
    @tool(name="pay", **{"confirm": True, **options})
    async def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        paid.append(amount)
        if save:
            await ctx.artifacts.save("receipt.txt", f"{amount}")
        crash.now()
        return f"paid {amount}"

    return pay


@pytest.mark.parametrize("save", [False, True], ids=["at once", "after it stored something"])
async def test_approved_tool_interrupted_by_crash_is_not_repeated(
    storage: Storage, crash: Crash, save: bool
) -> None:
    paid: list[int] = []
    model = ScriptedModel(PAY, "paid, here", "I do not know whether it was paid")
    tree = scripted_agent(model, crashing_payment(crash, paid, save=save))
    first = storage.harness(tree)
    await first.approve_all((await first.say("pay")).requests)
    assert paid == [5]
    harness = crash.harness(tree)
    assert await harness.pending() == ()
    with pytest.raises(SessionWaiting):
        await harness.say("hello?")
    done = await harness.answer()
    assert (done.text, paid) == ("I do not know whether it was paid", [5])
    shown = [p.result for m in model.requests[-1].messages for p in m.parts if p.result is not None]
    assert "its outcome is unknown" in shown[0].content["error"]
    assert done.usage.tool_calls == 1
    check_record(await harness.events())


async def test_run_interrupted_in_approved_tool_can_be_abandoned(
    storage: Storage, crash: Crash
) -> None:
    paid: list[int] = []
    tree = scripted_agent(ScriptedModel(PAY, "paid", "hello"), crashing_payment(crash, paid))
    first = storage.harness(tree)
    await first.approve_all((await first.say("pay")).requests)
    harness = crash.harness(tree)
    await harness.abandon()
    assert ((await harness.say("hi")).text, paid) == ("hello", [5])
    check_record(await harness.events())


async def test_tool_after_approved_tool_is_not_repeated_after_crash(
    storage: Storage, crash: Crash
) -> None:
    payment, sent = PaymentTool(), list[int]()

    async def send(amount: int) -> str:
        """Send a receipt."""
        sent.append(amount)
        crash.now()
        return "sent"

    model = ScriptedModel(PAY, [call("send", amount=5), call("send", amount=6)], "here", "unsure")
    tree = scripted_agent(model, payment.tool(), send)
    first = storage.harness(tree)
    await first.approve_all((await first.say("pay")).requests)
    done = await crash.harness(tree).answer()
    assert (done.text, payment.paid, sent) == ("unsure", [5], [5, 6])


async def test_unanswered_requests_are_pending_after_crash(storage: Storage, crash: Crash) -> None:
    paid: list[int] = []
    model = ScriptedModel([PAY, call("pay", amount=6)], "done")
    tree = scripted_agent(model, crashing_payment(crash, paid))
    first = storage.harness(tree)
    one, other = (await first.say("pay both")).requests
    await first.answer(approve(one.id))
    harness = crash.harness(tree)
    assert await harness.pending() == (other,)
    done = await harness.answer(deny(other.id))
    assert (done.text, paid) == ("done", [5])


async def test_long_running_tool_is_not_restarted_after_crash(
    storage: Storage, crash: Crash
) -> None:
    paid: list[int] = []
    model = ScriptedModel(PAY, "done")
    tree = scripted_agent(model, crashing_payment(crash, paid, long_running=True))
    first = storage.harness(tree)
    (may,) = (await first.say("pay")).requests
    (outcome,) = (await first.answer(approve(may.id))).requests
    crash.now()
    done = await crash.harness(tree).answer(approve(outcome.id, value="arrived"))
    assert (done.text, paid) == ("done", [5])


async def test_resumed_run_continues_after_crash(storage: Storage, crash: Crash) -> None:
    class Counts(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
            await ctx.say(f"round {ctx.state['rounds']}")
            crash.now()
            return f"after {ctx.state['rounds']}"

    payment = PaymentTool()
    payer = scripted_agent(ScriptedModel(PAY, "paid"), payment.tool(), name="payer")
    tree = SequentialAgent(name="root", sub_agents=[payer, Counts(name="counts")])
    first = storage.harness(tree)
    straight = await first.approve_all((await first.say("pay")).requests)
    done = await crash.harness(tree).answer()
    assert (done.text, done.state, payment.paid) == (straight.text, {"rounds": 1}, [5])
    assert done.usage == straight.usage


async def test_answers_are_stored_together_or_not_at_all(
    storage: Storage,
) -> None:
    """Check that neither answer counts if one of the two cannot be stored."""
    payment = PaymentTool()
    model = ScriptedModel([PAY, call("pay", amount=6)], "done")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    one, other = (await harness.say("pay")).requests
    before = await harness.events()
    with pytest.raises(InvalidInput, match="cannot be stored"):
        await harness.answer(approve(one.id), approve(other.id, value=object()))
    assert (await harness.events(), payment.paid) == (before, [])
    await harness.answer(approve(one.id), approve(other.id))
    assert sorted(payment.paid) == [5, 6]


async def test_event_is_stored_before_it_is_streamed_to_reader(
    storage: Storage, crash: Crash
) -> None:
    payment = PaymentTool()
    tree = SequentialAgent(
        name="root",
        sub_agents=[
            scripted_agent(
                ScriptedModel(call("pay", amount=1), "one two three"), payment.tool(confirm=False)
            ),
            scripted_agent(ScriptedModel("four five"), name="second", output_key="last_text"),
        ],
    )
    harness = storage.harness(tree)
    seen: list[Any] = []
    async for event in harness.runner.stream(user_id="ann", session_id="s1", message="go"):
        if not event.partial:
            seen.append(event)
        crash.now()
        stored = await crash.harness(tree).events()
        assert [e.seq for e in stored][: len(seen)] == [e.seq for e in seen]
        assert stored[: len(seen)] == tuple(seen)
    assert seen[-1].status is RunStatus.COMPLETED
    assert len(seen) > 5
