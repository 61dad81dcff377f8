"""How a server and its users know of each other, and the folder they do it in."""

import os
import signal
from pathlib import Path

import pytest

from acc import ModelFailed
from acc.adapters.local_models.shared_files import Address, SharedFiles, runtime_folder
from acc.adapters.local_models.starting import _environment, _why


def test_the_folder_is_for_its_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = runtime_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert runtime_folder() == folder
    folder.chmod(0o755)
    with pytest.raises(ModelFailed, match="nobody else can open"):
        runtime_folder()
    folder.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    folder.symlink_to(elsewhere)
    with pytest.raises(ModelFailed, match="nobody else can open"):
        runtime_folder()


def test_without_a_runtime_folder_there_is_one_among_the_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "none"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert runtime_folder() == tmp_path / f"acc-local-{os.getuid()}"


def test_there_is_one_server_and_its_address_goes_with_it(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, "x")
    assert not files.is_served()
    hold = files.become_server()
    assert hold is not None
    assert files.is_served()
    assert files.address() is None
    assert files.become_server(patience=0.05) is None
    files.announce(hold, Address("http://127.0.0.1:1", "k"))
    assert files.address() == Address("http://127.0.0.1:1", "k")
    os.close(hold)
    assert not files.is_served()
    again = files.become_server()
    assert again is not None
    assert files.address() is None
    os.close(again)


def test_a_server_sees_when_the_last_user_is_gone(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, "x")
    one, other = files.join_users(), files.join_users()
    assert files.has_users()
    os.close(one)
    assert files.has_users()
    os.close(other)
    assert not files.has_users()


@pytest.mark.parametrize("text", ["", "{", '{"url": 1}\n', "[]\n"])
def test_an_address_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    files = SharedFiles(tmp_path, "x")
    files.server.write_text(text)
    assert files.address() is None


def test_a_server_inherits_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("db_password", "secret")
    monkeypatch.setenv("HARMLESS", "yes")
    found = _environment()
    assert found["HARMLESS"] == "yes"
    assert "sk-secret" not in found.values()
    assert "secret" not in found.values()


def test_why_a_server_did_not_come_up_is_told_in_words_that_help(tmp_path: Path) -> None:
    files = SharedFiles(tmp_path, "x")
    assert "ended its server" in _why({"status": -signal.SIGKILL}, files)
    assert "status 3" in _why({"status": 3}, files)
    files.log.write_text("E x: failed to allocate buffer\n")
    assert "too little memory" in _why({"fault": "init"}, files)
    files.log.write_text("E llama_model_load: error loading model: unknown architecture\n")
    assert _why({"fault": "init"}, files) == "unknown architecture"
