"""Execution of tool calls: concurrency, threads, limits and permissions."""

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest
from agent_support import Writes, events_of_kind, results, turn

from acc import (
    Agent,
    CallContext,
    EventKind,
    RunConfig,
    RunResult,
    SequentialAgent,
    ToolCall,
    ToolContext,
    tool,
)
from acc.domain.errors import AgentFailed, ModelOutputInvalid, StateNotGranted, StateNotStorable
from acc.testing import ScriptedModel, call


async def use(*tools: Any, calls: Any, **fields: Any) -> RunResult:
    """Run a turn in which the model makes these calls and then answers."""
    model = ScriptedModel(calls, "done")
    return await turn(Agent(name="a", model=model, tools=tools, memory=None), **fields)


async def test_results_have_the_order_of_calls() -> None:
    @tool
    async def wait(seconds: float) -> float:
        """Wait."""
        await asyncio.sleep(seconds)
        return seconds

    model = ScriptedModel([call("wait", seconds=0.02), call("wait", seconds=0.0)], "done")
    result = await turn(Agent(name="a", model=model, tools=[wait], memory=None))
    actual = [m.parts[0].result for m in model.requests[1].messages if m.role == "tool"]
    assert [(r.call_id, r.content) for r in actual if r] == [("call-1", 0.02), ("call-2", 0.0)]
    assert model.requests[1].following[0].role == "assistant"
    assert results(result) == [0.0, 0.02]
    assert result.usage.tool_calls == 2


