"""LangGraphAgent: what only graphs have, with real LangGraph and LangChain."""

import os
import subprocess
import sys
from operator import add as append
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
import scripted_langgraph as scripted
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

import acc
from acc.frameworks import LangGraphAgent

_STRICT_PROGRAM = """
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic import BaseModel

import acc
from acc.frameworks import LangGraphAgent


class Towel(BaseModel):
    colour: str


class State(MessagesState):
    towel: Towel


def show(state: State) -> dict[str, Any]:
    name = type(state["towel"]).__name__ if "towel" in state else "none"
    return {"messages": [AIMessage(name)], "towel": Towel(colour="red")}


builder = StateGraph(State)
builder.add_node("show", show)
builder.add_edge(START, "show")
runner = acc.Runner(LangGraphAgent(builder.compile(), name="desk"))
print(runner.run_sync("a").text, runner.run_sync("b").text)
"""


class Basket:
    """A type that the default serializer does not know."""

    towels = 0


class Review(TypedDict):
    draft: str
    verdicts: Annotated[list[str], append]


def review_graph() -> Any:
    """Return a graph without messages that asks until somebody is content."""

    def ask(state: Review) -> dict[str, Any]:
        return {"verdicts": [interrupt(f"Is {state['draft']!r} good?")]}

    builder = StateGraph(Review)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", lambda s: END if s["verdicts"][-1] == "yes" else "ask")
    return builder.compile(name="review")


async def test_cycle_of_questions_pauses_once_per_round() -> None:
    agent = LangGraphAgent(review_graph(), input_key="draft", output_key="verdicts")
    runner = acc.Runner(agent)
    result = await runner.run("こんにちは")
    for verdict in ("no", "maybe", "yes"):
        (request,) = result.requests
        assert request.message == "Is 'こんにちは' good?"
        result = await runner.resume(acc.approve(request, value=verdict))
    assert result.status is acc.RunStatus.COMPLETED
    assert result.output == ["no", "maybe", "yes"]


async def test_parallel_interrupts_are_answered_one_by_one() -> None:
    class State(TypedDict):
        topic: str
        answers: Annotated[list[str], append]

    def asker(name: str) -> Any:
        def ask(state: State) -> dict[str, Any]:
            answer = interrupt(f"{name} of {state['topic']}?")
            return {"answers": [f"{name}={answer}"]}

        return ask

    builder = StateGraph(State)
    for name in ("colour", "size"):
        builder.add_node(name, asker(name))
        builder.add_edge(START, name)
    runner = acc.Runner(
        LangGraphAgent(builder.compile(), name="ask", input_key="topic", output_key="answers")
    )
    paused = await runner.run("car")
    answers = {"colour of car?": "red", "size of car?": "small"}
    assert {request.message for request in paused.requests} == set(answers)
    result = paused
    while result.requests:
        request = result.requests[0]
        result = await runner.resume(acc.approve(request, value=answers[request.message]))
    assert sorted(result.output) == ["colour=red", "size=small"]


async def test_interrupt_in_a_subgraph_resumes_after_a_restart(tmp_path: Path) -> None:
    def tree() -> acc.BaseAgent:
        builder = StateGraph(MessagesState)
        builder.add_node("inner", scripted.build_graph().compile())
        builder.add_edge(START, "inner")
        return LangGraphAgent(builder.compile(), name="outer")

    store = tmp_path / "sessions.db"
    runner = acc.Runner(tree(), store=store)
    paused = await runner.run("delete a.txt")
    await runner.services.aclose()
    runner = acc.Runner(tree(), store=store)
    result = await runner.resume(acc.approve(paused.requests[0]))
    assert result.text == "tool said deleted a.txt"
    assert (await runner.run("hi")).text == "answer 2 to: hi"
    await runner.services.aclose()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (lambda request: acc.approve(request), "tool said 5"),
        (lambda request: acc.approve(request, arguments={"a": 20, "b": 3}), "Tool response:\n23"),
        (lambda request: acc.deny(request, "too dangerous"), "too dangerous"),
    ],
)
async def test_approvals_of_langchain_are_confirmations(answer: Any, expected: str) -> None:
    graph = create_agent(
        scripted.ScriptedChatModel(),
        tools=scripted.TOOLS,
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"add": True})],
    )
    runner = acc.Runner(LangGraphAgent(graph, name="calculator"))
    paused = await runner.run("add 2 3")
    (request,) = paused.requests
    assert request.kind is acc.RequestKind.CONFIRMATION
    assert (request.tool, dict(request.arguments)) == ("add", {"a": 2, "b": 3})
    assert expected in (await runner.resume(answer(request))).text


async def test_graph_is_a_tool_of_an_agent() -> None:
    from acc.testing import ScriptedModel

    call = acc.ToolCall(id="1", name="calculator", arguments={"request": "add 2 3"})
    model = ScriptedModel(call, "The sum is 5.")
    agent = LangGraphAgent(scripted.graph, name="calculator", description="Adds numbers.")
    root = acc.Agent(name="root", model=model, tools=[agent])
    result = await acc.Runner(root).run("What is 2 + 3?")
    assert result.text == "The sum is 5."
    results = [event.result for event in result.events if event.result is not None]
    assert [one.name for one in results] == ["add", "calculator"]


