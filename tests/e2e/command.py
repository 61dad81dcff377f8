"""The `acc` command in another process, for the end-to-end tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from forked_command import run_command

#: The folder with the modules of the served agents.
SERVED_AGENTS = Path(__file__).parent.parent / "integration"
SMALL = ("--scenario", "it-operations", "--turns", "6", "--episodes", "2", "--workers", "1")


def environment(**extra: str) -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "120", **extra}


def acc(
    *arguments: str | Path,
    cwd: Path | None = None,
    text: str | None = None,
    timeout: float = 120,
    **extra: str,
) -> subprocess.CompletedProcess[str]:
    """Run a command; `text` is the standard input, `extra` are environment variables."""
    return run_command(*arguments, cwd=cwd, env=environment(**extra), text=text, timeout=timeout)


def acc_in_new_python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command with its own hash seed."""
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
    )


def start(*arguments: str | Path, cwd: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=environment(),
    )


@contextmanager
def serve(agent: str, *options: str | Path, cwd: Path = SERVED_AGENTS) -> Iterator[str]:
    """Run `acc serve` and yield the URL of the agent."""
    process = start("serve", agent, "--port", "0", *options, cwd=cwd)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert " at http" in line, line
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def read_records(run: Path) -> dict[str, bytes]:
    """Return the records of an evaluation by file name."""
    files = [
        *sorted((run / "episodes").glob("*.jsonl")),
        run / "records.jsonl",
        run / "records.csv",
    ]
    return {str(file.relative_to(run)): file.read_bytes() for file in files if file.exists()}
