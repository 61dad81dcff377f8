"""Rules about parallel writes, state keys and schemas."""

from dataclasses import dataclass
from typing import Any

import pytest
from lint_support import (
    NOT_APPLICABLE,
    OK,
    PROBLEM,
    WARNING,
    Own,
    Writes,
    agent,
    findings,
    rule,
    sequence,
)

from acc import (
    AgentTool,
    Edge,
    GraphAgent,
    ParallelAgent,
    RouterAgent,
    RunContext,
    SequentialAgent,
    ToolContext,
    tool,
)
from acc.application.use_cases.check_agents import check_agents


def test_parallel_writes_of_one_key_need_merge_rule() -> None:
    def branches(**fields: Any) -> ParallelAgent:
        deep = SequentialAgent(name="deep", sub_agents=[agent("b", output_key="found")])
        one = agent("a", output_key="found")
        return ParallelAgent(name="both", sub_agents=[one, deep], **fields)

    text = "'both' runs them concurrently and both write 'found' without a merge rule"
    assert findings(branches(), "branches") == [("problem", ("a", "deep"), text)]
    assert rule(branches(merge={"fo*": "list"}), "branches").severity is OK


def test_concurrent_graph_nodes_are_checked() -> None:
    def graph(*edges: Any) -> GraphAgent:
        nodes = [
            agent("start"),
            agent("a", output_key="found"),
            agent("b", output_key="found"),
        ]
        return GraphAgent(name="g", sub_agents=nodes, edges=edges)

    both = graph(("start", "a"), ("start", "b"))
    either = graph(("start", "a", bool), ("start", "b", bool))
    chosen = graph(("start", "a", bool), Edge("start", "b", otherwise=True))
    assert rule(both, "branches").severity is PROBLEM
    assert rule(either, "branches").severity is WARNING
    assert rule(chosen, "branches").severity is NOT_APPLICABLE


def test_inconsistent_keys_are_reported() -> None:
    root = sequence(
        agent("a", output_key="order_total"),
        agent("b", output_key="user:home_town"),
        agent("c", output_key="orderTotal"),
        agent("d", output_key="home_town"),
        agent("e", output_key="usr:name"),
        agent("f", output_key="two words"),
        agent("g", "Use {order_total} and {合計?}."),
    )
    texts = [text for _, _, text in findings(root, "state-keys")]
    assert texts == [
        "most keys use snake_case, except orderTotal",
        "'usr:name': 'usr' is not a scope, so the key has the lifetime of the session",
        "'two words' cannot be used in an instruction",
        "'order_total' and 'orderTotal' look like the same key with different spelling",
        "'user:home_town' and 'home_town' are different keys in different scopes",
    ]


def test_written_and_optional_keys_are_accepted() -> None:
    root = sequence(agent("a", output_key="draft"), agent("b", "Use {draft} and {notes?}."))
    assert rule(root, "state-keys").severity is OK
    assert rule(root, "state-keys").note == "draft, notes"


@pytest.mark.parametrize(
    ("key", "level"), [("nobody", "problem"), ("user:town", "warning"), ("app:town", "warning")]
)
def test_unwritten_key_is_reported(key: str, level: str) -> None:
    assert [f[0] for f in findings(sequence(agent("a", f"Use {{{key}}}.")), "state-keys")] == [
        level
    ]


def test_key_written_later_is_a_problem() -> None:
    later = sequence(agent("a", "Use {draft}."), agent("b", output_key="draft"))
    text = "its instruction uses {draft}, which b writes only later or in another branch"
    assert findings(later, "state-keys") == [("problem", ("a",), text)]
    beside = ParallelAgent(
        name="both", sub_agents=[agent("a", "Use {draft}."), agent("b", output_key="draft")]
    )
    assert findings(beside, "state-keys") == [("problem", ("a",), text)]


