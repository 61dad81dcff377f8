"""Agent trees for the tests of diagrams."""

from collections.abc import Mapping
from typing import Any

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
    exit_loop,
    tool,
)
from acc.testing import ScriptedModel

LONG = "市場調査エージェント_とても長い日本語の名前"


@tool
def lookup(order: str) -> str:
    """Look up an order."""
    return order


@tool(confirm=True)
def refund(order: str) -> str:
    """Refund an order."""
    return order


class Own(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        return "done"


class Rising:
    def __call__(self, state: Mapping[str, Any]) -> bool:
        return True


def is_good(state: Mapping[str, Any]) -> bool:
    return bool(state)


def pair(**fields: Any) -> Agent:
    """Return a front desk with two specialists that may all transfer to each other."""
    return Agent(
        name="front",
        model="embedded",
        sub_agents=[
            Agent(name="billing", description="Bills", tools=[lookup, refund], **fields),
            Agent(name="返品担当", description="返品", memory="acc", output_key="結果", **fields),
        ],
    )


def editorial() -> BaseAgent:
    """Return a tree with agents of every kind."""
    research = ParallelAgent(
        name="research",
        sub_agents=[Agent(name=LONG), Agent(name="legal", tools=[lookup]), Own(name="prices")],
    )
    loop = LoopAgent(
        name="polish",
        max_iterations=4,
        sub_agents=[Agent(name="writer"), Agent(name="critic", tools=[exit_loop])],
    )
    jokes = Agent(name="jokes", description="Tells a joke", model=ScriptedModel())
    router = RouterAgent(
        name="desk",
        by="model",
        default="talk",
        sub_agents=[
            Agent(name="faq", description="Answers frequent questions", confirm=True),
            Agent(name="talk", tools=[AgentTool(agent=jokes, confirm=True)]),
        ],
    )
    graph = GraphAgent(
        name="approval",
        max_steps=9,
        joins=["publish"],
        sub_agents=[Agent(name="check"), Agent(name="mend"), Agent(name="publish")],
        edges=[
            Edge("check", "mend", when=lambda state: state.get("score", 0) < 3),
            Edge("check", "publish", otherwise=True),
            Edge("mend", "publish", when=is_good),
            Edge("mend", "check", when=Rising()),
        ],
    )
    return SequentialAgent(name="記事制作", sub_agents=[router, research, loop, graph])


def tall_parent() -> BaseAgent:
    """Return an agent whose box is taller than that of its only sub-agent, beside another one."""
    tools = [
        tool(name=f"tool_with_a_rather_long_name_{number}")(lambda: "done") for number in range(12)
    ]
    tall = Agent(name="tall", tools=tools, sub_agents=[Agent(name="low", description="Low")])
    return SequentialAgent(name="root", sub_agents=[Own(name="first"), tall, Own(name="last")])
