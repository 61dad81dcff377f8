"""Agents and memories of frameworks that are not installed, and references to them."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import acc
from acc.adapters.frameworks.registry import FRAMEWORKS, find_framework
from acc.application.evaluation.configuration import FRAMEWORK_PREFIXES
from acc.bootstrap.agents import load_agent
from acc.bootstrap.frameworks import agent_class, load_target

MISSING = pytest.mark.skipif(find_spec("langgraph") is not None, reason="langgraph is installed")


def test_every_framework_has_a_prefix() -> None:
    assert tuple(FRAMEWORKS) == FRAMEWORK_PREFIXES


def test_import_of_the_package_loads_no_framework() -> None:
    code = (
        "import sys, acc, acc.frameworks; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    roots = {framework.package.partition(".")[0] for framework in FRAMEWORKS.values()}
    assert not loaded & {*roots, "langchain", "pydantic"}


@MISSING
def test_missing_framework_gives_the_command_that_installs_it() -> None:
    with pytest.raises(ImportError, match=r"LangGraphAgent needs langgraph: run pip install"):
        agent_class("LangGraphAgent")
    with pytest.raises(ImportError, match=r"pip install 'langchain>=1.4'"):
        import acc.frameworks.langchain  # noqa: F401


@MISSING
def test_reference_to_a_missing_framework_is_refused() -> None:
    with pytest.raises(acc.InvalidInput, match="pip install 'langgraph>=1.2'"):
        load_target("langgraph:json:dumps")
    with pytest.raises(acc.InvalidInput, match="pip install 'langgraph>=1.2'"):
        load_agent("langgraph:json:dumps")


def test_references_of_evaluations_name_agents_of_all_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_desk.py").write_text("def answer(message):\n    return message\n")
    (tmp_path / "python.py").write_text("def answer(message):\n    return message\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_agent("python:own_desk:answer").name == "answer"
    assert load_target("python:own_desk:answer")("hello") == "hello"
    assert load_agent("python:answer").name == "answer"  # a module of this name


def test_own_classes_are_not_mistaken_for_frameworks() -> None:
    own = type("Agent", (), {"__module__": "agents.shop"})
    assert find_framework(own()) == ""
    assert find_framework(acc.Agent(name="a", model="embedded")) == ""


def test_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import acc.frameworks

    with pytest.raises(AttributeError, match="no attribute 'CrewAgent'"):
        _ = acc.frameworks.CrewAgent  # type: ignore[attr-defined]
