"""`acc` itself: version and shell completion."""

from importlib.metadata import version
from pathlib import Path

from command import acc


def test_version_is_printed() -> None:
    assert acc("--version").stdout.strip() == version("acc-agents")


def test_completion_is_installed(tmp_path: Path) -> None:
    done = acc("--install-completion", "--shell", "bash", HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr + done.stdout
    assert list(tmp_path.rglob("*acc*")) != []
