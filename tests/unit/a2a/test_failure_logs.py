"""Logs of a server about failed tasks and requests."""

from typing import Any

import httpx
import pytest

from acc.a2a import create_app
from acc.contracts import IntentAgent, intent


@intent
def divide(number: int) -> dict[str, Any]:
    """Divide by a number."""
    return {"result": 1 / number}


async def run_intent(inputs: dict[str, Any]) -> httpx.Response:
    agent = IntentAgent(name="desk", description="Divides.", intents=[divide])
    app = create_app(agent, public_url="http://127.0.0.1")
    async with app.lifespan():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/run", json={"intent": "divide", "inputs": inputs})


async def test_error_of_an_agent_is_logged_with_its_location_and_only_one_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    response = await run_intent({"number": 0})
    assert response.status_code == 500
    failed, internal = (one for one in caplog.records if one.name == "acc.serve")
    assert failed.getMessage().startswith("task failed: agent 'divide' failed: ZeroDivisionError")
    assert failed.exc_info is not None
    assert failed.exc_info[0] is ZeroDivisionError
    assert getattr(failed, "task_id", "")
    assert internal.getMessage().startswith("internal error: agent 'divide' failed")
    assert internal.exc_info is None
