"""Tests of permissions, limits and timeouts of new and resumed runs."""

import asyncio
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from acc import (
    AccError,
    Agent,
    BaseAgent,
    BudgetExceeded,
    CallContext,
    Grant,
    InvalidInput,
    InvalidTree,
    LoopAgent,
    Part,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    RunTimedOut,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call

WHO: dict[str, Any] = {"user_id": "u", "session_id": "s"}


@tool(confirm=True)
def pay(amount: int, ctx: ToolContext) -> dict[str, Any]:
    """Pay."""
    return {"n": ctx.state.get("n"), "amount": amount}


@tool(requires="admin")
def wipe() -> str:
    """Wipe everything."""
    return "wiped"


def limited(*permissions: str) -> CallContext:
    return CallContext(
        request_id="r1", trace_id="t1", caller="svc://x", permissions=frozenset(permissions)
    )


@pytest.mark.parametrize("given", [None, limited("read", "admin")])
async def test_resume_cannot_add_permissions(
    given: CallContext | None,
) -> None:
    model = ScriptedModel(call("pay", amount=1), call("wipe"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay, wipe]))
    paused = await runner.run(**WHO, message="go", context=limited("read"))
    answers = [approve(paused.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=given)
    recorded = [e.result for e in result.events if e.result is not None][-1]
    assert recorded.is_error
    assert "admin" in recorded.content["error"]
    expected = {"t1"} if given is None else {given.trace_id}
    assert {event.trace_id for event in result.events} == expected
    assert {event.caller for event in result.events} == {"svc://x"}


async def test_resume_can_reduce_permissions() -> None:
    model = ScriptedModel(call("pay", amount=1), call("wipe"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay, wipe]))
    paused = await runner.run(**WHO, message="go")
    answers = [approve(paused.requests[0].id)]
    result = await runner.resume(**WHO, answers=answers, context=limited("read"))
    assert [e.result for e in result.events if e.result is not None][-1].is_error


