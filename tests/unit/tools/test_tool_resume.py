"""Tool calls in resumed runs: changed tools and permissions, crashes."""

from collections.abc import Callable
from typing import Any

import pytest
from agent_support import (
    WHO,
    CrashingStore,
    Does,
    ProcessKilled,
    approve_all,
    payer,
    results,
)

from acc import (
    Agent,
    AgentTool,
    CallContext,
    FunctionTool,
    RunContext,
    Runner,
    RunResult,
    RunStatus,
    ToolContext,
    approve,
    deny,
    tool,
)
from acc.adapters.storage.in_memory import InMemoryArtifactStore
from acc.testing import FrozenClock, ScriptedModel, call

LACKS = {"error": "pay requires the permission 'pay'; the call lacks it"}


def context_with(*permissions: str) -> CallContext:
    return CallContext(request_id="r", trace_id="t", caller="c", permissions=permissions)


def payment_tool(**options: Any) -> tuple[FunctionTool, list[int]]:
    paid: list[int] = []

    @tool(**{"name": "pay", "requires": "pay", "confirm": True, **options})
    def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        paid.append(amount)
        ctx.save_artifact("receipt.txt", f"{amount}")
        return f"paid {amount}"

    return pay, paid


def clerk(*tools: Any, calls: Any = None) -> Agent:
    model = ScriptedModel(calls or call("pay", amount=1), "done")
    return Agent(name="clerk", model=model, tools=tools, memory=None)


async def paused(agent: Agent) -> tuple[Runner, RunResult]:
    runner = Runner(agent)
    result = await runner.run(**WHO, message="go", context=context_with("pay"))
    assert result.status is RunStatus.INPUT_REQUIRED
    return runner, result


def with_tools(runner: Runner, *tools: Any) -> Runner:
    """Return the same application with other tools, as after a release."""
    model = runner.agent.model  # type: ignore[attr-defined]
    agent = Agent(name="clerk", model=model, tools=tools, memory=None)
    return Runner(agent, services=runner.services)