def test_fix_does_not_suggest_running_agent_before_itself() -> None:
    reader = agent("b", "Use {draft}.", output_key="draft")
    ask = "its instruction uses {draft}, which"
    (alone,) = rule(sequence(reader), "state-keys").findings
    assert alone.text == f"{ask} only the agent itself writes, after reading it"
    assert alone.fix.startswith("let another agent write it before b, or write {draft?}")
    reader = agent("b", "Use {draft}.", output_key="draft")
    writers = [agent(name, output_key="draft") for name in ("a", "c")]
    both = ParallelAgent(name="both", sub_agents=[reader, *writers], merge={"draft": "list"})
    (several,) = rule(both, "state-keys").findings
    assert several.text == f"{ask} a, c write only later or in another branch"
    assert several.fix.startswith("run a, c before b, or write {draft?}")
    reader = agent("b", "Use {draft}.", output_key="draft")
    root = agent("a", tools=[AgentTool(agent=reader)])
    (again,) = rule(root, "state-keys").findings
    assert again.text == f"{ask} b may not have written yet"
    assert again.fix.startswith("let another agent write it before b in all cases, or")


def test_keys_of_parallel_branches_are_known_afterwards() -> None:
    both = ParallelAgent(
        name="both", sub_agents=[agent("a", output_key="x_1"), agent("b", output_key="y_1")]
    )
    root = sequence(both, agent("c", "Use {x_1} and {y_1}."))
    assert rule(root, "state-keys").severity is OK


def test_router_guarantees_only_common_keys() -> None:
    def choose(*keys: str) -> SequentialAgent:
        choices = [agent(f"n{n}", output_key=key) for n, key in enumerate(keys)]
        return sequence(RouterAgent(name="front", sub_agents=choices), agent("c", "Use {x_1}."))

    assert rule(choose("x_1", "x_1"), "state-keys").severity is OK
    text = "its instruction uses {x_1}, which n0 may not have written yet"
    assert findings(choose("x_1", "y_1"), "state-keys") == [("warning", ("c",), text)]


def test_transfer_guarantees_no_keys() -> None:
    front = agent(
        "front", output_key="said_1", sub_agents=[agent("a", "Use {said_1}."), agent("b")]
    )
    root = sequence(front, agent("c", "Use {said_1}."))
    assert [f[:2] for f in findings(root, "state-keys")] == [
        ("warning", ("a",)),
        ("warning", ("c",)),
    ]


def test_keys_are_followed_along_edges() -> None:
    def graph(joins: tuple[str, ...], *edges: Any) -> SequentialAgent:
        nodes = [
            agent("start"),
            agent("a", output_key="x_1"),
            agent("b", output_key="y_1"),
            agent("end", "Use {x_1} and {y_1}.", output_key="z_1"),
        ]
        return sequence(
            GraphAgent(name="g", sub_agents=nodes, edges=edges, joins=joins, max_steps=9),
            agent("after", "Use {z_1}."),
        )

    fan = [("start", "a"), ("start", "b"), ("a", "end"), ("b", "end")]
    assert rule(graph(("end",), *fan), "state-keys").severity is OK
    missing = rule(graph((), *fan), "state-keys")
    assert [f.agents for f in missing.findings] == [("end",), ("end",)]
    assert missing.severity is WARNING
    back = graph(("end",), *fan, ("end", "start", bool))
    assert rule(back, "state-keys").severity is OK
    maybe = graph(("end",), *fan[:3], ("b", "end", bool), ("b", "start", bool))
    assert [f[1] for f in findings(maybe, "state-keys")] == [("after",)]


def test_keys_of_endless_graph_are_known() -> None:
    nodes = [agent("a", output_key="x_1"), agent("b", output_key="y_1")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[("a", "b"), ("b", "a")], max_steps=3)
    assert rule(sequence(graph, agent("c", "Use {x_1}.")), "state-keys").severity is OK


def remember(ctx: RunContext) -> None:
    ctx.state["made"] = "early"


def remember_late(ctx: RunContext, text: str) -> None:
    ctx.state["made"] = text


