"""One suite for the agents of all frameworks, with the real frameworks and scripted models."""

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import script

import acc
from acc.testing import ScriptedModel

sys.path.insert(0, str(Path(__file__).parent))

FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "google_adk": "google.adk",
    "langgraph": "langgraph",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}
MakeAgent = Callable[[str], Any]


def is_installed(package: str) -> bool:
    return find_spec(package.partition(".")[0]) is not None and find_spec(package) is not None


@pytest.fixture(
    params=[
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                not is_installed(package), reason=f"{package} is not installed"
            ),
        )
        for name, package in FRAMEWORKS.items()
    ]
)
def make(request: pytest.FixtureRequest) -> MakeAgent:
    make_agent: MakeAgent = import_module(f"scripted_{request.param}").make_agent
    return make_agent


@asynccontextmanager
async def process(agent: acc.BaseAgent, store: Path) -> AsyncIterator[acc.Runner[Any, Any]]:
    """Run an agent as a process does: nothing but the file outlives it."""
    runner = acc.Runner(agent, store=store)
    try:
        yield runner
    finally:
        await runner.services.aclose()


async def test_answers_a_message(make: MakeAgent) -> None:
    result = await acc.Runner(make("desk")).run("hello")
    assert result.text == "answer 1 to: hello"
    assert result.status is acc.RunStatus.COMPLETED


async def test_remembers_earlier_turns_of_the_session_only(make: MakeAgent) -> None:
    runner = acc.Runner(make("desk"))
    await runner.run("hello", session_id="a")
    assert (await runner.run("さようなら", session_id="a")).text == "answer 2 to: さようなら"
    assert (await runner.run("hello", session_id="b")).text == "answer 1 to: hello"


