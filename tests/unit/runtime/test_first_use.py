"""`run` without ids, `run_sync`, and `run` of an agent."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from contextvars import ContextVar
from copy import deepcopy
from typing import Any, cast

import pytest

from acc import (
    Agent,
    BaseAgent,
    EventKind,
    InvalidInput,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call

request_label: ContextVar[str] = ContextVar("request_label", default="none")


class Echo(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        ctx.state["turns"] = ctx.state.get("turns", 0) + 1
        return f"{ctx.state['turns']}: {ctx.message}"


def echo() -> Echo:
    return Echo(name="echo")


async def test_run_takes_a_message_alone_and_continues_the_default_session() -> None:
    runner = Runner(echo())
    assert (await runner.run("hello")).text == "1: hello"
    assert (await runner.run("again")).text == "2: again"
    assert (await runner.run("other", session_id="s2")).text == "1: other"
    assert (await runner.run("other", user_id="ann")).text == "1: other"
    assert (await runner.state())["turns"] == 2
    assert len(await runner.events()) == len(await runner.events(session_id="default"))


async def test_run_and_run_sync_pass_deps_and_return_typed_output() -> None:
    class Length(BaseAgent[str, int]):
        async def run(self, ctx: RunContext[str]) -> int:
            return len(ctx.deps)

    agent = Length(name="length")
    assert (await Runner(agent).run("hello", deps="abc")).output == 3
    assert Runner(agent).run_sync("hello", deps="abcd").output == 4
    assert agent.run_sync("hello", deps="ab").output == 2
    assert (await cast("Any", agent).run("hello", deps="a")).output == 1


async def test_resume_sync_passes_deps() -> None:
    @tool(confirm=True)
    def read(ctx: ToolContext[list[str]]) -> str:
        """Read."""
        return ctx.deps[0]

    model = ScriptedModel(call("read"), "done")
    runner = Runner(Agent[list[str]](name="reader", model=model, tools=[read]))
    paused = runner.run_sync("go", deps=["first"])
    result = runner.resume_sync(approve(paused.requests[0]), deps=["second"])
    (event,) = [event for event in result.events if event.kind is EventKind.TOOL_RESULT]
    assert event.parts[0].result is not None
    assert event.parts[0].result.content == "second"


async def test_stream_output_takes_a_message_alone() -> None:
    outputs = [partial async for partial in Runner(echo()).stream_output("hello")]
    assert outputs[-1].result is not None
    assert outputs[-1].result.output == "1: hello"


async def test_stream_takes_a_message_alone() -> None:
    events = [event async for event in Runner(echo()).stream("hello")]
    assert events[-1].text == "1: hello"


def test_run_sync_keeps_the_session_between_calls_in_a_script() -> None:
    runner = Runner(echo())
    assert runner.run_sync("hello").text == "1: hello"
    assert runner.run_sync("again").text == "2: again"


async def test_run_sync_works_while_an_event_loop_runs_in_this_thread() -> None:
    runner = Runner(echo())
    assert runner.run_sync("hello").text == "1: hello"
    assert (await runner.run("again")).text == "2: again"


def test_run_sync_raises_the_error_of_the_run() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        Runner(echo()).run_sync(" ")


def test_run_sync_passes_the_context_variables_of_the_caller() -> None:
    class Label(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return request_label.get()

    request_label.set("mine")
    assert Runner(Label(name="label")).run_sync("?").text == "mine"


def test_run_sync_in_the_loop_of_run_sync_is_rejected() -> None:
    class Nested(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            return Runner(echo()).run_sync("inner").text

    with pytest.raises(InvalidInput, match="await runner.run"):
        Runner(Nested(name="nested")).run_sync("outer")


def test_sync_tool_of_run_sync_may_call_run_sync() -> None:
    @tool
    def ask() -> str:
        """Ask another agent."""
        return Runner(echo()).run_sync("inner").text

    model = ScriptedModel(call("ask"), "done")
    result = Runner(Agent(name="outer", model=model, tools=[ask])).run_sync("outer")
    assert result.text == "done"
    assert any(e.result and e.result.content == "1: inner" for e in result.events)


def test_resume_sync_continues_a_paused_run() -> None:
    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay an amount."""
        return f"paid {amount}"

    model = ScriptedModel(call("pay", amount=5), "done")
    runner = Runner(Agent(name="payer", model=model, tools=[pay]))
    paused = runner.run_sync("pay 5")
    assert paused.status is RunStatus.INPUT_REQUIRED
    assert runner.resume_sync(approve(paused.requests[0].id)).text == "done"


def test_interrupted_run_sync_cancels_the_run_and_records_it() -> None:
    code = """
    import signal, threading, asyncio
    from acc import BaseAgent, Runner, EventKind

    started = threading.Event()

    class Slow(BaseAgent):
        async def run(self, ctx):
            started.set()
            await asyncio.sleep(60)

    runner = Runner(Slow(name="slow"))

    def interrupt():
        started.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        runner.run_sync("hello")
    except KeyboardInterrupt:
        print("interrupted", asyncio.run(runner.events())[-1].status)
    """
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.strip(), done.returncode) == ("interrupted canceled", 0), done.stderr


def test_threads_share_one_loop_and_do_not_block_each_other() -> None:
    barrier = asyncio.Barrier(2)  # belongs to one loop

    class Meet(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await barrier.wait()
            return "met"

    runner = Runner(Meet(name="meet"))
    texts: list[str] = []

    def run(session: str) -> None:
        texts.append(runner.run_sync("x", session_id=session).text)

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert texts == ["met", "met"]


# Agents


async def test_agent_answers_a_message_and_continues_its_default_session() -> None:
    agent = Agent(name="a", model=ScriptedModel("one", "two", "three"))
    result = await agent.run("hello")
    assert (result.text, result.status) == ("one", RunStatus.COMPLETED)
    assert (await agent.run("again", session_id="s2")).text == "two"
    assert agent.run_sync("sync").text == "three"


async def test_workflow_agent_answers_a_message() -> None:
    pipeline = SequentialAgent(name="p", sub_agents=[echo()])
    assert (await pipeline.run("hello")).text == "1: hello"


async def test_agent_of_your_own_answers_a_message() -> None:
    agent: Any = echo()  # declared to take a context, which is what it defines
    assert (await agent.run("hello")).text == "1: hello"
    assert agent.run_sync("again").text == "2: again"


async def test_subclass_of_an_agent_may_extend_run_with_the_context() -> None:
    class Polite(Agent):
        async def run(self, ctx: Any, **options: Any) -> Any:
            await super().run(ctx)
            return f"{ctx.text}, please"

    agent = Polite(name="polite", model=ScriptedModel("tea"))
    assert (await agent.run("hello")).text == "tea, please"


async def test_sub_agent_cannot_answer_a_message_alone() -> None:
    child = echo()
    SequentialAgent(name="p", sub_agents=[child])
    with pytest.raises(InvalidInput, match="run the root of its tree"):
        child.run_sync("hello")


async def test_run_of_an_agent_without_a_message_is_reported() -> None:
    agent: Any = Agent(name="a", model=ScriptedModel())
    with pytest.raises(InvalidInput, match="needs a message"):
        await agent.run()


async def test_copied_agent_has_a_runner_of_its_own() -> None:
    agent = echo()
    agent.run_sync("hello")
    assert deepcopy(agent).run_sync("hello").text == "1: hello"
