import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from acc import Agent, InvalidInput, InvalidTree, LoopAgent, Runner, exit_loop
from acc.bootstrap.agents import load_agent


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    created = ModuleType("module_with_agents")
    monkeypatch.setitem(sys.modules, created.__name__, created)
    return created


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    loaded = set(sys.modules)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    for name in set(sys.modules) - loaded:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        (exit_loop, "is a tool"),
        (lambda name, tools: Agent(name=name, tools=tools), "session_id, user_id and history"),
        (dict, "is of type dict"),
        (3, "is of type int"),
    ],
)
def test_load_fails_when_target_is_not_an_agent(
    module: ModuleType, target: object, reason: str
) -> None:
    module.target = target  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match=reason):
        load_agent("module_with_agents:target")


def test_load_calls_a_function_without_required_arguments(module: ModuleType) -> None:
    module.target = lambda name="made": Agent(name=name)  # type: ignore[attr-defined]
    assert load_agent("module_with_agents:target").name == "made"


async def test_load_makes_an_agent_of_a_function_with_a_parameter(module: ModuleType) -> None:
    module.target = lambda message: f"{message}!"  # type: ignore[attr-defined]
    result = await Runner(load_agent("module_with_agents:target")).run("hello")
    assert result.text == "hello!"


def test_load_names_the_model_of_a_chat_server() -> None:
    agent = load_agent("openai:http://127.0.0.1:8080/v1#small")
    assert isinstance(agent, Agent)
    assert agent.model == "openai-compatible:small@http://127.0.0.1:8080/v1"
    with pytest.raises(InvalidInput, match="names no model"):
        load_agent("openai:http://127.0.0.1:8080/v1")


@pytest.mark.parametrize("reference", ["shop", "shop:", ":root", ""])
def test_load_fails_when_reference_has_no_module_or_name(reference: str) -> None:
    with pytest.raises(InvalidInput, match="MODULE:AGENT"):
        load_agent(reference)


def test_load_imports_a_file(folder: Path) -> None:
    file = folder / "agents_in_a_file.py"
    file.write_text("from acc import Agent\nroot = Agent(name='root')\n")
    assert load_agent(f"{file}:root").name == "root"


def test_load_lists_the_agents_of_the_module_when_name_is_unknown(folder: Path) -> None:
    (folder / "agents_to_list.py").write_text("from acc import Agent\nfirst = Agent(name='f')\n")
    with pytest.raises(InvalidInput, match="agents in agents_to_list: first"):
        load_agent(f"{folder / 'agents_to_list.py'}:second")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("x = (\n", "SyntaxError.*faulty_agents.py, line 1"),
        ("1 / 0\n", "ZeroDivisionError.*faulty_agents.py, line 1"),
        ("def x():\n    raise KeyError('a')\n", "KeyError: 'a'.*faulty_agents.py, line 2"),
        ("import nothing_of_that_name\n", "nothing_of_that_name"),
    ],
)
def test_load_reports_file_and_line_when_module_fails(
    folder: Path, source: str, reason: str
) -> None:
    (folder / "faulty_agents.py").write_text(source)
    with pytest.raises(InvalidInput, match=reason):
        load_agent(f"{folder / 'faulty_agents.py'}:x")


def test_load_fails_when_file_does_not_exist(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        load_agent(f"{folder / 'absent.py'}:root")


def test_load_keeps_the_error_of_an_invalid_tree(module: ModuleType) -> None:
    module.target = lambda: LoopAgent(  # type: ignore[attr-defined]
        name="endless", sub_agents=[Agent(name="a")]
    )
    with pytest.raises(InvalidTree, match="max_iterations"):
        load_agent("module_with_agents:target")


def test_load_fails_when_file_has_the_name_of_a_loaded_module(folder: Path) -> None:
    (folder / "json.py").write_text("root = 3\n")
    with pytest.raises(InvalidInput, match="has the name of the module .*json.*rename the file"):
        load_agent(f"{folder / 'json.py'}:root")


def test_load_reports_the_line_of_the_user_when_acc_raises(folder: Path) -> None:
    (folder / "wrong_option.py").write_text(
        "from acc import Agent\n\n\ndef make():\n    return Agent(name='a', prompt='x')\n"
    )
    with pytest.raises(InvalidInput, match=r"use instruction=.*wrong_option.py, line 5"):
        load_agent(f"{folder / 'wrong_option.py'}:make")


def test_load_fails_when_function_is_async(folder: Path) -> None:
    (folder / "async_factory.py").write_text("async def make():\n    return None\n")
    with pytest.raises(InvalidInput, match="is an async function"):
        load_agent(f"{folder / 'async_factory.py'}:make")


@pytest.mark.parametrize("reference", ["{folder}/desk.py", "{folder}/desk.py:", "desk"])
def test_reference_without_an_agent_lists_those_of_the_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    code = "from acc import Agent\nfirst = Agent(name='a')\nsecond = Agent(name='b')\n"
    (folder / "desk.py").write_text(code)
    monkeypatch.chdir(folder)
    with pytest.raises(InvalidInput, match=r"FILE\.py:AGENT; agents in desk: first, second"):
        load_agent(reference.format(folder=folder))


def test_reference_without_an_agent_reports_the_error_of_its_file(folder: Path) -> None:
    (folder / "broken_desk.py").write_text("1 / 0\n")
    with pytest.raises(InvalidInput, match="ZeroDivisionError.*line 1"):
        load_agent(str(folder / "broken_desk.py"))


def test_reference_without_an_agent_may_name_nothing() -> None:
    with pytest.raises(InvalidInput, match=r"FILE\.py:AGENT$"):
        load_agent("no_such_module_at_all")