async def test_remembers_after_a_restart(make: MakeAgent, tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    async with process(make("desk"), store) as runner:
        await runner.run("hello")
    async with process(make("desk"), store) as runner:
        assert (await runner.run("again")).text == "answer 2 to: again"


async def test_reports_tool_calls_and_results(make: MakeAgent) -> None:
    result = await acc.Runner(make("desk")).run("add 2 3")
    assert result.text == "tool said 5"
    (call,) = (call for event in result.events for call in event.calls)
    assert (call.name, dict(call.arguments)) == ("add", {"a": 2, "b": 3})
    (answer,) = (event.result for event in result.events if event.result is not None)
    assert (answer.call_id, answer.name, answer.is_error) == (call.id, "add", False)
    assert "5" in str(answer.content)
    assert result.usage.tool_calls == 1


async def test_reports_failed_tools(make: MakeAgent) -> None:
    result = await acc.Runner(make("desk")).run("break")
    (answer,) = (event.result for event in result.events if event.result is not None)
    hides_errors = getattr(sys.modules[make.__module__], "HIDES_TOOL_ERRORS", False)
    assert answer.is_error is not hides_errors
    assert hides_errors or "disk full" in str(answer.content)


async def test_reports_tokens_of_all_model_calls(make: MakeAgent) -> None:
    usage = (await acc.Runner(make("desk")).run("add 2 3")).usage
    assert usage.llm_calls == 2
    assert usage.input_tokens == 2 * script.INPUT_TOKENS
    assert usage.output_tokens == 2 * script.OUTPUT_TOKENS


async def test_measures_the_memory_that_the_model_gets(make: MakeAgent) -> None:
    runner = acc.Runner(make("desk"))
    first = (await runner.run("My dog is called Rex and my cat is called Tom.")).usage
    second = (await runner.run("hello")).usage
    third = (await runner.run("hello")).usage
    assert first.memory_tokens < second.memory_tokens < third.memory_tokens


async def test_streams_pieces_of_the_answer(make: MakeAgent) -> None:
    stream = acc.Runner(make("desk")).stream("hello")
    deltas = [event.text async for event in stream if event.kind is acc.EventKind.DELTA]
    assert len(deltas) > 1
    assert "".join(deltas) == "answer 1 to: hello"


async def test_fails_with_the_error_of_the_model(make: MakeAgent) -> None:
    with pytest.raises(acc.AgentFailed, match="the model is down"):
        await acc.Runner(make("desk")).run("fail")


async def test_failed_turn_leaves_the_memory_as_it_was(make: MakeAgent) -> None:
    runner = acc.Runner(make("desk"))
    await runner.run("hello")
    with pytest.raises(acc.AgentFailed):
        await runner.run("fail")
    assert (await runner.run("again")).text == "answer 2 to: again"


async def test_stops_at_the_limit_of_model_calls(make: MakeAgent) -> None:
    runner = acc.Runner(make("desk"), config=acc.RunConfig(max_llm_calls=1))
    assert (await runner.run("hello")).usage.llm_calls == 1
    with pytest.raises(acc.BudgetExceeded):
        await runner.run("add 2 3")


@pytest.mark.parametrize("approved", [True, False])
async def test_resumes_after_an_answer_and_a_restart(
    make: MakeAgent, tmp_path: Path, approved: bool
) -> None:
    store = tmp_path / "sessions.db"
    async with process(make("desk"), store) as runner:
        await runner.run("hello")
        paused = await runner.run("delete report.txt")
    assert paused.status is acc.RunStatus.INPUT_REQUIRED
    (request,) = paused.requests
    assert "report.txt" in request.question
    answer = acc.approve(request) if approved else acc.deny(request, "too dangerous")
    async with process(make("desk"), store) as runner:
        result = await runner.resume(answer)
        assert result.status is acc.RunStatus.COMPLETED
        assert ("deleted report.txt" in result.text) is approved
        assert (await runner.run("again")).text == "answer 3 to: again"


async def test_abandoned_question_does_not_disturb_the_next_turn(make: MakeAgent) -> None:
    runner = acc.Runner(make("desk"))
    await runner.run("hello")
    await runner.run("delete report.txt")
    await runner.abandon()
    assert (await runner.run("again")).text == "answer 2 to: again"


async def test_pauses_and_resumes_in_a_sequence(make: MakeAgent, tmp_path: Path) -> None:
    def tree() -> acc.SequentialAgent:
        return acc.SequentialAgent(name="pair", sub_agents=[make("first"), make("second")])

    store = tmp_path / "sessions.db"
    async with process(tree(), store) as runner:
        paused = await runner.run("delete report.txt")
    assert [request.agent for request in paused.requests] == ["first"]
    async with process(tree(), store) as runner:
        result = await runner.resume(acc.approve(paused.requests[0]))
    assert result.status is acc.RunStatus.INPUT_REQUIRED or "deleted" in result.text
    messages = [e for e in result.events if e.kind is acc.EventKind.MESSAGE and e.author != "user"]
    assert messages[0].author == "first"
    assert "deleted report.txt" in messages[0].text


async def test_runs_in_parallel_branches(make: MakeAgent) -> None:
    tree = acc.ParallelAgent(name="both", sub_agents=[make("left"), make("right")])
    result = await acc.Runner(tree).run("add 2 3")
    answers = {e.author: e.text for e in result.events if e.kind is acc.EventKind.MESSAGE}
    assert answers["left"] == answers["right"] == "tool said 5"
    assert result.usage.llm_calls == 4


async def test_second_agent_of_a_sequence_gets_the_first_answer(make: MakeAgent) -> None:
    tree = acc.SequentialAgent(name="pair", sub_agents=[make("first"), make("second")])
    result = await acc.Runner(tree).run("hello")
    assert "[first]\nanswer 1 to: hello" in result.text


async def test_is_reached_by_transfer(make: MakeAgent) -> None:
    target = acc.SequentialAgent(name="desks", description="A desk.", sub_agents=[make("desk")])
    transfer = acc.ToolCall(id="1", name="transfer_to_agent", arguments={"agent_name": "desks"})
    root = acc.Agent(name="root", model=ScriptedModel(transfer, transfer), sub_agents=[target])
    runner = acc.Runner(root)
    first = await runner.run("hello")
    messages = [event for event in first.events if event.kind is acc.EventKind.MESSAGE]
    assert (first.text, messages[-1].author) == ("answer 1 to: hello", "desk")
    assert (await runner.run("again")).text == "answer 2 to: again"


async def test_pauses_and_resumes_inside_every_workflow(make: MakeAgent) -> None:
    """Nest router, graph and loop; the loop runs the agent a second time after the answer."""
    loop = acc.LoopAgent(name="loop", sub_agents=[make("desk")], max_iterations=2)
    graph = acc.GraphAgent(
        name="graph", sub_agents=[loop, make("last")], edges=[("loop", "last")], start="loop"
    )
    router = acc.RouterAgent(name="router", sub_agents=[graph], by=lambda ctx: "graph")
    runner = acc.Runner(router)
    result = await runner.run("delete report.txt")
    answered = 0
    while result.requests:
        answered += 1
        assert answered <= 3
        result = await runner.resume(acc.approve(result.requests[0]))
    authors = [e.author for e in result.events if e.kind is acc.EventKind.MESSAGE]
    assert result.status is acc.RunStatus.COMPLETED
    assert answered >= 1
    assert authors[-1] == "last"


def test_is_drawn_like_any_agent(make: MakeAgent) -> None:
    from acc.bootstrap.agents import draw_graph

    tree = acc.SequentialAgent(name="pair", sub_agents=[make("first"), make("second")])
    assert "first" in draw_graph(tree, "mermaid")
