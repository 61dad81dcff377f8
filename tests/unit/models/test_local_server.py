"""The files that a local server and its users share, and why a server did not start."""

import os
import signal
from pathlib import Path

import pytest

from acc import ModelFailed
from acc.adapters.models.local_server import (
    ServerAddress,
    ServerFiles,
    failure_reason,
    runtime_directory,
    server_environment,
)


def test_runtime_directory_must_be_private(tmp_path: Path) -> None:
    base = str(tmp_path)
    folder = runtime_directory(base)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert runtime_directory(base) == folder
    folder.chmod(0o755)
    with pytest.raises(ModelFailed, match="mode 700"):
        runtime_directory(base)
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    folder.symlink_to(elsewhere)
    with pytest.raises(ModelFailed, match="mode 700"):
        runtime_directory(base)


def test_runtime_directory_is_temporary_when_base_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_directory(str(tmp_path / "none")) == tmp_path / f"acc-local-{os.getuid()}"


def test_server_lock_is_exclusive_and_address_ends_with_it(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "x")
    assert not files.is_served()
    hold = files.become_server()
    assert hold is not None
    assert files.is_served()
    assert files.address() is None
    assert files.become_server(timeout=0.05) is None
    files.announce(hold, ServerAddress("http://127.0.0.1:1", "k"))
    assert files.address() == ServerAddress("http://127.0.0.1:1", "k")
    os.close(hold)
    assert not files.is_served()
    again = files.become_server()
    assert again is not None
    assert files.address() is None
    os.close(again)


def test_server_has_no_users_after_the_last_one_left(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "x")
    one, other = files.join_users(), files.join_users()
    assert files.has_users()
    os.close(one)
    assert files.has_users()
    os.close(other)
    assert not files.has_users()


@pytest.mark.parametrize("text", ["", "{", '{"url": 1}\n', "[]\n"])
def test_unreadable_address_is_none(tmp_path: Path, text: str) -> None:
    files = ServerFiles(tmp_path, "x")
    files.server.write_text(text)
    assert files.address() is None


def test_server_environment_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("db_password", "secret")
    monkeypatch.setenv("HARMLESS", "yes")
    found = server_environment()
    assert found["HARMLESS"] == "yes"
    assert "sk-secret" not in found.values()
    assert "secret" not in found.values()


def test_failure_reason_names_memory_and_load_errors(tmp_path: Path) -> None:
    files = ServerFiles(tmp_path, "x")
    assert "killed its server" in failure_reason({"status": -signal.SIGKILL}, files)
    assert "status 3" in failure_reason({"status": 3}, files)
    files.log.write_text("E x: failed to allocate buffer\n")
    assert "too little memory" in failure_reason({"error": "init"}, files)
    files.log.write_text("E llama_model_load: error loading model: unknown architecture\n")
    assert failure_reason({"error": "init"}, files) == "unknown architecture"
