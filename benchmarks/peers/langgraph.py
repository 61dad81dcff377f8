"""LangGraph: compiled graphs of nodes. It has no model interface, so a node answers by itself."""

import operator
from typing import Annotated, Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from peers import stub

DISTRIBUTION = "langgraph"


class LoopState(MessagesState):
    rounds: Annotated[int, operator.add]


async def answer(state: MessagesState) -> dict[str, Any]:
    stub.asked(len(state["messages"]))
    return {"messages": [AIMessage(stub.ANSWER)]}


def _turn(graph: Any) -> stub.Turn:
    async def turn() -> str:
        done = await graph.ainvoke({"messages": [HumanMessage(stub.QUESTION)]})
        return str(done["messages"][-1].content)

    return turn


def _one(checkpointer: InMemorySaver | None = None) -> Any:
    builder = StateGraph(MessagesState)
    builder.add_node("agent", answer)
    builder.add_edge(START, "agent")
    builder.add_edge("agent", END)
    return builder.compile(checkpointer=checkpointer)


def one_turn() -> stub.Turn:
    return _turn(_one())


def tool_turn() -> stub.Turn:
    calls = False

    async def agent(state: MessagesState) -> dict[str, Any]:
        nonlocal calls
        stub.asked(len(state["messages"]))
        calls = not calls
        if calls:
            call = {"name": stub.TOOL, "args": {"city": stub.CITY}, "id": "call-1"}
            return {"messages": [AIMessage("", tool_calls=[call])]}
        return {"messages": [AIMessage(stub.ANSWER)]}

    # As the ready-made `tools_condition`, which is not async and so runs in a thread.
    async def calls_tools(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder = StateGraph(MessagesState)
    builder.add_node("agent", agent)
    builder.add_node("tools", ToolNode([stub.weather]))
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", calls_tools, ["tools", END])
    builder.add_edge("tools", "agent")
    return _turn(builder.compile())


def sequential() -> stub.Turn:
    builder = StateGraph(MessagesState)
    builder.add_sequence([(name, answer) for name in "abc"])
    builder.add_edge(START, "a")
    return _turn(builder.compile())


def parallel() -> stub.Turn:
    builder = StateGraph(MessagesState)
    for name in "abc":
        builder.add_node(name, answer)
        builder.add_edge(START, name)
        builder.add_edge(name, END)
    return _turn(builder.compile())


def loop() -> stub.Turn:
    async def agent(state: LoopState) -> dict[str, Any]:
        stub.asked(len(state["messages"]))
        return {"messages": [AIMessage(stub.ANSWER)], "rounds": 1}

    async def again(state: LoopState) -> str:
        return END if state["rounds"] == 5 else "agent"

    builder = StateGraph(LoopState)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", again, ["agent", END])
    return _turn(builder.compile())


def session() -> stub.Talk:
    graph = _one(InMemorySaver())
    config = {"configurable": {"thread_id": "long"}}

    async def turn(message: str) -> str:
        state = {"messages": [HumanMessage(message)]}
        done = await graph.ainvoke(state, config, durability="exit")
        return str(done["messages"][-1].content)

    return turn
