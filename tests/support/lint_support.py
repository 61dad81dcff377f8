"""Agents and shortcuts for the tests of `acc check`."""

from typing import Any

from acc import (
    Agent,
    BaseAgent,
    RunContext,
    SequentialAgent,
    tool,
)
from acc.application.lint.structure_rules import Severity
from acc.application.use_cases.check_agents import RuleReport, check_agents

OK, WARNING, PROBLEM = Severity.OK, Severity.WARNING, Severity.PROBLEM


NOT_APPLICABLE = Severity.NOT_APPLICABLE


def rule(root: BaseAgent, name: str) -> RuleReport:
    return next(rule for rule in check_agents(root).rules if rule.name == name)


def findings(root: BaseAgent, name: str) -> list[tuple[str, tuple[str, ...], str]]:
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
