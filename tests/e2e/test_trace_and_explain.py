"""`acc trace` and `acc explain` on recorded sessions."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from acc import Agent, RunConfig, Runner, ToolCall, ToolContext, approve, tool
from acc.a2a import StaticTokens, TokenEntry, create_app, token_hash
from acc.cli import execute
from acc.testing import ScriptedModel

TURNS = (
    "Never restart db-1 during business hours. Our budget is 500 EUR.",
    "Correction: db-1 may be restarted after 18:00, not before.",
    "db-2はいつでも再起動できます。",
    "What about db-1?",
)


@tool
def flaky(ctx: ToolContext, name: str) -> str:
    """Fail once."""
    ctx.state["tries"] = ctx.state.get("tries", 0) + 1
    if ctx.state["tries"] == 1:
        raise ValueError("not yet")
    return f"{name} は正常です"


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def call(name: str, number: int, /, **arguments: Any) -> ToolCall:
    return ToolCall(id=f"c{number}", name=name, arguments=arguments)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return a store with a session `ops` of four turns and a session `shop` with tools."""
    path = str(tmp_path / "sessions.db")

    async def record() -> None:
        model = ScriptedModel("ok", "ok", "ok", "ok")
        runner = Runner(Agent(name="ops", model=model, memory="acc"), store=path)
        for text in TURNS:
            await runner.run(text, session_id="ops")
        await runner.aclose()
        model = ScriptedModel(
            call("flaky", 1, name="db-1"),
            call("flaky", 2, name="db-1"),
            call("pay", 3, amount=5),
            "完了しました。",
        )
        runner = Runner(
            Agent(name="clerk", model=model, tools=[flaky, pay]),
            store=path,
            config=RunConfig(record_prompts=True),
        )
        paused = await runner.run("db-1を確認", session_id="shop")
        await runner.resume(approve(paused.requests[0]), session_id="shop")
        await runner.aclose()

    asyncio.run(record())
    return path


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert execute(arguments) == 0
    return capsys.readouterr().out


def test_trace_shows_the_tree_with_retries_and_state_changes(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read(capsys, "trace", "shop", "--store", store)
    assert "completed" in text
    assert "1 retries" in text
    assert "waited" in text
    lines = [line.strip() for line in text.splitlines()]
    assert any(line.startswith("clerk") for line in lines)
    assert any(line.startswith("flaky:1") for line in lines)
    assert any("tool_result [error]" in line for line in lines)
    assert any("tool_result [retry 1]" in line and "db-1 は正常です" in line for line in lines)
    assert "state tries = 1" in lines
    assert any("input_required" in line for line in lines)
    assert "recorded request" not in text


def test_trace_shows_the_state_before_and_after_each_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "sessions.db")

    async def record() -> None:
        model = ScriptedModel("first", "second")
        runner = Runner(Agent(name="ops", model=model, output_key="answer"), store=path)
        for _ in range(2):
            await runner.run("hi", session_id="s")
        await runner.aclose()

    asyncio.run(record())
    lines = [line.strip() for line in read(capsys, "trace", "s", "--store", path).splitlines()]
    assert [line for line in lines if line.startswith("state")] == [
        "state answer = first",
        "state answer = second  (before: first)",
    ]
    runs = json.loads(read(capsys, "trace", "s", "--store", path, "--json"))["runs"]
    only = json.loads(read(capsys, "trace", runs[1]["run_id"], "--store", path, "--json"))["runs"]
    (step,) = [step for step in only[0]["nodes"][0]["steps"] if "state" in step]
    assert (step["state"], step["before"]) == ({"answer": "second"}, {"answer": "first"})


def test_trace_of_a_run_prints_the_requests_on_demand(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(read(capsys, "trace", "shop", "--store", store, "--json"))
    (run,) = data["runs"]
    assert (run["status"], run["turn"], run["retries"]) == ("completed", 1, 1)
    assert run["usage"]["llm_calls"] == 4
    text = read(capsys, "trace", run["run_id"], "--store", store, "--requests")
    assert "recorded request" in text
    assert '"instruction"' in text or '"messages"' in text


def test_explain_shows_how_a_rule_was_replaced(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("explain", "ops", "rule about db-1", "--store", store)
    data = json.loads(read(capsys, *arguments, "--json"))
    rule = next(item for item in data["statements"] if item["text"].startswith("Never"))
    steps = [(entry["turn"], entry["step"]) for entry in rule["entries"]]
    assert steps[:4] == [(1, "said"), (1, "read"), (1, "kept"), (2, "replaced")]
    assert "db-1 may be restarted after 18:00" in rule["entries"][3]["reason"]
    assert rule["in_view"]["1"] is True
    assert rule["in_view"]["4"] is False
    correction = next(i for i in data["statements"] if i["text"].startswith("Correction"))
    assert correction["in_view"]["4"] is True
    text = read(capsys, *arguments, "--turn", "4")
    assert "in the view at turn 4: no" in text
    assert "in the view at turn 4: yes" in text
    assert "in the view at turn 1: not said yet" in read(capsys, *arguments, "--turn", "1")


def test_explain_finds_japanese_statements(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(read(capsys, "explain", "ops", "db-2の再起動", "--store", store, "--json"))
    assert [item["text"] for item in data["statements"]] == ["db-2はいつでも再起動できます。"]
    assert data["statements"][0]["entries"][1]["reason"].startswith("as state")


def test_explain_fails_if_nothing_matches(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["explain", "ops", "holidays in Peru", "--store", store]) == 1
    assert "matches" in capsys.readouterr().err


def test_explain_says_if_the_memory_records_no_decisions(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = read(capsys, "explain", "shop", "db-1", "--store", store)
    assert "no memory recorded its decisions" in text


@pytest.mark.parametrize("command", [["trace", "x"], ["explain", "x", "y"]])
def test_missing_store_and_session_are_reported(
    command: list[str], store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "none.db"
    assert execute([*command, "--store", str(missing)]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not missing.exists()
    assert execute([*command, "--store", store]) == 1
    assert "no session, run or task 'x'" in capsys.readouterr().err


async def _serve_one(path: str, token: str) -> str:
    """Serve an agent that stores one task, and return the id of the task."""
    entry = TokenEntry(sha256=token_hash(token), caller="ann", tenant="acme") if token else None
    app = create_app(
        Agent(name="shop", model=ScriptedModel("hello"), memory=None),
        store=path,
        verifier=None if entry is None else StaticTokens([entry]),
    )
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    head = {"A2A-Version": "1.0"} | ({"Authorization": f"Bearer {token}"} if token else {})
    transport = httpx.ASGITransport(app)
    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        response = await client.post("/", json=body, headers=head)
        task: str = response.json()["result"]["task"]["id"]
        return task


@pytest.mark.parametrize("token", ["", "acc_secret"])
def test_trace_finds_the_owner_of_a_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], token: str
) -> None:
    path = str(tmp_path / "tasks.db")
    task = asyncio.run(_serve_one(path, token))
    assert execute(["trace", task, "--store", path]) == 0
    assert "shop" in capsys.readouterr().out
    assert execute(["trace", task, "--store", path, "--app", "other"]) != 0
    assert execute(["trace", "none", "--store", path]) != 0
