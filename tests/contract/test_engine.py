"""Contract of engines: a run behaves the same wherever it is executed."""

import asyncio
from typing import Any

import pytest
from agent_support import Does, counts, says
from engine_support import EngineUnderTest

from acc import (
    Agent,
    AgentFailed,
    BudgetExceeded,
    CallContext,
    EventKind,
    Grant,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
    SessionWaiting,
    approve,
    deny,
    exit_loop,
    tool,
)
from acc.domain.errors import InvalidInput, NothingPending
from acc.testing import ScriptedModel, call


class Payments:
    """A tool that needs an approval and remembers what it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def tool(self, **options: Any) -> Any:
        @tool(confirm=True, **options)
        def pay(amount: int) -> str:
            """Pay an amount."""
            self.paid.append(amount)
            return f"paid {amount}"

        return pay


def payer(payments: Payments, *answers: Any) -> Agent:
    model = ScriptedModel(*(answers or (call("pay", amount=5), "It is paid.")))
    return Agent(name="clerk", model=model, tools=[payments.tool()])


async def test_run_returns_answer_state_usage_and_events(engine: EngineUnderTest) -> None:
    def write(ctx: RunContext) -> str:
        ctx.state["seen"] = ctx.message
        return "了解しました"

    async with engine.runner(Does(name="root", do=write)) as runner:
        result = await runner.run("こんにちは")
        assert (result.status, result.text) == (RunStatus.COMPLETED, "了解しました")
        assert result.output == "了解しました"
        assert result.state["seen"] == "こんにちは"
        kinds = [event.kind for event in result.events]
        assert kinds[0] is EventKind.MESSAGE
        assert kinds[-1] is EventKind.ENDED
        assert [event.seq for event in result.events] == list(range(1, len(kinds) + 1))


async def test_run_has_the_grant_of_its_caller(engine: EngineUnderTest) -> None:
    agent = Does(
        name="root",
        do=lambda ctx: " ".join(sorted(ctx.state)),
        callers={"agent://audit_agent": Grant(read=("summary.*",))},
    )
    context = CallContext(request_id="r", trace_id="t", caller="a2a:///agent://audit_agent")
    async with engine.runner(agent) as runner:
        await runner.update_state({"summary.day": "ok", "payment.card_number": "4111"})
        result = await runner.run("hello", context=context)
        assert result.text == "summary.day"
        assert result.state == {"summary.day": "ok"}


async def test_run_with_model_and_tool_counts_usage(engine: EngineUnderTest) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "sunny"

    model = ScriptedModel(call("look"), "It is sunny.")
    async with engine.runner(Agent(name="a", model=model, tools=[look])) as runner:
        result = await runner.run("weather?")
        assert (result.text, result.usage.llm_calls) == ("It is sunny.", 2)
        assert result.usage.tool_calls == 1


async def test_typed_output_is_decoded(engine: EngineUnderTest) -> None:
    agent = Agent(name="a", model=ScriptedModel('{"n": 3}'), output_type=dict[str, int])
    async with engine.runner(agent) as runner:
        assert (await runner.run("count")).output == {"n": 3}


async def test_stream_yields_stored_events_in_order(engine: EngineUnderTest) -> None:
    async with engine.runner(SequentialAgent(name="both", sub_agents=[says("a"), says("b")])) as r:
        events = [event async for event in r.stream("hello") if not event.partial]
        assert [e.author for e in events if e.kind is EventKind.MESSAGE] == ["user", "a", "b"]
        assert events[-1].status is RunStatus.COMPLETED


async def test_approved_call_is_executed_once(engine: EngineUnderTest) -> None:
    payments = Payments()
    async with engine.runner(payer(payments)) as runner:
        waiting = await runner.run("pay")
        assert (waiting.status, payments.paid) == (RunStatus.INPUT_REQUIRED, [])
        (request,) = waiting.requests
        assert request == (await runner.pending())[0]
        result = await runner.resume(approve(request.id))
        assert (result.status, result.text) == (RunStatus.COMPLETED, "It is paid.")
        assert payments.paid == [5]


async def test_denied_call_is_not_executed(engine: EngineUnderTest) -> None:
    payments = Payments()
    async with engine.runner(payer(payments, call("pay", amount=5), "Not paid.")) as runner:
        waiting = await runner.run("pay")
        result = await runner.resume(deny(waiting.requests[0].id, "too much"))
        assert (result.text, payments.paid) == ("Not paid.", [])


async def test_waiting_session_refuses_message_until_it_is_abandoned(
    engine: EngineUnderTest,
) -> None:
    payments = Payments()
    async with engine.runner(payer(payments, call("pay", amount=5), "Hello.")) as runner:
        await runner.run("pay")
        with pytest.raises(SessionWaiting):
            await runner.run("hello")
        with pytest.raises(NothingPending):
            await runner.resume(approve("other"))
        await runner.abandon()
        assert (await runner.run("hello")).text == "Hello."
        assert payments.paid == []


async def test_resume_without_answers_returns_the_open_requests(engine: EngineUnderTest) -> None:
    payments = Payments()
    async with engine.runner(payer(payments)) as runner:
        waiting = await runner.run("pay")
        again = await runner.resume()
        assert (again.status, again.requests) == (RunStatus.INPUT_REQUIRED, waiting.requests)


async def test_transfer_keeps_the_conversation(engine: EngineUnderTest) -> None:
    expert = Agent(
        name="expert", description="Knows.", model=ScriptedModel("I am the expert.", "Still me.")
    )
    desk = Agent(
        name="desk",
        model=ScriptedModel(call("transfer_to_agent", agent_name="expert")),
        sub_agents=[expert],
    )
    async with engine.runner(desk) as runner:
        first = await runner.run("help")
        assert (first.text, first.answered_by) == ("I am the expert.", "expert")
        second = await runner.run("and now?")
        assert (second.text, second.answered_by) == ("Still me.", "expert")


async def test_parallel_branches_pause_and_join(engine: EngineUnderTest) -> None:
    payments = Payments()
    tree = ParallelAgent(name="both", sub_agents=[payer(payments), counts("counter", "n")])
    async with engine.runner(tree) as runner:
        waiting = await runner.run("go")
        result = await runner.resume(approve(waiting.requests[0].id))
        assert result.status is RunStatus.COMPLETED
        assert (payments.paid, result.state["n"]) == ([5], 1)


async def test_loop_ends_when_the_tool_is_called(engine: EngineUnderTest) -> None:
    model = ScriptedModel("again", "again", call("exit_loop"))
    loop = LoopAgent(
        name="loop",
        sub_agents=[Agent(name="critic", model=model, tools=[exit_loop]), counts("n", "rounds")],
        max_iterations=5,
    )
    async with engine.runner(loop) as runner:
        result = await runner.run("go")
        assert (result.status, result.state["rounds"]) == (RunStatus.COMPLETED, 2)


async def test_budget_is_enforced_with_its_fields(engine: EngineUnderTest) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "sunny"

    model = ScriptedModel(*[call("look")] * 5)
    async with engine.runner(Agent(name="a", model=model, tools=[look])) as runner:
        with pytest.raises(BudgetExceeded) as caught:
            await runner.run("weather?", config=RunConfig(max_llm_calls=2))
        assert (caught.value.what, caught.value.limit) == ("max_llm_calls", 2)


async def test_budget_spans_pauses(engine: EngineUnderTest) -> None:
    payments = Payments()
    agent = payer(payments, call("pay", amount=5), call("pay", amount=6), "done")
    async with engine.runner(agent) as runner:
        waiting = await runner.run("pay", config=RunConfig(max_llm_calls=1))
        with pytest.raises(BudgetExceeded):
            await runner.resume(approve(waiting.requests[0].id))
        assert payments.paid == [5]


async def test_failure_of_an_agent_is_raised_and_recorded(engine: EngineUnderTest) -> None:
    def fail(ctx: RunContext) -> None:
        raise RuntimeError("broken")

    async with engine.runner(Does(name="root", do=fail)) as runner:
        with pytest.raises(AgentFailed) as caught:
            await runner.run("go")
        assert (caught.value.code, caught.value.agent) == ("agent_failed", "root")
        assert (await runner.events())[-1].status is RunStatus.FAILED


async def test_context_of_the_caller_reaches_the_run(engine: EngineUnderTest) -> None:
    def show(ctx: RunContext) -> str:
        call, parent = ctx.call, ctx.call.metadata["traceparent"]
        return f"{call.caller} {call.trace_id} {sorted(call.permissions or ())} {parent}"

    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    context = CallContext(
        request_id="r",
        trace_id="t",
        caller="user://ann",
        permissions={"x"},
        metadata={"traceparent": parent},
    )
    async with engine.runner(Does(name="root", do=show)) as runner:
        assert (await runner.run("go", context=context)).text == f"user://ann t ['x'] {parent}"


async def test_cancelled_run_is_recorded_as_canceled(engine: EngineUnderTest) -> None:
    started, cleaned = asyncio.Event(), asyncio.Event()

    async def wait(ctx: RunContext) -> None:
        if ctx.message == "hello":
            return
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    async with engine.runner(Does(name="root", do=wait)) as runner:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(runner.run("go"))
            await started.wait()
            task.cancel()
        assert cleaned.is_set()
        assert (await runner.events())[-1].status is RunStatus.CANCELED
        assert (await runner.run("hello")).status is RunStatus.COMPLETED


async def test_runs_of_a_session_are_executed_one_after_another(engine: EngineUnderTest) -> None:
    active = 0
    overlaps = 0

    async def work(ctx: RunContext) -> str:
        nonlocal active, overlaps
        active += 1
        overlaps += active > 1
        await asyncio.sleep(0.02)
        active -= 1
        return ctx.message

    async with engine.runner(Does(name="root", do=work)) as runner:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(runner.run(f"m{n}")) for n in range(3)]
        assert sorted(task.result().text for task in tasks) == ["m0", "m1", "m2"]
        assert overlaps == 0
        assert await _turns(runner) == 3


async def test_invalid_message_is_refused_before_anything_is_stored(
    engine: EngineUnderTest,
) -> None:
    async with engine.runner(says("root"), has_worker=False) as runner:
        with pytest.raises(InvalidInput):
            await runner.run("")
        assert await runner.events() == ()


async def _turns(runner: Runner) -> int:
    events = await runner.events()
    return sum(event.kind is EventKind.MESSAGE and event.author == "user" for event in events)
