"""`acc call` and `acc card` against `acc serve`, each a process of its own."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import acc, start
from terminal import Terminal

from acc.adapters.a2a.wire.card_codec import card_content, read_card
from acc.adapters.auth.card_signatures import canonical_json, sign_card
from acc.adapters.auth.keys import generate_key
from acc.adapters.auth.tokens import TokenEntry, append_entry, token_hash

AGENTS = Path(__file__).parent.parent / "integration"


@contextmanager
def served(agent: str, *options: str | Path) -> Iterator[str]:
    process = start("serve", agent, "--port", "0", *options, cwd=AGENTS)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert " at http" in line, line
        yield line.split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    with served("sample_agents:everything") as url:
        yield url


@pytest.fixture(scope="module")
def payment() -> Iterator[str]:
    with served("sample_agents:payment") as url:
        yield url


def test_an_answer_is_printed_alone(everything: str) -> None:
    done = acc("call", everything, "こんにちは")
    assert (done.returncode, done.stdout) == (0, "echo: こんにちは\n")
    assert acc("call", everything, "hello", "--no-stream").stdout == "echo: hello\n"


def test_files_and_data_go_along_and_artifacts_are_saved(everything: str, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("日本語", encoding="utf-8")
    options = ("--file", tmp_path / "note.txt", "--data", '{"n": [1]}')
    done = acc("call", everything, "parts", *options)
    assert done.stdout.splitlines() == [
        '"parts"',
        '{"n": [1]}',
        '{"raw": 9, "type": "text/plain", "name": "note.txt"}',
    ]
    for _ in range(2):
        done = acc("call", everything, "files", "--out", tmp_path / "out")
        assert (done.returncode, done.stdout) == (0, "four files\n")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("dot-2.png", "dot.png", "report-2.txt", "report.txt", "table-2.json", "table.json")
    ]
    assert "https://example.com/a.pdf" in done.stderr
    assert (tmp_path / "out" / "dot.png").read_bytes() == b"\x89PNG\r\n"


def test_a_task_that_waits_is_answered_by_another_process(payment: str) -> None:
    done = acc("call", payment, "pay 20000")
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = [line for line in done.stderr.splitlines() if "--approve" in line]
    answered = acc(*line.split()[1:])
    assert (answered.returncode, answered.stdout) == (0, "paid 20000 yen to Aoba\n")
    task = line.split()[line.split().index("--task") + 1]
    again = acc("call", payment, "--task", task, "--approve")
    assert again.returncode == 2
    assert "does not need input" in again.stderr


def test_a_waiting_task_is_denied_or_given_other_arguments(payment: str) -> None:
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


def test_a_value_is_handed_in_and_a_conversation_goes_on(everything: str) -> None:
    first = json.loads(acc("call", everything, "ask which?", "--json").stdout.splitlines()[-1])
    done = acc("call", everything, "--task", first["task"], "--approve", "--value", "青")
    assert done.stdout == "you answered 青\n"
    context = ("--context", first["context"], "--json")
    second = json.loads(acc("call", everything, "hi", *context).stdout.splitlines()[-1])
    assert second["context"] == first["context"]
    login = acc("call", everything, "login")
    assert login.returncode == 3
    assert "--approve\n" in login.stderr


def test_updates_are_lines_of_json(everything: str) -> None:
    done = acc("call", everything, "count 2", "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == [
        *("status", "artifact", "artifact", "artifact", "status", "result")
    ]
    assert lines[-1]["text"] == "counted to 2"


def test_a_failed_task_ends_with_one(everything: str) -> None:
    done = acc("call", everything, "fail hunter2")
    assert done.returncode == 1
    assert "the remote task is failed" in done.stderr
    assert "hunter2" not in done.stderr


def test_a_token_is_taken_from_the_environment_and_never_shown(tmp_path: Path) -> None:
    token = "acc_alice-token"
    entry = TokenEntry(sha256=token_hash(token), caller="alice")
    append_entry(tmp_path / "tokens.toml", entry)
    with served("sample_agents:everything", "--tokens", tmp_path / "tokens.toml") as url:
        refused = acc("call", url, "hello")
        assert refused.returncode == 1
        assert "credentials" in refused.stderr
        done = acc("call", url, "hello", "--token-env", "DESK_TOKEN", DESK_TOKEN=token)
        assert done.stdout == "echo: hello\n"
        wrong = acc("call", url, "hello", "--token-env", "DESK_TOKEN", DESK_TOKEN="hunter2")
        assert wrong.returncode == 1
        assert "hunter2" not in wrong.stdout + wrong.stderr
        missing = acc("call", url, "hello", "--token-env", "NOBODY_HAS_THIS")
        assert missing.returncode == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
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
def test_bad_use_is_told_before_anything_is_sent(arguments: tuple[str, ...], told: str) -> None:
    done = acc("call", "http://127.0.0.1:9", *arguments)
    assert done.returncode == 2
    assert told in done.stderr


def test_an_address_that_is_not_public_has_to_be_allowed() -> None:
    done = acc("call", "http://10.255.255.1:9", "hello")
    assert done.returncode == 2
    assert "--allow" in done.stderr
    assert acc("card", "http://10.255.255.1:9").returncode == 2


def test_nobody_there_is_told() -> None:
    done = acc("call", "http://127.0.0.1:9", "hello")
    assert done.returncode == 1
    assert "http://127.0.0.1:9 cannot be reached" in done.stderr


def test_a_terminal_shows_the_answer_as_it_comes_and_asks(payment: str, tmp_path: Path) -> None:
    with Terminal("call", payment, "pay 20000", cwd=tmp_path) as terminal:
        terminal.until("[a]pprove, [d]eny, [e]dit, [l]ater › ")
        terminal.say("a")
        terminal.until("paid 20000 yen to Aoba")
        terminal.until("to continue: --context")
        assert terminal.wait() == 0


# Cards


def test_a_card_is_shown_and_valid(everything: str) -> None:
    done = acc("card", everything)
    assert done.returncode == 0, done.stderr
    for told in (
        "Executes the command in a message.",
        "HTTP+JSON 0.3",
        "anyone",
        "the card is valid",
    ):
        assert told in done.stdout
    told = json.loads(acc("card", everything, "--json").stdout)
    assert (told["valid"], told["findings"], told["card"]["name"]) == (True, [], "everything")


@contextmanager
def posted(folder: Path) -> Iterator[str]:
    """Serve the files of a folder."""
    import subprocess
    import sys
    import time
    from socket import socket
    from urllib.request import urlopen

    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"]
    process = subprocess.Popen(  # noqa: S603 - our own interpreter
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    try:
        for _ in range(100):
            try:
                urlopen(f"http://127.0.0.1:{port}/", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def test_a_card_with_faults_is_refused_with_the_fixes(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "x", "url": "desk"}', encoding="utf-8")
    with posted(tmp_path) as url:
        done = acc("card", f"{url}/card.json")
        missing = acc("card", url)
    assert done.returncode == 1
    assert "url is not an absolute URL; use a URL such as https://" in done.stdout
    assert "errors" in done.stdout
    assert missing.returncode == 1
    assert "has no agent card at" in missing.stderr


def test_the_signature_of_a_card_is_checked_with_a_key(everything: str, tmp_path: Path) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key, other = generate_key(kid="ours"), generate_key(kid="theirs")
    for name, one in (("ours.json", key), ("theirs.json", other)):
        (tmp_path / name).write_bytes(canonical_json(dict(one.as_dict(private=False))))
    card["signatures"] = [sign_card(card, key)]
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    with posted(tmp_path) as url:
        good = acc("card", f"{url}/card.json", "--key", tmp_path / "ours.json")
        bad = acc("card", f"{url}/card.json", "--key", tmp_path / "theirs.json")
        unchecked = acc("card", f"{url}/card.json")
    assert good.returncode == 0, good.stdout
    assert "signed by key ours" in good.stdout
    assert bad.returncode == 1
    assert "the card has no valid signature" in bad.stdout
    assert "pass --key FILE" in unchecked.stdout
    unsigned = acc("card", everything, "--key", tmp_path / "ours.json")
    assert unsigned.returncode == 1
    assert "the card is not signed" in unsigned.stdout


def test_what_the_signature_of_a_card_does_not_cover_is_a_fault_and_left_out(
    everything: str, tmp_path: Path
) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key = generate_key(kid="ours")
    (tmp_path / "ours.json").write_bytes(canonical_json(dict(key.as_dict(private=False))))
    content = card_content(read_card(json.dumps(card).encode()))
    card["signatures"] = [sign_card(card, key), sign_card(content, key)]
    changes: dict[str, dict[str, object]] = {
        "honest": {},
        "moved": {"url": "https://evil.example/"},
        "grown": {"added": "anything"},
    }
    for name, change in changes.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(card | change), encoding="utf-8")
    with posted(tmp_path) as url:
        told = {
            name: acc("card", f"{url}/{name}.json", "--key", tmp_path / "ours.json", "--json")
            for name in changes
        }
        shown = acc("card", f"{url}/moved.json", "--key", tmp_path / "ours.json")
    assert [told[name].returncode for name in changes] == [0, 1, 1]
    assert json.loads(told["honest"].stdout)["signed_by"] == "ours"
    moved = json.loads(told["moved"].stdout)
    assert (moved["valid"], moved["signed_by"]) == (False, None)
    assert [one["field"] for one in moved["findings"]] == ["url"]
    assert "evil" not in told["moved"].stdout
    assert "anything" not in told["grown"].stdout
    assert "url is not covered by the signature of key ours" in shown.stdout
    assert "signed by key" not in shown.stdout
