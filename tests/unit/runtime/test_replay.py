"""Tests of replay after a pause: budgets, failures, names and confirmed payments."""

from typing import Any

import pytest
from runner_harness import PaymentTool, Storage, check_record, scripted_agent

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    ParallelAgent,
    RunContext,
    RunStatus,
    SequentialAgent,
    ToolContext,
    approve,
    deny,
    tool,
)
from acc.domain.errors import BudgetExceeded, ReplayMismatch
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=5)


class Count(BaseAgent):
    """Counts its executions in the state and in an attribute."""

    done: int = 0

    async def run(self, ctx: RunContext) -> str:
        self.done += 1
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.state["temp:last"] = self.name
        await ctx.artifacts.save("log.txt", f"round {ctx.state['rounds']}")
        return f"round {ctx.state['rounds']}"


def counting() -> Any:
    @tool
    async def count(ctx: ToolContext) -> int:
        """Count."""
        ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
        ctx.save_artifact("log.txt", f"round {ctx.state['rounds']}")
        return int(ctx.state["rounds"])

    return count


async def test_model_calls_before_pause_count_after_resume(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(
        scripted_agent(ScriptedModel(PAY, PAY, "done"), payment.tool()), max_llm_calls=2
    )
    waiting = await harness.say("pay")
    waiting = await harness.restarted().approve_all(waiting.requests)
    assert waiting.status is RunStatus.INPUT_REQUIRED
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await harness.restarted().approve_all(waiting.requests)
    assert payment.paid == [5, 5]
    assert (await harness.ends())[-1] is RunStatus.FAILED


async def test_tool_calls_before_pause_count_after_resume(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(
        scripted_agent(ScriptedModel(PAY, PAY), payment.tool()), max_tool_calls=1
    )
    waiting = await harness.say("pay")
    waiting = await harness.restarted().approve_all(waiting.requests)
    with pytest.raises(BudgetExceeded, match="max_tool_calls"):
        await harness.restarted().approve_all(waiting.requests)
    assert payment.paid == [5]


async def test_calls_that_were_not_executed_do_not_count_after_resume(storage: Storage) -> None:
    payment = PaymentTool()
    model = ScriptedModel(call("pays"), call("pay"), PAY, PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool()), max_tool_calls=1)
    waiting = await harness.say("pay")
    waiting = await harness.restarted().answer(deny(waiting.requests[0].id))
    done = await harness.restarted().approve_all(waiting.requests)
    assert (done.text, payment.paid, done.usage.tool_calls) == ("done", [5], 1)


async def test_resume_fails_when_agent_is_not_deterministic(storage: Storage) -> None:
    class NotDeterministic(BaseAgent):
        rounds: int = 0

        async def run(self, ctx: RunContext) -> str:
            self.rounds += 1
            if self.rounds == 1:
                await ctx.say("first")
            await ctx.request_input("well?")
            return "done"

    agent = NotDeterministic(name="fickle")
    harness = storage.harness(agent)
    waiting = await harness.say("go")
    with pytest.raises(ReplayMismatch, match="must be deterministic"):
        await harness.approve_all(waiting.requests)
    check_record(await harness.events())
    agent.rounds = 0
    assert (await harness.say("go")).status is RunStatus.INPUT_REQUIRED


async def test_unknown_tool_names_do_not_affect_replay(storage: Storage) -> None:
    payment = PaymentTool()
    calls = [call("pay", amount=1), call("pay", amount=2), call("pay:1"), call("pay#0")]
    harness = storage.harness(scripted_agent(ScriptedModel(calls, "done"), payment.tool()))
    waiting = await harness.say("pay")
    done = await harness.restarted().approve_all(waiting.requests)
    assert (done.text, sorted(payment.paid)) == ("done", [1, 2])


async def test_failed_agent_tool_is_not_repeated_on_resume(storage: Storage) -> None:
    payment = PaymentTool()
    broken = scripted_agent(
        ScriptedModel(ValueError("down"), "up"), name="helper", description="helps"
    )
    model = ScriptedModel(call("helper", request="help"), PAY, "done")
    harness = storage.harness(scripted_agent(model, broken, payment.tool()))
    waiting = await harness.say("go")
    await harness.restarted().approve_all(waiting.requests)
    assert isinstance(broken.model, ScriptedModel)
    assert len(broken.model.requests) == 1
    shown = [p.result for m in model.requests[-1].messages for p in m.parts if p.result is not None]
    assert [result.is_error for result in shown] == [True, False]
    assert payment.paid == [5]


async def test_confirm_predicate_pauses_payments_from_10_000(storage: Storage) -> None:
    """Run the payment example of the guide: only large payments need an approval."""
    paid: list[int] = []

    @tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
    def process_payment(amount: int, payee: str, tool_context: ToolContext) -> dict[str, Any]:
        """Process a payment.

        Args:
            amount: 金額(円)
            payee: 支払先
        """
        paid.append(amount)
        tool_context.state["last_payment"] = {"amount": amount, "payee": payee}
        return {"status": "paid"}

    model = ScriptedModel(
        call("process_payment", amount=9_999, payee="新聞社"),
        "9,999円を支払いました。",
        call("process_payment", amount=10_000, payee="家主"),
        "10,000円を支払いました。",
        call("process_payment", amount=50_000, payee="家主"),
        "支払いを中止しました。",
    )
    agent = Agent(name="payment_processor", model=model, tools=[process_payment])
    harness = storage.harness(agent)
    small = await harness.say("新聞代を払ってください")
    assert (small.status, paid) == (RunStatus.COMPLETED, [9_999])
    large = await harness.say("家賃を払ってください")
    assert (large.status, paid) == (RunStatus.INPUT_REQUIRED, [9_999])
    (request,) = await harness.pending()
    assert (request.tool, request.arguments) == (
        "process_payment",
        {"amount": 10_000, "payee": "家主"},
    )
    done = await harness.restarted().answer(approve(request.id, by="user://boss"))
    assert (done.text, paid) == ("10,000円を支払いました。", [9_999, 10_000])
    too_much = await harness.say("もう一度、5倍で")
    done = await harness.restarted().answer(deny(too_much.requests[0].id, "高すぎます"))
    assert (done.text, paid) == ("支払いを中止しました。", [9_999, 10_000])
    assert await harness.state() == {"last_payment": {"amount": 10_000, "payee": "家主"}}
    recorded = [
        e.result.content
        for e in await harness.events()
        if e.kind is EventKind.TOOL_RESULT and e.result
    ]
    assert recorded[-1] == {"status": "denied", "reason": "高すぎます"}


async def test_writes_and_usage_of_failed_agent_count_after_resume(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    inner = SequentialAgent(
        name="helper",
        description="helps",
        sub_agents=[
            Count(name="counts"),
            ParallelAgent(
                name="both",
                sub_agents=[
                    scripted_agent(
                        ScriptedModel(call("nothing"), call("count"), "a"), counting(), name="l"
                    ),
                    scripted_agent(ScriptedModel("b"), name="r"),
                ],
            ),
            scripted_agent(ScriptedModel(ValueError("down")), name="broken"),
        ],
    )
    model = ScriptedModel(call("helper", request="help"), PAY, "done")
    helper = AgentTool(agent=inner, confirm=True)
    harness = storage.harness(scripted_agent(model, helper, payment.tool()))
    waiting = await harness.say("go")
    waiting = await harness.restarted().approve_all(waiting.requests)
    before = waiting.state
    done = await harness.restarted().approve_all(waiting.requests)
    assert (done.state["rounds"], done.state) == (2, before)
    assert (done.usage.llm_calls, done.usage.tool_calls) == (7, 3)
