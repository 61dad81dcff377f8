"""`acc` itself: version, shell completion and Ctrl-C."""

import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

from command import acc, environment


def test_version_is_printed() -> None:
    assert acc("--version").stdout.strip() == version("acc-agents")


def test_completion_is_installed(tmp_path: Path) -> None:
    done = acc("--install-completion", "--shell", "bash", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr + done.stdout
    assert list(tmp_path.rglob("*acc*")) != []


def test_ctrl_c_during_start_prints_no_traceback(tmp_path: Path) -> None:
    # A module that all commands import blocks until the signal arrives.
    blocking = "import pathlib, time\npathlib.Path('importing').touch()\ntime.sleep(60)\n"
    (tmp_path / "cyclopts.py").write_text(blocking)
    process = subprocess.Popen(
        [sys.executable, "-m", "acc", "--version"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path)),
    )
    deadline = time.monotonic() + 30
    while not (tmp_path / "importing").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == ""
    assert process.returncode == -signal.SIGINT
