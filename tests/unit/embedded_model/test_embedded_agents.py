"""Agent trees that run on the embedded model."""

from typing import Any

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import LoopAgent, SequentialAgent
from acc.application.runtime.result import RunResult
from acc.application.tools.function_tool import exit_loop, tool
from acc.bootstrap.agents import Runner
from acc.domain.value_objects.approval import approve, deny
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.run import RunStatus


def find_order(customer_email: str) -> dict[str, Any]:
    """Find the newest order of a customer."""
    return {"order_id": "A-7", "amount": 45}


@tool(confirm=True)
def refund_order(order_id: str, amount: int) -> dict[str, Any]:
    """Pay money back for an order."""
    return {"refunded": amount}


async def run_message(agent: BaseAgent, message: str) -> RunResult:
    return await Runner(agent).run(user_id="u", session_id="s", message=message)


def authors(result: RunResult) -> list[str]:
    messages = [event for event in result.events if event.kind is EventKind.MESSAGE]
    return [event.author for event in messages if event.author != "user"]


REFUND = "Find the newest order of ann@example.org and pay the money back."


async def test_tools_are_chained_and_approval_is_requested() -> None:
    runner = Runner(LlmAgent(name="shop", tools=[find_order, refund_order]))
    waiting = await runner.run(user_id="u", session_id="s", message=REFUND)
    assert waiting.status is RunStatus.INPUT_REQUIRED
    assert waiting.requests[0].arguments == {"order_id": "A-7", "amount": 45}
    answers = [approve(waiting.requests[0].id)]
    done = await runner.resume(user_id="u", session_id="s", answers=answers)
    assert done.text == "order_id: A-7. amount: 45. refunded: 45."


async def test_answer_reports_denial() -> None:
    runner = Runner(LlmAgent(name="shop", tools=[find_order, refund_order]))
    waiting = await runner.run(user_id="u", session_id="s", message=REFUND)
    answers = [deny(waiting.requests[0].id, "not this month")]
    done = await runner.resume(user_id="u", session_id="s", answers=answers)
    assert done.text.endswith("refund_order was not carried out: not this month.")


def front_desk() -> LlmAgent:
    billing = LlmAgent(
        name="billing", description="Handles invoices and refunds.", instruction="You are helpful."
    )
    orders = LlmAgent(
        name="orders", description="Looks up orders and parcels.", instruction="You are helpful."
    )
    return LlmAgent(
        name="desk", instruction="You are the front desk.", sub_agents=[billing, orders]
    )


async def test_agent_after_transfer_answers() -> None:
    result = await run_message(front_desk(), "I want a refund for my order and the invoices.")
    assert authors(result) == ["billing"]


async def test_later_message_can_be_transferred() -> None:
    runner = Runner(front_desk())
    await runner.run(user_id="u", session_id="s", message="There is a mistake in my invoice.")
    result = await runner.run(user_id="u", session_id="s", message="Where is my parcel?")
    assert authors(result) == ["orders"]


async def test_loop_ends_if_critic_accepts() -> None:
    class Writer(BaseAgent):
        async def run(self, ctx: Any) -> str:
            rounds = ctx.state["rounds"] = ctx.state.get("rounds", 0) + 1
            return "The draft is good." if rounds == 2 else "The draft needs another round."

    critic = LlmAgent(
        name="critic",
        instruction="Call exit_loop when the draft is good.",
        tools=[exit_loop],
    )
    loop = LoopAgent(name="loop", sub_agents=[Writer(name="writer"), critic], max_iterations=5)
    result = await run_message(loop, "Write about the sea.")
    assert result.state["rounds"] == 2


async def test_router_by_model_selects_agent() -> None:
    router = RouterAgent(
        name="router",
        by="model",
        sub_agents=[
            LlmAgent(name="billing", description="Handles invoices."),
            LlmAgent(name="support", description="Solves technical problems."),
        ],
    )
    assert authors(await run_message(router, "My invoice is wrong.")) == ["billing"]
    assert authors(await run_message(router, "技術 support、お願いします")) == ["support"]


async def test_sequence_uses_previous_output() -> None:
    class Clerk(BaseAgent):
        async def run(self, ctx: Any) -> str:
            return "The harbour opens at 8:00. The café is closed."

    sequence = SequentialAgent(
        name="both", sub_agents=[Clerk(name="clerk"), LlmAgent(name="speaker")]
    )
    result = await run_message(sequence, "When does the harbour open?")
    assert result.text == "The harbour opens at 8:00."


async def test_run_streams_words() -> None:
    runner = Runner(LlmAgent(name="a"))
    message = "The lead is Mara Lindqvist. Who is the lead?"
    seen = [e async for e in runner.stream(user_id="u", session_id="s", message=message)]
    pieces = [event.text for event in seen if event.kind is EventKind.DELTA]
    assert pieces == ["The ", "lead ", "is ", "Mara ", "Lindqvist."]
