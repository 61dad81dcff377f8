"""Trees that cannot work are refused when they are built, with the reason."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from msgspec import Meta
from small_agents import says, turn

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Edge,
    FunctionTool,
    Grant,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    RouterAgent,
    RunConfig,
    Runner,
    SequentialAgent,
    tool,
)
from acc.domain.errors import AgentFailed, InvalidInput, InvalidTree


def modest(amount: Annotated[int, Meta(ge=1)] = 0) -> None:
    """Ask for less than one may."""


async def later(before: Any, written: Sequence[Any]) -> Any:
    return written[0]


class Later:
    async def __call__(self, before: Any, written: Sequence[Any]) -> Any:
        return written[0]


def greet(name: str) -> str:
    """Greet someone."""
    return name


def untyped(name):  # type: ignore[no-untyped-def] # that is the point
    return name


def variadic(*names: str) -> str:
    return "".join(names)


def by_position(name: str, /) -> str:
    return name


def may_take_a_function(work: Callable[[], None] = None) -> None:  # type: ignore[assignment]
    work()


def takes_a_function(work: Callable[[], None]) -> None:
    work()


def takes_an_unknown(value: "Nowhere") -> None:  # type: ignore[name-defined] # noqa: F821
    del value


class OwnTool(Agent):
    """An agent that tries to be its own tool."""

    def __post_init__(self) -> None:
        self.tools = [AgentTool(agent=self)]
        super().__post_init__()


def _in_a_circle() -> None:
    outer = Agent(name="outer", description="x")
    outer.tools = [Agent(name="inner", description="x", tools=[outer])]
    outer.__post_init__()


def _with_parent() -> BaseAgent:
    child = says("child")
    SequentialAgent(name="first_parent", sub_agents=[child])
    return child


def graph(**fields: Any) -> GraphAgent:
    nodes = [says("a"), says("b"), says("c")]
    return GraphAgent(name="g", sub_agents=nodes, **fields)


LINE = [("a", "b"), ("b", "c")]

REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "two parents": (
        lambda: SequentialAgent(name="s", sub_agents=[_with_parent()]),
        "'child' already belongs to 'first_parent' and cannot belong to 's' too",
    ),
    "the same agent twice": (
        lambda: SequentialAgent(name="s", sub_agents=[agent := says("a"), agent]),
        "'a' stands in the tree of 's' twice; make a second agent",
    ),
    "a name again further down": (
        lambda: SequentialAgent(
            name="x", sub_agents=[ParallelAgent(name="p", sub_agents=[says("x")])]
        ),
        "two agents under 'x' are called 'x'",
    ),
    "no agent": (
        lambda: SequentialAgent(name="s", sub_agents=["a"]),  # type: ignore[list-item]
        "'s': 'a' is no agent",
    ),
    "a name with a space": (lambda: says("a b"), "'a b' is no name for an agent"),
    "a name with a digit first": (lambda: says("1a"), "not a digit first"),
    "no name": (lambda: says(""), "'' is no name"),
    "a name that is no text": (lambda: BaseAgent(name=3), "3 is no name"),  # type: ignore[arg-type]
    "a long name": (lambda: says("a" * 65), "longer than 64 characters"),
    "a reserved name": (lambda: says("user"), "'user' is taken"),
    "grants to a stranger": (
        lambda: SequentialAgent(name="s", sub_agents=[says("a")], grants={"b": Grant()}),
        "'s' grants something to 'b', no sub-agent of it",
    ),
    "an empty sequence": (lambda: SequentialAgent(name="s"), "'s' has no sub_agents to run"),
    "an empty parallel": (lambda: ParallelAgent(name="p"), "'p' has no sub_agents to run"),
    "an empty loop": (lambda: LoopAgent(name="l", max_iterations=1), "'l' has no sub_agents"),
    "an empty router": (lambda: RouterAgent(name="r"), "'r' has no sub_agents"),
    "an empty graph": (lambda: GraphAgent(name="g"), "'g' has no sub_agents"),
    "a loop without a bound": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")]),
        "loop 'l' needs max_iterations of at least 1, not None",
    ),
    "a loop of no round": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")], max_iterations=0),
        "at least 1, not 0",
    ),
    "a loop bound that is no number": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")], max_iterations=True),
        "not True",
    ),
    "an unknown merge rule": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], merge={"x": "newest"}),
        "unknown merge rule 'newest': use one of error, first, last, list, sum, total, union, or a",
    ),
    "an async merge rule": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], merge={"x": later}),
        "the merge rule <function later at 0x.*> is async",
    ),
    "an object as an async merge rule": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], merge={"x": Later()}),
        "is async",
    ),
    "an unknown way to fail": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], on_error="ignore"),  # type: ignore[arg-type]
        '\'p\': on_error is "cancel" or "collect"',
    ),
    "no branch at a time": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], max_concurrency=0),
        "max_concurrency must be at least 1",
    ),
    "a router to a stranger": (
        lambda: RouterAgent(name="r", sub_agents=[says("a", description="x")], default="b"),
        "router 'r': 'b' is none of a",
    ),
    "intents of a stranger": (
        lambda: RouterAgent(name="r", sub_agents=[says("a", description="x")], intents={"b": []}),
        "'b' is none of a",
    ),
    "a router by magic": (
        lambda: RouterAgent(name="r", sub_agents=[says("a", description="x")], by="magic"),
        'by is "intent", "model" or a function',
    ),
    "a router to the undescribed": (
        lambda: RouterAgent(name="r", sub_agents=[says("a")]),
        "'a' needs a description: router 'r' chooses by it",
    ),
    "an edge to nowhere": (
        lambda: graph(edges=[*LINE, ("c", "d")]),
        "the edge c → d leads to 'd', which is none of its nodes \\(a, b, c\\)",
    ),
    "an edge from nowhere": (lambda: graph(edges=[*LINE, Edge("z", "a")]), "leads to 'z'"),
    "a condition on what is done otherwise": (
        lambda: graph(edges=[("a", "b"), Edge("b", "c", when=bool, otherwise=True)]),
        "graph 'g': the edge b → c has both a condition and otherwise",
    ),
    "an edge with one end": (lambda: graph(edges=[("a",)]), "\\('a',\\) is no edge"),
    "a start that is no node": (lambda: graph(edges=LINE, start="z"), "'z' is none of its nodes"),
    "a join that is no node": (lambda: graph(edges=LINE, joins=["z"]), "'z' is none of its nodes"),
    "a join of one edge": (
        lambda: graph(edges=LINE, joins=["b"]),
        "join 'b' has fewer than two edges into it",
    ),
    "a node that no edge leads to": (
        lambda: graph(edges=[("a", "b")]),
        "no edge leads from 'a' to c",
    ),
    "a cycle without a bound": (
        lambda: graph(edges=[*LINE, ("c", "b")]),
        "has a cycle through b, c: give it max_steps",
    ),
    "a graph of no step": (lambda: graph(edges=LINE, max_steps=0), "max_steps must be at least 1"),
    "a graph with an unknown merge rule": (
        lambda: graph(edges=LINE, merge={"x": "newest"}),
        "unknown merge rule 'newest'",
    ),
    "a graph with an unknown way to fail": (
        lambda: graph(edges=LINE, on_error="ignore"),
        "'g': on_error is",
    ),
    "an agent without a model": (lambda: Agent(name="a", model=""), "'a' has no model"),
    "a sub-agent without a description": (
        lambda: Agent(name="a", sub_agents=[says("b")]),
        "'b' needs a description: the model of 'a' chooses by it",
    ),
    "a schema that is no type": (
        lambda: Agent(name="a", output_schema=object),
        "'a': output_schema has no JSON schema",
    ),
    "two tools of one name": (
        lambda: Agent(name="a", tools=[greet, tool(name="greet")(greet)]),
        "'a' has two tools called 'greet'",
    ),
    "a tool named as the transfer": (
        lambda: Agent(name="a", tools=[tool(name="transfer_to_agent")(greet)]),
        "two tools called 'transfer_to_agent'",
    ),
    "an agent as its own tool": (lambda: OwnTool(name="a", description="x"), "be its own tool"),
    "a tool agent with a memory": (
        lambda: Agent(name="a", tools=[Agent(name="b", description="x", memory="acc")]),
        "'b' is used as a tool: it hears only the request",
    ),
    "an agent as sub-agent and tool": (
        lambda: Agent(name="s", sub_agents=[agent := says("a", description="x")], tools=[agent]),
        "'a' stands in the tree of 's' twice; make a second agent",
    ),
    "an agent that comes back as a tool": (_in_a_circle, "'outer' stands in the tree of 'outer'"),
    "a tool agent of another's": (
        lambda: Agent(name="s", tools=[AgentTool(agent=_with_parent(), description="x")]),
        "'child' already belongs to 'first_parent' and cannot be a tool of 's' too",
    ),
    "a name again in a tool": (
        lambda: SequentialAgent(
            name="s",
            sub_agents=[Agent(name="b", tools=[says("c", description="x")]), says("c")],
        ),
        "two agents under 's' are called 'c'",
    ),
    "a tool agent with a memory further down": (
        lambda: Agent(
            name="a",
            tools=[
                SequentialAgent(
                    name="b", description="x", sub_agents=[Agent(name="c", memory="acc")]
                )
            ],
        ),
        "'c' is used as a tool: it hears only the request",
    ),
    "an agent tool without a description": (
        lambda: Agent(name="a", tools=[says("b")]),
        "agent 'b' as a tool needs a description",
    ),
    "an agent tool of a bad name": (
        lambda: AgentTool(agent=says("b", description="x"), name="b c"),
        "'b c' is no name for a tool",
    ),
    "no tool": (lambda: Agent(name="a", tools=["greet"]), "'greet' is no tool"),  # type: ignore[list-item]
    "a tool without type hints": (
        lambda: tool(untyped),
        "tool 'untyped': 'name' needs a type hint",
    ),
    "a part of a function": (
        lambda: Agent(name="a", tools=[functools.partial(greet, "x")]),
        "'x'\\) has no name to be called by as a tool: give a function with type hints",
    ),
    "a tool whose default does not fit": (
        lambda: tool(modest),
        "tool 'modest': the default of 'amount' does not fit its hint: Expected `int` >= 1",
    ),
    "a tool of any number of arguments": (
        lambda: tool(variadic),
        "'names' cannot be given by its name",
    ),
    "a tool by position": (lambda: tool(by_position), "'name' cannot be given by its name"),
    "a tool whose argument has no schema": (
        lambda: tool(takes_a_function),
        "tool 'takes_a_function': its signature has no schema",
    ),
    "a tool whose argument has no schema and need not be given": (
        lambda: tool(may_take_a_function),
        "its signature has no schema: Callable is of no kind that can be read from JSON: take a",
    ),
    "a tool whose type is unknown": (
        lambda: tool(takes_an_unknown),
        "tool 'takes_an_unknown': name 'Nowhere' is not defined; import the type",
    ),
    "a tool without a name": (lambda: tool(lambda: 1), "'<lambda>' is no name for a tool"),
    "a tool that hides its type hints": (
        lambda: FunctionTool(functools.partial(greet, "x"), name="greet_x"),
        "tool 'greet_x': give a function with type hints",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_tree_that_cannot_work_is_refused_with_the_reason(case: str) -> None:
    build, reason = REFUSED[case]
    with pytest.raises(InvalidInput, match=reason):
        build()


def test_a_refused_tree_leaves_its_agents_free_for_another() -> None:
    child = says("a")
    with pytest.raises(InvalidTree):
        SequentialAgent(name="s", sub_agents=[child], grants={"z": Grant()})
    assert SequentialAgent(name="s", sub_agents=[child]).find("a") is child


def test_a_runner_takes_the_root_of_a_tree_and_nothing_else() -> None:
    child = says("a")
    root = SequentialAgent(name="s", sub_agents=[child])
    with pytest.raises(InvalidInput, match="'a' is a sub-agent of 's'; run the root"):
        Runner(child)
    with pytest.raises(InvalidInput, match="expected an agent, got 3"):
        Runner(3)  # type: ignore[arg-type]
    assert [agent.name for agent in Runner(root).agent.walk()] == ["s", "a"]


def test_an_agent_may_be_a_tool_of_two() -> None:
    helper = says("a", description="x")
    users = [Agent(name=name, tools=[helper]) for name in ("b", "c")]
    tree = SequentialAgent(name="s", sub_agents=users)
    assert [agent.name for agent in tree.everyone()] == ["s", "b", "a", "c"]


def test_a_runner_knows_the_models_and_memories_of_all_agents() -> None:
    inner = Agent(name="inner", description="x", model="gpt-nope")
    with pytest.raises(InvalidInput, match="agent 'inner': no model 'gpt-nope'"):
        Runner(Agent(name="outer", tools=[inner]))
    tree = Agent(name="outer", tools=[Agent(name="b", description="x"), greet])
    assert [agent.name for agent in Runner(tree).agent.everyone()] == ["outer", "b"]


@pytest.mark.parametrize("field", ["max_llm_calls", "token_budget", "timeout", "tool_timeout"])
def test_a_limit_that_allows_nothing_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} cannot be 0"):
        RunConfig(**{field: 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_hops cannot be -1"):
        RunConfig(max_hops=-1)


async def test_an_agent_without_a_run_method_says_what_to_write() -> None:
    @dataclass(kw_only=True, eq=False)
    class Unfinished(BaseAgent):
        pass

    with pytest.raises(AgentFailed, match=r"Unfinished must define `async def run\(self, ctx\)`"):
        await turn(Unfinished(name="a"))


@pytest.mark.parametrize("name", ["writer", "writer-2", "_x", "作家", "a" * 64])
def test_names_of_letters_digits_dashes_are_fine_in_any_language(name: str) -> None:
    assert says(name).name == name