async def test_blocking_nodes_report_model_calls_from_their_threads() -> None:
    model = scripted.ScriptedChatModel()

    def ask(state: MessagesState) -> dict[str, Any]:
        return {"messages": [model.invoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_edge(START, "ask")
    result = await acc.Runner(LangGraphAgent(builder.compile(), name="ask")).run("hello")
    assert result.usage.llm_calls == 1


async def test_graph_without_a_chat_model_has_no_measured_memory() -> None:
    builder = StateGraph(MessagesState)
    builder.add_node("echo", lambda state: {"messages": [AIMessage(state["messages"][-1].text)]})
    builder.add_edge(START, "echo")
    result = await acc.Runner(LangGraphAgent(builder.compile(), name="echo")).run("hello")
    assert result.text == "hello"
    (memory,) = (event for event in result.events if event.kind is acc.EventKind.MEMORY)
    assert "tokens" not in memory.detail


async def test_checkpointer_of_the_graph_is_used() -> None:
    class Saver(InMemorySaver):
        """A checkpointer that is not LangGraph's own one."""

    saver = Saver()
    runner = acc.Runner(LangGraphAgent(scripted.build_graph().compile(saver), name="desk"))
    await runner.run("hello")
    assert len(saver.storage) == 1
    assert (await runner.run("again")).text == "answer 2 to: again"


async def test_lost_checkpoint_is_reported(tmp_path: Path) -> None:
    class Saver(InMemorySaver):
        """A checkpointer that is not LangGraph's own one."""

    def agent() -> acc.BaseAgent:
        return LangGraphAgent(scripted.build_graph().compile(Saver()), name="desk")

    store = tmp_path / "sessions.db"
    runner = acc.Runner(agent(), store=store)
    paused = await runner.run("delete a.txt")
    await runner.services.aclose()
    runner = acc.Runner(agent(), store=store)
    with pytest.raises(acc.AgentFailed, match="no longer has the interrupted run"):
        await runner.resume(acc.approve(paused.requests[0]))
    await runner.services.aclose()


async def test_memory_saver_does_not_prevent_a_restart(tmp_path: Path) -> None:
    def agent() -> acc.BaseAgent:
        return LangGraphAgent(scripted.build_graph().compile(InMemorySaver()), name="desk")

    store = tmp_path / "sessions.db"
    runner = acc.Runner(agent(), store=store)
    paused = await runner.run("delete a.txt")
    await runner.services.aclose()
    runner = acc.Runner(agent(), store=store)
    result = await runner.resume(acc.approve(paused.requests[0]))
    assert result.text == "tool said deleted a.txt"
    await runner.services.aclose()


def test_uncompiled_graph_is_refused() -> None:
    with pytest.raises(acc.InvalidTree, match=r"call compile\(\) on it"):
        LangGraphAgent(scripted.build_graph())


def test_unknown_key_of_the_state_is_refused() -> None:
    with pytest.raises(acc.InvalidTree, match="set input_key to one of draft, verdicts"):
        LangGraphAgent(review_graph())


def test_name_is_that_of_the_graph() -> None:
    agent = LangGraphAgent(review_graph(), input_key="draft", output_key="verdicts")
    assert agent.name == "review"


async def test_stored_checkpoint_contains_one_copy_of_the_conversation(tmp_path: Path) -> None:
    runner = acc.Runner(LangGraphAgent(scripted.graph, name="desk"))
    sizes = []
    for number in range(20):
        result = await runner.run(f"message {number}")
        (memory,) = (event for event in result.events if event.kind is acc.EventKind.MEMORY)
        sizes.append(len(str(memory.detail["checkpoint"])))
    # Twice the messages may not take more than twice the space.
    assert sizes[19] < 2 * sizes[9]


def test_memory_works_in_agents_that_run_without_await() -> None:
    from acc.frameworks.langchain import AccMemory

    model = scripted.ScriptedChatModel(requests=[])
    agent = create_agent(model, middleware=[AccMemory()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "a"}}
    for number in range(30):
        agent.invoke({"messages": [("user", f"Order {number} has {number} towels. " * 8)]}, config)
    assert len(model.requests[-1]) < 2 * 30
    assert "Order 29" in str(model.requests[-1][-1].text)


async def test_serializer_of_the_memory_saver_is_used() -> None:
    class State(MessagesState):
        basket: Basket

    def count(state: State) -> dict[str, Any]:
        basket = state.get("basket") or Basket()
        basket.towels += 1
        return {"basket": basket, "messages": [AIMessage(f"{basket.towels} towels")]}

    builder = StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge(START, "count")
    saver = InMemorySaver(serde=JsonPlusSerializer(pickle_fallback=True))
    runner = acc.Runner(LangGraphAgent(builder.compile(saver), name="desk"))
    assert [(await runner.run("more")).text for _ in range(2)] == ["1 towels", "2 towels"]


def test_types_of_the_state_are_restored_in_strict_mode(tmp_path: Path) -> None:
    """The mode is selected when LangGraph is imported."""
    program = tmp_path / "program.py"
    program.write_text(_STRICT_PROGRAM)
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, str(program)],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "none Towel\n", done.stderr


def test_functional_api_is_refused() -> None:
    @entrypoint()
    def shout(text: str) -> str:
        return text.upper()

    with pytest.raises(acc.InvalidTree, match="the functional API has no state"):
        LangGraphAgent(shout)


async def test_memory_has_a_note_of_an_image() -> None:
    from acc.frameworks.langchain import AccMemory

    model = scripted.ScriptedChatModel(requests=[])
    agent = create_agent(model, middleware=[AccMemory()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "a"}}
    image = {"type": "image", "url": "https://example.com/lamp.png"}
    for content in ([image], [{"type": "text", "text": "What was it?"}]):
        await agent.ainvoke({"messages": [HumanMessage(content)]}, config)
    sent = [one.text for one in model.requests[-1] if one.type == "human"]
    assert sent == ["[image]", "What was it?"]
