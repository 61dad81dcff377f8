"""ADK's remote agent with `acc serve`. `make test-adk` installs ADK."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from server_process import ALICE, HERE, Server, tokens_file

PYTHON = HERE.parent.parent / ".venv-adk" / "bin" / "python"
GREETING, ORDER = "こんにちは", "支払い 12000円"
APPROVAL = "承認します。処理を続けてください。"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make test-adk sets it up")


def call(server: Server, *texts: str) -> list[dict[str, Any]]:
    """Return the events that ADK receives when it sends texts in one session."""
    completed = subprocess.run(  # noqa: S603 - our own script
        [PYTHON, "adk_client.py", server.url, ALICE, *texts],
        cwd=HERE,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    events: list[dict[str, Any]] = [json.loads(line) for line in completed.stdout.splitlines()]
    assert [event["error"] for event in events if event["error"]] == []
    return events


def test_adk_remote_agent_pauses_until_user_approves(tmp_path: Path) -> None:
    options = ["--tokens", str(tokens_file(tmp_path))]
    with Server(tmp_path, *options, agent="served_agents:desk") as server:
        events = call(server, GREETING, ORDER, APPROVAL)
    greeted, paused, paid = (
        [event for event in events if event["query"] == text]
        for text in (GREETING, ORDER, APPROVAL)
    )
    assert "echo: こんにちは" in [event["text"] for event in greeted]
    (arguments,) = paused[-1]["calls"]
    assert arguments["input_required"].startswith("May pay be called? pay {")
    assert "12,000円を支払いました" in [event["text"] for event in paid]
    assert paused[-1]["task"] == paid[-1]["task"] != greeted[-1]["task"]
