"""Examples, code blocks and commands of the documentation are executed."""

import ast
import logging
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from acc.cli import app, execute

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: `make test-frameworks` executes it, where the frameworks are installed.
OTHER_ENVIRONMENT = ROOT / "docs" / "frameworks.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "README.ja.md",
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page != OTHER_ENVIRONMENT),
]
MIGRATION = sorted((ROOT / "docs" / "migration").glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.S)
COMMAND = re.compile(r"^\$ (acc .*)$", re.M)
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{n}")
    for page in PAGES
    for n, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]
COMMANDS = [
    pytest.param(line, id=f"{page.name}-{n}")
    for page in PAGES
    for n, line in enumerate(COMMAND.findall(page.read_text(encoding="utf-8")), start=1)
]
PORTED = [
    pytest.param(block, id=f"{page.name}-{n}")
    for page in MIGRATION
    for n, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
]
PUBLIC_MODULES = frozenset(
    {
        "acc",
        "acc.a2a",
        "acc.contracts",
        "acc.events",
        "acc.testing",
        "acc.testing.providers",
        "acc.testing.trajectories",
    }
)


@pytest.fixture(autouse=True)
def restore_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run in an empty directory and remove the log handlers that a program adds."""
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("acc.run")
    handlers, level = list(log.handlers), log.level
    yield
    log.handlers[:] = handlers
    log.setLevel(level)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize("block", BLOCKS)
def test_code_block_runs(block: str, tmp_path: Path) -> None:
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    runpy.run_path(str(file), run_name="__main__")


@pytest.mark.parametrize("block", PORTED)
def test_ported_example_prints_what_its_comments_say(
    block: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    test_code_block_runs(block, tmp_path)
    expected = re.findall(r"^print\(.*\)  # (.*)$", block, re.M)
    assert expected
    assert capfd.readouterr().out.splitlines() == expected


def test_every_migration_guide_has_terms_and_an_example() -> None:
    names = {"inspect", "langgraph", "letta", "mem0", "openai-agents", "promptfoo", "pydantic-ai"}
    assert {page.stem for page in MIGRATION} == names
    for page in MIGRATION:
        text = page.read_text(encoding="utf-8")
        assert text.count("\n| ") >= 10
        assert len(BLOCK.findall(text)) == 1


def test_quick_start_of_agents_calls_its_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (_, block, *_) = BLOCK.findall((ROOT / "docs" / "agents.md").read_text(encoding="utf-8"))
    test_code_block_runs(block, tmp_path)
    first, *events = capsys.readouterr().out.splitlines()
    assert "'email_ok': True" in first
    assert "tool_calls=1" in first
    assert any("validator message is_valid: true." in event for event in events)


@pytest.mark.parametrize(
    "source",
    [pytest.param(path.read_text(encoding="utf-8"), id=path.name) for path in EXAMPLES]
    + BLOCKS
    + PORTED,
)
def test_program_imports_only_public_modules(source: str) -> None:
    assert private_imports(source) == set()


def private_imports(source: str) -> set[str]:
    """Return the modules of acc that a program imports and that are not public."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return {m for m in modules if m.partition(".")[0] == "acc"} - PUBLIC_MODULES


def test_readme_of_the_examples_lists_every_file() -> None:
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+\.py)\)", table)) == {path.name for path in EXAMPLES}


def test_example_agent_is_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT / "examples")
    agents = ("--agents", "acc,mine=python:my_agent:RecentStatements")
    options = ("--scenario", "it-operations", "--turns", "5", "--episodes", "1", "--workers", "1")
    assert execute(["eval", *options, *agents, "--out", str(tmp_path / "run")]) == 0
    assert "mine" in capsys.readouterr().out


@pytest.mark.parametrize("line", COMMANDS)
def test_command_of_the_documentation_is_valid(line: str) -> None:
    tokens = shlex.split(line, comments=True)[1:]
    app.parse_args(tokens, exit_on_error=False, print_error=False)


def test_documentation_has_code_and_commands() -> None:
    assert len(BLOCKS) >= 2
    assert len(COMMANDS) >= 6
