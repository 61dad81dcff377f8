"""Loading of agents by reference."""

import sys
from types import ModuleType

import pytest

from acc import Agent, exit_loop
from acc.bootstrap.agents import load_agent
from acc.domain.errors import InvalidInput


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    created = ModuleType("test_agents")
    monkeypatch.setitem(sys.modules, created.__name__, created)
    return created


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (exit_loop, "is a tool, not an agent; add it to the tools of an agent"),
        (lambda name: Agent(name=name), "cannot be called to create an agent: missing a required"),
        (dict, "is of type dict; expected an agent of acc"),
        (3, "is of type int; expected an agent of acc"),
    ],
)
def test_load_agent_rejects_other_objects(module: ModuleType, value: object, expected: str) -> None:
    module.root = value  # type: ignore[attr-defined] # a module may contain anything
    with pytest.raises(InvalidInput, match=f"test_agents:root {expected}"):
        load_agent("test_agents:root")


def test_load_agent_calls_factory_without_arguments(module: ModuleType) -> None:
    module.root = lambda name="made": Agent(name=name)  # type: ignore[attr-defined]
    assert load_agent("test_agents:root").name == "made"
