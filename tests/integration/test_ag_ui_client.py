"""The official client of AG-UI with `acc serve --ag-ui`."""

import json
import shutil
from pathlib import Path

import pytest
from node_scripts import install_scripts, run_script
from server_process import Server

SOURCES = Path(__file__).parent / "ag_ui_client"

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")


def test_official_client_completes_a_turn_an_approval_and_a_reload(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = tmp_path / "scripts"
    folder.mkdir()
    scripts = install_scripts(request.config, SOURCES, folder)
    with Server(tmp_path, "--ag-ui", agent="ag_ui_agents:shop") as server:
        report = json.loads(run_script(scripts, "drive.mjs", f"{server.url}/ag-ui").stdout)
        assert "Traceback" not in server.log
    tool = report["tool"]
    assert tool["state"] == {"order": "A-17"}
    assert tool["outcome"] == {"type": "success"}
    (interrupt,) = report["paused"]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["toolCallId"]) == ("tool_call", "c2")
    assert report["resumed"]["outcome"] == {"type": "success"}
    resumed = report["resumed"]["messages"]
    assert resumed[-2]["content"] == "refunded 5"
    assert resumed[-1]["content"] == "返金 しました。"
    # A page that is opened again has the same conversation.
    history = report["history"]["messages"]
    assert [one["role"] for one in history] == [one["role"] for one in resumed]
    assert [one.get("content") for one in history] == [one.get("content") for one in resumed]
    assert all(report[step]["error"] is None for step in report)
