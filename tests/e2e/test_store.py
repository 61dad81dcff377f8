"""`acc store`: migrate, check and copy."""

from pathlib import Path

import pytest
from command import acc
from postgres_server import ENCODED_PASSWORD, PASSWORD, new_store_url

AGENT = """
from acc import Agent
root = Agent(name="desk", model="embedded")
"""


def test_migrate_and_check(tmp_path: Path) -> None:
    url = new_store_url()
    missing = acc("store", "check", url)
    assert (missing.returncode, "acc store migrate" in missing.stdout) == (1, True)
    dry = acc("store", "migrate", url, "--dry-run")
    assert "would migrate to version 2" in dry.stdout
    assert acc("store", "check", url).returncode == 1
    assert "migrated to version 2" in acc("store", "migrate", url).stdout
    assert "no migration is missing" in acc("store", "migrate", url).stdout
    done = acc("store", "check", url)
    assert (done.returncode, "schema version 2, ok" in done.stdout) == (0, True)
    for result in (missing, dry, done):
        assert PASSWORD not in result.stdout + result.stderr
        assert ENCODED_PASSWORD not in result.stdout + result.stderr


def test_session_continues_after_a_copy(tmp_path: Path) -> None:
    url = new_store_url()
    (tmp_path / "shop.py").write_text(AGENT)
    first = acc("run", "shop:root", "My name is Bo", "--store", "shop.db", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    dry = acc("store", "copy", "shop.db", url, "--dry-run", cwd=tmp_path)
    assert "would copy 1 rows of sessions" in dry.stdout
    copied = acc("store", "copy", "shop.db", url, cwd=tmp_path)
    assert copied.returncode == 0, copied.stderr
    assert "copied 1 rows of sessions" in copied.stdout
    assert ENCODED_PASSWORD not in copied.stdout
    second = acc("run", "shop:root", "What is my name?", "--store", url, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    back = acc("store", "copy", url, "back.db", cwd=tmp_path)
    assert "copied 1 rows of sessions" in back.stdout, back.stderr
    chat = acc("chat", "shop:root", "--store", url, cwd=tmp_path, text="/events\n")
    assert "My name is Bo" in chat.stdout
    assert ENCODED_PASSWORD not in chat.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("migrate", "shop.db"), 2, "only PostgreSQL stores have migrations"),
        (("check", "missing.db"), 1, "does not exist"),
        (("check", "memory"), 2, "has no version"),
        (("copy", "missing.db", "other.db"), 1, "does not exist"),
        (("check", "mysql://ann:pass-word@db/acc"), 2, "scheme 'mysql' is not supported"),
        (("check", "postgresql://ann:pass-word@127.0.0.1:1/acc"), 1, "cannot be reached"),
    ],
)
def test_errors_name_the_problem(
    tmp_path: Path, arguments: tuple[str, ...], status: int, text: str
) -> None:
    result = acc("store", *arguments, cwd=tmp_path)
    assert result.returncode == status
    assert text in result.stderr
    assert "pass-word" not in result.stderr
