"""Tools that fail: bounds, ModelRetry, logs, raised errors and error callbacks."""

import logging
from typing import Any

import pytest
from agent_support import WHO, results, turn

from acc import (
    Agent,
    BaseTool,
    EventKind,
    InvalidInput,
    InvalidTree,
    ModelFailed,
    ModelRetry,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    ToolContext,
    ToolFailed,
    approve,
    deny,
    tool,
)
from acc.testing import ScriptedModel, call


def agent(*tools: Any, script: Any = None, **options: Any) -> Agent:
    model = ScriptedModel(*(script or [call("work")]), repeat=script is None)
    return Agent(name="a", model=model, tools=tools, **options)


@pytest.mark.parametrize(
    ("options", "attempts"), [({}, 6), ({"retries": 2}, 3), ({"retries": 0}, 1)]
)
async def test_tool_that_always_fails_ends_the_run_after_its_bound(
    options: dict[str, Any], attempts: int
) -> None:
    counts: list[int] = []

    @tool(**options)
    async def work(ctx: ToolContext) -> str:
        """Work."""
        counts.append(ctx.retry_count)
        raise ConnectionError("no route")

    worker = agent(work)
    with pytest.raises(
        ToolFailed, match="tool 'work' failed .*: work failed: ConnectionError"
    ) as e:
        await turn(worker)
    assert (e.value.tool, e.value.attempts, e.value.code) == ("work", attempts, "tool_failed")
    assert counts == list(range(attempts))


async def test_bound_of_the_run_applies_to_tools_without_their_own() -> None:
    @tool
    async def work() -> str:
        """Work."""
        raise ConnectionError

    with pytest.raises(ToolFailed) as error:
        await turn(agent(work), config=RunConfig(max_tool_retries=1))
    assert error.value.attempts == 2


async def test_success_resets_the_count() -> None:
    outcomes = [False, True, False, True, False, True]

    @tool(retries=1)
    async def work() -> str:
        """Work."""
        if not outcomes.pop(0):
            raise ConnectionError
        return "ok"

    script = [call("work")] * 6 + ["done"]
    assert (await turn(agent(work, script=script))).text == "done"


async def test_calls_of_one_response_count_once() -> None:
    @tool(retries=1)
    async def work() -> str:
        """Work."""
        raise ConnectionError

    script = [[call("work"), call("work"), call("work")], "done"]
    assert (await turn(agent(work, script=script))).text == "done"


async def test_denied_calls_do_not_count() -> None:
    @tool(retries=0, confirm=True)
    async def work() -> str:
        """Work."""
        return "ok"

    runner = Runner(agent(work, script=[call("work"), call("work"), "done"]))
    result = await runner.run(**WHO, message="go")
    while result.status is RunStatus.INPUT_REQUIRED:
        result = await runner.resume(**WHO, answers=deny(result.requests[0].id))
    assert result.text == "done"


async def test_count_continues_after_resume() -> None:
    @tool(retries=1)
    async def work() -> str:
        """Work."""
        raise ConnectionError

    @tool(confirm=True)
    async def pause() -> str:
        """Pause."""
        return "ok"

    script = [call("work"), call("pause"), call("work"), "done"]
    runner = Runner(agent(work, pause, script=script))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ToolFailed) as error:
        await runner.resume(**WHO, answers=approve(paused.requests[0].id))
    assert error.value.attempts == 2


async def test_model_retry_sends_its_message_to_the_model(caplog: Any) -> None:
    @tool(retries=1)
    async def work(day: str) -> str:
        """Work."""
        if "-" not in day:
            raise ModelRetry("day must look like 2026-11-18, e.g. 日付は ISO 形式")
        return day

    script = [call("work", day="today"), call("work", day="2026-11-18"), "done"]
    result = await turn(agent(work, script=script))
    message = "day must look like 2026-11-18, e.g. 日付は ISO 形式"
    assert results(result) == [{"error": message}, "2026-11-18"]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_model_retry_without_end_ends_the_run() -> None:
    @tool(retries=2)
    def work() -> str:
        """Work."""
        raise ModelRetry("again")

    with pytest.raises(ToolFailed, match="tool 'work' failed 3 times in a row: again"):
        await turn(agent(work))


