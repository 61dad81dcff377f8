"""A disk that is full, a directory that cannot be written, two runs at once."""

import resource
import subprocess
import sys
from pathlib import Path

from command import SMALL, acc, environment, recorded, start


def test_a_full_disk_is_named_and_nothing_recorded_is_lost(tmp_path: Path) -> None:
    whole, run = tmp_path / "whole", tmp_path / "run"
    acc("eval", *SMALL, "--out", whole, "--quiet")
    # No file may grow past 12 kB: the kernel refuses the write as it would on a full disk.
    limited = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", "eval", *SMALL, "--out", str(run), "--quiet"],
        capture_output=True,
        text=True,
        # Coverage would try to write its own data to the same full disk.
        env={k: v for k, v in environment().items() if not k.startswith("COVERAGE")},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, 12_000)),
        check=False,
    )
    assert limited.returncode == 1
    assert "cannot write" in limited.stderr
    assert "earlier turns are safe" in limited.stderr
    assert "Traceback" not in limited.stderr
    kept = (run / "episodes" / "it-operations.000000.jsonl").read_bytes()
    assert kept.endswith(b"\n")
    assert 0 < kept.count(b"\n") < 6
    assert acc("eval", *SMALL, "--out", run, "--quiet").returncode == 0
    assert recorded(run) == recorded(whole)


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = acc("eval", *SMALL, "--out", tmp_path / "file" / "run")
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_with_other_peoples_files_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = acc("eval", *SMALL, "--out", tmp_path)
    assert done.returncode == 2
    assert "is not empty and contains no evaluation; it contains thesis.txt" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_two_processes_do_not_write_one_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start("eval", "--episodes", "2", "--workers", "1", "--out", run, "--quiet")
    while not list((run / "episodes").glob("*.jsonl")):
        assert first.poll() is None
    second = acc("eval", "--episodes", "2", "--workers", "1", "--out", run)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "another process is working on" in second.stderr


def test_reporting_on_something_that_is_no_run_says_so(tmp_path: Path) -> None:
    for arguments in (("report", tmp_path), ("compare", tmp_path, tmp_path)):
        done = acc(*arguments)
        assert done.returncode == 2
        assert "contains no evaluation" in done.stderr
    (tmp_path / "run.json").write_text("{")
    assert "cannot be read" in acc("report", tmp_path).stderr
