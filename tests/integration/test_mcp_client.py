"""MCP client with server processes."""

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp_support import (
    FAULTY,
    HERE,
    SHOP,
    lines,
    no_leaked_processes,
    run_once,
    runner_of,
    tool_results,
    wait_for_line,
)

from acc import Agent, EventKind, McpToolset, RemoteFailed, RunConfig, Runner, RunResult, approve
from acc.domain.errors import InvalidInput
from acc.testing import ScriptedModel, call

__all__ = ["no_leaked_processes"]


def is_running(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().split()[2] != "Z"


async def test_agent_uses_server_tools() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=2), call("在庫を調べる", 品物="お茶"), call("odd_name_with_spaces")],
        call("add", a=1, b=-5),
        call("fail"),
        call("picture"),
        "できました",
    )
    agent = Agent(name="buyer", model=model, tools=[McpToolset(command=SHOP)])
    async with runner_of(agent) as runner:
        run_result = await run_once(runner)
        names = [
            event.detail["name"] for event in run_result.events if event.kind is EventKind.ARTIFACT
        ]
        file = await runner.load_artifact(names[0], user_id="u", session_id="s")
    recorded = tool_results(run_result)
    assert run_result.text == "できました"
    # Results are recorded in completion order. The model reads them in the order of its calls.
    actual = [
        part.result
        for message in model.requests[1].messages
        for part in message.parts
        if part.result
    ]
    assert [result.content for result in actual] == [
        {"result": 3},
        {"item": "お茶", "left": 3},
        {"result": "odd"},
    ]
    assert sorted(map(str, recorded[:3])) == sorted(map(str, actual))
    assert recorded[3].is_error and "less than the minimum" in recorded[3].content["error"]
    assert recorded[4].is_error and "品切れです: out of stock" in recorded[4].content["error"]
    assert recorded[5].content["text"] == "here it is"
    assert recorded[5].content["files"] == [
        {"artifact": names[0], "media_type": "image/png", "bytes": 15}
    ]
    assert file is not None and file.data == b"\x89PNG no picture"
    tools_by_name = {tool.name: tool for tool in model.requests[0].tools}
    assert tools_by_name["在庫を調べる"].description == "品物の在庫を調べる"
    assert tools_by_name["add"].parameters["properties"]["b"]["minimum"] == 0


async def test_destructive_tool_runs_once_after_approval(
    tmp_path: Path,
) -> None:
    log, store = tmp_path / "log", tmp_path / "s.db"
    source = McpToolset(command=[*SHOP, "--log", str(log)])

    def agent(*script: Any) -> Agent:
        return Agent(name="cleaner", model=ScriptedModel(*script), tools=[source])

    both = [call("add", a=4, b=4), call("wipe", path="/shop")]
    async with runner_of(agent(both), store=store) as runner:
        paused = await run_once(runner)
    assert paused.status == "input_required"
    assert lines(log)[1:] == ["add 4 4"]
    async with runner_of(agent("wiped"), store=store) as runner:
        run_result = await runner.resume(
            user_id="u", session_id="s", answers=[approve(paused.requests[0].id)]
        )
    assert run_result.text == "wiped"
    assert [line for line in lines(log) if not line.startswith("start")] == [
        "add 4 4",
        "wipe /shop",
    ]


async def test_resume_without_tool_returns_error_result(tmp_path: Path) -> None:
    store = tmp_path / "s.db"
    server_path = tmp_path / "mcp_shop_server.py"
    server_path.write_text((HERE / "mcp_shop_server.py").read_text())
    source = McpToolset(command=[sys.executable, str(server_path)], start_timeout=10)
    first = Agent(name="a", model=ScriptedModel(call("wipe", path="x")), tools=[source])
    async with runner_of(first, store=store) as runner:
        paused = await run_once(runner)
    server_path.unlink()
    optional = McpToolset(command=source.command, required=False, start_timeout=10)
    second = Agent(name="a", model=ScriptedModel("so be it"), tools=[optional])
    async with runner_of(second, store=store) as runner:
        run_result = await runner.resume(
            user_id="u", session_id="s", answers=[approve(paused.requests[0].id)]
        )
    assert run_result.text == "so be it"
    assert (
        tool_results(run_result)[0].is_error
        and "no longer available" in tool_results(run_result)[0].content["error"]
    )


