"""An agent with a tool, a state and an approval, for front ends."""

from acc import Agent, ModelRequest, ToolCall, ToolContext, tool
from acc.testing import ScriptedModel


@tool
def status(order: str, context: ToolContext) -> dict[str, str]:
    """Return the status of an order."""
    context.state["order"] = order
    return {"order": order, "state": "発送済み"}


@tool(confirm=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


def respond(prompt: ModelRequest) -> ToolCall | str:
    if prompt.following:
        return "発送済み です。" if "A-17" in str(prompt.following) else "返金 しました。"
    text = str(prompt.messages[prompt.query_index].parts[0].text)
    if "refund" in text:
        return ToolCall(id="c2", name="refund", arguments={"amount": 5})
    return ToolCall(id="c1", name="status", arguments={"order": "A-17"})


shop = Agent(
    name="shop",
    description="Answers questions about orders.",
    model=ScriptedModel(respond, repeat=True),
    tools=[status, refund],
)
