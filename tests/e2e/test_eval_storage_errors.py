"""`acc eval` with a full disk, an unusable directory, or two processes."""

import resource
import subprocess
import sys
from pathlib import Path

from command import SMALL, acc, environment, read_records, start


def test_full_disk_is_reported_and_recorded_turns_remain(tmp_path: Path) -> None:
    complete, run = tmp_path / "whole", tmp_path / "run"
    acc("eval", *SMALL, "--out", complete, "--quiet")
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
    stored = (run / "episodes" / "it-operations.000000.jsonl").read_bytes()
    assert stored.endswith(b"\n")
    assert 0 < stored.count(b"\n") < 6
    assert acc("eval", *SMALL, "--out", run, "--quiet").returncode == 0
    assert read_records(run) == read_records(complete)


def test_directory_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = acc("eval", *SMALL, "--out", tmp_path / "file" / "run")
    assert done.returncode == 1
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr


def test_directory_with_other_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    done = acc("eval", *SMALL, "--out", tmp_path)
    assert done.returncode == 2
    assert "is not empty and contains no evaluation; it contains thesis.txt" in done.stderr
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.txt"]


def test_second_process_on_the_same_run_is_rejected(tmp_path: Path) -> None:
    run = tmp_path / "run"
    first = start("eval", "--episodes", "2", "--workers", "1", "--out", run, "--quiet")
    while not list((run / "episodes").glob("*.jsonl")):
        assert first.poll() is None
    second = acc("eval", "--episodes", "2", "--workers", "1", "--out", run)
    first.kill()
    first.communicate()
    assert second.returncode == 2
    assert "another process is working on" in second.stderr


def test_report_and_compare_fail_without_an_evaluation(tmp_path: Path) -> None:
    for arguments in (("report", tmp_path), ("compare", tmp_path, tmp_path)):
        done = acc(*arguments)
        assert done.returncode == 2
        assert "contains no evaluation" in done.stderr
    (tmp_path / "run.json").write_text("{")
    assert "cannot be read" in acc("report", tmp_path).stderr
