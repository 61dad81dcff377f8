"""Tests of tools that raise, hang, exit or return values that cannot be stored."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from runner_harness import Storage, check_record, no_tasks_remain, scripted_agent

from acc import BaseAgent, ParallelAgent, RunContext, RunStatus, ToolContext, tool
from acc.domain.errors import AccError, AgentFailed, InvalidInput, StateNotStorable
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call


class Odd(BaseException):
    """A BaseException, as some libraries raise."""


class Broken(Exception):
    """An exception whose text cannot be computed."""

    def __str__(self) -> str:
        raise ValueError("no words")


def raising(error: Callable[[], BaseException]) -> dict[str, Callable[..., Any]]:
    def sync_tool() -> str:
        raise error()

    async def async_tool() -> str:
        raise error()

    return {"sync_tool": sync_tool, "async_tool": async_tool}


ERRORS: dict[str, Callable[[], BaseException]] = {
    "error": lambda: ValueError("no"),
    "group": lambda: ExceptionGroup("many", [ValueError("a"), KeyError("b")]),
    "exit": lambda: SystemExit(3),
    "odd": lambda: Odd("no"),
    "timeout": lambda: TimeoutError("its own"),
    "stop": lambda: StopAsyncIteration(),
    "long": lambda: ValueError("x" * 100_000),
    "recursion": lambda: RecursionError(),
    "memory": lambda: MemoryError(),
}


def results(model: ScriptedModel) -> list[Any]:
    return [p.result for m in model.requests[-1].messages for p in m.parts if p.result is not None]


@pytest.mark.parametrize("many", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("kind", ["sync_tool", "async_tool"])
@pytest.mark.parametrize("error", sorted(ERRORS))
async def test_exception_of_a_tool_becomes_error_result(
    storage: Storage, error: str, kind: str, many: bool
) -> None:
    async def fine() -> str:
        return "fine"

    calls = [call(kind), call("fine")] if many else [call(kind)]
    model = ScriptedModel(calls, "I see")
    harness = storage.harness(scripted_agent(model, raising(ERRORS[error])[kind], fine))
    assert (await harness.say("go")).text == "I see"
    assert [result.is_error for result in results(model)] == [True, *[False] * many]
    assert len(results(model)[0].content["error"]) <= 2_000
    assert no_tasks_remain()
    check_record(await harness.events())


async def test_cancelled_error_of_tool_becomes_error_result(storage: Storage) -> None:
    async def waits() -> str:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return "never"

    async def fine() -> str:
        return "fine"

    model = ScriptedModel(call("waits"), [call("waits"), call("fine")], "I see")
    harness = storage.harness(scripted_agent(model, waits, fine))
    assert (await harness.say("go")).text == "I see"
    assert [result.is_error for result in results(model)] == [True, True, False]
    assert "CancelledError" in results(model)[0].content["error"]


async def test_cancelled_error_or_exit_fails_the_agent(
    storage: Storage,
) -> None:
    class Waits(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise asyncio.CancelledError

    class Exits(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            sys.exit(3)

    fine = scripted_agent(ScriptedModel("fine", "fine", "fine"), name="fine")
    tree = ParallelAgent(name="root", sub_agents=[Waits(name="waits"), fine])
    with pytest.raises(AgentFailed, match="'waits' failed: CancelledError"):
        await storage.harness(tree).say("go")
    harness = storage.harness(Exits(name="exits"))
    with pytest.raises(AgentFailed, match="'exits' failed: SystemExit: 3"):
        await harness.say("go")
    check_record(await harness.events())


async def test_keyboard_interrupt_in_tool_propagates_and_fails_the_run(storage: Storage) -> None:
    async def interrupted() -> str:
        raise KeyboardInterrupt

    harness = storage.harness(scripted_agent(ScriptedModel(call("interrupted")), interrupted))
    work = harness.say("go")
    with pytest.raises(KeyboardInterrupt):
        await work
    assert await harness.ends() == [RunStatus.FAILED]
    check_record(await harness.events())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
async def test_keyboard_interrupt_in_tool_thread_becomes_error_result(
    storage: Storage, kind: type[BaseException]
) -> None:
    def odd() -> str:
        raise kind("no")

    model = ScriptedModel(call("odd"), "reported")
    assert (await storage.harness(scripted_agent(model, odd)).say("go")).text == "reported"
    assert f"{kind.__name__}: no" in results(model)[0].content["error"]


def hanging(release: threading.Event) -> dict[str, Callable[..., Any]]:
    def sync_tool(ctx: ToolContext) -> str:
        release.wait(20)
        return late(ctx)

    async def async_tool(ctx: ToolContext) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            done.set()
        return "never"

    def late(ctx: ToolContext) -> str:
        error_codes.append("")
        ctx.actions.escalate = True
        ctx.save_artifact("late.txt", "late")
        try:
            ctx.state["late"] = True
        except AccError as error:
            error_codes[-1] = error.code
        done.set()
        return "late"

    error_codes: list[str] = []
    done = threading.Event()
    return {
        "sync_tool": sync_tool,
        "async_tool": async_tool,
        "error_codes": lambda: error_codes,
        "done": done.wait,
    }


@pytest.mark.parametrize("kind", ["sync_tool", "async_tool"])
async def test_hanging_tool_times_out_with_error_result(storage: Storage, kind: str) -> None:
    release = threading.Event()
    tools = hanging(release)
    model = ScriptedModel([call(kind), call("fine")], "I see")

    def fine() -> str:
        return "fine"

    harness = storage.harness(scripted_agent(model, tools[kind], fine), tool_timeout=0.5)
    assert (await harness.say("go")).text == "I see"
    error = results(model)[0].content["error"]
    assert f"tool {kind} did not finish within its limit of 0.5 seconds" in error
    assert "RunConfig(tool_timeout=...)" in error
    release.set()
    await asyncio.get_running_loop().run_in_executor(None, tools["done"], 20)
    assert await harness.state() == {}
    assert tools["error_codes"]() == (["state_not_granted"] if kind == "sync_tool" else [])
    assert (
        await harness.runner.services.artifacts.names(harness.runner.session_key("ann", "s1")) == ()
    )
    assert no_tasks_remain()
    check_record(await harness.events())


async def test_tool_timeout_overrides_run_configuration(storage: Storage) -> None:
    @tool(timeout=0.01)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel(call("slow"), "I see")
    await storage.harness(scripted_agent(model, slow), tool_timeout=None).say("go")
    error = results(model)[0].content["error"]
    assert "within its limit of 0.01 seconds" in error
    assert "timeout of the tool" in error


def recursive_list() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def nested_list() -> Any:
    found: Any = "bottom"
    for _ in range(100):
        found = [found]
    return found


class Opaque:
    pass


BAD_RESULTS: dict[str, Callable[[], Any]] = {
    "object": Opaque,
    "function": lambda: nested_list,
    "recursive": recursive_list,
    "nested": nested_list,
    "nan": lambda: float("nan"),
    "keys": lambda: {1: Opaque()},
    "generator": lambda: (n for n in range(3)),
    "unpaired surrogate": lambda: "\ud800",
    "unpaired surrogate inside": lambda: {"\ud800": ["\udfff"]},
}


@pytest.mark.parametrize("bad", sorted(BAD_RESULTS))
async def test_result_that_cannot_be_stored_becomes_error_result(
    storage: Storage, bad: str
) -> None:
    async def return_value() -> Any:
        return BAD_RESULTS[bad]()

    model = ScriptedModel(call("return_value"), "I see")
    harness = storage.harness(scripted_agent(model, return_value))
    assert (await harness.say("go")).text == "I see"
    (result,) = results(model)
    assert result.is_error
    assert "cannot be stored" in result.content["error"]
    check_record(await harness.events())


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Size(str, Enum):  # noqa: UP042 - the older way to write it
    LARGE = "large"


class Text(str):
    __slots__ = ()


@dataclass
class Point:
    x: int
    colour: Colour


GOOD_RESULTS: dict[str, tuple[Any, Any]] = {
    "nothing": (None, None),
    "enum": (Colour.RED, "red"),
    "old enum": (Size.LARGE, "large"),
    "number enum": (Level.HIGH, 3),
    "text of a kind": (Text("hi"), "hi"),
    "dataclass": (Point(1, Colour.RED), {"x": 1, "colour": "red"}),
    "set": ({3}, [3]),
    "tuple": ((1, (2,)), [1, [2]]),
    "bytes": (b"\x00\xff", "AP8="),
    "large": ("x" * 20_000, "x" * 20_000),
    "wide": ({str(n): n for n in range(10_000)}, {str(n): n for n in range(10_000)}),
    "number": (10**40, 10**40),
}


@pytest.mark.parametrize("good", sorted(GOOD_RESULTS))
async def test_model_gets_the_stored_result(storage: Storage, good: str) -> None:
    value, expected = GOOD_RESULTS[good]

    async def return_value() -> Any:
        return value

    model = ScriptedModel(call("return_value"), "I see")
    harness = storage.harness(scripted_agent(model, return_value))
    await harness.say("go")
    (result,) = results(model)
    (stored,) = [e.result for e in await harness.events() if e.kind is EventKind.TOOL_RESULT]
    assert result.content == expected
    assert type(result.content) is type(expected)
    assert stored == result


BAD_STATE: dict[str, Callable[[Any], Any]] = {
    "object": lambda state: state.update(x=Opaque()),
    "in place": lambda state: state["list"].append(Opaque()),
    "nested in place": lambda state: state["map"].update(x={"y": {1: 2}}),
    "nan": lambda state: state.update(x=float("inf")),
    "key": lambda state: state.update({"": 1}),
    "recursive": lambda state: state.update(x=recursive_list()),
}


@pytest.mark.parametrize("where", ["tool", "agent"])
@pytest.mark.parametrize("bad", sorted(BAD_STATE))
async def test_state_that_cannot_be_stored_fails_and_session_continues(
    storage: Storage, bad: str, where: str
) -> None:
    class Writes(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            if ctx.message == "set up":
                ctx.state.update({"list": [1], "map": {}})
            else:
                BAD_STATE[bad](ctx.state)
            return "done"

    async def writes(ctx: ToolContext) -> str:
        BAD_STATE[bad](ctx.state)
        return "done"

    harness = storage.harness(Writes(name="writes"))
    await harness.say("set up")
    if where == "agent":
        with pytest.raises(StateNotStorable):
            await harness.say("break it")
    else:
        model = ScriptedModel(call("writes"), "I see")
        try:
            await storage.harness(scripted_agent(model, writes)).say("break it")
        except StateNotStorable:
            assert "in place" in bad
        else:
            assert results(model)[0].is_error
    check_record(await harness.events())
    assert await harness.state() == {"list": [1], "map": {}}
    assert (await harness.say("set up")).text == "done"


async def test_agent_that_says_a_number_fails(
    storage: Storage,
) -> None:
    class Counts(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say(7)  # type: ignore[arg-type] # invalid on purpose
            return "never"

    harness = storage.harness(Counts(name="counts"))
    with pytest.raises(InvalidInput, match="'counts' returned int"):
        await harness.say("go")
    check_record(await harness.events())
    assert (await storage.harness(scripted_agent(ScriptedModel("hello"))).say("hi")).text == "hello"


async def test_invalid_artifact_name_is_rejected(storage: Storage) -> None:
    class Saves(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save(ctx.message, "content")
            return "saved"

    for name in (" ", "a\nb", "x" * 257):
        with pytest.raises(InvalidInput):
            await storage.harness(Saves(name="saves")).say(
                f"{name}" if name.strip() else "\u2003x\x00"
            )
    harness = storage.harness(Saves(name="saves"))
    await harness.say("user:notes.txt")
    assert await harness.runner.services.artifacts.names(
        harness.runner.session_key("ann", "s2")
    ) == ("user:notes.txt",)


async def test_hundred_calls_of_one_answer_are_executed(storage: Storage) -> None:
    ran: list[int] = []

    def note(n: int) -> int:
        ran.append(n)
        return n

    model = ScriptedModel([call("note", n=n) for n in range(100)], "done")
    harness = storage.harness(scripted_agent(model, note))
    await harness.say("go")
    assert sorted(ran) == list(range(100))
    assert [result.content for result in results(model)] == list(range(100))
    check_record(await harness.events())
