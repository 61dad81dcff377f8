"""An agent whose callers may read different parts of the state; its model repeats its prompts."""

from dataclasses import dataclass
from typing import Any

from acc import Agent, Grant, ModelRequest, ToolContext, tool
from acc.contracts import IntentAgent, intent
from acc.testing import ScriptedModel, call

FRAUD, AUDIT, CHECKOUT = (
    f"agent://{name}_agent" for name in ("fraud_detection", "audit", "checkout")
)
SECRETS = (
    "4111-session",
    "4222-user",
    "4333-app",
    "4444-nested",
    "4666-placeholder",
    "4555-written",
)
STATE = {
    "payment.card_number": "4111-session",
    "user:payment.card_number": "4222-user",
    "app:payment.card_number": "4333-app",
    "payment.card_holder.account.iban": "4444-nested",
    "card_pin": "4666-placeholder",
    "payment.total": "total-9",
    "summary.day": "summary-ok",
}


def respond(prompt: ModelRequest) -> Any:
    return repr(prompt) if prompt.messages[-1].role == "tool" else call("look")


@tool
def look(ctx: ToolContext) -> str:
    """Return the state, after a key was written that the state did not have before."""
    ctx.state["payment.card_new"] = "4555-written"
    return repr(dict(ctx.state))


@dataclass
class Question:
    text: str


@intent
def dump(inputs: dict[str, Any], memory: Any) -> dict[str, Any]:
    """Return the memory."""
    return {"memory": repr(dict(memory))}


inspector = Agent(
    name="inspect",
    description="Inspects payments.",
    model=ScriptedModel(respond, repeat=True),
    instruction="The PIN is {card_pin?}.",
    tools=[look],
    input_schema=Question,
    memory="acc",
)
payment = IntentAgent(
    name="payment",
    intents=[inspector, dump],
    callers={
        FRAUD: Grant(read=("*", "!payment.card_*", "!card_pin")),
        AUDIT: Grant(read=("summary.*", "metrics.*"), write=("metrics.*", "payment.card_new")),
        CHECKOUT: Grant(),
    },
)
