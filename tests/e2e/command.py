"""The `acc` command as a subprocess, for the end-to-end tests."""

import os
import subprocess
import sys
from pathlib import Path

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
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        env=environment(**extra),
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


def read_records(run: Path) -> dict[str, bytes]:
    """Return the records of an evaluation by file name."""
    files = [
        *sorted((run / "episodes").glob("*.jsonl")),
        run / "records.jsonl",
        run / "records.csv",
    ]
    return {str(file.relative_to(run)): file.read_bytes() for file in files if file.exists()}
