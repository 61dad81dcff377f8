"""`acc run`, `chat`, `graph` and `check`, with agents of a module beside this file."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from command import acc, environment, start
from terminal import Terminal

HERE = Path(__file__).parent


def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    if text is None:
        return acc(*arguments, cwd=HERE)
    return subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *map(str, arguments)],
        input=text,
        capture_output=True,
        text=True,
        cwd=HERE,
        env=environment(),
        timeout=120,
        check=False,
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_run_prints_the_answer_and_nothing_else() -> None:
    done = run("run", "shop:desk", "hello there")
    assert (done.returncode, done.stdout) == (0, "You said: hello there\n")
    assert "what a module prints" in done.stderr


def test_run_reads_the_text_from_stdin_and_takes_a_file() -> None:
    done = run("run", "./shop.py:desk", "-", text="こんにちは")
    assert done.stdout == "You said: こんにちは\n"


def test_run_shows_events_with_branches_and_calls() -> None:
    done = run("run", "shop:both", "hi", "--events")
    assert "left [both.left]  on the left  {l = on the left}" in done.stdout
    calls = run("run", "shop:team", "注文", "--events").stdout
    assert 'lookup_order(order="A-17")' in calls
    assert "hands over to 返品担当" in calls
    assert "model calls: 3, tool calls: 2" in calls


def test_run_as_json_gives_a_line_for_each_event_and_one_for_the_result() -> None:
    done = run("run", "shop:desk", "where is my order", "--json")
    *events, result = lines(done)
    assert {line["type"] for line in events} == {"event"}
    kinds = [event["kind"] for event in events]
    assert kinds == ["message", "tool_calls", "tool_result", "message", "ended"]
    assert events[1]["parts"] == [
        {"call": {"id": "call-1", "name": "lookup_order", "arguments": {"order": "A-17"}}}
    ]
    assert (result["type"], result["status"]) == ("result", "completed")
    assert result["text"] == "Done: A-17 was shipped"
    assert result["state"] == {"answer": "Done: A-17 was shipped"}
    assert result["usage"] == {"llm_calls": 2, "tool_calls": 1, "output_tokens": 4}


def test_run_as_json_can_stream() -> None:
    *events, _ = lines(run("run", "shop:desk", "one two", "--json", "--stream"))
    deltas = [event["parts"][0]["text"] for event in events if event["kind"] == "delta"]
    assert "".join(deltas) == "You said: one two"
    assert len(deltas) > 1


def test_run_shows_the_memory_and_how_it_came_about(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    first = run("run", "shop:keeper", "The nginx port is 8080. Never restart it.", "--ccs", *store)
    assert "memory of keeper" in first.stdout
    assert "constraints: Never restart it." in first.stdout
    assert "recalled" not in first.stdout
    second = run("run", "shop:keeper", "What is the nginx port?", "--memory", *store)
    assert "8080" in second.stdout
    assert re.search(r"qualified|refused", second.stdout)
    none = run("run", "shop:desk", "hi", "--ccs")
    assert 'give one memory="acc"' in none.stdout


def test_a_run_that_waits_is_answered_by_the_command_it_prints(tmp_path: Path) -> None:
    store = tmp_path / "shop.db"
    paused = run("run", "shop:desk", "refund it", "--session", "s 1", "--store", store)
    assert paused.returncode == 3
    assert "amount  50" in paused.stdout
    command = next(line for line in paused.stdout.splitlines() if "--approve" in line)
    assert "--session 's 1'" in command
    again = run("run", "shop:desk", "hello?", "--session", "s 1", "--store", store)
    assert (again.returncode, "waits for a person" in again.stderr) == (3, True)
    assert command in again.stdout
    shell = command.replace("acc run", f"{sys.executable} -m acc run", 1)
    done = subprocess.run(  # noqa: S602 - as a person would paste it
        shell, shell=True, capture_output=True, text=True, cwd=HERE, env=environment(), check=False
    )
    assert (done.returncode, done.stdout) == (0, "Done: {'refunded': 50, 'order': 'A-17'}\n")
    late = run("run", "shop:desk", "--session", "s 1", "--store", store, "--approve", "x")
    assert (late.returncode, "it waits for nothing" in late.stderr) == (1, True)


@pytest.mark.parametrize(
    ("flags", "answer"),
    [
        (("--deny", "{}", "--reason", "too much"), "'reason': 'too much'"),
        (("--edit", "{}", "--arguments", '{"order": "B", "amount": 5}'), "'refunded': 5"),
    ],
)
def test_a_waiting_run_can_be_denied_and_edited(
    tmp_path: Path, flags: tuple[str, ...], answer: str
) -> None:
    store = ("--store", tmp_path / "shop.db")
    *_, result = lines(run("run", "shop:desk", "refund it", "--json", *store))
    assert result["status"] == "input_required"
    request = result["requests"][0]
    assert request["arguments"] == {"order": "A-17", "amount": 50}
    assert f"--approve {request['id']}" in request["commands"][0]
    answers = [request["id"] if flag == "{}" else flag for flag in flags]
    done = run("run", "shop:desk", *store, *answers)
    assert done.returncode == 0, done.stderr
    assert answer in done.stdout


def test_a_value_is_handed_in_as_the_form_that_is_asked_for(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "shop.db")
    *_, result = lines(run("run", "shop:asking", "hi", "--json", *store))
    request_id = result["requests"][0]["id"]
    wrong = run("run", "shop:asking", *store, "--approve", request_id, "--value", "large")
    assert (wrong.returncode, "must be JSON" in wrong.stderr) == (2, True)
    done = run("run", "shop:asking", *store, "--approve", request_id, "--value", "41")
    assert done.stdout == "size 42\n"


def test_a_waiting_run_can_be_given_up(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "shop.db")
    assert run("run", "shop:desk", "refund it", *store).returncode == 3
    assert run("run", "shop:desk", "--abandon", *store).returncode == 0
    assert run("run", "shop:desk", "hello", *store).stdout == "You said: hello\n"
    lost = run("run", "shop:desk", "refund it")
    assert (lost.returncode, "--store FILE" in lost.stderr) == (3, True)
    assert "--approve" not in lost.stdout


def test_an_error_is_one_line_and_status_1() -> None:
    done = run("run", "shop:desk", "please fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "error: /desk: ConnectionError: the model is away"
    *_, result = lines(run("run", "shop:desk", "please fail", "--json"))
    assert (result["status"], result["error"]["code"]) == ("failed", "model_failed")
    slow = run("run", "shop:slow", "sleep", "--timeout", "0.2")
    assert (slow.returncode, "timeout" in slow.stderr) == (1, True)
    calls = run("run", "shop:desk", "my order", "--max-llm-calls", "1")
    assert (calls.returncode, "max_llm_calls" in calls.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("run", "shop", "x"), "names no agent"),
        (("run", "shop:nobody", "x"), "has no attribute 'nobody'"),
        (("run", "shop:broken", "x"), "KeyError: 'colour'"),
        (("run", "shop:refused", "x"), "max_iterations"),
        (("run", "nowhere:x", "x"), "cannot import"),
        (("run", "nowhere.py:x", "x"), "there is no file"),
        (("run", "shop:asyncio", "x"), "not an agent"),
        (("run", "shop:refund", "x"), "shop:refund is a tool, not an agent"),
        (("run", "shop:_said", "x"), "missing a required argument: 'prompt'; name an agent, or a"),
        (("run", "shop:desk"), "say something"),
        (("run", "shop:desk", "--evnts"), "no option --evnts"),
        (("run", "shop:desk", " "), "the message is empty"),
        (("run", "shop:desk", "x", "--approve", "y"), "without a text"),
        (("run", "shop:desk", "--edit", "y"), "go together"),
        (("run", "shop:desk", "--deny", "y", "--value", "1"), "--value goes with"),
        (("run", "shop:desk", "x", "--reason", "y"), "--reason goes with"),
        (("run", "shop:desk", "--deny", "y", "--abandon"), "either answer"),
        (("run", "shop:desk", "x", "--timeout", "0"), "timeout"),
        (("chat", "shop:broken"), "KeyError: 'colour'"),
        (("graph", "shop:refused"), "max_iterations"),
        (("graph", "shop:team", "--out", "nowhere/tree.png"), "nothing is drawn as .png: name the"),
        (("check", "shop:refused"), "cannot be built"),
    ],
)
def test_bad_use_is_told_in_one_line_with_status_2(arguments: tuple[str, ...], told: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_bytes_that_are_no_text_are_refused_as_a_message() -> None:
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
    assert b"the message holds half a character" in done.stderr.splitlines()[-1]
    assert b"Traceback" not in done.stderr


def test_a_module_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text("x = (\n")
    done = run("check", tmp_path / "odd.py:x")
    assert (done.returncode, "SyntaxError" in done.stderr, "odd.py, line 1" in done.stderr) == (
        2,
        True,
        True,
    )
    (tmp_path / "two.py").write_text("from acc import Agent\nfirst = Agent(name='first')\n")
    assert "the agents in it are first" in run("check", tmp_path / "two.py:second").stderr


def test_verbose_logs_json_lines_and_nothing_that_was_said() -> None:
    done = run("run", "shop:desk", "a-secret order", "-v")
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    told = [line["message"] for line in logged]
    assert told == ["agent started", "tool called", "agent finished", "run ended"]
    assert logged[1]["tool"] == "lookup_order"
    assert len({line["trace_id"] for line in logged}) == 1
    assert "secret" not in done.stderr


def test_ctrl_c_ends_a_run_with_130() -> None:
    process = start("run", "shop:slow", "sleep", "--json", cwd=HERE)
    assert process.stdout is not None
    begun = json.loads(process.stdout.readline())
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    result = json.loads(out.splitlines()[-1])
    assert (result["status"], result["run_id"]) == ("canceled", begun["run_id"])
    assert err.splitlines()[-1] == "canceled"


def test_a_terminal_shows_who_speaks_and_asks_for_approval(tmp_path: Path) -> None:
    with Terminal("run", "shop:desk", "refund it", cwd=HERE) as terminal:
        terminal.until('desk: refund(order="A-17", amount=50)')
        terminal.until("[a]pprove, [d]eny, [e]dit, [l]ater › ")
        terminal.say("what")
        terminal.until("type one of")
        terminal.until(" › ")
        terminal.say("a")
        terminal.until("desk › Done: {'refunded': 50, 'order': 'A-17'}")
        assert terminal.wait() == 0
    store = ("--store", tmp_path / "s.db")
    with Terminal("run", "shop:desk", "refund it", *store, cwd=HERE) as terminal:
        terminal.until("[l]ater › ")
        terminal.say("l")
        terminal.until("--approve")
        assert terminal.wait() == 3
    with Terminal("run", "shop:asking", "hi", cwd=HERE) as terminal:
        terminal.until("answer (empty: later) › ")
        terminal.say("large")
        terminal.until("must be JSON")
        terminal.until(" › ")
        terminal.say("41")
        terminal.until("asking › size 42")
        assert terminal.wait() == 0


def test_a_terminal_has_colours_unless_they_are_refused() -> None:
    with Terminal("run", "shop:both", "hi", cwd=HERE, color=True) as terminal:
        terminal.until("right [both.right] › on the right")
        assert terminal.wait() == 0
        assert "\x1b[1;36mleft" in terminal.raw
    with Terminal("run", "shop:both", "hi", cwd=HERE) as terminal:
        assert terminal.wait() == 0
        assert "36m" not in terminal.raw


def test_chat_goes_on_over_turns_approvals_and_commands() -> None:
    with Terminal("chat", "shop:team", cwd=HERE) as terminal:
        terminal.until("session default in memory")
        terminal.until("you › ")
        terminal.say("注文はどこですか")
        terminal.until("受付: hands over to 返品担当")
        terminal.until("返品担当 › Done: A-17 was shipped")
        terminal.until("you › ")
        terminal.say("返金してください")
        terminal.until("[l]ater › ")
        terminal.say("e")
        terminal.until('arguments › {"order":"A-17","amount":50}')
        terminal.send("\x7f" * 3 + "7}\r")
        terminal.until("返品担当 › Done: {'refunded': 7, 'order': 'A-17'}")
        terminal.until("you › ")
        terminal.say("/state")
        terminal.until('_active_agent = "返品担当"')
        terminal.say("/events")
        terminal.until("input_required")
        terminal.until("you › ")
        terminal.say("/ccs")
        terminal.until('give one memory="acc"')
        terminal.say("/help")
        terminal.until("/quit")
        terminal.until("you › ")
        terminal.say("/nonsense")
        terminal.until("no command /nonsense")
        terminal.until("you › ")
        terminal.send("\x04")
        assert terminal.wait() == 0


def test_chat_leaves_a_question_for_later_or_gives_it_up() -> None:
    with Terminal("chat", "shop:desk", cwd=HERE) as terminal:
        terminal.until("you › ")
        terminal.say("refund it")
        terminal.until("[l]ater › ")
        terminal.interrupt("the run waits")
        terminal.until("you › ")
        terminal.say("hello")
        terminal.until("not sent")
        terminal.until("[l]ater › ")
        terminal.say("d no thanks")
        terminal.until("'reason': 'no thanks'")
        terminal.until("you › ")
        terminal.say("refund it")
        terminal.until("[l]ater › ")
        terminal.say("l")
        terminal.until("you › ")
        terminal.say("/abandon")
        terminal.until("given up")
        terminal.until("you › ")
        terminal.say("/abandon")
        terminal.until("nothing waits")
        terminal.until("you › ")
        terminal.say("hello")
        terminal.until("desk › You said: hello")
        terminal.say("/quit")
        assert terminal.wait() == 0


def test_ctrl_c_in_chat_breaks_the_turn_off_and_the_session_goes_on() -> None:
    with Terminal("chat", "shop:slow", cwd=HERE) as terminal:
        terminal.until("you › ")
        terminal.send("half a li")
        # Keys that Ctrl-C overtakes are lost, and readline, told of them, then waits for others.
        terminal.until("half a li")
        terminal.interrupt("(Ctrl-D or /quit leaves)")
        terminal.until("you › ")
        terminal.say("sleep")
        # The echo alone does not tell that the line was read, and Ctrl-C drops one that was not.
        terminal.until("falls asleep")
        terminal.interrupt("canceled; the conversation goes on")
        terminal.until("you › ")
        terminal.say("おはよう")
        terminal.until("slow › awake: おはよう")
        terminal.until("you › ")
        terminal.send("\x04")
        assert terminal.wait() == 0


def test_chat_works_through_a_pipe_without_prompts_or_colours() -> None:
    done = run("chat", "shop:desk", text="hello\nrefund it\na\n/state\n")
    assert (done.returncode, "\x1b" in done.stdout, "you ›" in done.stdout) == (0, False, False)
    assert done.stdout.splitlines()[0] == "desk › You said: hello"
    assert "desk › Done: {'refunded': 50, 'order': 'A-17'}" in done.stdout
    assert 'answer = "Done:' in done.stdout


def test_chat_through_a_pipe_ends_with_3_where_nobody_answers(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "s.db")
    done = run("chat", "shop:desk", *store, text="refund it\n")
    assert done.returncode == 3
    assert "--approve" in done.stdout
    again = run("chat", "shop:desk", *store, text="deny\nno\nhello\n")
    assert again.returncode == 0
    assert "'reason': 'no'" in again.stdout
    assert "desk › You said: hello" in again.stdout


def test_chat_goes_on_after_an_error_and_a_pipe_is_told_by_the_status() -> None:
    done = run("chat", "shop:desk", "--ccs", text="please fail\nhello\n")
    assert done.returncode == 0
    assert "error: /desk: ConnectionError" in done.stderr
    assert "You said: hello" in done.stdout
    assert run("chat", "shop:desk", text="please fail\n").returncode == 1


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    done = run("run", "shop:desk", "a\x1b]0;title\x07b")
    assert done.stdout == "You said: a␛]0;title␇b\n"


def test_graph_draws_mermaid_or_svg(tmp_path: Path) -> None:
    assert run("graph", "shop:team").stdout.startswith("flowchart TD\n")
    file = tmp_path / "tree.svg"
    done = run("graph", "shop:team", "--out", file)
    assert done.stdout == f"wrote {file}\n"
    assert "返品担当" in file.read_text(encoding="utf-8")
    assert run("graph", "shop:team", "--format", "svg").stdout.startswith("<svg")
    full = run("graph", "shop:team", "--out", tmp_path / "no" / "tree.svg")
    assert (full.returncode, "cannot write" in full.stderr) == (1, True)


def test_check_tells_what_is_wrong_and_how_to_mend_it() -> None:
    done = run("check", "shop:faulty")
    assert done.returncode == 1
    assert "reader: its instruction uses {notes}, and no agent writes it" in done.stdout
    assert "fix: use the whole answer, {order}" in done.stdout
    assert "高権限アクション" in done.stdout
    assert done.stdout.splitlines()[-1] == "3 problems, 2 warnings"
    report = json.loads(run("check", "shop:faulty", "--json").stdout)
    assert report["severity"] == "problem"
    assert [rule["severity"] for rule in report["rules"]].count("problem") == 3


def test_check_passes_a_sound_tree_and_fits_a_narrow_terminal() -> None:
    done = run("check", "shop:sound")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 problems, 0 warnings")
    with Terminal("check", "shop:faulty", cwd=HERE) as terminal:
        assert terminal.wait() == 1
        assert "\n                  fix: " in terminal.shown


@pytest.mark.parametrize("command", ["run", "chat", "graph", "check"])
def test_help_teaches_with_an_example(command: str) -> None:
    done = acc(command, "--help")
    assert done.returncode == 0
    assert f"Example: acc {command} shop.agents:root" in done.stdout
    assert command in acc("--help").stdout


def test_a_run_that_was_killed_after_its_approval_can_go_on_or_be_given_up(
    tmp_path: Path,
) -> None:
    store = tmp_path / "s.db"
    where = ("--store", str(store), "--session", "s1")
    waiting = run("run", "shop:slow_refund", "refund it", *where)
    assert waiting.returncode == 3, waiting.stderr
    request = re.findall(r"--approve (\S+)", waiting.stdout)[0]
    begun = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", "run", "shop:slow_refund", *where, "--approve", request],
        cwd=HERE,
        env={**environment(), "BEGUN": str(tmp_path / "begun")},
        stderr=subprocess.DEVNULL,
    )
    while not (tmp_path / "begun").exists():
        assert begun.poll() is None
        time.sleep(0.02)
    begun.kill()
    begun.wait()
    stuck = run("run", "shop:slow_refund", "hello", *where)
    assert stuck.returncode == 3
    assert "--resume" in stuck.stdout
    assert "--abandon" in stuck.stdout
    done = run("run", "shop:slow_refund", *where, "--resume")
    assert done.returncode == 0, done.stderr
    assert "not known" in done.stdout
