"""Logs of commands as JSON lines, with the ids of the trace."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest
from telemetry import Telemetry

from acc import Agent, disable_tracing
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.cli import execute
from acc.testing import ScriptedModel

AGENT = """
from acc import Agent, ToolCall, tool
from acc.testing import ScriptedModel

@tool
def status(order: str) -> str:
    \"\"\"Return the status of an order.\"\"\"
    return "発送済み"

model = ScriptedModel(ToolCall(id="1", name="status", arguments={"order": "A-17"}), "発送済み")
root = Agent(name="shop", model=model, tools=[status])
"""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


@pytest.fixture
def agent_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "logged_shop", raising=False)
    (tmp_path / "logged_shop.py").write_text(AGENT, encoding="utf-8")
    return "./logged_shop.py:root"


def test_log_of_a_command_is_json_with_trace_and_span(
    agent_file: str,
    telemetry: Telemetry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ACC_LOG_FORMAT", "json")
    handlers = list(logging.getLogger().handlers)
    assert execute(["run", agent_file, "注文A-17は?"]) == 0
    logged = lines(capsys.readouterr().err)
    spans = telemetry.spans()
    run, called = spans["invoke_agent shop"], spans["execute_tool status"]
    assert run.context is not None
    assert called.context is not None
    (ended,) = [line for line in logged if line["message"] == "run ended"]
    assert ended["trace_id"] == f"{run.context.trace_id:032x}"
    assert ended["span_id"] == f"{run.context.span_id:016x}"
    assert {line["trace_id"] for line in logged} == {ended["trace_id"]}
    assert "発送済み" not in json.dumps(logged, ensure_ascii=False)
    assert logging.getLogger().handlers == handlers


def test_log_of_a_command_is_not_json_by_default(
    agent_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    disable_tracing()
    assert execute(["run", agent_file, "hello"]) == 0
    assert lines(capsys.readouterr().err) == []


def test_unknown_format_of_logs_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACC_LOG_FORMAT", "xml")
    assert execute(["scenarios", "list"]) == 2
    assert "ACC_LOG_FORMAT must be json or text" in capsys.readouterr().err


async def test_refused_request_is_logged_with_its_code_and_the_incoming_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "acc.access")
    verifier = StaticTokens([TokenEntry(sha256=token_hash("acc_ann"), caller="ann")])
    app = create_app(Agent(name="shop", model=ScriptedModel("x")), verifier=verifier)
    transport = httpx2.ASGITransport(app=app)
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with (
        app.lifespan(),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        head = {"A2A-Version": "1.0", "traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        response = await http.post("/", json={}, headers=head)
    assert response.status_code == 401
    (record,) = [record for record in caplog.records if record.name == "acc.access"]
    assert (record.__dict__["code"], record.__dict__["trace_id"]) == ("unauthenticated", trace)