async def test_resume_without_permission_returns_error_result() -> None:
    pay, paid = payment_tool()
    runner, waiting = await paused(clerk(pay))
    answers = [approve(waiting.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=context_with())
    assert (result.text, results(result), paid) == ("done", [LACKS], [])
    assert not await runner.pending(**WHO)


async def test_open_request_stays_pending_without_permission() -> None:
    pay, paid = payment_tool()
    runner, waiting = await paused(clerk(pay, calls=[call("pay", amount=1), call("pay", amount=2)]))
    first, second = waiting.requests
    half = await runner.resume(**WHO, answers=[approve(first.id)], context=context_with())
    assert (half.status, half.requests, results(half)) == (
        RunStatus.INPUT_REQUIRED,
        (second,),
        [LACKS],
    )
    result = await runner.resume(**WHO, answers=[approve(second.id)])
    assert (result.text, results(result), paid) == ("done", [LACKS], [])


@pytest.mark.parametrize("answered", [approve, deny])
async def test_started_tool_reports_outcome_without_permission(
    answered: Callable[..., Any],
) -> None:
    ship, shipped = payment_tool(confirm=False, long_running=True)
    runner, waiting = await paused(clerk(ship))
    result = await runner.resume(
        **WHO, answers=[answered(waiting.requests[0].id)], context=context_with()
    )
    actual = [None] if answered is approve else [{"status": "denied", "reason": _NO}]
    assert (result.text, results(result), shipped) == ("done", actual, [1])
    assert result.usage.tool_calls == 1


_NO = "a person denied this call"


async def test_agent_tool_is_not_continued_without_permission() -> None:
    async def work(ctx: RunContext) -> None:
        ctx.state["begun"] = True
        await ctx.request_input("Go on?")
        ctx.state["ended"] = True

    worker = Does(name="worker", description="Works.", do=work)
    helper = AgentTool(agent=worker, name="pay", requires="pay")
    runner, waiting = await paused(clerk(helper, calls=call("pay", request="x")))
    answers = [approve(waiting.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=context_with())
    assert (result.text, results(result)) == ("done", [LACKS])
    assert result.state == await runner.state(**WHO) == {"begun": True}


async def test_resume_with_removed_tool_returns_error_result() -> None:
    pay, paid = payment_tool()
    runner, waiting = await paused(clerk(pay))
    result = await approve_all(with_tools(runner), waiting)
    assert (result.text, paid) == ("done", [])
    assert results(result) == [{"error": "tool 'pay' does not exist; available tools: none"}]


async def test_writes_of_removed_tool_are_preserved() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.state["noted"] = True
        return "noted"

    pay, paid = payment_tool()
    runner, waiting = await paused(clerk(pay, note, calls=[call("note"), call("pay", amount=1)]))
    later = with_tools(runner, pay)
    result = await approve_all(later, waiting)
    assert (result.text, paid, results(result)) == ("done", [1], ["paid 1"])
    assert result.state == await later.state(**WHO) == {"noted": True}
    assert result.usage.tool_calls == 2


async def test_request_of_removed_tool_stays_pending() -> None:
    pay, paid = payment_tool()
    ship, shipped = payment_tool(name="ship")
    calls = [call("pay", amount=1), call("ship", amount=2)]
    runner, waiting = await paused(clerk(pay, ship, calls=calls))
    first, second = waiting.requests
    later = with_tools(runner, ship)
    half = await later.resume(**WHO, answers=[approve(second.id)])
    assert (half.status, half.requests, shipped) == (RunStatus.INPUT_REQUIRED, (first,), [2])
    result = await later.resume(**WHO, answers=[approve(first.id)])
    assert (result.text, paid, shipped) == ("done", [], [2])


async def test_changed_signature_returns_error_result() -> None:
    pay, paid = payment_tool()

    @tool(name="pay", confirm=True)
    def pay_in(currency: str) -> str:
        """Pay."""
        return f"paid in {currency}"

    runner, waiting = await paused(clerk(pay))
    result = await approve_all(with_tools(runner, pay_in), waiting)
    assert (result.text, paid) == ("done", [])
    assert "invalid arguments for pay" in results(result)[0]["error"]


async def test_approval_is_requested_again_if_arguments_became_invalid() -> None:
    paid: list[str] = []

    @tool(name="pay", confirm=True)
    def pay_once(amount: int, note: int = 0) -> str:
        """Pay."""
        return "never"

    @tool(name="pay", confirm=True)
    def pay_now(amount: int, note: str = "rent") -> str:
        """Pay."""
        paid.append(f"{amount} for {note}")
        return "paid"

    runner, waiting = await paused(clerk(pay_once))
    later = with_tools(runner, pay_now)
    again = await approve_all(later, waiting)
    (request,) = again.requests
    assert request.message.startswith("The displayed arguments for pay are invalid: Expected")
    assert request.arguments == {"amount": 1, "note": "rent"}
    assert (await approve_all(later, again)).text == "done"
    assert paid == ["1 for rent"]


async def test_long_running_start_is_not_repeated_by_changed_tool() -> None:
    slow, started = payment_tool(confirm=False, long_running=True)
    fast, paid = payment_tool(confirm=False)
    runner, waiting = await paused(clerk(slow))
    answers = [approve(waiting.requests[0].id, value="shipped")]
    result = await with_tools(runner, fast).resume(**WHO, answers=answers)
    assert (result.text, results(result), started, paid) == ("done", ["shipped"], [1], [])


async def test_approved_calls_not_started_before_crash_are_executed() -> None:
    paid: list[int] = []
    store = CrashingStore(clock=FrozenClock())

    @tool(confirm=True, parallel=False)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        store.is_crashed = len(paid) == 1
        return f"paid {amount}"

    runner = Runner(payer("a", pay, 1, 2, 3), store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    result = await runner.resume(**WHO)
    assert (result.text, paid) == ("done", [1, 2, 3])
    unknown = {"error": "pay was started and its outcome is unknown; do not assume that it failed"}
    assert sorted(map(str, results(result))) == ["paid 2", "paid 3", str(unknown)]


async def test_started_call_of_removed_tool_has_unknown_result() -> None:
    store = CrashingStore(clock=FrozenClock())

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        store.is_crashed = True
        return "paid"

    model = ScriptedModel(call("pay", amount=1), "done")
    stores = (store, InMemoryArtifactStore())
    runner = Runner(Agent(name="a", model=model, tools=[pay], memory=None), store=stores)
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    later = Runner(Agent(name="a", model=model, memory=None), store=stores)
    result = await later.resume(**WHO)
    assert "its outcome is unknown" in results(result)[0]["error"]
    assert (result.text, result.usage.tool_calls) == ("done", 1)


async def test_approved_long_running_call_is_started_once() -> None:
    began: list[str] = []
    store = CrashingStore(clock=FrozenClock())

    @tool(confirm=True, long_running=True)
    def export() -> str:
        """Export."""
        began.append("export")
        return "ticket 7"

    model = ScriptedModel(call("export"), "done")
    agent = Agent(name="a", model=model, tools=[export], memory=None)
    runner = Runner(agent, store=(store, InMemoryArtifactStore()))
    waiting = await approve_all(runner, await runner.run(**WHO, message="go"))
    result = await runner.resume(**WHO, answers=approve(waiting.requests[0].id, value="exported"))
    assert (result.text, results(result), began) == ("done", ["exported"], ["export"])


async def test_approved_agent_tool_continues_after_crash() -> None:
    store = CrashingStore(clock=FrozenClock())
    ran: list[str] = []

    def die_once(ctx: RunContext) -> None:
        ran.append(ctx.message)
        store.is_crashed = len(ran) == 1

    worker = Does(name="worker", description="Works.", do=die_once)
    model = ScriptedModel(call("worker", request="x"), "done")
    boss = Agent(
        name="boss", model=model, tools=[AgentTool(agent=worker, confirm=True)], memory=None
    )
    runner = Runner(boss, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await approve_all(runner, paused)
    store.is_crashed = False
    assert (await runner.resume(**WHO)).text == "done"
    assert ran == ["x", "x"]
