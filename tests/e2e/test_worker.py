"""`acc worker`: help and errors. The work itself is tested with killed workers."""

from pathlib import Path

import pytest
from command import acc
from postgres_server import ENCODED_PASSWORD, new_store_url
from temporal_server import shared_server

AGENT = """
from acc import Agent
root = Agent(name="desk", model="embedded")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(AGENT)
    return tmp_path


def test_help_names_engine_store_and_an_example() -> None:
    shown = acc("worker", "--help")
    assert shown.returncode == 0
    for text in ("--engine", "--store", "ACC_TEMPORAL_API_KEY", "Example: acc worker"):
        assert text in shown.stdout


@pytest.mark.parametrize(
    ("engine", "store", "status", "named"),
    [
        ("nats://h", "shop.db", 2, "engine scheme 'nats' is not supported"),
        ("temporal://u:secret@h", "shop.db", 2, "ACC_TEMPORAL_API_KEY"),
        ("temporal://127.0.0.1:1", "memory", 2, "postgresql://"),
        ("temporal://127.0.0.1:1", "shop.db", 1, "temporal://127.0.0.1:1/default does not respond"),
    ],
)
def test_wrong_engine_or_store_is_named(
    folder: Path, engine: str, store: str, status: int, named: str
) -> None:
    result = acc("worker", "shop:root", "--engine", engine, "--store", store, cwd=folder)
    assert (result.returncode, named in result.stderr) == (status, True), result.stderr
    assert "secret" not in result.stderr


def test_server_does_not_start_without_its_engine(folder: Path) -> None:
    options = ("--engine", "temporal://127.0.0.1:1", "--store", "shop.db", "--port", "0")
    result = acc("serve", "shop:root", *options, cwd=folder)
    assert result.returncode == 1
    assert "temporal://127.0.0.1:1/default does not respond" in result.stderr


@pytest.mark.parametrize("command", ["serve", "worker"])
def test_store_that_cannot_be_written_is_named_at_the_start(folder: Path, command: str) -> None:
    url = new_store_url()
    assert acc("store", "migrate", url).returncode == 0
    engine = ("--engine", shared_server().url)
    read_only = f"{url}&default_transaction_read_only=on"
    wrong = url.replace(ENCODED_PASSWORD, "wrong-secret")
    for store, reason in ((read_only, "the database is read-only"), (wrong, "password is wrong")):
        options = () if command == "worker" else ("--port", "0")
        result = acc(command, "shop:root", *engine, "--store", store, *options, cwd=folder)
        assert (result.returncode, reason in result.stderr) == (1, True), result.stderr
        assert "wrong-secret" not in result.stderr


def test_server_refuses_quotas_that_workers_do_not_count(folder: Path) -> None:
    options = ("--engine", "temporal://h", "--store", "shop.db", "--token-quota", "5")
    result = acc("serve", "shop:root", *options, cwd=folder)
    assert result.returncode == 2
    assert "--token-quota" in result.stderr
