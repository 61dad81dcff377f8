"""`acc store`: migrate, check, copy and prune."""

import os
import time
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
    assert "would migrate to version 4" in dry.stdout
    assert acc("store", "check", url).returncode == 1
    assert "migrated to version 4" in acc("store", "migrate", url).stdout
    assert "no migration is missing" in acc("store", "migrate", url).stdout
    done = acc("store", "check", url)
    assert (done.returncode, "schema version 4, ok" in done.stdout) == (0, True)
    for result in (missing, dry, done):
        assert PASSWORD not in result.stdout + result.stderr
        assert ENCODED_PASSWORD not in result.stdout + result.stderr


def test_session_continues_after_a_copy(tmp_path: Path) -> None:
    url = new_store_url()
    (tmp_path / "shop.py").write_text(AGENT)
    first = acc("run", "shop:root", "My name is Bo", "--store", "shop.db", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    dry = acc("store", "copy", "shop.db", url, "--dry-run", cwd=tmp_path)
    assert "would copy 1 row of sessions" in dry.stdout
    copied = acc("store", "copy", "shop.db", url, cwd=tmp_path)
    assert copied.returncode == 0, copied.stderr
    assert "copied 1 row of sessions" in copied.stdout
    assert ENCODED_PASSWORD not in copied.stdout
    second = acc("run", "shop:root", "What is my name?", "--store", url, cwd=tmp_path)
    assert second.returncode == 0, second.stderr
    back = acc("store", "copy", url, "back.db", cwd=tmp_path)
    assert "copied 1 row of sessions" in back.stdout, back.stderr
    chat = acc("chat", "shop:root", "--store", url, cwd=tmp_path, text="/events\n")
    assert "My name is Bo" in chat.stdout
    assert ENCODED_PASSWORD not in chat.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("migrate", "shop.db"), 2, "only PostgreSQL stores have migrations"),
        (("check", "missing.db"), 1, "does not exist"),
        (("check", "memory"), 2, "only in the process that uses it"),
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


REPORTER = """
from acc import BaseAgent

class Reporter(BaseAgent):
    async def run(self, ctx):
        await ctx.artifacts.save("report.bin", b"x" * 400_000, media_type="application/x")
        file = await ctx.artifacts.load("report.bin")
        return f"{len(file.data)} bytes"

root = Reporter(name="reporter")
"""


def test_large_files_are_stored_outside_and_unused_content_is_pruned(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(REPORTER)
    files = tmp_path / "files"
    run = acc("run", "shop:root", "go", "--store", "shop.db", cwd=tmp_path, ACC_FILES=str(files))
    assert "400000 bytes" in run.stdout, run.stderr
    (blob,) = files.glob("*/*")
    assert blob.stat().st_size == 400_000
    assert (tmp_path / "shop.db").stat().st_size < 300_000
    old = time.time() - 2 * 24 * 3600
    os.utime(blob, (old, old))
    (files / "00").mkdir(exist_ok=True)
    unused = files / "00" / ("00" * 32)
    unused.write_bytes(b"unused")
    os.utime(unused, (old, old))
    options = ("store", "prune", "shop.db", "--files", str(files))
    assert "would delete 1 blobs, 6 bytes" in acc(*options, "--dry-run", cwd=tmp_path).stdout
    assert "deleted 1 blobs, 6 bytes" in acc(*options, cwd=tmp_path).stdout
    assert list(files.glob("*/*")) == [blob]
    without = acc("store", "prune", "shop.db", cwd=tmp_path)
    assert (without.returncode, "ACC_FILES" in without.stderr) == (2, True)
