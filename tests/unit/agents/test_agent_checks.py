"""Invalid agents, trees and options are rejected on construction."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import pytest
from agent_support import says, turn
from msgspec import Meta

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
    exit_loop,
    tool,
)
from acc.domain.errors import AgentFailed, InvalidInput, InvalidTree
from acc.testing import ScriptedModel


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
    vars(outer)["tools"] = [Agent(name="inner", description="x", tools=[outer])]
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
        "'child' .* 'first_parent' .* 's'",
    ),
    "the same agent twice": (
        lambda: SequentialAgent(name="s", sub_agents=[agent := says("a"), agent]),
        "'a' occurs twice .* 's'",
    ),
    "a name again further down": (
        lambda: SequentialAgent(
            name="x", sub_agents=[ParallelAgent(name="p", sub_agents=[says("x")])]
        ),
        "'x' have the name 'x'",
    ),
    "no agent": (
        lambda: SequentialAgent(name="s", sub_agents=["a"]),  # type: ignore[list-item]
        "'s': sub_agents: .*got 'a'",
    ),
    "a name with a space": (lambda: says("a b"), "'a b' .* an agent"),
    "a name with a digit first": (lambda: says("1a"), "'1a'"),
    "no name": (lambda: says(""), "an agent needs a name"),
    "a name that is no text": (lambda: BaseAgent(name=3), "3 is not a valid name"),  # type: ignore[arg-type]
    "a long name": (lambda: says("a" * 65), "longer than 64 characters"),
    "a reserved name": (lambda: says("user"), "'user' is reserved"),
    "grants to a stranger": (
        lambda: SequentialAgent(name="s", sub_agents=[says("a")], grants={"b": Grant()}),
        "'s': grants .* 'b'",
    ),
    "an empty sequence": (lambda: SequentialAgent(name="s"), "'s' needs at least one sub-agent"),
    "an empty parallel": (lambda: ParallelAgent(name="p"), "'p' needs at least one sub-agent"),
    "an empty loop": (
        lambda: LoopAgent(name="l", max_iterations=1),
        "'l' needs at least one sub-agent",
    ),
    "an empty router": (lambda: RouterAgent(name="r"), "'r' needs at least one sub-agent"),
    "an empty graph": (lambda: GraphAgent(name="g"), "'g' needs at least one sub-agent"),
    "a loop without a bound": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")]),
        "'l' needs max_iterations .* got None",
    ),
    "a loop of no round": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")], max_iterations=0),
        "max_iterations .* got 0",
    ),
    "a loop bound that is no number": (
        lambda: LoopAgent(name="l", sub_agents=[says("a")], max_iterations=True),
        "max_iterations .* got True",
    ),
    "an unknown merge rule": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], merge={"x": cast(Any, "newest")}),
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
        "'p': on_error .* got 'ignore'",
    ),
    "no branch at a time": (
        lambda: ParallelAgent(name="p", sub_agents=[says("a")], max_concurrency=0),
        "max_concurrency .* got 0",
    ),
    "a router to a stranger": (
        lambda: RouterAgent(name="r", sub_agents=[says("a", description="x")], default="b"),
        "'r': 'b' is not a sub-agent",
    ),
    "intents of a stranger": (
        lambda: RouterAgent(name="r", sub_agents=[says("a", description="x")], intents={"b": []}),
        "'r': 'b' is not a sub-agent",
    ),
    "a router by magic": (
        lambda: RouterAgent(
            name="r",
            sub_agents=[says("a", description="x")],
            by="magic",  # type: ignore[arg-type]
        ),
        "'r': by .* got 'magic'",
    ),
    "a router to the undescribed": (
        lambda: RouterAgent(name="r", sub_agents=[says("a")]),
        "'a' needs a description: router 'r' chooses by it",
    ),
    "an edge to nowhere": (
        lambda: graph(edges=[*LINE, ("c", "d")]),
        "c → d uses 'd'.*a, b, c",
    ),
    "an edge from nowhere": (lambda: graph(edges=[*LINE, Edge("z", "a")]), "z → a uses 'z'"),
    "a condition on what is done otherwise": (
        lambda: graph(edges=[("a", "b"), Edge("b", "c", when=bool, otherwise=True)]),
        "'g': edge b → c .* otherwise",
    ),
    "an edge with one end": (lambda: graph(edges=[("a",)]), "\\('a',\\) is not an edge"),
    "a start that is no node": (lambda: graph(edges=LINE, start="z"), "'z' is not the name"),
    "a join that is no node": (lambda: graph(edges=LINE, joins=["z"]), "'z' is not the name"),
    "a join of one edge": (
        lambda: graph(edges=LINE, joins=["b"]),
        "join 'b'",
    ),
    "a node that no edge leads to": (
        lambda: graph(edges=[("a", "b")]),
        "c cannot be reached from 'a'",
    ),
    "a cycle without a bound": (
        lambda: graph(edges=[*LINE, ("c", "b")]),
        "b, c; set max_steps",
    ),
    "a graph of no step": (lambda: graph(edges=LINE, max_steps=0), "max_steps .* got 0"),
    "a graph with an unknown merge rule": (
        lambda: graph(edges=LINE, merge={"x": cast(Any, "newest")}),
        "unknown merge rule 'newest'",
    ),
    "a graph with an unknown way to fail": (
        lambda: graph(edges=LINE, on_error="ignore"),
        "'g': on_error",
    ),
    "an agent without a model": (lambda: Agent(name="a", model=""), "'a' has no model"),
    "a sub-agent without a description": (
        lambda: Agent(name="a", sub_agents=[says("b")]),
        "'b' needs a description",
    ),
    "a schema that is no type": (
        lambda: Agent(name="a", output_schema=object),
        "'a': .* output_schema",
    ),
    "two tools of one name": (
        lambda: Agent(name="a", tools=[greet, tool(name="greet")(greet)]),
        "'a' has two tools named 'greet'",
    ),
    "a tool named as the transfer": (
        lambda: Agent(name="a", tools=[tool(name="transfer_to_agent")(greet)]),
        "'transfer_to_agent' is the name of a tool of acc",
    ),
    "an agent as its own tool": (lambda: OwnTool(name="a", description="x"), "be its own tool"),
    "a tool agent with a memory": (
        lambda: Agent(name="a", tools=[Agent(name="b", description="x", memory="acc")]),
        "'b' is used as a tool",
    ),
    "an agent as sub-agent and tool": (
        lambda: Agent(name="s", sub_agents=[agent := says("a", description="x")], tools=[agent]),
        "'a' occurs twice .* 's'",
    ),
    "an agent that comes back as a tool": (_in_a_circle, "'outer' occurs twice"),
    "a tool agent of another's": (
        lambda: Agent(name="s", tools=[AgentTool(agent=_with_parent(), description="x")]),
        "'child' .* 'first_parent' .* 's'",
    ),
    "a name again in a tool": (
        lambda: SequentialAgent(
            name="s",
            sub_agents=[Agent(name="b", tools=[says("c", description="x")]), says("c")],
        ),
        "'s' have the name 'c'",
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
        "'c' is used as a tool",
    ),
    "an agent tool without a description": (
        lambda: Agent(name="a", tools=[says("b")]),
        "agent 'b' needs a description",
    ),
    "an agent tool of a bad name": (
        lambda: AgentTool(agent=says("b", description="x"), name="b c"),
        "'b c' .* a tool",
    ),
    "no tool": (lambda: Agent(name="a", tools=["greet"]), "'greet' is not a tool"),  # type: ignore[list-item]
    "a tool without type hints": (
        lambda: tool(untyped),
        "tool 'untyped': parameter 'name'",
    ),
    "a part of a function": (
        lambda: Agent(name="a", tools=[functools.partial(greet, "x")]),
        "'x'\\) cannot be a tool",
    ),
    "a tool whose default does not fit": (
        lambda: tool(modest),
        "tool 'modest': .* 'amount' .* Expected `int` >= 1",
    ),
    "a tool of any number of arguments": (
        lambda: tool(variadic),
        "parameter 'names'",
    ),
    "a tool by position": (lambda: tool(by_position), "parameter 'name'"),
    "a tool whose argument has no schema": (
        lambda: tool(takes_a_function),
        "tool 'takes_a_function': no JSON schema",
    ),
    "a tool whose argument has no schema and need not be given": (
        lambda: tool(may_take_a_function),
        "no JSON schema .* Callable cannot be decoded",
    ),
    "a tool whose type is unknown": (
        lambda: tool(takes_an_unknown),
        "tool 'takes_an_unknown': name 'Nowhere' is not defined; import the type",
    ),
    "a tool without a name": (lambda: tool(lambda: 1), "a lambda .* a tool"),
    "a tool that hides its type hints": (
        lambda: FunctionTool(functools.partial(greet, "x"), name="greet_x"),
        "'x'\\) cannot be a tool",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_tree_is_rejected(case: str) -> None:
    build, reason = REFUSED[case]
    with pytest.raises(InvalidInput, match=reason):
        build()


def test_agents_of_rejected_tree_can_be_reused() -> None:
    child = says("a")
    with pytest.raises(InvalidTree):
        SequentialAgent(name="s", sub_agents=[child], grants={"z": Grant()})
    assert SequentialAgent(name="s", sub_agents=[child]).find("a") is child


def test_runner_accepts_only_root_agents() -> None:
    child = says("a")
    root = SequentialAgent(name="s", sub_agents=[child])
    with pytest.raises(InvalidInput, match="'a' is a sub-agent of 's'; run the root"):
        Runner(child)
    with pytest.raises(InvalidInput, match="expected an agent .*, got 3"):
        Runner(3)  # type: ignore[arg-type]
    assert [agent.name for agent in Runner(root).agent.walk()] == ["s", "a"]


def test_agent_tool_may_be_shared() -> None:
    helper = says("a", description="x")
    users = [Agent(name=name, tools=[helper]) for name in ("b", "c")]
    tree = SequentialAgent(name="s", sub_agents=users)
    assert [agent.name for agent in tree.walk_all()] == ["s", "b", "a", "c"]


def test_runner_checks_models_of_agent_tools() -> None:
    inner = Agent(name="inner", description="x", model="nope-1")
    with pytest.raises(InvalidInput, match="agent 'inner': no model 'nope-1'"):
        Runner(Agent(name="outer", tools=[inner]))
    tree = Agent(name="outer", tools=[Agent(name="b", description="x"), greet])
    assert [agent.name for agent in Runner(tree).agent.walk_all()] == ["outer", "b"]


@pytest.mark.parametrize("field", ["max_llm_calls", "token_budget", "timeout", "tool_timeout"])
def test_run_config_rejects_zero_limits(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be greater than 0, got 0"):
        RunConfig(**{field: 0})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_hops must be at least 0, got -1"):
        RunConfig(max_hops=-1)


async def test_agent_without_run_method_fails() -> None:
    @dataclass(kw_only=True, eq=False)
    class Unfinished(BaseAgent):
        pass

    with pytest.raises(AgentFailed, match=r"Unfinished must define `async def run\(self, ctx\)`"):
        await turn(Unfinished(name="a"))


@pytest.mark.parametrize("name", ["writer", "writer-2", "_x", "作家", "a" * 64])
def test_valid_names_are_accepted(name: str) -> None:
    assert says(name).name == name


THREE: Any = 3


def small_graph(**fields: Any) -> GraphAgent:
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


INVALID_OPTIONS: dict[str, tuple[Callable[[], object], str]] = {
    "a text as a condition": (
        lambda: small_graph(edges=[("a", "b", "go")]),
        "edge a → b .* got 'go'",
    ),
    "a text as a condition of an edge": (
        lambda: small_graph(edges=[Edge("a", "b", when=THREE)]),
        "edge a → b .* got 3",
    ),
    "a text as an edge": (lambda: small_graph(edges=["ab"]), "'ab' is not an edge"),
    "a number as an edge": (lambda: small_graph(edges=[3]), "3 is not an edge"),
    "edges that are no list": (lambda: small_graph(edges=3), "'g': edges .* got 3"),
    "a join that is no list": (lambda: small_graph(joins="b"), "'g': joins .* got 'b'"),
    "a number of steps that is none": (
        lambda: small_graph(max_steps="2"),
        "'g': max_steps .* got '2'",
    ),
    "a number of branches that is none": (
        lambda: parallel(max_concurrency="2"),
        "'p': max_concurrency .* got '2'",
    ),
    "half a branch": (lambda: parallel(max_concurrency=True), "max_concurrency .* got True"),
    "a list of merge rules": (
        lambda: parallel(merge=["a"]),
        "'p': merge .* got \\['a'\\]",
    ),
    "an intent of letters": (
        lambda: router(intents={"a": "pay my invoice"}),
        "'r': intents",
    ),
    "intents that are no mapping": (lambda: router(intents=["a"]), "'r': intents"),
    "an intent of numbers": (lambda: router(intents={"a": [3]}), "'r': intents"),
    "an intent of a number": (lambda: router(intents={"a": 3}), "'r': intents"),
    "a router with no model": (lambda: router(model=object()), "'r': model"),
    "an agent with no model": (
        lambda: agent(model=object()),
        "'a': model",
    ),
    "a memory that is none": (
        lambda: agent(memory=3),
        "'a': memory .* got 3",
    ),
    "an instruction that is none": (lambda: agent(instruction=3), "'a': instruction .* got 3"),
    "a key that is no text": (lambda: agent(output_key=3), "output_key .* got 3"),
    "an empty key": (lambda: agent(output_key="  "), "output_key .* got '  '"),
    "a tool alone": (lambda: agent(tools=exit_loop), "'a': tools"),
    "a callback that is none": (
        lambda: agent(before_model_callback=3),
        "'a': before_model_callback .* got 3",
    ),
    "a callback of any agent that is none": (
        lambda: says("a", after_agent_callback=3),
        "'a': after_agent_callback .* got 3",
    ),
    "grants of everything": (
        lambda: agent(sub_agents=[says("b", description="x")], grants={"b": "all"}),
        "'a': grants",
    ),
    "no grants": (lambda: BaseAgent(name="a", grants=THREE), "'a': grants .* got 3"),
    "a word that is none": (lambda: says("a", confirm=3), "'a': confirm .* got 3"),
    "a tool with a word that is none": (
        lambda: timed(confirm=3),
        "tool 'exit_loop': confirm .* got 3",
    ),
    "a tool without time": (lambda: timed(timeout=-1), "tool 'exit_loop': timeout .* got -1"),
    "an agent tool with an odd time": (
        lambda: AgentTool(agent=says("a", description="x"), confirm_expires=THREE * "x"),
        "tool 'a': confirm_expires .* got 'xxx'",
    ),
    "a stand-in that is none": (
        lambda: RunConfig(stubs={"a": THREE}),
        "RunConfig.stubs must map names of agents and tools to texts or functions, got {'a': 3}",
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
        'or "memory", or a pair of stores, got NoneType',
    ),
}


@pytest.mark.parametrize("case", INVALID_OPTIONS)
def test_invalid_option_is_rejected(case: str) -> None:
    build, reason = INVALID_OPTIONS[case]
    with pytest.raises(InvalidInput, match=reason):
        build()


async def test_run_arguments_are_checked() -> None:
    runner = Runner(says("a"))
    who: dict[str, Any] = {"user_id": "u", "session_id": "s", "message": "x"}
    with pytest.raises(InvalidInput, match="config must be a RunConfig, got 3"):
        await runner.run(**who, config=THREE)
    with pytest.raises(InvalidInput, match="context must be a CallContext, got 3"):
        await runner.run(**who, context=THREE)
    assert (await runner.run(**who, config=RunConfig())).text == "a"


def test_valid_options_are_accepted() -> None:
    given = (item for item in (exit_loop, says("helper", description="x")))
    made = agent(tools=given, output_key="k", memory=None, instruction=lambda ctx: "x")
    assert list(made.own_tools) == ["exit_loop", "helper"]
    assert agent(model=ScriptedModel(), confirm="Sure?", output_key="").confirm == "Sure?"
    granted = agent(sub_agents=[says("b", description="x")], grants={"b": Grant()})
    assert list(granted.grants) == ["b"]
    assert small_graph(max_steps=2).max_steps == 2
    with pytest.raises(InvalidTree, match="'a' has no model"):
        agent(model="")
