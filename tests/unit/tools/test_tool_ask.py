"""Tools that ask a person while they run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_support import WHO, CrashingStore, ProcessKilled, results

from acc import (
    Agent,
    ApprovalDecision,
    FunctionTool,
    RequestKind,
    Runner,
    RunStatus,
    ToolContext,
    approve,
    deny,
    tool,
)
from acc.adapters.storage.in_memory import InMemoryArtifactStore
from acc.adapters.system.clock import SystemClock
from acc.testing import ScriptedModel, call


def booking(log: list[str], **options: Any) -> FunctionTool:
    @tool(**options)
    async def book(city: str, ctx: ToolContext) -> str:
        """Book a hotel."""
        log.append(f"search {city}")
        ctx.state["searched"] = ctx.state.get("searched", 0) + 1
        answer = await ctx.ask(f"Which hotel in {city}?", schema={"type": "string"})
        if answer.verdict is not ApprovalDecision.APPROVE:
            return f"not booked: {answer.reason}"
        log.append(f"book {answer.value}")
        return f"booked {answer.value}"

    return book


def agent(book: FunctionTool, *script: Any) -> Agent:
    return Agent(name="a", model=ScriptedModel(*script), tools=[book])


async def test_tool_continues_once_after_the_answer() -> None:
    log: list[str] = []
    runner = Runner(agent(booking(log), call("book", city="京都"), "done"))
    paused = await runner.run(**WHO, message="go")
    assert paused.status is RunStatus.INPUT_REQUIRED
    (request,) = paused.requests
    assert (request.kind, request.tool, request.message) == (
        RequestKind.INPUT,
        "book",
        "Which hotel in 京都?",
    )
    assert log == ["search 京都"]
    done = await runner.resume(**WHO, answers=approve(request.id, value="Ryokan"))
    assert done.text == "done"
    assert results(done) == ["booked Ryokan"]
    assert log == ["search 京都", "search 京都", "book Ryokan"]
    assert done.state["searched"] == 1


async def test_answer_may_be_given_in_another_process(tmp_path: Path) -> None:
    log: list[str] = []
    first = Runner(agent(booking(log), call("book", city="X")), store=tmp_path / "s.db")
    paused = await first.run(**WHO, message="go")
    await first.aclose()
    second = Runner(agent(booking(log), "done"), store=tmp_path / "s.db")
    done = await second.resume(**WHO, answers=deny(paused.requests[0].id, "too late"))
    assert results(done) == ["not booked: too late"]
    assert log == ["search X", "search X"]
    await second.aclose()


async def test_value_that_does_not_match_the_schema_is_rejected() -> None:
    runner = Runner(agent(booking([]), call("book", city="X"), "done"))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ValueError, match="does not match its schema"):
        await runner.resume(**WHO, answers=approve(paused.requests[0].id, value=3))
    assert (await runner.pending(**WHO)) == paused.requests


async def test_confirmed_tool_may_ask() -> None:
    log: list[str] = []
    runner = Runner(agent(booking(log, confirm=True), call("book", city="X"), "done"))
    first = await runner.run(**WHO, message="go")
    assert log == []
    second = await runner.resume(**WHO, answers=approve(first.requests[0].id))
    assert second.requests[0].kind is RequestKind.INPUT
    done = await runner.resume(**WHO, answers=approve(second.requests[0].id, value="R"))
    assert results(done) == ["booked R"]
    assert log.count("book R") == 1


async def test_tool_may_ask_several_times() -> None:
    effects: list[Any] = []

    @tool
    async def survey(ctx: ToolContext) -> list[Any]:
        """Ask two questions."""
        first = await ctx.ask("First?")
        second = await ctx.ask(f"After {first.value}?")
        effects.append((first.value, second.value))
        return [first.value, second.value]

    runner = Runner(agent(survey, call("survey"), "done"))
    result = await runner.run(**WHO, message="go")
    for value in (1, 2):
        result = await runner.resume(**WHO, answers=approve(result.requests[0].id, value=value))
    assert results(result) == [[1, 2]]
    assert effects == [(1, 2)]


async def test_questions_may_be_asked_concurrently() -> None:
    @tool
    async def survey(ctx: ToolContext) -> list[Any]:
        """Ask two questions at the same time."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.ask(text)) for text in ("A?", "B?")]
        return [task.result().value for task in tasks]

    runner = Runner(agent(survey, call("survey"), "done"))
    paused = await runner.run(**WHO, message="go")
    assert paused.status is RunStatus.INPUT_REQUIRED
    result = paused
    while result.status is RunStatus.INPUT_REQUIRED:
        answers = [approve(each.id, value=each.message) for each in result.requests]
        result = await runner.resume(**WHO, answers=answers)
    assert results(result) == [["A?", "B?"]]


async def test_calls_beside_the_question_are_executed_once() -> None:
    log: list[str] = []
    notes: list[str] = []

    @tool
    async def note(text: str) -> str:
        """Note."""
        notes.append(text)
        return "ok"

    script: list[Any] = [[call("book", city="X"), call("note", text="n")], "done"]
    runner = Runner(Agent(name="a", model=ScriptedModel(*script), tools=[booking(log), note]))
    paused = await runner.run(**WHO, message="go")
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id, value="R"))
    assert sorted(map(str, results(done))) == ["booked R"]
    assert notes == ["n"]


async def test_tool_that_continued_before_a_crash_is_not_called_again() -> None:
    artifacts = InMemoryArtifactStore()
    store = CrashingStore(clock=SystemClock(), artifacts=artifacts)
    effects: list[str] = []

    @tool
    async def send(ctx: ToolContext) -> str:
        """Send."""
        answer = await ctx.ask("To whom?")
        effects.append(answer.value)
        store.is_crashed = True
        return "sent"

    def runner(*script: Any) -> Runner[object, str]:
        return Runner(agent(send, *script), store=(store, artifacts))

    paused = await runner(call("send")).run(**WHO, message="go")
    with pytest.raises(ProcessKilled):
        await runner("unused").resume(**WHO, answers=approve(paused.requests[0].id, value="Mio"))
    store.is_crashed = False
    done = await runner("done").resume(**WHO)
    assert results(done) == [
        {"error": "send was started and its outcome is unknown; do not assume that it failed"},
    ]
    assert effects == ["Mio"]
