import re
from collections.abc import Callable
from typing import Any

import pytest

from acc.cli import app

Acc = Callable[..., Any]
COMMANDS = sorted(name for name in app if not name.startswith("-"))


def test_help_lists_every_command(acc: Acc) -> None:
    text = acc("--help").stdout
    assert len(COMMANDS) == 29
    assert [name for name in COMMANDS if f"│ {name} " not in text] == []
    assert "acc eval" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_has_no_colours(acc: Acc, command: str) -> None:
    done = acc(command, "--help")
    assert done.status == 0
    assert done.stdout.startswith(f"Usage: acc {command}")
    assert "\x1b[" not in done.stdout
    text = " ".join(done.stdout.replace("│", " ").split())
    assert not re.search(r"\[default: [^\]]*\] \[default:", text)


@pytest.mark.parametrize("command", ["run", "chat", "graph", "check"])
def test_help_of_a_command_has_an_example(acc: Acc, command: str) -> None:
    assert f"Example: acc {command} shop.agents:root" in acc(command, "--help").stdout


def test_unknown_command_has_status_2(acc: Acc) -> None:
    done = acc("evaluate")
    assert (done.status, done.stdout) == (2, "")
    assert "evaluate" in done.stderr
