"""Carrying out tool calls: at the same time, in threads, bounded, allowed, on record."""

import asyncio
import math
import threading
import time
from dataclasses import dataclass
from typing import Any

import pytest
from small_agents import WHO, Writes, of_kind, results, turn

from acc import (
    Agent,
    CallContext,
    EventKind,
    RunConfig,
    Runner,
    RunResult,
    SequentialAgent,
    ToolCall,
    ToolContext,
    approve,
    tool,
)
from acc.domain.errors import AgentFailed, ModelOutputInvalid, StateNotGranted, StateNotStorable
from acc.testing import ScriptedModel, call


async def use(*tools: Any, calls: Any, **fields: Any) -> RunResult:
    """Return a turn in which a model makes these calls and then is done."""
    model = ScriptedModel(calls, "done")
    return await turn(Agent(name="a", model=model, tools=tools, memory=None), **fields)


async def test_results_come_back_in_the_order_of_the_calls() -> None:
    @tool
    async def wait(seconds: float) -> float:
        """Wait."""
        await asyncio.sleep(seconds)
        return seconds

    model = ScriptedModel([call("wait", seconds=0.02), call("wait", seconds=0.0)], "done")
    result = await turn(Agent(name="a", model=model, tools=[wait], memory=None))
    told = [m.parts[0].result for m in model.asked[1].messages if m.role == "tool"]
    assert [(r.call_id, r.content) for r in told if r] == [("call-1", 0.02), ("call-2", 0.0)]
    assert model.asked[1].messages[0].role == "agent"
    assert results(result) == [0.0, 0.02]
    assert result.usage.tool_calls == 2


