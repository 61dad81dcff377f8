"""Tools that raise, hang, exit, return the impossible or come too late: the model is told."""

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum, StrEnum
from typing import Any

import pytest
from running_world import World, check_record, clerk, no_tasks_left

from acc import BaseAgent, ParallelAgent, RunContext, RunStatus, ToolContext, tool
from acc.domain.errors import AccError, AgentFailed, InvalidInput, StateNotStorable
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call


class Odd(BaseException):
    """No Exception, as some libraries raise."""


class Broken(Exception):
    """Cannot even say what it is."""

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


def told(model: ScriptedModel) -> list[Any]:
    return [p.result for m in model.asked[-1].messages for p in m.parts if p.result is not None]


@pytest.mark.parametrize("many", [False, True], ids=["alone", "beside another"])
@pytest.mark.parametrize("kind", ["sync_tool", "async_tool"])
@pytest.mark.parametrize("error", sorted(ERRORS))
async def test_what_a_tool_raises_is_told_to_the_model(
    world: World, error: str, kind: str, many: bool
) -> None:
    async def fine() -> str:
        return "fine"

    calls = [call(kind), call("fine")] if many else [call(kind)]
    model = ScriptedModel(calls, "I see")
    desk = world.desk(clerk(model, raising(ERRORS[error])[kind], fine))
    assert (await desk.say("go")).text == "I see"
    assert [result.is_error for result in told(model)] == [True, *[False] * many]
    assert len(told(model)[0].content["error"]) <= 2_000
    assert no_tasks_left()
    check_record(await desk.events())


async def test_a_cancellation_that_a_tool_lets_out_is_its_own_failure(world: World) -> None:
    async def waits() -> str:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future
        return "never"

    async def fine() -> str:
        return "fine"

    model = ScriptedModel(call("waits"), [call("waits"), call("fine")], "I see")
    desk = world.desk(clerk(model, waits, fine))
    assert (await desk.say("go")).text == "I see"
    assert [result.is_error for result in told(model)] == [True, True, False]
    assert "CancelledError" in told(model)[0].content["error"]