async def test_limits_apply_after_resume_unless_replaced() -> None:
    model = ScriptedModel(call("pay", amount=1), call("pay", amount=2), "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay]))
    paused = await runner.run(**WHO, message="go", config=RunConfig(max_llm_calls=1))
    with pytest.raises(BudgetExceeded, match="max_llm_calls"):
        await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    again = await runner.run(**WHO, message="go", config=RunConfig(max_llm_calls=1))
    config = RunConfig(max_llm_calls=9)
    done = await runner.resume(**WHO, answers=[approve(again.requests[0].id)], config=config)
    assert done.text == "done"


async def test_writes_of_concurrent_tools_are_replayed_in_recorded_order() -> None:
    fast_is_done = asyncio.Event()

    @tool
    async def bump(tag: str, ctx: ToolContext) -> str:
        """Count."""
        if tag == "slow":
            await fast_is_done.wait()
        ctx.state["n"] = ctx.state.get("n", 0) + 1
        ctx.state["last"] = tag
        fast_is_done.set()
        return tag

    calls = [call("bump", tag="slow"), call("bump", tag="fast"), call("pay", amount=1)]
    model = ScriptedModel(calls, call("bump", tag="after"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[bump, pay]))
    paused = await runner.run(**WHO, message="go")
    assert paused.state == {"n": 2, "last": "slow"}
    result = await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert result.state == {"n": 3, "last": "after"}
    assert [
        e.result.content["n"] for e in result.events if e.result and e.result.name == "pay"
    ] == [2]


async def test_external_writes_during_pause_are_visible_after_resume() -> None:
    @tool
    def count(ctx: ToolContext) -> int:
        """Count."""
        ctx.state["user:n"] = ctx.state.get("user:n", 0) + 1
        ctx.state["x"] = 1
        ctx.state["y"] = 1
        return int(ctx.state["user:n"])

    model = ScriptedModel(call("count"), call("pay", amount=1), call("count"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[count, pay]))
    paused = await runner.run(**WHO, message="go")
    await runner.update_state({"user:n": 100}, user_id="u", session_id="other")
    await runner.update_state({"x": 99}, **WHO)
    result = await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert result.state == {"user:n": 101, "x": 1, "y": 1}
    assert await runner.state(**WHO) == result.state


@pytest.mark.parametrize("named", ["read", "write", "artifacts", "permissions"])
def test_grant_rejects_text_instead_of_list(named: str) -> None:
    given: dict[str, Any] = {named: "document_*"}
    with pytest.raises(InvalidInput, match=f"{named} must be a list of names"):
        Grant(**given)
    with pytest.raises(InvalidInput, match="must contain only str"):
        Grant(**{named: [3]})  # type: ignore[arg-type]


def test_permissions_reject_text_instead_of_list() -> None:
    with pytest.raises(InvalidInput, match="permissions must be a list of names"):
        CallContext(request_id="r", trace_id="t", caller="c", permissions="write:summary")
    current = CallContext(request_id="r", trace_id="t", caller="c", permissions=["read"])
    assert (current.allows("read"), current.allows("rea")) == (True, False)


@pytest.mark.parametrize("value", [0, "5", float("nan"), True])
def test_invalid_limit_is_rejected(value: Any) -> None:
    with pytest.raises(AccError, match="max_llm_calls must be"):
        RunConfig(max_llm_calls=value)


async def test_tool_that_suppresses_cancellation_times_out() -> None:
    @tool
    async def stubborn() -> str:
        """Go on."""
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(9)
        return "done anyway"

    runner = Runner(Agent(name="a", model=ScriptedModel(call("stubborn"), "so"), tools=[stubborn]))
    result = await runner.run(**WHO, message="go", config=RunConfig(tool_timeout=0.01))
    assert [e.result.is_error for e in result.events if e.result] == [True]
    runner = Runner(Agent(name="a", model=ScriptedModel(call("stubborn"), "so"), tools=[stubborn]))
    with pytest.raises(RunTimedOut):
        await runner.run(**WHO, message="go", config=RunConfig(timeout=0.01))


async def test_calls_above_the_limit_fail_before_any_is_executed() -> None:
    begun: list[str] = []

    @tool
    async def work() -> str:
        """Work."""
        begun.append("work")
        return "done"

    model = ScriptedModel([call("work"), call("work"), call("work")])
    runner = Runner(Agent(name="a", model=model, tools=[work]))
    with pytest.raises(BudgetExceeded, match="max_tool_calls"):
        await runner.run(**WHO, message="go", config=RunConfig(max_tool_calls=2))
    assert begun == []


def test_output_with_japanese_fields_matches_schema() -> None:
    code = """
import asyncio
from dataclasses import dataclass
from acc import Agent, Runner
from acc.testing import ScriptedModel

@dataclass
class Address:
    郵便番号: str

model = ScriptedModel('{"郵便番号": "100"}')
agent = Agent(name="a", model=model, output_schema=Address, output_key="address")
result = asyncio.run(Runner(agent).run(user_id="u", session_id="s", message="hi"))
assert result.state["address"] == {"郵便番号": "100"}, result
"""
    # A separate process, because an earlier use of the type would hide the error.
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603 - our own code


async def test_debug_mode_calls_only_the_model_of_the_root() -> None:
    never = ScriptedModel()
    leaf = Agent(name="leaf", model=never, description="the last")
    middle = Agent(name="middle", model=never, description="the middle", sub_agents=[leaf])
    model = ScriptedModel(call("transfer_to_agent", agent_name="middle"))
    root = Agent(name="root", model=model, sub_agents=[middle])
    result = await Runner(root).run(**WHO, message="hi", config=RunConfig(debug=True))
    assert result.text == "[debug] middle would answer: hi"


async def test_root_is_active_after_transfer_to_workflow() -> None:
    script = ScriptedModel
    steps = Agent(name="step", model=script("stepped"))
    flow = SequentialAgent(name="flow", description="steps", sub_agents=[steps])
    to_flow = script("I am a", call("transfer_to_agent", agent_name="flow"))
    a = Agent(name="a", model=to_flow, description="a")
    model = script(call("transfer_to_agent", agent_name="a"), "I am root")
    runner = Runner(Agent(name="root", model=model, sub_agents=[a, flow]))
    message_text = [(await runner.run(**WHO, message="hi")).text for _ in range(3)]
    assert message_text == ["I am a", "stepped", "I am root"]


def test_agents_of_rejected_tree_can_be_used_again() -> None:
    child = Agent(name="c")
    with pytest.raises(InvalidTree, match="max_iterations"):
        LoopAgent(name="l", sub_agents=[child])
    assert LoopAgent(name="l", sub_agents=[child], max_iterations=1).sub_agents == (child,)


@pytest.mark.parametrize("given", [Agent(name="c"), None, 3])
def test_sub_agents_must_be_a_list(given: Any) -> None:
    with pytest.raises(InvalidTree, match="sub_agents must be a list of agents"):
        SequentialAgent(name="s", sub_agents=given)


@pytest.mark.parametrize("choice", [{"model": "nope-1"}, {"memory": "elephant"}])
def test_unknown_model_or_memory_is_rejected(choice: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="agent 'a': (?:no model|unknown memory)"):
        Runner(Agent(name="a", **choice))  # type: ignore[arg-type]


async def test_new_message_while_paused_fails_with_resume_hint() -> None:
    model = ScriptedModel(call("pay", amount=1), "done")
    runner = Runner(Agent(name="a", model=model, tools=[pay]))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(AccError, match="resume\\(\\) without answers"):
        await runner.run(**WHO, message="again")
    done = await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert done.status is RunStatus.COMPLETED


async def test_external_write_to_removed_key_is_preserved() -> None:
    @tool
    def forget(ctx: ToolContext) -> str:
        """Forget."""
        del ctx.state["x"]
        return "forgotten"

    model = ScriptedModel(call("forget"), call("pay", amount=1), "done")
    runner = Runner(Agent(name="a", model=model, tools=[forget, pay]))
    await runner.update_state({"x": 1}, **WHO)
    paused = await runner.run(**WHO, message="go")
    await runner.update_state({"x": 2}, **WHO)
    result = await runner.resume(**WHO, answers=[approve(paused.requests[0].id)])
    assert result.state == {"x": 2}


async def test_tool_saves_parts_as_artifacts_and_reads_caller() -> None:
    @tool
    def keep(ctx: ToolContext) -> str:
        """Save a report."""
        ctx.save_artifact(filename="report.md", artifact=Part.from_text("# Report"))
        ctx.save_artifact("dot.png", Part(raw=b"png", media_type="image/png"))
        return ctx.caller

    @tool
    def keep_data(ctx: ToolContext) -> None:
        """Save a part that is not a file."""
        ctx.save_artifact("data", Part(data={}))

    model = ScriptedModel(call("keep"), call("keep_data"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[keep, keep_data]))
    result = await runner.run(**WHO, message="go")
    stored_items, refused = (e.result for e in result.events if e.result is not None)
    assert stored_items.content == "user://u"
    assert "neither text nor raw bytes" in refused.content["error"]
    picture = await runner.load_artifact("dot.png", **WHO)
    assert picture is not None
    assert (picture.data, picture.media_type) == (b"png", "image/png")
    report = await runner.load_artifact("report.md", **WHO)
    assert report is not None
    assert report.text == "# Report"


class RunsConcurrently(BaseAgent):
    """Runs its sub-agents concurrently in its own task group."""

    async def run(self, ctx: RunContext) -> str:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.run_agent(agent)) for agent in self.sub_agents]
        return " ".join(task.result().text for task in tasks)


