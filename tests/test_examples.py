"""Whatever we show has run: examples, code blocks, and the commands in the documentation."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from acc.cli import app

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "README.ja.md", *sorted((ROOT / "docs").glob("*.md"))]
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


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_an_example_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    done = python(str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_every_example_stands_in_the_table() -> None:
    table = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\((\w+\.py)\)", table))
    assert named == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_the_example_agent_takes_part_in_an_evaluation(tmp_path: Path) -> None:
    agents = "acc,mine=python:my_agent:LastWords"
    options = ("--scenario", "it-operations", "--turns", "5", "--episodes", "1")
    done = python(
        *("-m", "acc", "eval", *options, "--agents", agents, "--out", str(tmp_path / "run")),
        cwd=ROOT / "examples",
    )
    assert done.returncode == 0, done.stderr
    assert "mine" in done.stdout


@pytest.mark.parametrize("block", BLOCKS)
def test_a_code_block_runs(block: str, tmp_path: Path) -> None:
    file = tmp_path / "block.py"
    file.write_text(block, encoding="utf-8")
    done = python(str(file), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_in_the_documentation_is_understood(line: str) -> None:
    tokens = shlex.split(line, comments=True)[1:]
    app.parse_args(tokens, exit_on_error=False, print_error=False)


def test_there_is_something_to_run() -> None:
    assert len(BLOCKS) >= 2
    assert len(COMMANDS) >= 6
