"""Debug mode that a caller asks for: remote calls and tools return marked stubs."""

from typing import Any

import pytest
from http_app import served

from acc import Agent, ToolCall, tool
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.contracts import INTENTS_EXTENSION
from acc.testing import ScriptedModel, last_result

executed: list[str] = []
VERIFIER = StaticTokens(
    [
        TokenEntry(
            sha256=token_hash("acc_ann"), caller="ann", permissions=["agent.invoke", "agent.read"]
        ),
        TokenEntry(
            sha256=token_hash("acc_dev"),
            caller="dev",
            permissions=["agent.invoke", "agent.read", "debug"],
        ),
        TokenEntry(sha256=token_hash("acc_root"), caller="root"),
    ]
)


@tool
def refund(order: str) -> str:
    """Refund an order."""
    executed.append(order)
    return "refunded"


def desk() -> Agent:
    model = ScriptedModel(
        lambda prompt: (
            str(last_result(prompt))
            if prompt.following
            else ToolCall(id="1", name="refund", arguments={"order": "A-17"})
        ),
        repeat=True,
    )
    return Agent(name="desk", model=model, tools=[refund])


STUB = '[debug] refund would be called with {"order":"A-17"}'


async def send(token: str, debug: Any) -> dict[str, Any]:
    executed.clear()
    app = create_app(desk(), verifier=VERIFIER)
    message = {
        "messageId": "m1",
        "role": "ROLE_USER",
        "parts": [{"text": "返金して"}],
        "metadata": {INTENTS_EXTENSION: {"context": {"debug_mode": debug}}},
        "extensions": [INTENTS_EXTENSION],
    }
    head = {"A2A-Extensions": INTENTS_EXTENSION}
    async with served(app) as client:
        response = await client.rpc("SendMessage", {"message": message}, token, headers=head)
        tasks = await client.rpc("ListTasks", {}, token)
    document: dict[str, Any] = response.json()
    is_rejected = "error" in document
    assert bool(tasks.json()["result"]["tasks"]) is not is_rejected
    return document


@pytest.mark.parametrize(
    ("token", "debug", "answer"),
    [
        ("acc_dev", True, STUB),
        ("acc_root", True, STUB),
        ("acc_dev", False, "refunded"),
        ("acc_ann", False, "refunded"),
    ],
)
async def test_tools_are_stubs_for_permitted_callers(token: str, debug: Any, answer: str) -> None:
    document = await send(token, debug)
    assert document["result"]["task"]["artifacts"][0]["parts"][0]["text"] == answer
    assert executed == ([] if answer == STUB else ["A-17"])


async def test_debug_mode_without_the_permission_is_rejected() -> None:
    document = await send("acc_ann", True)
    assert "requires the permission 'debug'" in document["error"]["message"]
    assert executed == []


@pytest.mark.parametrize("debug", ["true", "yes", 1, None])
async def test_debug_mode_that_is_not_a_boolean_is_rejected(debug: Any) -> None:
    document = await send("acc_dev", debug)
    assert document["error"]["code"] == -32602
    assert "debug_mode" in str(document["error"])
    assert executed == []