async def test_agent_can_pause_inside_its_own_task_group() -> None:
    payers = [
        Agent(name=name, model=ScriptedModel(call("pay", amount=1), name), tools=[pay])
        for name in ("a", "b")
    ]
    inner = RunsConcurrently(name="inner", sub_agents=payers)
    runner = Runner(
        SequentialAgent(name="s", sub_agents=[RunsConcurrently(name="both", sub_agents=[inner])])
    )
    result = await runner.run(**WHO, message="go")
    assert result.status is RunStatus.INPUT_REQUIRED
    while result.status is RunStatus.INPUT_REQUIRED:
        waiting = await runner.pending(**WHO)
        result = await runner.resume(**WHO, answers=[approve(one.id) for one in waiting])
    assert result.text == "a b"


async def test_exception_in_task_group_fails_the_agent() -> None:
    class Fails(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise KeyError("broken")

    tree = RunsConcurrently(name="both", sub_agents=[Fails(name="f")])
    with pytest.raises(AccError, match="'both' failed: ExceptionGroup"):
        await Runner(tree).run(**WHO, message="go")


async def test_timeout_applies_to_loop_that_never_waits() -> None:
    class Endless(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return "again"

    loop = LoopAgent(name="l", sub_agents=[Endless(name="a")], max_iterations=1_000_000)
    iterations = 0

    async def count() -> None:
        nonlocal iterations
        while True:
            await asyncio.sleep(0)
            iterations += 1

    async with asyncio.TaskGroup() as group:
        beside = group.create_task(count())
        with pytest.raises(RunTimedOut):
            await Runner(loop).run(**WHO, message="go", config=RunConfig(timeout=0.2))
        beside.cancel()
    assert iterations > 1


async def test_run_with_blocking_step_times_out() -> None:
    class Blocks(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            time.sleep(0.05)  # noqa: ASYNC251 - agents of users may block
            return "late"

    with pytest.raises(RunTimedOut):
        await Runner(Blocks(name="a")).run(**WHO, message="go", config=RunConfig(timeout=0.01))
