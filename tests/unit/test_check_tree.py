"""The checklist for designs of several agents, rule by rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from acc import (
    Agent,
    AgentTool,
    BaseAgent,
    Edge,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    RouterAgent,
    RunContext,
    SequentialAgent,
    ToolContext,
    exit_loop,
    tool,
)
from acc.application.lint.structure import Severity
from acc.application.use_cases.check_agents import RuleReport, check_agents

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM
NOT_APPLICABLE = Severity.NOT_APPLICABLE


def rule(root: BaseAgent, name: str) -> RuleReport:
    return next(rule for rule in check_agents(root).rules if rule.name == name)


def found(root: BaseAgent, name: str) -> list[tuple[str, tuple[str, ...], str]]:
    return [(f.severity.value, f.agents, f.text) for f in rule(root, name).findings]


def agent(name: str, instruction: str = "Do one thing.", **fields: Any) -> Agent:
    fields.setdefault("description", f"Takes care of everything that {name * 3} stands for")
    return Agent(name=name, instruction=instruction, **fields)


def sequence(*agents: BaseAgent) -> SequentialAgent:
    return SequentialAgent(name="root", sub_agents=agents)


class Own(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        return "done"


class Writes(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        ctx.state["made"] = 1
        return "done"


def make_tools(count: int) -> list[Any]:
    return [tool(name=f"look_{n}")(lambda: "x") for n in range(count)]


def test_a_plain_agent_has_nothing_wrong() -> None:
    report = check_agents(agent("solo"))
    assert [r.severity for r in report.rules] == [OK, *[NOT_APPLICABLE] * 7]
    assert (report.agent, report.agents, report.severity) == ("solo", 1, OK)
    assert report.count(WARNING) == 0
    assert all(r.title and r.title_ja for r in report.rules)


def test_a_tree_without_models_has_no_responsibilities_to_look_at() -> None:
    assert rule(Own(name="own"), "single-responsibility").severity is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("tools", "verdict"), [(10, OK), (11, WARNING), (20, WARNING), (21, PROBLEM)]
)
def test_too_many_tools_are_told(tools: int, verdict: Severity) -> None:
    one = agent("busy", tools=make_tools(tools))
    assert rule(one, "single-responsibility").severity is verdict


def test_an_empty_or_very_long_instruction_is_told_and_a_function_is_not_read() -> None:
    root = sequence(
        agent("empty", " "),
        agent("long", "x" * 4001),
        Agent(name="by_code", description="Is told by a function", instruction=lambda ctx: ""),
    )
    told = found(root, "single-responsibility")
    assert [(level, names) for level, names, _ in told] == [
        ("warning", ("empty",)),
        ("warning", ("long",)),
    ]


def test_many_choices_are_told_more_so_beside_tools() -> None:
    def group(count: int) -> list[Agent]:
        return [agent(f"n{n}", memory=None) for n in range(count)]

    many = agent("many", sub_agents=group(9))
    beside = agent("beside", sub_agents=group(6), tools=make_tools(1))
    router = RouterAgent(name="front", sub_agents=group(9))
    assert found(many, "single-responsibility")[0][2] == "chooses among 9 sub-agents"
    assert "1 tools and delegates to 6" in found(beside, "single-responsibility")[0][2]
    assert found(router, "single-responsibility")[0][1] == ("front",)


def test_descriptions_that_are_missing_short_or_only_a_name_are_told() -> None:
    root = sequence(
        Agent(name="first", instruction="x"),
        Agent(name="second", instruction="x"),
        Agent(name="third", instruction="x", description="Bills"),
        Agent(name="四番", instruction="x", description="請求"),
        Agent(name="五番", instruction="x", description="請求書の質問"),
        Agent(name="order_tracking", instruction="x", description="Order tracking"),
    )
    assert found(root, "descriptions") == [
        ("warning", ("first", "second"), "no description"),
        ("warning", ("third",), "its description 'Bills' is too short"),
        ("warning", ("四番",), "its description '請求' is too short"),
        ("warning", ("order_tracking",), "its description 'Order tracking' only repeats its name"),
    ]


def test_equal_descriptions_are_a_problem_where_someone_chooses_by_them() -> None:
    def pair() -> list[BaseAgent]:
        same = "Answers questions about invoices and payments of customers"
        return [agent("a", description=same), agent("b", description=same)]

    chosen = [
        (sequence(*pair()), "warning"),
        (agent("root", sub_agents=pair()), "problem"),
        (RouterAgent(name="root", sub_agents=pair()), "problem"),
        (RouterAgent(name="root", by=lambda ctx: "a", sub_agents=pair()), "warning"),
        (agent("root", tools=pair()), "problem"),
    ]
    for root, level in chosen:
        assert found(root, "descriptions") == [(level, ("a", "b"), "have the same description")]


def test_nearly_equal_descriptions_are_told_and_intents_tell_them_apart() -> None:
    first = "Answers questions about invoices payments refunds credits orders and returns"
    second = f"{first} kindly"
    intents = {"a": ("delivery parcel late truck courier",), "b": ("cancel contract end leave",)}

    def pair() -> list[BaseAgent]:
        return [agent("a", description=first), agent("b", description=second)]

    assert found(sequence(*pair()), "descriptions") == [
        ("warning", ("a", "b"), "have nearly the same description")
    ]
    router = RouterAgent(name="root", intents=intents, sub_agents=pair())
    assert rule(router, "descriptions").severity is OK


def test_a_loop_that_nothing_ends_is_told_with_its_bound() -> None:
    loop = LoopAgent(name="again", max_iterations=3, sub_agents=[agent("a"), Own(name="own")])
    assert found(loop, "loop-bounds") == [
        ("warning", ("again",), "no agent in it ends the loop, so it always runs 3 rounds")
    ]
    assert rule(loop, "loop-bounds").note == "again: at most 3 rounds"


def test_a_loop_of_many_rounds_is_told_and_one_round_needs_no_end() -> None:
    long = LoopAgent(name="long", max_iterations=26, sub_agents=[agent("a", tools=[exit_loop])])
    once = LoopAgent(name="once", max_iterations=1, sub_agents=[agent("a")])
    assert found(long, "loop-bounds") == [("warning", ("long",), "may run 26 rounds")]
    assert rule(once, "loop-bounds").severity is OK


def stop(ctx: RunContext, text: str) -> None:
    def inner() -> None:
        ctx.escalated = True

    inner()


class Stopper:
    def __call__(self, ctx: RunContext, text: str) -> None:
        ctx.escalated = True


def test_whatever_can_escalate_ends_a_loop() -> None:
    class Escalates(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            ctx.escalated = True
            return "enough"

    @tool
    def finish(ctx: ToolContext) -> str:
        """End it."""
        ctx.actions.escalate = True
        return "done"

    enders: list[BaseAgent] = [
        agent("a", tools=[finish]),
        agent("a", after_agent_callback=stop),
        agent("a", after_agent_callback=Stopper()),
        Escalates(name="a"),
        SequentialAgent(name="a", sub_agents=[Own(name="b"), agent("c", tools=[exit_loop])]),
    ]
    for ender in enders:
        loop = LoopAgent(name="again", max_iterations=3, sub_agents=[ender])
        assert rule(loop, "loop-bounds").severity is OK, ender


def test_an_inner_loop_and_builtin_callbacks_do_not_end_the_outer_one() -> None:
    inner = LoopAgent(name="inner", max_iterations=2, sub_agents=[agent("a", tools=[exit_loop])])
    outer = LoopAgent(name="outer", max_iterations=2, sub_agents=[inner])
    assert [names for _, names, _ in found(outer, "loop-bounds")] == [("outer",)]
    builtin = agent("a", before_agent_callback=print)
    loop = LoopAgent(name="again", max_iterations=2, sub_agents=[builtin])
    assert rule(loop, "loop-bounds").severity is WARNING


def test_a_cycle_without_a_condition_is_a_problem() -> None:
    def nodes(**fields: Any) -> list[BaseAgent]:
        return [agent("a", **fields), agent("b")]

    endless = GraphAgent(name="g", sub_agents=nodes(), edges=[("a", "b"), ("b", "a")], max_steps=4)
    assert found(endless, "loop-bounds") == [
        (
            "problem",
            ("g",),
            "repeats a → b → a without a condition until max_steps=4 fails the run",
        )
    ]
    edges: list[Any] = [("a", "b"), Edge("b", "a", when=lambda state: state.get("again"))]
    ends = GraphAgent(name="g", sub_agents=nodes(), edges=edges, max_steps=4)
    assert rule(ends, "loop-bounds").severity is OK
    exits = GraphAgent(
        name="g",
        sub_agents=nodes(tools=[exit_loop]),
        edges=[("a", "b"), ("b", "a")],
        max_steps=4,
    )
    assert rule(exits, "loop-bounds").severity is OK
    straight = GraphAgent(name="g", sub_agents=nodes(), edges=[("a", "b")])
    assert rule(straight, "loop-bounds").severity is NOT_APPLICABLE


def test_parallel_branches_that_write_the_same_key_need_a_rule() -> None:
    def branches(**fields: Any) -> ParallelAgent:
        deep = SequentialAgent(name="deep", sub_agents=[agent("b", output_key="found")])
        one = agent("a", output_key="found")
        return ParallelAgent(name="both", sub_agents=[one, deep], **fields)

    text = "'both' runs them concurrently and both write 'found' without a merge rule"
    assert found(branches(), "branches") == [("problem", ("a", "deep"), text)]
    assert rule(branches(merge={"fo*": "list"}), "branches").severity is OK


def test_graph_nodes_that_may_run_side_by_side_are_branches_too() -> None:
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


def test_keys_in_several_styles_scopes_and_spellings_are_told() -> None:
    root = sequence(
        agent("a", output_key="order_total"),
        agent("b", output_key="user:home_town"),
        agent("c", output_key="orderTotal"),
        agent("d", output_key="home_town"),
        agent("e", output_key="usr:name"),
        agent("f", output_key="two words"),
        agent("g", "Use {order_total} and {合計?}."),
    )
    texts = [text for _, _, text in found(root, "state-keys")]
    assert texts == [
        "most keys use snake_case, except orderTotal",
        "'usr:name': 'usr' is not a scope, so the key has the lifetime of the session",
        "'two words' cannot be used in an instruction",
        "'order_total' and 'orderTotal' look like the same key with different spelling",
        "'user:home_town' and 'home_town' are different keys in different scopes",
    ]


def test_a_key_that_is_written_before_is_fine_and_one_that_may_be_absent_too() -> None:
    root = sequence(agent("a", output_key="draft"), agent("b", "Use {draft} and {notes?}."))
    assert rule(root, "state-keys").severity is OK
    assert rule(root, "state-keys").note == "draft, notes"


@pytest.mark.parametrize(
    ("key", "level"), [("nobody", "problem"), ("user:town", "warning"), ("app:town", "warning")]
)
def test_a_key_that_nobody_writes_is_told(key: str, level: str) -> None:
    assert [f[0] for f in found(sequence(agent("a", f"Use {{{key}}}.")), "state-keys")] == [level]


def test_a_key_that_is_written_only_later_is_a_problem() -> None:
    later = sequence(agent("a", "Use {draft}."), agent("b", output_key="draft"))
    text = "its instruction uses {draft}, which b writes only later or in another branch"
    assert found(later, "state-keys") == [("problem", ("a",), text)]
    beside = ParallelAgent(
        name="both", sub_agents=[agent("a", "Use {draft}."), agent("b", output_key="draft")]
    )
    assert found(beside, "state-keys") == [("problem", ("a",), text)]


def test_an_agent_is_not_told_to_run_before_itself() -> None:
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


def test_after_parallel_branches_all_their_keys_are_there() -> None:
    both = ParallelAgent(
        name="both", sub_agents=[agent("a", output_key="x_1"), agent("b", output_key="y_1")]
    )
    root = sequence(both, agent("c", "Use {x_1} and {y_1}."))
    assert rule(root, "state-keys").severity is OK


def test_after_a_router_only_what_every_choice_writes_is_sure() -> None:
    def choose(*keys: str) -> SequentialAgent:
        choices = [agent(f"n{n}", output_key=key) for n, key in enumerate(keys)]
        return sequence(RouterAgent(name="front", sub_agents=choices), agent("c", "Use {x_1}."))

    assert rule(choose("x_1", "x_1"), "state-keys").severity is OK
    text = "its instruction uses {x_1}, which n0 may not have written yet"
    assert found(choose("x_1", "y_1"), "state-keys") == [("warning", ("c",), text)]


def test_after_a_transfer_nothing_is_sure() -> None:
    front = agent(
        "front", output_key="said_1", sub_agents=[agent("a", "Use {said_1}."), agent("b")]
    )
    root = sequence(front, agent("c", "Use {said_1}."))
    assert [f[:2] for f in found(root, "state-keys")] == [
        ("warning", ("a",)),
        ("warning", ("c",)),
    ]


def test_graph_keys_are_followed_along_its_edges() -> None:
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
    assert [f[1] for f in found(maybe, "state-keys")] == [("after",)]


def test_a_graph_that_never_ends_by_itself_still_tells_its_keys() -> None:
    nodes = [agent("a", output_key="x_1"), agent("b", output_key="y_1")]
    graph = GraphAgent(name="g", sub_agents=nodes, edges=[("a", "b"), ("b", "a")], max_steps=3)
    assert rule(sequence(graph, agent("c", "Use {x_1}.")), "state-keys").severity is OK


def remember(ctx: RunContext) -> None:
    ctx.state["made"] = "early"


def remember_late(ctx: RunContext, text: str) -> None:
    ctx.state["made"] = text


def test_what_code_writes_counts() -> None:
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
    assert [f[0] for f in found(by_tool, "state-keys")] == ["warning"], "it need not be called"
    no_writer = sequence(Own(name="own"), agent("b", reader))
    assert [f[0] for f in found(no_writer, "state-keys")] == ["warning"], "its code might"


def test_code_that_writes_keys_unseen_makes_it_a_warning() -> None:
    @tool
    def put(key: str, ctx: ToolContext) -> str:
        """Put something somewhere."""
        ctx.state[key] = 1
        return "put"

    root = agent("a", "Use {made}.", tools=[put])
    assert [f[0] for f in found(root, "state-keys")] == ["warning"]


def test_an_agent_that_is_a_tool_is_part_of_the_tree() -> None:
    helper = agent("helper", "Use {given}.", output_key="given", memory=None)
    root = sequence(agent("a", tools=[AgentTool(agent=helper)]), agent("b"))
    report = check_agents(root)
    assert report.agents == 4
    text = "its instruction uses {given}, which helper may not have written yet"
    assert found(root, "state-keys") == [("warning", ("helper",), text)]


@dataclass
class Order:
    total: int


@dataclass
class Bill:
    amount: int


def test_a_schema_without_a_key_and_with_transfers_is_told() -> None:
    loose = agent("a", output_schema=Order, sub_agents=[agent("b")])
    assert [text for _, _, text in found(loose, "schemas")] == [
        "has an output_schema but no output_key, so other agents receive its answer as text",
        "has an output_schema but may transfer to b, which need not match it",
    ]
    assert rule(agent("a", output_schema=int, output_key="n"), "schemas").severity is OK


def test_two_forms_under_one_key_are_a_problem() -> None:
    root = sequence(
        agent("a", output_schema=Order, output_key="it"),
        agent("b", output_schema=Order, output_key="it"),
        agent("c", output_schema=Bill, output_key="it"),
    )
    assert [names for _, names, _ in found(root, "schemas")] == [("a", "c"), ("b", "c")]


def test_a_field_is_no_key_and_a_path_is_no_placeholder() -> None:
    root = sequence(
        agent("a", output_schema=Order, output_key="order"),
        agent(
            "b", "Say {total}, {order.total}, {order[total]}, {{order.total}}, {artifact.x.txt}."
        ),
    )
    assert [text for _, _, text in found(root, "schemas")] == [
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


def pair(first: str, second: str, **fields: Any) -> Agent:
    return agent("front", first, sub_agents=[agent("back", second, **fields)])


def test_agents_that_hand_the_conversation_round_are_told() -> None:
    silent = found(pair("Help.", "Help too."), "transfers")
    assert silent == [
        (
            "warning",
            ("front", "back"),
            "can transfer in a cycle: front ⇄ back; only max_hops ends the cycle",
        )
    ]
    assert found(pair("", ""), "transfers")[0][0] == "problem"


def test_transfers_with_a_clear_end_are_fine() -> None:
    roots = [
        pair("Transfer billing questions to back.", "Else hand back to front."),
        pair("請求はbackに転送する。", "担当外なら戻す。"),
        pair("Help.", "Help.", returns_control=True),
        pair("Help.", "Help.", disallow_transfer_to_parent=True),
        agent("front", sub_agents=[Own(name="own", description="Does something of its own")]),
    ]
    by_code = pair("Transfer.", "Help.")
    by_code.sub_agents[0].instruction = lambda ctx: "x"  # type: ignore[attr-defined]
    for root in [*roots, by_code]:
        assert rule(root, "transfers").severity is OK, root


def make_tool(name: str, description: str = "", **options: Any) -> Any:
    return tool(name=name, description=description, **options)(lambda: "x")


@pytest.mark.parametrize(
    ("name", "description", "verdict"),
    [
        ("pay_invoice", "", PROBLEM),
        ("sendEmail", "", PROBLEM),
        ("delete-user", "", PROBLEM),
        ("transfer_money", "", PROBLEM),
        ("支払う", "", PROBLEM),
        ("注文を削除", "", PROBLEM),
        ("cancel_order", "", WARNING),
        ("予約する", "", WARNING),
        ("handle", "Refund what the customer paid.", WARNING),
        ("handle", "送金を行います。", WARNING),
        ("get_payment_status", "", OK),
        ("list_refunds", "", OK),
        ("支払状況を確認", "", OK),
        ("policy", "Return the refund policy.", OK),
        ("weather", "Tell the weather.", OK),
        ("display", "Paint a picture of the payload.", OK),
    ],
)
def test_tools_of_high_privilege_are_told(name: str, description: str, verdict: Severity) -> None:
    root = agent("a", tools=[make_tool(name, description or "Does it.")])
    assert rule(root, "privileges").severity is verdict


def test_a_person_who_is_asked_first_makes_it_fine() -> None:
    def by_amount(arguments: Mapping[str, Any]) -> bool:
        return True

    roots = [
        agent("a", tools=[make_tool("pay", confirm=True)]),
        agent("a", tools=[make_tool("pay", confirm=by_amount)]),
        agent("a", tools=[make_tool("pay")], confirm=True),
        SequentialAgent(name="s", sub_agents=[agent("a", tools=[make_tool("pay")])], confirm="Go?"),
    ]
    for root in roots:
        assert rule(root, "privileges").severity is OK, root
        assert rule(root, "privileges").note == "approval is required for pay"
    helper = agent("pay", tools=[], memory=None)
    assert rule(agent("a", tools=[helper]), "privileges").severity is OK, "its own tools count"


def test_a_callback_that_guards_tools_makes_it_a_warning() -> None:
    root = agent("a", tools=[make_tool("pay")], before_tool_callback=lambda *given: None)
    assert found(root, "privileges") == [
        (
            "warning",
            ("a",),
            "its tool 'pay' can pay without approval; only before_tool_callback can prevent it",
        )
    ]