async def test_calls_run_concurrently() -> None:
    barrier = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Meet."""
        await barrier.wait()
        return "met"

    result = await asyncio.wait_for(use(meet, calls=[call("meet"), call("meet")]), 5)
    assert results(result) == ["met", "met"]


async def test_blocking_functions_run_in_threads() -> None:
    barrier = threading.Barrier(2, timeout=5)

    @tool
    def meet() -> int:
        """Meet in threads."""
        barrier.wait()
        return threading.get_ident()

    found = results(await use(meet, calls=[call("meet"), call("meet")]))
    assert threading.get_ident() not in found
    assert len(set(found)) == 2


async def test_function_may_return_awaitable() -> None:
    async def answer() -> str:
        return "waited"

    @tool
    def start() -> Any:
        """Start."""
        return answer()

    assert results(await use(start, calls=call("start"))) == ["waited"]


async def test_tool_without_parallel_runs_alone() -> None:
    running: list[str] = []

    @tool(parallel=False)
    async def alone(n: int) -> list[str]:
        """Work alone."""
        running.append(f"alone {n}")
        seen = list(running)
        await asyncio.sleep(0)
        running.remove(f"alone {n}")
        return seen

    @tool
    async def beside() -> str:
        """Work beside others."""
        running.append("beside")
        await asyncio.sleep(0.01)
        running.remove("beside")
        return "beside"

    calls = [call("alone", n=1), call("beside"), call("alone", n=2)]
    assert results(await use(alone, beside, calls=calls)) == ["beside", ["alone 1"], ["alone 2"]]


@dataclass
class Receipt:
    total: float


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("text", "text"),
        (None, None),
        (True, True),
        (1.5, 1.5),
        ([1, {"a": (2,)}], [1, {"a": [2]}]),
        (Receipt(9.5), {"total": 9.5}),
        (b"raw", "cmF3"),
    ],
)
async def test_result_is_converted_to_json_data(value: Any, expected: Any) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    assert results(await use(give, calls=call("give"))) == [expected]


async def test_tool_timeout_returns_error_and_closes_state() -> None:
    written: list[str] = []
    ended = threading.Event()

    @tool(timeout=0.02)
    async def slow() -> None:
        """Sleep."""
        await asyncio.sleep(60)

    @tool
    def slow_thread(ctx: ToolContext) -> None:
        """Sleep in a thread, and write when it is too late."""
        time.sleep(0.1)
        try:
            ctx.state["late"] = 1
        except StateNotGranted as error:
            written.append(str(error))
        finally:
            ended.set()

    config = RunConfig(tool_timeout=0.03)
    calls = [call("slow"), call("slow_thread")]
    result = await use(slow, slow_thread, calls=calls, config=config)
    slow_error, thread_error = sorted(str(content["error"]) for content in results(result))
    assert slow_error.startswith("tool slow did not finish within its limit of 0.02 seconds")
    assert thread_error.startswith("tool slow_thread did not finish within its limit of 0.03")
    assert await asyncio.to_thread(ended.wait, 10)
    assert (len(written), result.state) == (1, {})
    assert "the call that it was granted to has ended" in written[0]


async def test_timeout_error_of_tool_is_reported_without_limit() -> None:
    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0.01)
        raise TimeoutError("its own")

    result = await use(work, calls=call("work"), config=RunConfig(tool_timeout=None))
    assert results(result) == [{"error": "work failed: TimeoutError: its own"}]


async def test_optional_context_is_passed() -> None:
    @tool
    def note(x: int, ctx: ToolContext | None = None) -> str:
        """Note."""
        return "no context" if ctx is None else ctx.agent_name

    agent = Agent(name="a", model=ScriptedModel(call("note", x=1), "done"), tools=[note])
    assert results(await turn(agent)) == ["a"]
    assert note(1) == "no context"


async def test_invalid_calls_return_error_results() -> None:
    @tool
    def add(x: int) -> int:
        """Add."""
        return x + 1

    unread = ToolCall(id="9", name="add", fault="no JSON")
    model = ScriptedModel(
        call("sub", x=1), call("add", x="one"), unread, call("add", x=1), call("", x=1), "done"
    )
    agent = Agent(name="a", model=model, tools=[add], memory=None)
    result = await turn(agent)
    found = results(result)
    assert found[0] == {"error": "tool 'sub' does not exist; available tools: add"}
    assert found[1]["error"].startswith("invalid arguments for add: Expected `int`, got `str`")
    assert found[2] == {"error": "the arguments of add could not be decoded: no JSON"}
    assert (found[3], result.text) == (2, "done")
    assert result.usage.tool_calls == 1
    marked = [
        e.detail.get("invalid_call", False) for e in events_of_kind(result, EventKind.TOOL_RESULT)
    ]
    assert marked == [True, True, True, False, True]


async def test_repeated_invalid_calls_fail_the_run() -> None:
    model = ScriptedModel(call("magic"), repeat=True)
    with pytest.raises(ModelOutputInvalid, match="3 times: tool 'magic' does not exist"):
        await turn(Agent(name="a", model=model), config=RunConfig(max_repairs=2))


async def test_valid_call_resets_repair_count() -> None:
    @tool
    def ok() -> str:
        """Work."""
        return "ok"

    calls = [call("magic"), call("ok")]
    model = ScriptedModel(calls, calls, calls, "done")
    agent = Agent(name="a", model=model, tools=[ok], memory=None)
    assert (await turn(agent, config=RunConfig(max_repairs=0))).text == "done"


@pytest.mark.parametrize(
    ("permissions", "expected"),
    [
        (None, "paid"),
        (frozenset({"pay", "read"}), "paid"),
        (frozenset({"read"}), {"error": "pay requires the permission 'pay'; the call lacks it"}),
    ],
)
async def test_required_permission_is_checked(
    permissions: frozenset[str] | None, expected: Any
) -> None:
    @tool(requires="pay")
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        assert ctx.permissions == permissions
        return "paid"

    context = CallContext(request_id="r", trace_id="t", caller="c", permissions=permissions)
    assert results(await use(pay, calls=call("pay"), context=context)) == [expected]


async def test_tool_context_has_identifiers() -> None:
    @tool
    def who(tool_context: ToolContext) -> list[str]:
        """Tell."""
        ctx = tool_context
        return [
            ctx.agent_name,
            ctx.user_id,
            ctx.session_id,
            ctx.request_id,
            ctx.trace_id,
            ctx.call_id,
        ]

    context = CallContext(request_id="req-1", trace_id="trace-1", caller="c")
    result = await use(who, calls=call("who"), context=context)
    assert results(result) == [["a", "ann", "s1", "req-1", "trace-1", "call-1"]]

    @tool
    def run(ctx: ToolContext) -> str:
        """Tell."""
        return ctx.run_id

    result = await use(run, calls=call("run"))
    assert results(result) == [result.run_id]


async def test_tool_uses_state_and_reports_progress() -> None:
    @tool
    async def take(n: int, context) -> int:  # type: ignore[no-untyped-def] # a context by name
        """Take."""
        context.state["left"] -= n
        await context.progress("taken", detail={"n": n})
        return int(context.state["left"])

    model = ScriptedModel(call("take", n=3), "done")
    agent = Agent(name="a", model=model, tools=[take], memory=None)
    steps = [Writes(name="w", values={"left": 10}), agent]
    result = await turn(SequentialAgent(name="s", sub_agents=steps))
    assert result.state == {"left": 7}
    changed = events_of_kind(result, EventKind.TOOL_RESULT)[0]
    assert changed.actions.state_delta == {"left": 7}
    assert events_of_kind(result, EventKind.PROGRESS)[0].detail == {"n": 3}


async def test_unstorable_state_of_tool_fails_the_run() -> None:
    @tool
    def spoil(ctx: ToolContext) -> None:
        """Spoil."""
        ctx.state.setdefault("list", []).append(object())

    with pytest.raises(StateNotStorable, match=r"state list\[0\]"):
        await use(spoil, calls=call("spoil"))


async def test_saved_artifacts_have_versions() -> None:
    @tool
    def save(text: str, ctx: ToolContext) -> str:
        """Save."""
        ctx.save_artifact("notes.md", text, media_type="text/markdown")
        return "saved"

    @tool
    async def load(ctx: ToolContext) -> list[Any]:
        """Load."""
        first = await ctx.artifacts.load("notes.md", 1)
        newest = await ctx.artifacts.load("notes.md")
        assert first is not None
        assert newest is not None
        version = await ctx.artifacts.save("raw.bin", b"\x00\x01", media_type="x/y")
        absent = await ctx.artifacts.load("nothing")
        return [first.text, newest.text, version, absent, list(await ctx.artifacts.names())]

    model = ScriptedModel(call("save", text="one"), call("save", text="two"), call("load"), "done")
    result = await turn(Agent(name="a", model=model, tools=[save, load], memory=None))
    assert results(result)[-1] == ["one", "two", 1, None, ["notes.md", "raw.bin"]]
    assert [event.detail for event in events_of_kind(result, EventKind.ARTIFACT)] == [
        {"name": "notes.md", "version": 1, "media_type": "text/markdown", "size": 3},
        {"name": "notes.md", "version": 2, "media_type": "text/markdown", "size": 3},
        {"name": "raw.bin", "version": 1, "media_type": "x/y", "size": 2},
    ]


async def test_failing_tool_callback_fails_the_agent() -> None:
    @tool
    def ok() -> str:
        """Work."""
        return "ok"

    model = ScriptedModel([call("ok"), call("ok")], "done")
    agent = Agent(name="a", model=model, tools=[ok], before_tool_callback=lambda t, a, c: 1 // 0)
    with pytest.raises(AgentFailed, match="agent 'a' failed: ZeroDivisionError"):
        await turn(agent)


async def test_arguments_may_have_any_name() -> None:
    @tool
    def plot(function: str, self: int, name: str) -> str:
        """Plot."""
        return f"{function}{self}{name}"

    made = call("plot", function="sin", self=1, name="n")
    assert results(await use(plot, calls=made)) == ["sin1n"]
    assert plot(function="cos", self=2, name="m") == "cos2m"
