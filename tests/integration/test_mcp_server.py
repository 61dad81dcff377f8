"""`acc mcp` with clients of the official SDK."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import mcp_types
import pytest
from mcp import Client, MCPError, StdioServerParameters

from acc import Runner, RunStatus
from acc.bootstrap.agents import load_agent
from acc.cli import execute as run

HERE = Path(__file__).parent
SOURCE = str(HERE.parent.parent / "src")
ENVIRONMENT = {"PYTHONPATH": SOURCE}
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])


def server_parameters(*options: str) -> StdioServerParameters:
    command = ["-m", "acc", "mcp", "mcp_served_agent:office", *options]
    return StdioServerParameters(
        command=sys.executable, args=command, cwd=str(HERE), env=ENVIRONMENT
    )


def text(result: mcp_types.CallToolResult) -> str:
    block = result.content[0]
    assert isinstance(block, mcp_types.TextContent)
    return block.text


class ElicitationResponder:
    """Answers the elicitation requests of a client."""

    def __init__(self, *answers: mcp_types.ElicitResult) -> None:
        self.requests: list[mcp_types.ElicitRequestFormParams] = []
        self._answers = list(answers)

    async def __call__(self, context: Any, params: Any) -> mcp_types.ElicitResult:
        self.requests.append(params)
        return self._answers.pop(0)


def yes() -> mcp_types.ElicitResult:
    return mcp_types.ElicitResult(action="accept", content={"approve": True})


@ERAS
async def test_calls_continue_conversations(mode: str) -> None:
    received: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        received.append(message)

    async with Client(server_parameters("--sub-agents"), mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(listed) == {"office", "clerk"}
        assert listed["office"].description == "事務: pays and waits."
        first = await client.call_tool("office", {"message": "やあ"})
        conversation_id = first.structured_content["conversation_id"]
        again = await client.call_tool(
            "office", {"message": "またね", "conversation_id": conversation_id}
        )
        unknown = await client.call_tool("office", {"message": "また", "conversation_id": "lost"})
        small = await client.call_tool(
            "office", {"message": "pay 5"}, progress_callback=on_progress
        )
        clerk = await client.call_tool("clerk", {"message": "file this"})
        with pytest.raises(MCPError, match="'nobody' not found"):
            await client.call_tool("nobody", {})
        wrong = await client.call_tool("office", {"message": 3})
        empty = await client.call_tool("office", {})
    assert text(first) == "言いました: やあ (first)"
    assert text(again) == "言いました: またね (again)"
    assert again.structured_content["conversation_id"] == conversation_id
    assert "note" not in again.structured_content
    note = "Conversation lost does not exist; earlier messages are unknown."
    assert unknown.structured_content["note"] == note
    assert [getattr(part, "text", "") for part in unknown.content] == [
        "言いました: また (first)",
        note,
    ]
    assert text(small) == "result: paid 5" and text(clerk) == "filed"
    assert received == ["office calls pay", "office has answered"]
    assert wrong.is_error and "Expected `str`" in text(wrong)
    assert empty.is_error and "the message is empty" in text(empty)


@ERAS
async def test_client_elicits_input(mode: str) -> None:
    person = ElicitationResponder(yes(), mcp_types.ElicitResult(action="decline"))
    async with Client(server_parameters(), mode=mode, elicitation_callback=person) as client:
        paid = await client.call_tool("office", {"message": "pay 500"})
        declined = await client.call_tool("office", {"message": "pay 900"})
    assert text(paid) == "result: paid 500"
    assert "denied" in text(declined)
    assert person.requests[0].message == 'May pay be called? pay {"amount":500}'
    assert set(person.requests[0].requested_schema["properties"]) == {"approve", "reason"}


@ERAS
async def test_input_can_be_answered_later(mode: str) -> None:
    person = ElicitationResponder(mcp_types.ElicitResult(action="cancel"), yes())
    async with Client(server_parameters(), mode=mode, elicitation_callback=person) as client:
        later = await client.call_tool("office", {"message": "pay 500", "conversation_id": "c"})
        assert later.is_error and len(person.requests) == 1
        completed = await client.call_tool("office", {"message": "well?", "conversation_id": "c"})
    assert text(completed) == "result: paid 500"


@ERAS
async def test_client_without_elicitation_gets_instructions(mode: str, tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "s.db"))
    async with Client(server_parameters(*store), mode=mode) as client:
        waits = await client.call_tool("office", {"message": "pay 500", "conversation_id": "会話"})
        still = await client.call_tool("office", {"message": "hello", "conversation_id": "会話"})
    assert waits.is_error and waits.structured_content["status"] == "input_required"
    assert "May pay be called?" in text(waits) and "answers" in text(waits)
    assert still.is_error and text(still) == text(waits)
    request_id = text(waits).splitlines()[1].removeprefix("- ").split(":")[0]
    answers = [{"request_id": request_id, "verdict": "approve"}]
    async with Client(server_parameters(*store), mode=mode) as client:  # another process
        arguments = {"conversation_id": "会話", "answers": answers}
        completed = await client.call_tool("office", arguments)
        twice = await client.call_tool("office", arguments)
    assert text(completed) == "result: paid 500"
    assert twice.is_error and "nothing_pending" in text(twice)


@ERAS
async def test_cancelled_call_is_recorded(mode: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    received = asyncio.Event()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if message == "office: 待っています":
            received.set()

    async with Client(server_parameters("--store", str(path)), mode=mode) as client:
        arguments = {"message": "wait 60", "conversation_id": "c"}
        async with asyncio.TaskGroup() as group:
            task = group.create_task(
                client.call_tool("office", arguments, progress_callback=on_progress)
            )
            await asyncio.wait_for(received.wait(), 20)
            task.cancel()
        after = await client.call_tool("office", {"message": "やあ", "conversation_id": "c"})
    assert text(after).startswith("言いました: やあ")
    sys.path.insert(0, str(HERE))
    runner = Runner(load_agent("mcp_served_agent:office"), app_name="office", store=path)
    ended = [e.status for e in await runner.events(user_id="mcp", session_id="c") if e.status]
    await runner.aclose()
    assert ended == [RunStatus.CANCELED, RunStatus.COMPLETED]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "acc",
        "mcp",
        "mcp_served_agent:office",
        "--http",
        "--port",
        "0",
    ]
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        command, cwd=HERE, env={**os.environ, **ENVIRONMENT}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield line.split()[-1]
        process.terminate()
        assert process.wait(20) is not None


@ERAS
async def test_http_server_answers_like_stdio(url: str, mode: str) -> None:
    person = ElicitationResponder(yes())
    async with Client(url, mode=mode, elicitation_callback=person) as client:
        greeting = await client.call_tool("office", {"message": "やあ"})
        paid = await client.call_tool("office", {"message": "pay 500"})
        async with asyncio.TaskGroup() as group:
            calls = [
                group.create_task(client.call_tool("office", {"message": f"pay {n}"}))
                for n in range(8)
            ]
    assert text(greeting) == "言いました: やあ (first)"
    assert text(paid) == "result: paid 500" and len(person.requests) == 1
    assert [text(call.result()) for call in calls] == [f"result: paid {n}" for n in range(8)]


async def test_http_server_rejects_foreign_origins(url: str) -> None:
    async with httpx.AsyncClient() as client:
        headers = {"host": "evil.example", "content-type": "application/json"}
        body = '{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        assert (await client.post(url, headers=headers, content=body)).status_code in (403, 421)
        headers = {"origin": "https://evil.example", "content-type": "application/json"}
        assert (await client.post(url, headers=headers, content=body)).status_code == 403


def test_unknown_agent_is_reported_by_command() -> None:
    command = [sys.executable, "-m", "acc", "mcp", "mcp_served_agent:nobody"]
    completed = subprocess.run(  # noqa: S603 - our own interpreter
        command,
        cwd=HERE,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.returncode == 2 and "nobody" in completed.stderr and not completed.stdout


async def test_command_accepts_file_reference(tmp_path: Path) -> None:
    command = ["-m", "acc", "mcp", str(HERE / "mcp_served_agent.py") + ":office"]
    server = StdioServerParameters(
        command=sys.executable, args=command, cwd=str(tmp_path), env=ENVIRONMENT
    )
    async with Client(server) as client:
        greeting = await client.call_tool("office", {"message": "やあ"})
    assert text(greeting).startswith("言いました: やあ")


def test_command_rejects_unusable_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = tmp_path / "keyless_agent.py"
    file.write_text(
        'from acc import Agent\n\nroot = Agent(name="root", model="openai:gpt-5.2")\n',
        encoding="utf-8",
    )
    assert run(["mcp", f"{file}:root"]) == 2
    assert "OPENAI_API_KEY" in capsys.readouterr().err


def test_port_requires_http(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["mcp", "sample_agents:office", "--port", "8123"]) == 2
    assert "--port requires --http" in capsys.readouterr().err