async def test_server_crash_is_a_tool_error_and_restarts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    model = ScriptedModel(call("die"), call("add", a=1, b=1), "back again")
    source = McpToolset(command=[*SHOP, "--log", str(log)])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    failed, succeeded = tool_results(run_result)
    assert failed.is_error and "the result of the call is unknown" in failed.content["error"]
    assert "the shop burned down" in failed.content["error"]
    assert succeeded.content == {"result": 2} and run_result.text == "back again"
    assert len([line for line in lines(log) if line.startswith("start")]) == 2


async def test_connection_is_shared_by_concurrent_runs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = McpToolset(command=[*SHOP, "--log", str(log)])

    class Calls:
        async def complete(self, prompt: Any) -> Any:
            from acc import ModelResponse, ToolCall

            if prompt.following:
                return ModelResponse(
                    text=str(prompt.following[-1].parts[0].result.content["result"])
                )
            arguments = {"a": int(prompt.query), "b": 1}
            return ModelResponse(calls=(ToolCall(id="1", name="add", arguments=arguments),))

    agent = Agent(name="a", model=Calls(), tools=[source])
    async with runner_of(agent) as runner, asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_once(runner, str(n), f"s{n}")) for n in range(20)]
    assert [task.result().text for task in tasks] == [str(n + 1) for n in range(20)]
    assert len([line for line in lines(log) if line.startswith("start")]) == 1


async def test_timeout_cancels_call_at_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    model = ScriptedModel(call("slow", seconds=60), call("add", a=1, b=1), "went on")
    source = McpToolset(command=[*SHOP, "--log", str(log)], timeout={"slow": 1.0})
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
        assert (
            "did not finish within its limit of 1 seconds"
            in tool_results(run_result)[0].content["error"]
        )
        assert run_result.text == "went on"
        progress = [event.text for event in run_result.events if event.kind is EventKind.PROGRESS]
        assert progress == ["半分まで来ました"]
        await wait_for_line(log, "slow was cancelled")