async def test_calls_of_one_answer_run_at_the_same_time() -> None:
    barrier = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Meet."""
        await barrier.wait()
        return "met"

    result = await asyncio.wait_for(use(meet, calls=[call("meet"), call("meet")]), 5)
    assert results(result) == ["met", "met"]


async def test_a_function_that_blocks_does_not_block_the_others() -> None:
    barrier = threading.Barrier(2, timeout=5)

    @tool
    def meet() -> int:
        """Meet in threads."""
        barrier.wait()
        return threading.get_ident()

    found = results(await use(meet, calls=[call("meet"), call("meet")]))
    assert threading.get_ident() not in found
    assert len(set(found)) == 2


async def test_a_plain_function_may_return_something_to_wait_for() -> None:
    async def answer() -> str:
        return "waited"

    @tool
    def start() -> Any:
        """Start."""
        return answer()

    assert results(await use(start, calls=call("start"))) == ["waited"]


async def test_a_tool_that_stands_alone_never_runs_beside_another() -> None:
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
    ("value", "told"),
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
async def test_what_a_tool_returns_is_told_as_plain_data(value: Any, told: Any) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    assert results(await use(give, calls=call("give"))) == [told]


@pytest.mark.parametrize("value", [object(), math.nan, {1: object()}, [[math.inf]]])
async def test_what_cannot_be_kept_is_told_as_an_error(value: Any) -> None:
    @tool
    def give() -> Any:
        """Give."""
        return value

    result = await use(give, calls=call("give"))
    assert "give returned something that cannot be kept" in results(result)[0]["error"]
    assert result.text == "done"


async def test_what_goes_wrong_in_a_tool_is_told_to_the_model() -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise KeyError("paper")

    result = await use(fail, calls=call("fail"))
    found = of_kind(result, EventKind.TOOL_RESULT)[0].result
    assert found is not None
    assert (found.content, found.is_error) == ({"error": "fail failed: KeyError: 'paper'"}, True)


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
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
    assert sorted(results(result), key=str) == [
        {"error": "slow did not finish within 0.02 seconds"},
        {"error": "slow_thread did not finish within 0.03 seconds"},
    ]
    assert await asyncio.to_thread(ended.wait, 10)
    assert (len(written), result.state) == (1, {})
    assert "the call that it was granted to has ended" in written[0]


async def test_without_a_limit_a_tool_may_take_its_time() -> None:
    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0.01)
        raise TimeoutError("its own")

    result = await use(work, calls=call("work"), config=RunConfig(tool_timeout=None))
    assert results(result) == [{"error": "work failed: TimeoutError: its own"}]


async def test_a_tool_that_could_do_without_the_context_is_given_it() -> None:
    @tool
    def note(x: int, ctx: ToolContext | None = None) -> str:
        """Note."""
        return "no context" if ctx is None else ctx.agent_name

    agent = Agent(name="a", model=ScriptedModel(call("note", x=1), "done"), tools=[note])
    assert results(await turn(agent)) == ["a"]
    assert note(1) == "no context"


async def test_an_unknown_tool_and_wrong_arguments_are_told_and_chosen_again() -> None:
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
    assert found[0] == {"error": "there is no tool 'sub'; the tools are: add"}
    assert found[1]["error"].startswith("wrong arguments for add: Expected `int`, got `str`")
    assert found[2] == {"error": "the arguments of add could not be read: no JSON"}
    assert (found[3], result.text) == (2, "done")
    assert result.usage.tool_calls == 1
    marked = [e.detail.get("at_fault", False) for e in of_kind(result, EventKind.TOOL_RESULT)]
    assert marked == [True, True, True, False, True]


async def test_a_model_that_keeps_calling_what_is_not_there_is_given_up() -> None:
    model = ScriptedModel(call("magic"), repeat=True)
    with pytest.raises(ModelOutputInvalid, match="3 times: there is no tool 'magic'; the tools ar"):
        await turn(Agent(name="a", model=model), config=RunConfig(max_repairs=2))


async def test_one_good_call_among_bad_ones_counts_as_progress() -> None:
    @tool
    def ok() -> str:
        """Work."""
        return "ok"

    calls = [call("magic"), call("ok")]
    model = ScriptedModel(calls, calls, calls, "done")
    agent = Agent(name="a", model=model, tools=[ok], memory=None)
    assert (await turn(agent, config=RunConfig(max_repairs=0))).text == "done"


@pytest.mark.parametrize(
    ("permissions", "told"),
    [
        (None, "paid"),
        (frozenset({"pay", "read"}), "paid"),
        (frozenset({"read"}), {"error": "pay needs the permission 'pay', which this call lacks"}),
    ],
)
async def test_a_tool_needs_the_permission_it_requires(
    permissions: frozenset[str] | None, told: Any
) -> None:
    @tool(requires="pay")
    def pay(ctx: ToolContext) -> str:
        """Pay."""
        assert ctx.permissions == permissions
        return "paid"

    context = CallContext(request_id="r", trace_id="t", caller="c", permissions=permissions)
    assert results(await use(pay, calls=call("pay"), context=context)) == [told]


async def test_a_tool_knows_who_calls_it_and_for_whom() -> None:
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


async def test_a_tool_reads_and_writes_the_state_and_shows_its_progress() -> None:
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
    changed = of_kind(result, EventKind.TOOL_RESULT)[0]
    assert changed.actions.state_delta == {"left": 7}
    assert of_kind(result, EventKind.PROGRESS)[0].detail == {"n": 3}


async def test_a_state_that_a_tool_spoiled_fails_the_run_with_the_place() -> None:
    @tool
    def spoil(ctx: ToolContext) -> None:
        """Spoil."""
        ctx.state.setdefault("list", []).append(object())

    with pytest.raises(StateNotStorable, match=r"state list\[0\]"):
        await use(spoil, calls=call("spoil"))


async def test_files_that_a_tool_saves_have_versions() -> None:
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
    assert [event.detail for event in of_kind(result, EventKind.ARTIFACT)] == [
        {"name": "notes.md", "version": 1, "media_type": "text/markdown", "size": 3},
        {"name": "notes.md", "version": 2, "media_type": "text/markdown", "size": 3},
        {"name": "raw.bin", "version": 1, "media_type": "x/y", "size": 2},
    ]


@pytest.mark.parametrize("name", ["", " ", "a\nb", "x" * 257])
async def test_a_file_needs_a_name_that_can_be_printed(name: str) -> None:
    @tool
    def save(ctx: ToolContext) -> None:
        """Save."""
        ctx.save_artifact(name, "x")

    found = results(await use(save, calls=call("save")))
    assert "invalid artifact name" in found[0]["error"]


async def test_a_long_running_tool_pauses_until_its_outcome_is_handed_in() -> None:
    @tool(long_running=True)
    def build(project: str) -> dict[str, str]:
        """Build."""
        return {"ticket": f"build of {project}"}

    model = ScriptedModel(call("build", project="x"), "built")
    runner = Runner(Agent(name="a", model=model, tools=[build], memory=None))
    paused = await runner.run(**WHO, message="go")
    request = paused.requests[0]
    assert request.arguments == {"ticket": {"ticket": "build of x"}}
    result = await runner.resume(**WHO, answers=[approve(request.id, value={"ok": True})])
    assert (result.text, results(result)) == ("built", [{"ok": True}])


async def test_a_failing_tool_callback_is_told_as_its_agents_fault() -> None:
    @tool
    def ok() -> str:
        """Work."""
        return "ok"

    model = ScriptedModel([call("ok"), call("ok")], "done")
    agent = Agent(name="a", model=model, tools=[ok], before_tool_callback=lambda t, a, c: 1 // 0)
    with pytest.raises(AgentFailed, match="agent 'a' failed: ZeroDivisionError"):
        await turn(agent)


async def test_an_argument_may_be_called_as_our_own_code_calls_its_arguments() -> None:
    @tool
    def plot(function: str, self: int, name: str) -> str:
        """Plot."""
        return f"{function}{self}{name}"

    made = call("plot", function="sin", self=1, name="n")
    assert results(await use(plot, calls=made)) == ["sin1n"]
    assert plot(function="cos", self=2, name="m") == "cos2m"