def test_keys_in_code_count_as_written() -> None:
    @tool
    def note(ctx: ToolContext) -> str:
        """Take a note."""
        ctx.state["made"] = 1
        return "noted"

    reader = "Use {made}."
    assert rule(agent("a", reader, before_agent_callback=remember), "state-keys").severity is OK
    after = sequence(agent("a", after_agent_callback=remember_late), agent("b", reader))
    assert rule(after, "state-keys").severity is OK
    assert rule(sequence(Writes(name="w"), agent("b", reader)), "state-keys").severity is OK
    inside = Writes(name="w", sub_agents=[agent("b", reader)])
    assert rule(inside, "state-keys").severity is OK
    by_tool = sequence(agent("a", tools=[note]), agent("b", reader))
    assert [f[0] for f in findings(by_tool, "state-keys")] == ["warning"], "it need not be called"
    no_writer = sequence(Own(name="own"), agent("b", reader))
    assert [f[0] for f in findings(no_writer, "state-keys")] == ["warning"], "its code might"


def test_unknown_writes_reduce_severity() -> None:
    @tool
    def put(key: str, ctx: ToolContext) -> str:
        """Put something somewhere."""
        ctx.state[key] = 1
        return "put"

    root = agent("a", "Use {made}.", tools=[put])
    assert [f[0] for f in findings(root, "state-keys")] == ["warning"]


def test_agent_tools_are_checked() -> None:
    helper = agent("helper", "Use {given}.", output_key="given", memory=None)
    root = sequence(agent("a", tools=[AgentTool(agent=helper)]), agent("b"))
    report = check_agents(root)
    assert report.agents == 4
    text = "its instruction uses {given}, which helper may not have written yet"
    assert findings(root, "state-keys") == [("warning", ("helper",), text)]


@dataclass
class Order:
    total: int


@dataclass
class Bill:
    amount: int


def test_schema_without_key_or_with_transfers_is_reported() -> None:
    loose = agent("a", output_schema=Order, sub_agents=[agent("b")])
    assert [text for _, _, text in findings(loose, "schemas")] == [
        "has an output_type but no output_key, so other agents receive its answer as text",
        "has an output_type but may transfer to b, which need not match it",
    ]
    assert rule(agent("a", output_schema=int, output_key="n"), "schemas").severity is OK


def test_different_schemas_for_one_key_are_a_problem() -> None:
    root = sequence(
        agent("a", output_schema=Order, output_key="it"),
        agent("b", output_schema=Order, output_key="it"),
        agent("c", output_schema=Bill, output_key="it"),
    )
    assert [names for _, names, _ in findings(root, "schemas")] == [("a", "c"), ("b", "c")]


def test_field_and_nested_placeholders_are_reported() -> None:
    root = sequence(
        agent("a", output_schema=Order, output_key="order"),
        agent(
            "b", "Say {total}, {order.total}, {order[total]}, {{order.total}}, {artifact.x.txt}."
        ),
    )
    assert [text for _, _, text in findings(root, "schemas")] == [
        "its instruction contains {order.total}, which is not replaced",
        "its instruction contains {order[total]}, which is not replaced",
        "uses {total}, which is a field of the answer of 'a' and not a state key",
    ]
    assert rule(root, "state-keys").severity is OK
    keyless = sequence(agent("a", output_schema=Order), agent("b", "Say {total}."))
    assert rule(keyless, "schemas").findings[-1].fix.startswith("set output_key on 'a'")
    by_code = agent("a", output_schema=Order, output_key="o")
    by_code.instruction = lambda ctx: "{o.total}"
    assert rule(by_code, "schemas").severity is OK


def test_keys_of_the_global_instruction_are_checked() -> None:
    def tree(*before: Any) -> SequentialAgent:
        children = [*before, agent("b")]
        return SequentialAgent(name="s", global_instruction="Use {made}.", sub_agents=children)

    (finding,) = findings(tree(), "state-keys")
    assert finding[1] == ("b",) and "made" in finding[2]
    assert findings(tree(Writes(name="w")), "state-keys") == []
