"""The command line in this process, with the agents of the end-to-end tests."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from acc.cli import execute

AGENTS = Path(__file__).parents[2] / "e2e"


@dataclass(frozen=True)
class CommandResult:
    status: int
    stdout: str
    stderr: str

    @property
    def json_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def acc(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """Return a function that executes a command in the directory of `shop.py`."""
    monkeypatch.chdir(AGENTS)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")

    def execute_command(*arguments: str | Path) -> CommandResult:
        status = execute([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return CommandResult(status, captured.out, captured.err)

    return execute_command
