"""`acc call` with agents that `acc serve` serves in another process."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command import acc, serve
from terminal import Terminal

from acc.adapters.auth.bearer_tokens import TokenEntry, append_entry, token_hash


@pytest.fixture(scope="module")
def payment() -> Iterator[str]:
    with serve("sample_agents:payment") as url:
        yield url


def test_answer_is_the_only_output_of_a_call(everything: str) -> None:
    done = acc("call", everything, "こんにちは")
    assert (done.returncode, done.stdout) == (0, "echo: こんにちは\n")
    assert acc("call", everything, "hello", "--no-stream").stdout == "echo: hello\n"


def test_files_and_data_are_sent_and_artifacts_are_saved(everything: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("日本語", encoding="utf-8")
    options = ("--file", tmp_path / "note.txt", "--data", '{"n": [1]}')
    done = acc("call", everything, "parts", *options)
    assert done.stdout.splitlines() == [
        '"parts"',
        '{"n": [1]}',
        '{"raw": 9, "hex": "e697a5e69cace8aa9e", "type": "text/plain", "name": "note.txt"}',
    ]
    for _ in range(2):
        done = acc("call", everything, "files", "--out", tmp_path / "out")
        assert (done.returncode, done.stdout) == (0, "four files\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("dot-2.png", "dot.png", "report-2.txt", "report.txt", "table-2.json", "table.json")
    ]
    assert "https://example.com/a.pdf" in done.stderr
    assert (tmp_path / "out" / "dot.png").read_bytes() == b"\x89PNG\r\n"


def test_waiting_task_is_answered_by_the_printed_command(payment: str) -> None:
    done = acc("call", payment, "pay 20000")
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = [line for line in done.stderr.splitlines() if "--approve" in line]
    answered = acc(*line.split()[1:])
    assert (answered.returncode, answered.stdout) == (0, "paid 20000 yen to Aoba\n")
    task = line.split()[line.split().index("--task") + 1]
    again = acc("call", payment, "--task", task, "--approve")
    assert again.returncode == 2
    assert "does not need input" in again.stderr


def test_value_for_a_confirmation_is_rejected_and_the_task_still_waits(payment: str) -> None:
    waiting = json.loads(acc("call", payment, "pay 30000", "--json").stdout.splitlines()[-1])
    done = acc("call", payment, "--task", waiting["task"], "--approve", "--value", "5")
    assert done.returncode == 2
    assert "is a confirmation, which takes no value" in done.stderr
    assert acc("call", payment, "--task", waiting["task"], "--approve").returncode == 0


def test_waiting_task_can_be_denied_or_approved_with_arguments(payment: str) -> None:
    for answer, text in (
        (("--deny", "--reason", "予算超過"), "予算超過"),
        (("--approve", "--arguments", '{"payee": "Aoba", "amount": 7}'), "paid 7 yen"),
    ):
        lines = acc("call", payment, "pay 30000", "--json").stdout.splitlines()
        waiting = json.loads(lines[-1])
        assert waiting["state"] == "input-required"
        assert waiting["requests"][0]["arguments"] == {"payee": "Aoba", "amount": 30000}
        done = acc("call", payment, "--task", waiting["task"], *answer)
        assert done.returncode == 0
        assert text in done.stdout


def test_value_answers_a_request_and_context_continues(everything: str) -> None:
    first = json.loads(acc("call", everything, "ask which?", "--json").stdout.splitlines()[-1])
    done = acc("call", everything, "--task", first["task"], "--approve", "--value", "青")
    assert done.stdout == "you answered 青\n"
    context = ("--context", first["context"], "--json")
    second = json.loads(acc("call", everything, "hi", *context).stdout.splitlines()[-1])
    assert second["context"] == first["context"]
    login = acc("call", everything, "login")
    assert login.returncode == 3
    assert "--approve\n" in login.stderr


def test_json_option_prints_updates_as_lines(everything: str) -> None:
    done = acc("call", everything, "count 2", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == [
        *("status", "artifact", "artifact", "artifact", "status", "result")
    ]
    assert lines[-1]["text"] == "counted to 2"


def test_failed_task_exits_with_1(everything: str) -> None:
    done = acc("call", everything, "fail hunter2")
    assert done.returncode == 1
    assert "the remote task is failed" in done.stderr
    assert "hunter2" not in done.stderr


def test_token_is_read_from_the_environment_and_never_printed(tmp_path: Path) -> None:
    token = "acc_alice-token"
    entry = TokenEntry(sha256=token_hash(token), caller="alice")
    append_entry(tmp_path / "tokens.toml", entry)
    with serve("sample_agents:everything", "--tokens", tmp_path / "tokens.toml") as url:
        rejected = acc("call", url, "hello")
        assert rejected.returncode == 1
        assert "credentials" in rejected.stderr
        done = acc("call", url, "hello", "--token-env", "DESK_TOKEN", DESK_TOKEN=token)
        assert done.stdout == "echo: hello\n"
        wrong = acc("call", url, "hello", "--token-env", "DESK_TOKEN", DESK_TOKEN="hunter2")
        assert wrong.returncode == 1
        assert "hunter2" not in wrong.stdout + wrong.stderr
        missing = acc("call", url, "hello", "--token-env", "NOBODY_HAS_THIS")
        assert missing.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the message is empty"),
        (("x", "--data", "{"), "--data must be JSON"),
        (("x", "--file", "nowhere.txt"), "cannot read nowhere.txt"),
        (("--approve",), "require --task"),
        (("--task", "t", "--approve", "--deny"), "cannot be combined"),
        (("x", "--task", "t", "--approve"), "cannot be combined with a message"),
        (("x", "--value", "1"), "require --approve"),
        (("x", "--reason", "why"), "requires --deny"),
        (("x", "--timeout", "0"), "timeout must be positive"),
    ],
)
def test_invalid_usage_exits_with_2(arguments: tuple[str, ...], message: str) -> None:
    done = acc("call", "http://127.0.0.1:9", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_private_address_is_rejected_without_the_allow_option() -> None:
    done = acc("call", "http://10.255.255.1:9", "hello")
    assert done.returncode == 2
    assert "--allow" in done.stderr
    assert acc("card", "http://10.255.255.1:9").returncode == 2


def test_intent_of_an_agent_without_contracts_sends_nothing(everything: str) -> None:
    done = acc("call", everything, "--intent", "summarize", "--input", "text=hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "has no contracts" in done.stderr
    assert "--data" in done.stderr


def test_unreachable_server_is_reported() -> None:
    done = acc("call", "http://127.0.0.1:9", "hello")
    assert done.returncode == 1
    assert "http://127.0.0.1:9 cannot be reached" in done.stderr


def test_terminal_asks_for_approval_and_shows_the_answer(payment: str, tmp_path: Path) -> None:
    with Terminal("call", payment, "pay 20000", cwd=tmp_path) as terminal:
        terminal.read_until("[a]pprove, [d]eny, [e]dit, [l]ater › ")
        terminal.send_line("a")
        terminal.read_until("paid 20000 yen to Aoba")
        terminal.read_until("to continue: --context")
        assert terminal.wait() == 0
