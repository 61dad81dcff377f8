"""Scripts of Node.js with locked packages, such as official clients."""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

INSTALL_TIMEOUT_SECONDS, RUN_TIMEOUT_SECONDS = 300, 180


def install_scripts(config: pytest.Config, sources: Path, folder: Path) -> Path:
    """Return a folder with the scripts of `sources` and their packages, installed once."""
    assert config.cache is not None
    lock = (sources / "package-lock.json").read_bytes()
    cache = Path(config.cache.mkdir(sources.name))
    packages = cache / hashlib.sha256(lock).hexdigest()[:16]
    if not packages.exists():
        _install(sources, cache, packages)
    for source in sources.glob("*.mjs"):
        shutil.copy(source, folder)
    (folder / "node_modules").symlink_to(packages / "node_modules")
    return folder


def run_script(scripts: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script and return what it printed."""
    node = shutil.which("node")
    assert node is not None
    completed = subprocess.run(  # noqa: S603 - our own script
        [node, name, *arguments],
        cwd=scripts,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_SECONDS,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    return completed


def _install(sources: Path, cache: Path, packages: Path) -> None:
    """Install in a temporary folder and move it, because test processes run concurrently."""
    npm = shutil.which("npm")
    assert npm is not None, "Node.js is here and npm is not: install npm"
    with tempfile.TemporaryDirectory(dir=cache, ignore_cleanup_errors=True) as name:
        folder = Path(name) / "packages"
        folder.mkdir()
        for source in sources.glob("package*.json"):
            shutil.copy(source, folder)
        completed = subprocess.run(  # noqa: S603 - the package manager, with our own lock
            [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_SECONDS,
            check=False,
        )
        assert completed.returncode == 0, f"npm ci failed: {completed.stderr}"
        try:
            folder.rename(packages)
        except OSError:
            assert packages.exists()
