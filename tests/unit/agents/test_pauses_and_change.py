"""Runs that go on with fewer permissions, or with tools that are gone or have changed."""

from collections.abc import Callable
from typing import Any

import pytest
from small_agents import WHO, Does, approved, results

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
from acc.testing import ScriptedModel, call

LACKS = {"error": "pay needs the permission 'pay', which this call lacks"}


def may(*permissions: str) -> CallContext:
    return CallContext(request_id="r", trace_id="t", caller="c", permissions=permissions)


def till(**options: Any) -> tuple[FunctionTool, list[int]]:
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
    result = await runner.run(**WHO, message="go", context=may("pay"))
    assert result.status is RunStatus.INPUT_REQUIRED
    return runner, result


def replaced(runner: Runner, *tools: Any) -> Runner:
    """Return the same application with other tools, as after a release."""
    model = runner.agent.model  # type: ignore[attr-defined]
    agent = Agent(name="clerk", model=model, tools=tools, memory=None)
    return Runner(agent, services=runner.services)


async def test_a_model_is_told_of_a_permission_that_the_resumed_run_lacks() -> None:
    pay, paid = till()
    runner, waiting = await paused(clerk(pay))
    answers = [approve(waiting.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=may())
    assert (result.text, results(result), paid) == ("done", [LACKS], [])
    assert not await runner.pending(**WHO)


async def test_a_request_that_is_still_open_keeps_waiting_without_the_permission() -> None:
    pay, paid = till()
    runner, waiting = await paused(clerk(pay, calls=[call("pay", amount=1), call("pay", amount=2)]))
    first, second = waiting.requests
    half = await runner.resume(**WHO, answers=[approve(first.id)], context=may())
    assert (half.status, half.requests, results(half)) == (
        RunStatus.INPUT_REQUIRED,
        (second,),
        [LACKS],
    )
    result = await runner.resume(**WHO, answers=[approve(second.id)])
    assert (result.text, results(result), paid) == ("done", [LACKS], [])


@pytest.mark.parametrize("answered", [approve, deny])
async def test_what_was_started_with_the_permission_is_ended_without_it(
    answered: Callable[..., Any],
) -> None:
    ship, shipped = till(confirm=False, long_running=True)
    runner, waiting = await paused(clerk(ship))
    result = await runner.resume(**WHO, answers=[answered(waiting.requests[0].id)], context=may())
    told = [None] if answered is approve else [{"status": "denied", "reason": _NO}]
    assert (result.text, results(result), shipped) == ("done", told, [1])
    assert result.usage.tool_calls == 1


_NO = "a person has denied this call"


async def test_an_agent_whose_use_is_no_longer_allowed_is_left_as_it_was() -> None:
    async def work(ctx: RunContext) -> None:
        ctx.state["begun"] = True
        await ctx.request_input("Go on?")
        ctx.state["ended"] = True

    worker = Does(name="worker", description="Works.", do=work)
    helper = AgentTool(agent=worker, name="pay", requires="pay")
    runner, waiting = await paused(clerk(helper, calls=call("pay", request="x")))
    answers = [approve(waiting.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=may())
    assert (result.text, results(result)) == ("done", [LACKS])
    assert result.state == await runner.state(**WHO) == {"begun": True}


async def test_a_model_is_told_that_a_tool_it_called_is_gone() -> None:
    pay, paid = till()
    runner, waiting = await paused(clerk(pay))
    result = await approved(replaced(runner), waiting)
    assert (result.text, paid) == ("done", [])
    assert results(result) == [{"error": "there is no tool 'pay'; the tools are: none"}]


async def test_what_a_tool_did_before_it_was_gone_stays_done() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.state["noted"] = True
        return "noted"

    pay, paid = till()
    runner, waiting = await paused(clerk(pay, note, calls=[call("note"), call("pay", amount=1)]))
    later = replaced(runner, pay)
    result = await approved(later, waiting)
    assert (result.text, paid, results(result)) == ("done", [1], ["paid 1"])
    assert result.state == await later.state(**WHO) == {"noted": True}
    assert result.usage.tool_calls == 2


async def test_a_request_of_a_tool_that_is_gone_waits_for_its_answer() -> None:
    pay, paid = till()
    ship, shipped = till(name="ship")
    calls = [call("pay", amount=1), call("ship", amount=2)]
    runner, waiting = await paused(clerk(pay, ship, calls=calls))
    first, second = waiting.requests
    later = replaced(runner, ship)
    half = await later.resume(**WHO, answers=[approve(second.id)])
    assert (half.status, half.requests, shipped) == (RunStatus.INPUT_REQUIRED, (first,), [2])
    result = await later.resume(**WHO, answers=[approve(first.id)])
    assert (result.text, paid, shipped) == ("done", [], [2])


async def test_a_model_is_told_that_a_tool_takes_other_arguments_now() -> None:
    pay, paid = till()

    @tool(name="pay", confirm=True)
    def pay_in(currency: str) -> str:
        """Pay."""
        return f"paid in {currency}"

    runner, waiting = await paused(clerk(pay))
    result = await approved(replaced(runner, pay_in), waiting)
    assert (result.text, paid) == ("done", [])
    assert "wrong arguments for pay" in results(result)[0]["error"]


async def test_who_approved_what_a_tool_no_longer_takes_is_asked_again() -> None:
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
    later = replaced(runner, pay_now)
    again = await approved(later, waiting)
    (request,) = again.requests
    assert request.message.startswith("The arguments that were shown for pay are wrong: Expected")
    assert request.arguments == {"amount": 1, "note": "rent"}
    assert (await approved(later, again)).text == "done"
    assert paid == ["1 for rent"]


async def test_what_was_started_is_not_started_again_by_a_tool_that_no_longer_waits() -> None:
    slow, started = till(confirm=False, long_running=True)
    fast, paid = till(confirm=False)
    runner, waiting = await paused(clerk(slow))
    answers = [approve(waiting.requests[0].id, value="shipped")]
    result = await replaced(runner, fast).resume(**WHO, answers=answers)
    assert (result.text, results(result), started, paid) == ("done", ["shipped"], [1], [])