async def test_cancelled_run_cancels_call_and_keeps_connection(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = McpToolset(command=[*SHOP, "--log", str(log)])
    model = ScriptedModel(call("slow", seconds=60), call("add", a=2, b=2), "fine")
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(run_once(runner))
            await wait_for_line(log, "slow begins 60.0")
            task.cancel()
        assert task.cancelled()
        run_result = await run_once(runner)
    assert run_result.text == "fine"
    assert "slow was cancelled" in lines(log)
    assert len([line for line in lines(log) if line.startswith("start")]) == 1


async def test_unresponsive_server_is_restarted(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # A blocking tool of this SDK runs in a thread, so the call hangs and the server does not.
    source = McpToolset(command=[*SHOP, "--log", str(log)], timeout={"hang": 0.3})
    model = ScriptedModel(*[call("hang")] * 3, call("add", a=1, b=1), "alive")
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    assert [result.is_error for result in tool_results(run_result)] == [True, True, True, False]
    assert len([line for line in lines(log) if line.startswith("start")]) == 2


async def test_changed_tools_are_used_in_next_model_call() -> None:
    model = ScriptedModel(
        [call("add", a=1, b=1), call("change")],
        call("add", a=1, b=1),
        call("hidden"),
        "seen",
    )

    source = McpToolset(command=SHOP)
    agent = Agent(name="a", model=model, tools=[source])
    async with runner_of(agent) as runner:
        run_result = await run_once(runner)
    assert run_result.text == "seen"
    outcomes = {result.name: result for result in tool_results(run_result)}
    assert outcomes["hidden"].content == {"result": "boo"}
    gone = tool_results(run_result)[2]
    assert gone.is_error and "no longer available" in gone.content["error"]
    assert "hidden" not in {tool.name for tool in model.requests[0].tools}
    last = {tool.name for tool in model.requests[-1].tools}
    assert "hidden" in last and "add" not in last


async def test_legacy_change_notification_is_handled(tmp_path: Path) -> None:
    model = ScriptedModel(call("echo", text="change"), call("新しい", text="やあ"), "seen")
    source = McpToolset(command=[*FAULTY, "polite"])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    assert [result.content for result in tool_results(run_result)] == ["change", "やあ"]


async def test_invalid_lines_are_ignored_and_invalid_results_reported() -> None:
    model = ScriptedModel(call("echo", text="ok"), call("echo", text="nonsense"), "through")
    source = McpToolset(command=[*FAULTY, "garbage"])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    succeeded, bad = tool_results(run_result)
    assert succeeded.content == "ok"
    assert bad.is_error and "invalid response" in bad.content["error"]


async def test_too_long_line_ends_connection() -> None:
    model = ScriptedModel(call("echo", text="x"), "dry again")
    source = McpToolset(command=[*FAULTY, "flood"], max_bytes=1_000_000)
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        start = time.monotonic()
        run_result = await run_once(runner)
    assert "more than 1000000 bytes" in tool_results(run_result)[0].content["error"]
    assert time.monotonic() - start < 20


async def test_large_text_is_truncated_and_saved() -> None:
    model = ScriptedModel(call("big", characters=50_000), "read")
    source = McpToolset(command=SHOP, max_characters=1_000)
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
        name = next(e.detail["name"] for e in run_result.events if e.kind is EventKind.ARTIFACT)
        full_text = await runner.load_artifact(name, user_id="u", session_id="s")
    content = tool_results(run_result)[0].content
    assert len(content) < 1_300 and name in content
    assert full_text is not None and len(full_text.data.decode()) >= 50_000


async def test_slow_start_is_awaited() -> None:
    model = ScriptedModel(call("add", a=1, b=1), "patient")
    source = McpToolset(command=[*SHOP, "--slow", "2"])
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        assert (await run_once(runner)).text == "patient"


@pytest.mark.parametrize(
    ("command", "seconds", "expected"),
    [
        ([*FAULTY, "silent"], 2.0, "not ready within"),
        ([*FAULTY, "dies"], 20.0, "no license found"),
        ([*FAULTY, "mute"], 2.0, "list of tools timed out"),
    ],
)
async def test_unusable_server_fails_the_run(
    command: list[str], seconds: float, expected: str
) -> None:
    source = McpToolset(command=command, start_timeout=seconds)
    async with runner_of(Agent(name="a", model=ScriptedModel("never"), tools=[source])) as runner:
        with pytest.raises(RemoteFailed, match=expected):
            await run_once(runner)
        start = time.monotonic()
        with pytest.raises(RemoteFailed, match=expected):
            await run_once(runner)
        assert time.monotonic() - start < seconds + 6


async def test_crashing_server_is_tried_three_times(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = McpToolset(command=[*FAULTY, "dies", str(log)])
    async with runner_of(Agent(name="a", model=ScriptedModel("x"), tools=[source])) as runner:
        with pytest.raises(RemoteFailed):
            await run_once(runner)
        with pytest.raises(RemoteFailed, match="next attempt"):
            await run_once(runner)
    assert lines(log) == ["start"] * 3


async def test_missing_program_is_reported_at_once() -> None:
    source = McpToolset(command=["/no/such/program"])
    async with runner_of(Agent(name="a", model=ScriptedModel("x"), tools=[source])) as runner:
        with pytest.raises(InvalidInput, match="cannot start /no/such/program"):
            await run_once(runner)


async def test_optional_server_may_be_unavailable() -> None:
    source = McpToolset(command=[*FAULTY, "dies"], required=False)
    model = ScriptedModel("alone")
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        assert (await run_once(runner)).text == "alone"
    assert model.requests[0].tools == ()


async def test_stubborn_server_and_children_are_killed(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    source = McpToolset(command=[*FAULTY, "stubborn", str(log)])
    model = ScriptedModel(call("echo", text="hi"), "bye")
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        await run_once(runner)
    child = int(next(line for line in lines(log) if line.startswith("child")).split()[1])
    for _ in range(100):
        if not is_running(child):
            break
        await asyncio.sleep(0.02)
    else:
        pytest.fail("what the server started is still there")


async def test_server_receives_only_named_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours")
    monkeypatch.setenv("SHOP_KEY", "sk-shop")
    model = ScriptedModel(call("environment"), "done")
    source = McpToolset(command=SHOP, env={"SHOP_KEY": "env:SHOP_KEY", "REGION": "東京"})
    assert "sk-" not in repr(source)
    async with runner_of(Agent(name="a", model=model, tools=[source])) as runner:
        run_result = await run_once(runner)
    content = tool_results(run_result)[0].content
    assert content["SHOP_KEY"] == "sk-shop" and content["REGION"] == "東京"
    assert "OPENAI_API_KEY" not in content


async def test_tools_of_several_servers_have_prefixes() -> None:
    model = ScriptedModel([call("shop_add", a=1, b=1), call("rude_echo", text="x")], "both")
    shop = McpToolset(command=SHOP, name="shop", only=["a*"])
    faulty = McpToolset(command=[*FAULTY, "polite"], name="rude")
    async with runner_of(Agent(name="a", model=model, tools=[shop, faulty])) as runner:
        run_result = await run_once(runner)
    assert {result.name: result.content for result in tool_results(run_result)} == {
        "shop_add": {"result": 2},
        "rude_echo": "x",
    }
    assert {tool.name for tool in model.requests[0].tools} == {"shop_add", "rude_echo"}


def test_closed_loop_leaves_no_server_process() -> None:
    code = (
        "import asyncio, sys\nfrom acc import Agent, McpToolset, Runner\n"
        "from acc.testing import ScriptedModel, call\n"
        f"source = McpToolset(command={SHOP!r})\n"
        "model = ScriptedModel(call('pid'), 'one', call('pid'), 'two')\n"
        "runner = Runner(Agent(name='a', model=model, tools=[source]))\n"
        "for _ in range(2):\n"
        "    done = asyncio.run(runner.run(user_id='u', session_id='s', message='go'))\n"
        "    found = [e.result.content['result'] for e in done.events if e.result]\n"
        "    print(found[0], done.text)\n"
    )
    completed = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-X", "dev", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert "ResourceWarning" not in completed.stderr and "Traceback" not in completed.stderr, (
        completed.stderr
    )
    actual = [line.split() for line in completed.stdout.splitlines()]
    assert [words[1] for words in actual] == ["one", "two"]
    for words in actual:
        assert not Path(f"/proc/{words[0]}").exists()


async def test_run_timeout_applies_to_unresponsive_server() -> None:
    source = McpToolset(command=[*FAULTY, "silent"])
    agent = Agent(name="a", model=ScriptedModel("x"), tools=[source])
    async with runner_of(agent, config=RunConfig(timeout=1.5)) as runner:
        start = time.monotonic()
        with pytest.raises(Exception, match="timeout"):
            await run_once(runner)
        assert time.monotonic() - start < 12


async def run_toolset(source: McpToolset, model: ScriptedModel) -> RunResult:
    runner = Runner(Agent(name="a", model=model, tools=[source]))
    try:
        return await runner.run(user_id="u", session_id="s", message="go")
    finally:
        await runner.aclose()


def result_of(run_result: RunResult) -> Any:
    """Return the content of the first tool result."""
    return next(
        e.result.content for e in run_result.events if e.kind is EventKind.TOOL_RESULT and e.result
    )


async def test_secrets_are_redacted_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary-東京-6f1d2c9b")
    env = {"TOK": "env:SHOP_KEY"}
    failing_server = McpToolset(command=[*FAULTY, "leaks"], env=env)
    with pytest.raises(RemoteFailed) as error:
        await run_toolset(failing_server, ScriptedModel("x"))
    assert "6f1d2c9b" not in str(error.value)
    assert str(error.value).startswith("MCP server mcp_faulty_server.py: ")
    error_server = McpToolset(command=[*FAULTY, "rejects"], env=env)
    model = ScriptedModel(call("echo", text="x"), "done")
    run_result = await run_toolset(error_server, model)
    assert "no such user: ***" in result_of(run_result)["error"]
    assert "6f1d2c9b" not in str(run_result.events)


async def test_malformed_tools_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = ScriptedModel(call("echo", text="やあ"), "done")
    source = McpToolset(command=[*FAULTY, "sloppy"])
    run_result = await run_toolset(source, model)
    assert result_of(run_result) == "やあ"
    assert [tool.name for tool in model.requests[0].tools] == ["echo"]
    assert "3 tools of an MCP server are ignored" in caplog.text
