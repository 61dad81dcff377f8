"""`acc serve --tls-cert` in a process of its own."""

import os
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path

from certificates import Authority
from server_process import Server

from acc.cli import execute as run


def test_server_uses_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue(address="127.0.0.1", is_client=False)
    options = ["--tls-cert", str(issued.chain), "--tls-key", str(issued.key)]
    with Server(tmp_path, *options) as server:
        url = f"https://127.0.0.1:{server.port}/.well-known/agent-card.json"
        context = ssl.create_default_context(cafile=str(authority.file))
        with urllib.request.urlopen(url, context=context, timeout=10) as response:
            card = response.read().decode()
        assert f"https://127.0.0.1:{server.port}" in card
        assert f"http://127.0.0.1:{server.port}" not in card


def test_commands_trust_the_authorities_of_the_environment(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue(address="127.0.0.1", is_client=False)
    options = ["--tls-cert", str(issued.chain), "--tls-key", str(issued.key)]
    with Server(tmp_path, *options) as server:
        command = [sys.executable, "-m", "acc", "card", f"https://127.0.0.1:{server.port}"]

        def show(file: Path) -> subprocess.CompletedProcess[str]:
            environment = {**os.environ, "SSL_CERT_FILE": str(file)}
            return subprocess.run(  # noqa: S603 - our own command
                command, env=environment, capture_output=True, text=True, timeout=60, check=False
            )

        assert show(authority.file).returncode == 0
        other = Authority(tmp_path, "Other CA")
        assert "certificate verify failed" in show(other.file).stderr
        missing = show(tmp_path / "missing.pem").stderr
        assert "SSL_CERT_FILE" in missing
        assert "Traceback" not in missing


def test_invalid_certificate_is_rejected_at_start(tmp_path: Path) -> None:
    key = Authority(tmp_path).issue(is_client=False).key
    agent = "tests/integration/sample_agents.py:everything"
    for options in (["--tls-key", str(key)], ["--tls-cert", str(key)], ["--tls-cert", "none.pem"]):
        assert run(["serve", agent, "--port", "0", *options]) == 2, options
