"""Logs of a server about failed tasks and requests."""

from typing import Any

import httpx
import pytest

from acc import Agent, BaseAgent
from acc.a2a import create_app
from acc.contracts import IntentAgent, intent
from acc.testing import ScriptedModel


@intent
def divide(number: int) -> dict[str, Any]:
    """Divide by a number."""
    return {"result": 1 / number}


async def post(agent: BaseAgent, path: str, content: dict[str, Any]) -> httpx.Response:
    app = create_app(agent, public_url="http://127.0.0.1")
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post(path, json=content, headers={"A2A-Version": "1.0"})


async def test_error_of_an_agent_is_logged_with_its_location_and_only_one_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = IntentAgent(name="desk", description="Divides.", intents=[divide])
    response = await post(agent, "/run", {"intent": "divide", "inputs": {"number": 0}})
    assert response.status_code == 500
    failed, internal = (one for one in caplog.records if one.name == "acc.serve")
    assert failed.getMessage().startswith("task failed: agent 'divide' failed: ZeroDivisionError")
    assert failed.exc_info is not None
    assert failed.exc_info[0] is ZeroDivisionError
    assert getattr(failed, "task_id", "")
    assert internal.getMessage().startswith("internal error: agent 'divide' failed")
    assert internal.exc_info is None


async def test_wrong_role_is_rejected_with_the_values_of_both_versions() -> None:
    message = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}
    agent = Agent(name="desk", model=ScriptedModel("hi"))
    response = await post(agent, "/message:send", {"message": message})
    assert response.status_code == 400
    assert "ROLE_USER" in response.json()["error"]["message"]