async def test_an_agent_that_lets_a_cancellation_out_fails_and_is_not_just_left_out(
    world: World,
) -> None:
    class Waits(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise asyncio.CancelledError

    class Exits(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            sys.exit(3)

    fine = clerk(ScriptedModel("fine", "fine", "fine"), name="fine")
    tree = ParallelAgent(name="root", sub_agents=[Waits(name="waits"), fine])
    with pytest.raises(AgentFailed, match="'waits' failed: CancelledError"):
        await world.desk(tree).say("go")
    desk = world.desk(Exits(name="exits"))
    with pytest.raises(AgentFailed, match="'exits' failed: SystemExit: 3"):
        await desk.say("go")
    check_record(await desk.events())


async def test_ctrl_c_in_a_tool_ends_the_program_and_the_run_is_on_record(world: World) -> None:
    async def interrupted() -> str:
        raise KeyboardInterrupt

    desk = world.desk(clerk(ScriptedModel(call("interrupted")), interrupted))
    work = desk.say("go")
    with pytest.raises(KeyboardInterrupt):
        await work
    assert await desk.ends() == [RunStatus.FAILED]
    check_record(await desk.events())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
async def test_nobody_has_pressed_a_key_in_the_thread_of_a_tool(
    world: World, kind: type[BaseException]
) -> None:
    def odd() -> str:
        raise kind("no")

    model = ScriptedModel(call("odd"), "told")
    assert (await world.desk(clerk(model, odd)).say("go")).text == "told"
    assert f"{kind.__name__}: no" in told(model)[0].content["error"]


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
        refused.append("")
        ctx.actions.escalate = True
        ctx.save_artifact("late.txt", "late")
        try:
            ctx.state["late"] = True
        except AccError as error:
            refused[-1] = error.code
        done.set()
        return "late"

    refused: list[str] = []
    done = threading.Event()
    return {
        "sync_tool": sync_tool,
        "async_tool": async_tool,
        "refused": lambda: refused,
        "done": done.wait,
    }


@pytest.mark.parametrize("kind", ["sync_tool", "async_tool"])
async def test_a_tool_that_hangs_is_given_up_and_the_model_is_told(world: World, kind: str) -> None:
    release = threading.Event()
    tools = hanging(release)
    model = ScriptedModel([call(kind), call("fine")], "I see")

    def fine() -> str:
        return "fine"

    desk = world.desk(clerk(model, tools[kind], fine), tool_timeout=0.5)
    assert (await desk.say("go")).text == "I see"
    assert told(model)[0].content == {"error": f"{kind} did not finish within 0.5 seconds"}
    release.set()
    await asyncio.get_running_loop().run_in_executor(None, tools["done"], 20)
    assert await desk.state() == {}
    assert tools["refused"]() == (["state_not_granted"] if kind == "sync_tool" else [])
    assert await desk.runner.services.artifacts.names(desk.runner._key("ann", "s1")) == ()
    assert no_tasks_left()
    check_record(await desk.events())


async def test_a_tool_may_have_a_time_limit_of_its_own(world: World) -> None:
    @tool(timeout=0.01)
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel(call("slow"), "I see")
    await world.desk(clerk(model, slow), tool_timeout=None).say("go")
    assert "within 0.01 seconds" in told(model)[0].content["error"]


def circle() -> Any:
    found: list[Any] = []
    found.append(found)
    return found


def deep() -> Any:
    found: Any = "bottom"
    for _ in range(100):
        found = [found]
    return found


class Opaque:
    pass


BAD_RESULTS: dict[str, Callable[[], Any]] = {
    "object": Opaque,
    "function": lambda: deep,
    "circle": circle,
    "deep": deep,
    "nan": lambda: float("nan"),
    "keys": lambda: {1: Opaque()},
    "generator": lambda: (n for n in range(3)),
    "half a character": lambda: "\ud800",
    "half a character inside": lambda: {"\ud800": ["\udfff"]},
}


@pytest.mark.parametrize("bad", sorted(BAD_RESULTS))
async def test_a_result_that_cannot_be_kept_is_told_as_an_error(world: World, bad: str) -> None:
    async def gives() -> Any:
        return BAD_RESULTS[bad]()

    model = ScriptedModel(call("gives"), "I see")
    desk = world.desk(clerk(model, gives))
    assert (await desk.say("go")).text == "I see"
    (result,) = told(model)
    assert result.is_error
    assert "cannot be kept" in result.content["error"]
    check_record(await desk.events())


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


class Size(str, Enum):  # noqa: UP042 - as people still write them
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
    "large": ("x" * 2_000_000, "x" * 2_000_000),
    "wide": ({str(n): n for n in range(10_000)}, {str(n): n for n in range(10_000)}),
    "number": (10**40, 10**40),
}


@pytest.mark.parametrize("good", sorted(GOOD_RESULTS))
async def test_a_result_is_the_same_for_the_model_and_on_record(world: World, good: str) -> None:
    given, expected = GOOD_RESULTS[good]

    async def gives() -> Any:
        return given

    model = ScriptedModel(call("gives"), "I see")
    desk = world.desk(clerk(model, gives))
    await desk.say("go")
    (result,) = told(model)
    (stored,) = [e.result for e in await desk.events() if e.kind is EventKind.TOOL_RESULT]
    assert result.content == expected
    assert type(result.content) is type(expected)
    assert stored == result


BAD_STATE: dict[str, Callable[[Any], Any]] = {
    "object": lambda state: state.update(x=Opaque()),
    "in place": lambda state: state["list"].append(Opaque()),
    "deep in place": lambda state: state["map"].update(x={"y": {1: 2}}),
    "nan": lambda state: state.update(x=float("inf")),
    "key": lambda state: state.update({"": 1}),
    "circle": lambda state: state.update(x=circle()),
}


@pytest.mark.parametrize("where", ["tool", "agent"])
@pytest.mark.parametrize("bad", sorted(BAD_STATE))
async def test_state_that_cannot_be_stored_is_an_error_and_the_session_goes_on(
    world: World, bad: str, where: str
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

    desk = world.desk(Writes(name="writes"))
    await desk.say("set up")
    if where == "agent":
        with pytest.raises(StateNotStorable):
            await desk.say("break it")
    else:
        model = ScriptedModel(call("writes"), "I see")
        try:
            await world.desk(clerk(model, writes)).say("break it")
        except StateNotStorable:
            assert "in place" in bad
        else:
            assert told(model)[0].is_error
    check_record(await desk.events())
    assert await desk.state() == {"list": [1], "map": {}}
    assert (await desk.say("set up")).text == "done"


async def test_an_agent_that_says_what_is_no_text_fails_and_the_record_stays_readable(
    world: World,
) -> None:
    class Counts(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say(7)  # type: ignore[arg-type] # that is what is tested
            return "never"

    desk = world.desk(Counts(name="counts"))
    with pytest.raises(InvalidInput, match="'counts' returned int"):
        await desk.say("go")
    check_record(await desk.events())
    assert (await world.desk(clerk(ScriptedModel("hello"))).say("hi")).text == "hello"


async def test_a_name_that_is_none_for_an_artifact_is_refused(world: World) -> None:
    class Saves(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save(ctx.message, "content")
            return "saved"

    for name in (" ", "a\nb", "x" * 257):
        with pytest.raises(InvalidInput):
            await world.desk(Saves(name="saves")).say(f"{name}" if name.strip() else "\u2003x\x00")
    desk = world.desk(Saves(name="saves"))
    await desk.say("user:notes.txt")
    assert await desk.runner.services.artifacts.names(desk.runner._key("ann", "s2")) == (
        "user:notes.txt",
    )


async def test_a_hundred_calls_in_one_answer_all_run(world: World) -> None:
    ran: list[int] = []

    def note(n: int) -> int:
        ran.append(n)
        return n

    model = ScriptedModel([call("note", n=n) for n in range(100)], "done")
    desk = world.desk(clerk(model, note))
    await desk.say("go")
    assert sorted(ran) == list(range(100))
    assert [result.content for result in told(model)] == list(range(100))
    check_record(await desk.events())
