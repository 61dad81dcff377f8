"""Loading of agents by reference."""

import sys
from types import ModuleType

import pytest

from acc import Agent, exit_loop
from acc.bootstrap.agents import load_agent
from acc.domain.errors import InvalidInput


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("shelf_of_agents")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (exit_loop, "is a tool, not an agent; an agent may have it in tools"),
        (lambda name: Agent(name=name), "cannot be called to make an agent: missing a required"),
        (dict, "is a dict, not an agent of acc"),
        (3, "is a int, not an agent of acc"),
    ],
)
def test_load_agent_rejects_other_objects(shelf: ModuleType, held: object, told: str) -> None:
    shelf.held = held  # type: ignore[attr-defined] # a module may hold anything
    with pytest.raises(InvalidInput, match=f"shelf_of_agents:held {told}"):
        load_agent("shelf_of_agents:held")


def test_load_agent_calls_factory_without_arguments(shelf: ModuleType) -> None:
    shelf.held = lambda name="made": Agent(name=name)  # type: ignore[attr-defined]
    assert load_agent("shelf_of_agents:held").name == "made"
