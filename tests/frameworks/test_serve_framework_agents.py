"""`acc serve` and `acc chat` with agents of other frameworks, as processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_framework_evaluation import HERE, INSTALLED, REFERENCES, acc

sys.path.insert(0, str(HERE.parent / "integration"))

from server_process import Server


@pytest.mark.parametrize("name", INSTALLED)
def test_served_agent_answers_and_waits_for_approval(name: str, tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    with Server(tmp_path, "--store", store, agent=REFERENCES[name], PYTHONPATH=str(HERE)) as server:
        url = f"http://127.0.0.1:{server.port}"
        greeted = acc("call", url, "hello", folder=tmp_path)
        assert greeted.returncode == 0, greeted.stderr
        assert "answer 1 to: hello" in greeted.stdout
        paused = acc("call", url, "delete report.txt", folder=tmp_path)
        assert "report.txt" in paused.stdout + paused.stderr
        assert paused.returncode != 0


@pytest.mark.parametrize("name", INSTALLED)
def test_chat_continues_the_conversation(name: str, tmp_path: Path) -> None:
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-m", "acc", "chat", REFERENCES[name]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        input="hello\nagain\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "answer 1 to: hello" in done.stdout, done.stderr
    assert "answer 2 to: again" in done.stdout
