"""`acc chat` at a terminal and through a pipe."""

from pathlib import Path

from command import acc
from terminal import Terminal

HERE = Path(__file__).parent


def test_session_continues_over_turns_approvals_and_commands() -> None:
    with Terminal("chat", "shop:team", cwd=HERE) as terminal:
        terminal.read_until("session default in memory")
        terminal.read_until("you › ")
        terminal.send_line("注文はどこですか")
        terminal.read_until("受付: transfers to 返品担当")
        terminal.read_until("返品担当 › Done: A-17 was shipped")
        terminal.read_until("you › ")
        terminal.send_line("返金してください")
        terminal.read_until("[l]ater › ")
        terminal.send_line("e")
        terminal.read_until('arguments › {"order":"A-17","amount":50}')
        terminal.send("\x7f" * 3 + "7}\r")
        terminal.read_until("返品担当 › Done: {'refunded': 7, 'order': 'A-17'}")
        terminal.read_until("you › ")
        terminal.send_line("/state")
        terminal.read_until('_active_agent = "返品担当"')
        terminal.send_line("/events")
        terminal.read_until("input_required")
        terminal.read_until("you › ")
        terminal.send_line("/ccs")
        terminal.read_until("there is no state")
        terminal.send_line("/help")
        terminal.read_until("/quit")
        terminal.read_until("you › ")
        terminal.send_line("/nonsense")
        terminal.read_until("unknown command /nonsense")
        terminal.read_until("you › ")
        terminal.send("\x04")
        assert terminal.wait() == 0


def test_request_can_be_postponed_and_abandoned() -> None:
    with Terminal("chat", "shop:desk", cwd=HERE) as terminal:
        terminal.read_until("you › ")
        terminal.send_line("refund it")
        terminal.read_until("[l]ater › ")
        terminal.interrupt("the run waits for input")
        terminal.read_until("you › ")
        terminal.send_line("hello")
        terminal.read_until("not sent")
        terminal.read_until("[l]ater › ")
        terminal.send_line("d no thanks")
        terminal.read_until("'reason': 'no thanks'")
        terminal.read_until("you › ")
        terminal.send_line("refund it")
        terminal.read_until("[l]ater › ")
        terminal.send_line("l")
        terminal.read_until("you › ")
        terminal.send_line("/abandon")
        terminal.read_until("  abandoned")
        terminal.read_until("you › ")
        terminal.send_line("/abandon")
        terminal.read_until("no run waits for input")
        terminal.read_until("you › ")
        terminal.send_line("hello")
        terminal.read_until("desk › You said: hello")
        terminal.send_line("/quit")
        assert terminal.wait() == 0


def test_ctrl_c_cancels_the_turn_and_the_session_continues() -> None:
    with Terminal("chat", "shop:slow", cwd=HERE) as terminal:
        terminal.read_until("you › ")
        terminal.send("half a li")
        # Wait for the echo: keys that Ctrl-C overtakes are lost, and readline would wait for more.
        terminal.read_until("half a li")
        terminal.interrupt("(Ctrl-D or /quit leaves)")
        terminal.read_until("you › ")
        terminal.send_line("sleep")
        # The echo alone does not show that the line was read, and Ctrl-C drops an unread line.
        terminal.read_until("sleeping")
        terminal.interrupt("canceled; the session continues")
        terminal.read_until("you › ")
        terminal.send_line("おはよう")
        terminal.read_until("slow › slow: おはよう")
        terminal.read_until("you › ")
        terminal.send("\x04")
        assert terminal.wait() == 0


def test_pipe_has_no_prompts_or_colours() -> None:
    done = acc("chat", "shop:desk", cwd=HERE, text="hello\nrefund it\na\n/state\n")
    assert (done.returncode, "\x1b" in done.stdout, "you ›" in done.stdout) == (0, False, False)
    assert done.stdout.splitlines()[0] == "desk › You said: hello"
    assert "desk › Done: {'refunded': 50, 'order': 'A-17'}" in done.stdout
    assert 'answer = "Done:' in done.stdout


def test_pipe_exits_with_3_when_a_request_has_no_answer(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    done = acc("chat", "shop:desk", *store, cwd=HERE, text="refund it\n")
    assert done.returncode == 3
    assert "--approve" in done.stdout
    again = acc("chat", "shop:desk", *store, cwd=HERE, text="deny\nno\nhello\n")
    assert again.returncode == 0
    assert "'reason': 'no'" in again.stdout
    assert "desk › You said: hello" in again.stdout


def test_pipe_continues_after_an_error_and_reports_the_last_one() -> None:
    done = acc("chat", "shop:desk", "--ccs", cwd=HERE, text="please fail\nhello\n")
    assert done.returncode == 0
    assert "error: /desk: ConnectionError" in done.stderr
    assert "You said: hello" in done.stdout
    assert acc("chat", "shop:desk", cwd=HERE, text="please fail\n").returncode == 1
