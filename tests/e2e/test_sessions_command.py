"""`acc sessions`: list, show and delete the sessions of a store."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from acc import Agent, RunContext, Runner, ToolCall, tool
from acc.cli import execute
from acc.testing import ScriptedModel


@tool(confirm=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


async def save_note(ctx: RunContext) -> None:
    ctx.state["city"] = "京都"
    await ctx.artifacts.save("note.txt", "hello")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Return a store with a finished session, a waiting one, and one of another user and app."""
    path = str(tmp_path / "sessions.db")

    async def record() -> None:
        done = Agent(name="clerk", model=ScriptedModel("はい。"), before_agent_callback=save_note)
        runner = Runner(done, store=path)
        await runner.run("京都の天気は？", session_id="done")
        await runner.aclose()
        ask = ToolCall(id="c1", name="refund", arguments={"amount": 5})
        runner = Runner(Agent(name="till", model=ScriptedModel(ask), tools=[refund]), store=path)
        await runner.run("refund 5", session_id="waiting")
        await runner.aclose()
        other = Agent(name="other", model=ScriptedModel("ok"))
        runner = Runner(other, store=path, app_name="shop")
        await runner.run("hello", session_id="done", user_id="花子")
        await runner.aclose()

    asyncio.run(record())
    return path


def listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert execute(["sessions", "list", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_list_shows_sessions_of_all_users(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sessions", "list", "--store", store]) == 0
    lines = [line.split()[:5] for line in capsys.readouterr().out.splitlines()]
    assert lines[1:] == [
        ["done", "shop", "花子", "1", "completed"],
        ["waiting", "app", "local", "1", "input_required"],
        ["done", "app", "local", "1", "completed"],
    ]


@pytest.mark.parametrize(
    ("options", "found", "total"),
    [
        (("--limit", "1"), ["shop done"], 3),
        (("--user", "花子"), ["shop done"], 1),
        (("--app", "app", "--limit", "1"), ["app waiting"], 2),
        (("--status", "input_required"), ["app waiting"], 1),
        (("--text", "天気"), ["app done"], 1),
        (("--text", "nothing like this"), [], 0),
    ],
)
def test_list_selects_sessions(
    store: str,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    found: list[str],
    total: int,
) -> None:
    result = listed(capsys, "--store", store, *options)
    names = [f"{one['app_name']} {one['session_id']}" for one in result["sessions"]]
    assert (names, result["total"]) == (found, total)


def test_show_prints_state_files_events_and_requests(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sessions", "show", "done", "--store", store, "--user", "local"]) == 0
    text = capsys.readouterr().out
    assert "city = 京都" in text
    assert "note.txt" in text
    assert "京都の天気は？" in text
    assert execute(["sessions", "show", "waiting", "--store", store]) == 0
    assert "May refund be called?" in capsys.readouterr().out
    assert execute(["sessions", "show", "waiting", "--store", store, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["requests"][0]["arguments"] == {"amount": 5}
    assert [event["kind"] for event in shown["events"]][0] == "message"


def test_id_of_several_users_needs_a_choice(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sessions", "show", "done", "--store", store]) == 2
    assert "--user 花子 --app shop" in capsys.readouterr().err


def test_delete_removes_only_the_named_session(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sessions", "delete", "done", "--store", store, "--app", "app"]) == 0
    assert capsys.readouterr().out == "deleted 1 session\n"
    left = listed(capsys, "--store", store)["sessions"]
    assert [one["session_id"] for one in left] == ["done", "waiting"]


def test_session_that_waits_is_deleted_with_force_only(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["sessions", "delete", "waiting", "--store", store]) == 1
    assert "--force" in capsys.readouterr().err
    assert listed(capsys, "--store", store)["total"] == 3
    assert execute(["sessions", "delete", "waiting", "--store", store, "--force"]) == 0
    capsys.readouterr()
    assert listed(capsys, "--store", store)["total"] == 2


def test_unknown_session_deletes_nothing(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["sessions", "delete", "waiting", "nope", "--store", store, "--force"]) == 1
    assert "no session 'nope'" in capsys.readouterr().err
    assert listed(capsys, "--store", store)["total"] == 3


def test_missing_store_is_not_created(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.db"
    assert execute(["sessions", "list", "--store", str(path)]) == 1
    assert "does not exist" in capsys.readouterr().err
    assert not path.exists()
