"""Section 10.4 of the specification, and its PublishLogNode as a subscriber."""

from pathlib import Path
from typing import Any

import pytest
import seed_nodes
from seed_nodes import PublishLogNode

from acc import Agent, Runner, ToolContext
from acc.events import EventOutcome, HandledEvent, open_subscriber
from acc.testing import ScriptedModel, call


def publish_agent_event(
    event_type: str, payload: dict[str, Any], tool_context: ToolContext
) -> dict[str, str]:
    """Agent完了イベントを発行"""
    message_id = tool_context.publish(event_type, payload)
    return {"status": "published", "message_id": message_id}


class Log:
    def __init__(self) -> None:
        self.handled: list[HandledEvent] = []

    def on_handled(self, handled: HandledEvent) -> None:
        self.handled.append(handled)


async def test_publish_log_node_handles_the_events_of_the_specification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seed_nodes, "sent_messages", [])
    payload = {"request_id": "req-1", "message": "処理が完了しました"}
    model = ScriptedModel(
        call("publish_agent_event", event_type="agent.completed", payload=payload), "done"
    )
    runner = Runner(
        Agent(name="my_agent", model=model, tools=[publish_agent_event]), store=tmp_path / "a.db"
    )
    await runner.run("go")
    node, log = PublishLogNode().as_agent(), Log()
    async with open_subscriber(node, events=["agent.*"], source=tmp_path / "a.db") as subscriber:
        await subscriber.run(until_idle=True, observer=log)
    await runner.aclose()
    (handled,) = log.handled
    assert handled.outcome is EventOutcome.COMPLETED
    assert handled.text == '{"status":"success","log_id":"req-1"}'
    assert seed_nodes.sent_messages == ["処理が完了しました"]
