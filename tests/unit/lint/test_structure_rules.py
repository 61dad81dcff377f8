"""Rules about the structure of an agent tree."""

from collections.abc import Mapping
from typing import Any

import pytest
from lint_support import (
    NOT_APPLICABLE,
    OK,
    PROBLEM,
    WARNING,
    Own,
    agent,
    findings,
    make_tools,
    rule,
    sequence,
)

from acc import (
    Agent,
    BaseAgent,
    Edge,
    GraphAgent,
    LoopAgent,
    McpToolset,
    MemoryName,
    RouterAgent,
    RunContext,
    SequentialAgent,
    ToolContext,
    ToolLabels,
    exit_loop,
    tool,
)
from acc.application.lint.structure_rules import Severity
from acc.application.use_cases.check_agents import check_agents


def test_single_agent_has_no_findings() -> None:
    report = check_agents(agent("solo"))
    assert [r.severity for r in report.rules] == [OK, *[NOT_APPLICABLE] * 9, OK, NOT_APPLICABLE]
    assert (report.agent, report.agents, report.severity) == ("solo", 1, OK)
    assert report.count(WARNING) == 0
    assert all(r.title and r.title_ja for r in report.rules)


@pytest.mark.parametrize("memory", ["elephant", "oracle", "acc:", "記憶"])
def test_unknown_memory_that_was_set_later_is_a_problem(memory: str) -> None:
    second = agent("second")
    second.memory = MemoryName(memory)
    root = sequence(agent("first"), second)
    assert findings(root, "memories") == [("problem", ("second",), f"unknown memory {memory!r}")]
    (finding,) = rule(root, "memories").findings
    assert finding.fix == "choose one of transcript, retrieval, acc, or acc:MODEL"


@pytest.mark.parametrize("memory", ["transcript", "retrieval", "acc", "acc:openai:gpt-5.2"])
def test_known_memory_is_accepted(memory: str) -> None:
    assert rule(agent("solo", memory=memory), "memories").severity is OK


def test_responsibility_rule_needs_llm_agents() -> None:
    assert rule(Own(name="own"), "single-responsibility").severity is NOT_APPLICABLE


@pytest.mark.parametrize(
    ("tools", "verdict"), [(10, OK), (11, WARNING), (20, WARNING), (21, PROBLEM)]
)
def test_many_tools_are_reported(tools: int, verdict: Severity) -> None:
    one = agent("busy", tools=make_tools(tools))
    assert rule(one, "single-responsibility").severity is verdict


def test_empty_and_long_instructions_are_reported() -> None:
    root = sequence(
        agent("empty", " "),
        agent("long", "x" * 4001),
        Agent(name="by_code", description="Is actual by a function", instruction=lambda ctx: ""),
    )
    actual = findings(root, "single-responsibility")
    assert [(level, names) for level, names, _ in actual] == [
        ("warning", ("empty",)),
        ("warning", ("long",)),
    ]


def test_many_sub_agents_are_reported() -> None:
    def group(count: int) -> list[Agent]:
        return [agent(f"n{n}", memory=None) for n in range(count)]

    many = agent("many", sub_agents=group(9))
    beside = agent("beside", sub_agents=group(6), tools=make_tools(1))
    router = RouterAgent(name="front", sub_agents=group(9))
    assert findings(many, "single-responsibility")[0][2] == "chooses among 9 sub-agents"
    assert "1 tools and delegates to 6" in findings(beside, "single-responsibility")[0][2]
    assert findings(router, "single-responsibility")[0][1] == ("front",)


def test_missing_and_short_descriptions_are_reported() -> None:
    root = sequence(
        Agent(name="first", instruction="x"),
        Agent(name="second", instruction="x"),
        Agent(name="third", instruction="x", description="Bills"),
        Agent(name="四番", instruction="x", description="請求"),
        Agent(name="五番", instruction="x", description="請求書の質問"),
        Agent(name="order_tracking", instruction="x", description="Order tracking"),
    )
    assert findings(root, "descriptions") == [
        ("warning", ("first", "second"), "no description"),
        ("warning", ("third",), "its description 'Bills' is too short"),
        ("warning", ("四番",), "its description '請求' is too short"),
        ("warning", ("order_tracking",), "its description 'Order tracking' only repeats its name"),
    ]


def test_equal_descriptions_are_a_problem_for_routing() -> None:
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
        assert findings(root, "descriptions") == [(level, ("a", "b"), "have the same description")]


