"""Fields that hold something else than they take are refused when an agent is built."""

from collections.abc import Callable
from typing import Any

import pytest
from small_agents import says

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Edge,
    Grant,
    GraphAgent,
    ParallelAgent,
    RouterAgent,
    RunConfig,
    Runner,
    exit_loop,
    tool,
)
from acc.domain.errors import InvalidInput, InvalidTree
from acc.testing import ScriptedModel

THREE: Any = 3


def graph(**fields: Any) -> GraphAgent:
    nodes = [says("a"), says("b")]
    return GraphAgent(name="g", sub_agents=nodes, **{"edges": [("a", "b")], **fields})


def parallel(**fields: Any) -> ParallelAgent:
    return ParallelAgent(name="p", sub_agents=[says("a")], **fields)


def router(**fields: Any) -> RouterAgent:
    return RouterAgent(name="r", sub_agents=[says("a", description="x")], **fields)


def agent(**fields: Any) -> Agent:
    return Agent(name="a", **fields)


def timed(**terms: Any) -> object:
    return tool(**terms)(exit_loop.func)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "a text as a condition": (
        lambda: graph(edges=[("a", "b", "go")]),
        "the condition of the edge a → b is a function of the state, not 'go'",
    ),
    "a text as a condition of an edge": (
        lambda: graph(edges=[Edge("a", "b", when=THREE)]),
        "is a function of the state, not 3",
    ),
    "a text as an edge": (lambda: graph(edges=["ab"]), "'ab' is no edge"),
    "a number as an edge": (lambda: graph(edges=[3]), "3 is no edge"),
    "edges that are no list": (lambda: graph(edges=3), "'g': edges is a list, not 3"),
    "a join that is no list": (lambda: graph(joins="b"), "'g': joins is a list, not 'b'"),
    "a number of steps that is none": (
        lambda: graph(max_steps="2"),
        "'g': max_steps must be at least 1, not '2'",
    ),
    "a number of branches that is none": (
        lambda: parallel(max_concurrency="2"),
        "'p': max_concurrency must be at least 1, not '2'",
    ),
    "half a branch": (lambda: parallel(max_concurrency=True), "at least 1, not True"),
    "a list of merge rules": (
        lambda: parallel(merge=["a"]),
        "'p': merge is a mapping from keys to rules, not \\['a'\\]",
    ),
    "an intent of letters": (
        lambda: router(intents={"a": "pay my invoice"}),
        "'r': intents is a mapping from names to lists of phrases, not",
    ),
    "intents that are no mapping": (lambda: router(intents=["a"]), "'r': intents is a mapping"),
    "an intent of numbers": (lambda: router(intents={"a": [3]}), "'r': intents is a mapping"),
    "an intent of a number": (lambda: router(intents={"a": 3}), "'r': intents is a mapping"),
    "a router with no model": (lambda: router(model=object()), "'r': model is a name, or an"),
    "an agent with no model": (
        lambda: agent(model=object()),
        "'a': model is a name, or an object with `async complete",
    ),
    "a memory that is none": (
        lambda: agent(memory=3),
        "'a': memory is a name, a MemoryPort, a function",
    ),
    "an instruction that is none": (lambda: agent(instruction=3), "'a': instruction is a text"),
    "a key that is no text": (lambda: agent(output_key=3), "output_key is the name of a key"),
    "an empty key": (lambda: agent(output_key="  "), "output_key is the name of a key"),
    "a tool alone": (lambda: agent(tools=exit_loop), "'a': tools is a list, not"),
    "a callback that is none": (
        lambda: agent(before_model_callback=3),
        "'a': before_model_callback is a function, not 3",
    ),
    "a callback of any agent that is none": (
        lambda: says("a", after_agent_callback=3),
        "'a': after_agent_callback is a function, not 3",
    ),
    "grants of everything": (
        lambda: agent(sub_agents=[says("b", description="x")], grants={"b": "all"}),
        "'a': grants is a mapping from names of sub-agents to a Grant each",
    ),
    "no grants": (lambda: BaseAgent(name="a", grants=THREE), "'a': grants is a mapping"),
    "a word that is none": (lambda: says("a", confirm=3), "'a': confirm is True, a text to ask"),
    "a tool with a word that is none": (
        lambda: timed(confirm=3),
        "tool 'exit_loop': confirm is True, a text to ask with, or a function, not 3",
    ),
    "a tool without time": (lambda: timed(timeout=-1), "tool 'exit_loop': timeout cannot be -1"),
    "an agent tool with an odd time": (
        lambda: AgentTool(agent=says("a", description="x"), confirm_expires=THREE * "x"),
        "tool 'a': confirm_expires cannot be 'xxx'",
    ),
    "a stand-in that is none": (
        lambda: RunConfig(stubs={"a": THREE}),
        "RunConfig.stubs must map agent names to texts or functions, got {'a': 3}",
    ),
    "stand-ins without names": (lambda: RunConfig(stubs=THREE), "RunConfig.stubs must map"),
    "a switch that is none": (
        lambda: RunConfig(snapshots=THREE),
        "snapshots must be a bool, got 3",
    ),
    "a configuration that is none": (
        lambda: Runner(says("a"), config={"timeout": 3}),  # type: ignore[arg-type]
        "config must be a RunConfig, got {'timeout': 3}",
    ),
    "no store": (
        lambda: Runner(says("a"), store=None),  # type: ignore[arg-type]
        'store is "memory", the path of a SQLite file, or a pair of stores, not None',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_field_that_holds_something_else_is_refused(case: str) -> None:
    build, reason = REFUSED[case]
    with pytest.raises(InvalidInput, match=reason):
        build()


async def test_the_terms_of_a_run_are_checked_too() -> None:
    runner = Runner(says("a"))
    who: dict[str, Any] = {"user_id": "u", "session_id": "s", "message": "x"}
    with pytest.raises(InvalidInput, match="config must be a RunConfig, got 3"):
        await runner.run(**who, config=THREE)
    with pytest.raises(InvalidInput, match="context must be a CallContext, got 3"):
        await runner.run(**who, context=THREE)
    assert (await runner.run(**who, config=RunConfig())).text == "a"


def test_what_fits_is_taken_as_it_is() -> None:
    given = (item for item in (exit_loop, says("helper", description="x")))
    made = agent(tools=given, output_key="k", memory=None, instruction=lambda ctx: "x")
    assert list(made.own_tools) == ["exit_loop", "helper"]
    assert agent(model=ScriptedModel(), confirm="Sure?", output_key="").confirm == "Sure?"
    granted = agent(sub_agents=[says("b", description="x")], grants={"b": Grant()})
    assert list(granted.grants) == ["b"]
    assert graph(max_steps=2).max_steps == 2
    with pytest.raises(InvalidTree, match="'a' has no model"):
        agent(model="")