async def test_programming_error_is_logged_with_traceback(caplog: Any) -> None:
    @tool
    def work() -> str:
        """Work."""
        return {"a": "b"}["missing"]

    result = await turn(agent(work, script=[call("work"), "done"]))
    assert results(result) == [{"error": "work failed: KeyError: 'missing'"}]
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    text = record.getMessage()
    assert text.startswith("tool work failed\nTraceback") and 'return {"a": "b"}["missing"]' in text
    assert (record.tool, record.agent) == ("work", "a")


async def test_programming_error_can_be_raised() -> None:
    @tool
    async def work() -> str:
        """Work."""
        return undefined  # type: ignore[name-defined,no-any-return] # noqa: F821

    config = RunConfig(raise_tool_errors=True)
    with pytest.raises(ToolFailed, match="tool 'work' failed once: NameError") as error:
        await turn(agent(work), config=config)
    assert isinstance(error.value.__cause__, NameError)


async def test_expected_errors_are_not_raised() -> None:
    @tool(timeout=0.01)
    async def work(kind: str) -> str:
        """Work."""
        if kind == "retry":
            raise ModelRetry("again")
        raise InvalidInput("no")

    script = [call("work", kind="retry"), call("work", kind="x"), "done"]
    result = await turn(agent(work, script=script), config=RunConfig(raise_tool_errors=True))
    assert result.text == "done"


async def test_tool_error_callback_may_replace_the_result() -> None:
    seen: list[Any] = []

    @tool(retries=0)
    async def work(n: int) -> str:
        """Work."""
        raise ConnectionError("down")

    def handle(tool: BaseTool, arguments: dict[str, Any], ctx: RunContext, error: Exception) -> Any:
        seen.append((tool.name, arguments, ctx.agent.name, str(error)))
        return "cached" if arguments["n"] == 1 else None

    script = [call("work", n=1), "done"]
    result = await turn(agent(work, script=script, on_tool_error_callback=handle))
    assert results(result) == ["cached"]
    assert seen == [("work", {"n": 1}, "a", "down")]
    with pytest.raises(ToolFailed):
        await turn(agent(work, script=[call("work", n=2)], on_tool_error_callback=handle))


async def test_model_error_callback_may_replace_the_response() -> None:
    def handle(ctx: RunContext, prompt: Any, error: Exception) -> str | None:
        return "sorry" if "quota" in str(error) else None

    ok = agent(script=[RuntimeError("quota")], on_model_error_callback=handle)
    result = await turn(ok)
    assert (result.text, result.usage.llm_calls) == ("sorry", 1)
    with pytest.raises(ModelFailed, match="other"):
        await turn(agent(script=[RuntimeError("other")], on_model_error_callback=handle))


@pytest.mark.parametrize("retries", [-1, True, 1.5, "2"])
def test_retries_must_be_a_count(retries: Any) -> None:
    with pytest.raises(InvalidTree, match="retries must be an integer of at least 0"):

        @tool(retries=retries)
        def work() -> str:
            """Work."""
            return ""


async def test_failure_of_the_tool_is_recorded_as_the_end_of_the_run() -> None:
    @tool(retries=0)
    async def work() -> str:
        """Work."""
        raise ConnectionError

    runner = Runner(agent(work))
    with pytest.raises(ToolFailed):
        await runner.run(**WHO, message="go")
    events = await runner.events(**WHO)
    assert events[-1].detail["code"] == "tool_failed"
    assert events[-1].status is RunStatus.FAILED
    assert [event.kind for event in events].count(EventKind.TOOL_RESULT) == 1
