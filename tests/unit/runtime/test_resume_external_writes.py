"""Tests of external state writes while a run is paused."""

from typing import Any

import pytest
from agent_support import WHO, Does, approve_all

from acc import BaseAgent, ParallelAgent, RunContext, Runner, SequentialAgent


def in_branch(agent: BaseAgent) -> BaseAgent:
    return ParallelAgent(name="p", sub_agents=[agent])


def in_nested_branch(agent: BaseAgent) -> BaseAgent:
    inner = SequentialAgent(name="inner", sub_agents=[in_branch(agent)])
    return ParallelAgent(name="outer", sub_agents=[inner])


async def write_and_ask(ctx: RunContext) -> str:
    """Write a key and ask twice; answer with the values read."""
    ctx.state["k"] = "ours"
    await ctx.say("written")
    found = []
    for question in ("Go on?", "Still?"):
        await ctx.request_input(question)
        found.append(ctx.state.get("k", "nothing"))
    return " ".join(found)


async def ask_and_write(ctx: RunContext) -> str:
    """Write a key before and after a question, and ask once more."""
    ctx.state["k"] = "ours"
    await ctx.request_input("Go on?")
    seen = ctx.state["k"]
    ctx.state["k"] = "ours again"
    await ctx.request_input("Still?")
    return f"{seen}, {ctx.state['k']}"


ANYWHERE = pytest.mark.parametrize("placed", [lambda agent: agent, in_branch, in_nested_branch])


@ANYWHERE
@pytest.mark.parametrize("key", ["k", "user:k"])
async def test_external_write_during_pause_is_preserved(placed: Any, key: str) -> None:
    async def write(ctx: RunContext) -> str:
        ctx.state[key] = "ours"
        await ctx.say("written")
        await ctx.request_input("Go on?")
        return str(ctx.state[key])

    runner = Runner(placed(Does(name="a", do=write)))
    paused = await runner.run(**WHO, message="go")
    elsewhere = "other" if key.startswith("user:") else WHO["session_id"]
    await runner.update_state({key: "theirs"}, user_id=WHO["user_id"], session_id=elsewhere)
    result = await approve_all(runner, paused)
    assert (result.text.rpartition(" ")[2], result.state) == ("theirs", {key: "theirs"})
    assert await runner.state(**WHO) == result.state


@ANYWHERE
async def test_external_write_is_preserved_after_second_pause(placed: Any) -> None:
    runner = Runner(placed(Does(name="a", do=write_and_ask)))
    paused = await runner.run(**WHO, message="go")
    await runner.update_state({"k": "theirs"}, **WHO)
    result = await approve_all(runner, await approve_all(runner, paused))
    assert (result.text.endswith("theirs theirs"), result.state) == (True, {"k": "theirs"})


@ANYWHERE
async def test_later_write_of_run_overrides_external_write(placed: Any) -> None:
    runner = Runner(placed(Does(name="a", do=ask_and_write)))
    paused = await runner.run(**WHO, message="go")
    await runner.update_state({"k": "theirs"}, **WHO)
    result = await approve_all(runner, await approve_all(runner, paused))
    assert (result.text.endswith("theirs, ours again"), result.state) == (True, {"k": "ours again"})


@ANYWHERE
async def test_own_writes_are_preserved_without_external_writes(placed: Any) -> None:
    runner = Runner(placed(Does(name="a", do=write_and_ask)))
    await runner.update_state({"k": "before"}, **WHO)
    paused = await runner.run(**WHO, message="go")
    await runner.update_state({"other": 1}, **WHO)
    result = await approve_all(runner, await approve_all(runner, paused))
    assert (result.text.endswith("ours ours"), result.state) == (True, {"k": "ours", "other": 1})
