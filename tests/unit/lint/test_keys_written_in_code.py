"""Keys that callbacks and tools may write are possibly present."""

import json
import runpy
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from acc import Agent, RunContext, SequentialAgent, ToolContext
from acc.application.lint.structure_rules import Finding, Severity
from acc.application.use_cases.check_agents import check_agents

constants = ModuleType("constants")
constants.CITY = "city"  # type: ignore[attr-defined]
TOWN_KEY = "city"


def state_findings(root: Agent | SequentialAgent) -> tuple[Finding, ...]:
    report = check_agents(root)
    return next(rule.findings for rule in report.rules if rule.name == "state-keys")


def literal(ctx: RunContext) -> None:
    ctx.state["city"] = "Kyoto"


def update_literal(ctx: RunContext) -> None:
    ctx.state.update({"city": "Kyoto", "other": 1})


def by_constant(ctx: RunContext) -> None:
    ctx.state[TOWN_KEY] = "Kyoto"


DEFAULTS = {"city": "Kyoto"}


def by_constant_mapping(ctx: RunContext) -> None:
    ctx.state.update(DEFAULTS)


def by_module_constant(ctx: RunContext) -> None:
    ctx.state[constants.CITY] = "Kyoto"


def _fill(target: MutableMapping[str, Any]) -> None:
    target["city"] = "Kyoto"


def by_helper(ctx: RunContext) -> None:
    _fill(ctx.state)


def _fill_key(key: str, ctx: RunContext) -> None:
    ctx.state[key] = "Kyoto"


def make_callback(key: str) -> Callable[[RunContext], None]:
    def write(ctx: RunContext) -> None:
        ctx.state[key] = "Kyoto"

    return write


@pytest.mark.parametrize(
    "callback",
    [
        literal,
        update_literal,
        by_constant,
        by_constant_mapping,
        by_module_constant,
        by_helper,
        partial(_fill_key, "city"),
        make_callback("city"),
    ],
)
def test_key_that_a_callback_writes_is_not_reported(callback: Callable[..., Any]) -> None:
    agent = Agent(name="a", instruction="Go to {city}.", before_agent_callback=callback)
    assert state_findings(agent) == ()


def load_profile(ctx: RunContext) -> None:
    _fill_all(json.loads('{"state": {}}')["state"], ctx.state)


def _fill_all(source: Mapping[str, Any], target: MutableMapping[str, Any]) -> None:
    if "started" not in target:
        target["started"] = True
        target.update(source)


def memorize(key: str, value: str, tool_context: ToolContext) -> str:
    """Store a value."""
    memory = tool_context.state
    memory[key] = value
    return "stored"


@pytest.mark.parametrize(
    "options",
    [{"before_agent_callback": load_profile}, {"tools": [memorize]}],
    ids=["callback", "tool"],
)
def test_keys_that_code_may_write_are_one_warning(options: dict[str, Any]) -> None:
    first = Agent(name="a", instruction="{city} {hotel} {flight}", **options)
    second = Agent(name="b", instruction="{city} {seat}")
    (finding,) = state_findings(SequentialAgent(name="trip", sub_agents=[first, second]))
    assert finding.severity is Severity.WARNING
    assert finding.agents == ("a", "b")
    assert "{city}, {hotel}, {flight}, {seat}" in finding.text


def test_key_that_nothing_can_write_is_a_problem() -> None:
    (finding,) = state_findings(Agent(name="a", instruction="Go to {city}.", tools=[no_state]))
    assert finding.severity is Severity.PROBLEM
    assert "{city}" in finding.text


def no_state(city: str) -> str:
    """Return a city."""
    result = {}
    result[city] = city
    return result[city]


def test_tool_without_docstring_is_a_warning() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    report = check_agents(Agent(name="a", instruction="Add.", tools=[add, no_state]))
    findings = next(rule.findings for rule in report.rules if rule.name == "descriptions")
    assert [(f.severity, f.agents) for f in findings] == [(Severity.WARNING, ("a",))]
    assert "'add' has no docstring" in findings[0].text
    assert "docstring to 'add'" in findings[0].fix


@pytest.mark.parametrize("name", ["adk_answer_auditor", "adk_trip_assistant"])
def test_ports_of_adk_samples_have_no_missing_keys(name: str) -> None:
    path = Path(__file__).parents[3] / "examples" / f"{name}.py"
    assert state_findings(runpy.run_path(str(path))["root_agent"]) == ()
