"""Stand-ins in a run that is resumed: whoever had one before the pause has it after."""

from pathlib import Path
from typing import Any

import pytest
from small_agents import WHO, Does, approved

from acc import (
    BaseAgent,
    InvalidInput,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    approve,
)


async def ask(ctx: RunContext) -> None:
    await ctx.request_input("Go on?")


def pretend(ctx: RunContext) -> str:
    return "pretended"


def steps(done: list[str], kind: type[Any] = SequentialAgent) -> BaseAgent:
    """Return an agent that asks, between two that do what cannot be taken back."""
    first, last = (
        Does(name=name, do=lambda ctx: done.append(ctx.agent.name)) for name in ("first", "last")
    )
    agent: BaseAgent = kind(name="steps", sub_agents=[first, Does(name="asks", do=ask), last])
    return agent


PRETENDING = RunConfig(stubs={"first": pretend, "last": pretend})


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_a_function_stands_in_after_a_pause_too(kind: type[Any]) -> None:
    done: list[str] = []
    runner = Runner(steps(done, kind), config=PRETENDING)
    result = await approved(runner, await runner.run(**WHO, message="go"))
    assert (result.text.splitlines()[-1].removeprefix("last: "), done) == ("pretended", [])


async def test_a_function_stands_in_in_another_process_and_after_a_second_pause(
    tmp_path: Path,
) -> None:
    def tree() -> BaseAgent:
        inner = steps(done)
        return SequentialAgent(name="whole", sub_agents=[inner, Does(name="again", do=ask)])

    done: list[str] = []
    store = tmp_path / "sessions.db"
    result = await Runner(tree(), store=store, config=PRETENDING).run(**WHO, message="go")
    for _ in range(2):
        result = await approved(Runner(tree(), store=store, config=PRETENDING), result)
    assert (result.text, done) == ("again done", [])


async def test_without_its_functions_a_run_is_not_resumed_and_goes_on_waiting() -> None:
    done: list[str] = []
    runner = Runner(steps(done))
    paused = await runner.run(**WHO, message="go", config=PRETENDING)
    answer = approve(paused.requests[0].id)
    with pytest.raises(InvalidInput, match="functions for first, last.*the run still waits"):
        await runner.resume(**WHO, answers=answer)
    assert await runner.pending(**WHO) == paused.requests
    result = await runner.resume(**WHO, answers=answer, config=PRETENDING)
    assert (result.text, done) == ("pretended", [])


async def test_a_text_on_record_comes_before_what_the_runner_has() -> None:
    done: list[str] = []
    runner = Runner(steps(done), config=PRETENDING)
    mixed = RunConfig(stubs={"first": pretend, "last": "as it was"})
    paused = await runner.run(**WHO, message="go", config=mixed)
    assert ((await approved(runner, paused)).text, done) == ("as it was", [])


async def test_who_ran_before_the_pause_runs_after_it() -> None:
    done: list[str] = []
    runner = Runner(steps(done), config=PRETENDING)
    paused = await runner.run(**WHO, message="go", config=RunConfig())
    assert ((await approved(runner, paused)).text, done) == ("last done", ["first"] * 2 + ["last"])