def test_similar_descriptions_are_reported_unless_intents_differ() -> None:
    first = "Answers questions about invoices payments refunds credits orders and returns"
    second = f"{first} kindly"
    intents = {"a": ("delivery parcel late truck courier",), "b": ("cancel contract end leave",)}

    def pair() -> list[BaseAgent]:
        return [agent("a", description=first), agent("b", description=second)]

    assert findings(sequence(*pair()), "descriptions") == [
        ("warning", ("a", "b"), "have nearly the same description")
    ]
    router = RouterAgent(name="root", intents=intents, sub_agents=pair())
    assert rule(router, "descriptions").severity is OK


def test_loop_without_exit_is_reported() -> None:
    loop = LoopAgent(name="again", max_iterations=3, sub_agents=[agent("a"), Own(name="own")])
    assert findings(loop, "loop-bounds") == [
        ("warning", ("again",), "no agent in it ends the loop, so it always runs 3 rounds")
    ]
    assert rule(loop, "loop-bounds").note == "again: at most 3 rounds"


def test_many_rounds_are_reported() -> None:
    long = LoopAgent(name="long", max_iterations=26, sub_agents=[agent("a", tools=[exit_loop])])
    once = LoopAgent(name="once", max_iterations=1, sub_agents=[agent("a")])
    assert findings(long, "loop-bounds") == [("warning", ("long",), "may run 26 rounds")]
    assert rule(once, "loop-bounds").severity is OK


def stop(ctx: RunContext, text: str) -> None:
    def inner() -> None:
        ctx.escalated = True

    inner()


class Stopper:
    def __call__(self, ctx: RunContext, text: str) -> None:
        ctx.escalated = True


def test_escalation_counts_as_loop_exit() -> None:
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


def test_inner_loop_does_not_end_outer_loop() -> None:
    inner = LoopAgent(name="inner", max_iterations=2, sub_agents=[agent("a", tools=[exit_loop])])
    outer = LoopAgent(name="outer", max_iterations=2, sub_agents=[inner])
    assert [names for _, names, _ in findings(outer, "loop-bounds")] == [("outer",)]
    builtin = agent("a", before_agent_callback=print)
    loop = LoopAgent(name="again", max_iterations=2, sub_agents=[builtin])
    assert rule(loop, "loop-bounds").severity is WARNING


def test_unconditional_cycle_is_a_problem() -> None:
    def nodes(**fields: Any) -> list[BaseAgent]:
        return [agent("a", **fields), agent("b")]

    endless = GraphAgent(name="g", sub_agents=nodes(), edges=[("a", "b"), ("b", "a")], max_steps=4)
    assert findings(endless, "loop-bounds") == [
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


def pair(first: str, second: str, **fields: Any) -> Agent:
    return agent("front", first, sub_agents=[agent("back", second, **fields)])


def test_transfer_cycles_are_reported() -> None:
    silent = findings(pair("Help.", "Help too."), "transfers")
    assert silent == [
        (
            "warning",
            ("front", "back"),
            "can transfer in a cycle: front ⇄ back; only max_hops ends the cycle",
        )
    ]
    assert findings(pair("", ""), "transfers")[0][0] == "problem"


def test_transfers_with_rules_are_accepted() -> None:
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
def test_high_privilege_tools_are_reported(name: str, description: str, verdict: Severity) -> None:
    root = agent("a", tools=[make_tool(name, description or "Does it.")])
    assert rule(root, "privileges").severity is verdict


def test_confirmed_tools_are_accepted() -> None:
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


def test_before_tool_callback_reduces_severity() -> None:
    root = agent("a", tools=[make_tool("pay")], before_tool_callback=lambda *given: None)
    assert findings(root, "privileges") == [
        (
            "warning",
            ("a",),
            "its tool 'pay' can pay without approval; only before_tool_callback can prevent it",
        )
    ]


def test_tools_without_labels_are_reported_only_with_a_policy() -> None:
    @tool(effect="none")
    def search(query: str) -> str:
        """Search the manual."""
        return query

    def send(to: str) -> str:
        """Send a mail."""
        return to

    assert rule(agent("desk", tools=[search, send]), "labels").severity is NOT_APPLICABLE
    guarded = Agent(name="desk", instruction="Answer.", tools=[search, send], flow="ask")
    (finding,) = rule(guarded, "labels").findings
    assert finding.severity is WARNING
    assert finding.text.startswith("send: no labels")
    labelled = Agent(name="desk", instruction="Answer.", tools=[search], flow="strict")
    assert rule(labelled, "labels").severity is OK


def test_toolset_without_labels_is_reported_with_a_policy() -> None:
    plain = McpToolset(command=["server"])
    guarded = Agent(name="desk", instruction="Answer.", tools=[plain], flow="ask")
    assert rule(guarded, "labels").severity is WARNING
    labelled = McpToolset(command=["server"], labels={"search": ToolLabels(effect="none")})
    guarded = Agent(name="desk", instruction="Answer.", tools=[labelled], flow="ask")
    assert rule(guarded, "labels").severity is OK
