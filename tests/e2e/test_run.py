"""`acc run` in a subprocess and in a terminal."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from command import acc, environment, start
from terminal import Terminal

HERE = Path(__file__).parent


def test_answer_is_the_only_output() -> None:
    done = acc("run", "shop:desk", "hello there", cwd=HERE)
    assert (done.returncode, done.stdout) == (0, "You said: hello there\n")
    assert "printed by the module" in done.stderr


def test_message_is_read_from_stdin() -> None:
    done = acc("run", "./shop.py:desk", "-", cwd=HERE, text="こんにちは")
    assert done.stdout == "You said: こんにちは\n"


def test_message_that_is_not_utf8_is_rejected() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "acc", "run", "shop:desk", "-", "--json"],
        input=b"\xff\xfe\n",
        capture_output=True,
        cwd=HERE,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.splitlines()[-1] == b"error: the text on standard input is not UTF-8"
    assert b"Traceback" not in done.stderr


def test_paused_run_is_resumed_by_the_printed_command(tmp_path: Path) -> None:
    session = ("--session", "s 1", "--store", tmp_path / "shop.db")
    paused = acc("run", "shop:desk", "refund it", *session, cwd=HERE)
    assert paused.returncode == 3
    assert "amount  50" in paused.stdout
    command = next(line for line in paused.stdout.splitlines() if "--approve" in line)
    assert "--session 's 1'" in command
    shell = command.replace("acc run", f"{sys.executable} -m acc run", 1)
    done = subprocess.run(  # noqa: S602 - as a person would paste it
        shell, shell=True, capture_output=True, text=True, cwd=HERE, env=environment(), check=False
    )
    assert (done.returncode, done.stdout) == (0, "Done: {'refunded': 50, 'order': 'A-17'}\n")


def test_run_killed_after_its_approval_can_be_resumed(tmp_path: Path) -> None:
    session = ("--store", str(tmp_path / "s.db"), "--session", "s1")
    paused = acc("run", "shop:slow_refund", "refund it", *session, cwd=HERE)
    assert paused.returncode == 3, paused.stderr
    request = re.findall(r"--approve (\S+)", paused.stdout)[0]
    started = tmp_path / "started"
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", "run", "shop:slow_refund", *session, "--approve", request],
        cwd=HERE,
        env=environment(REFUND_STARTED=str(started)),
        stderr=subprocess.DEVNULL,
    )
    while not started.exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    waiting = acc("run", "shop:slow_refund", "hello", *session, cwd=HERE)
    assert waiting.returncode == 3
    assert "--resume" in waiting.stdout
    assert "--abandon" in waiting.stdout
    done = acc("run", "shop:slow_refund", *session, "--resume", cwd=HERE)
    assert done.returncode == 0, done.stderr
    assert "outcome is unknown" in done.stdout


def test_verbose_logs_json_lines_without_message_content() -> None:
    done = acc("run", "shop:desk", "a-secret order", "-v", cwd=HERE)
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    messages = [line["message"] for line in logged]
    assert messages == ["agent started", "tool called", "agent finished", "run ended"]
    assert logged[1]["tool"] == "lookup_order"
    assert len({line["trace_id"] for line in logged}) == 1
    assert "secret" not in done.stderr


def test_ctrl_c_cancels_the_run_with_status_130() -> None:
    process = start("run", "shop:slow", "sleep", "--json", cwd=HERE)
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    result = json.loads(out.splitlines()[-1])
    assert (result["status"], result["run_id"]) == ("canceled", first["run_id"])
    assert err.splitlines()[-1] == "canceled"


def test_terminal_shows_authors_and_asks_for_approval() -> None:
    with Terminal("run", "shop:desk", "refund it", cwd=HERE) as terminal:
        terminal.read_until('desk: refund(order="A-17", amount=50)')
        terminal.read_until("[a]pprove, [d]eny, [e]dit, [l]ater › ")
        terminal.send_line("what")
        terminal.read_until("type one of")
        terminal.read_until(" › ")
        terminal.send_line("a")
        terminal.read_until("desk › Done: {'refunded': 50, 'order': 'A-17'}")
        assert terminal.wait() == 0


def test_terminal_can_postpone_an_approval(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    with Terminal("run", "shop:desk", "refund it", *store, cwd=HERE) as terminal:
        terminal.read_until("[l]ater › ")
        terminal.send_line("l")
        terminal.read_until("--approve")
        assert terminal.wait() == 3


def test_terminal_asks_for_a_value_until_it_is_valid() -> None:
    with Terminal("run", "shop:ask_size", "hi", cwd=HERE) as terminal:
        terminal.read_until("answer (empty: later) › ")
        terminal.send_line("large")
        terminal.read_until("must be JSON")
        terminal.read_until(" › ")
        terminal.send_line("41")
        terminal.read_until("ask_size › size 42")
        assert terminal.wait() == 0


def test_terminal_has_colours_unless_no_color_is_set() -> None:
    with Terminal("run", "shop:both", "hi", cwd=HERE, color=True) as terminal:
        terminal.read_until("right [both.right] › on the right")
        assert terminal.wait() == 0
        assert "\x1b[1;36mleft" in terminal.raw
    with Terminal("run", "shop:both", "hi", cwd=HERE) as terminal:
        assert terminal.wait() == 0
        assert "36m" not in terminal.raw
