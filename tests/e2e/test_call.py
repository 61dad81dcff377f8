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
def serve(agent: str, *options: str | Path) -> Iterator[str]:
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
    with serve("office:everything") as url:
        yield url


@pytest.fixture(scope="module")
def payment() -> Iterator[str]:
    with serve("office:payment") as url:
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
    with serve("office:everything", "--tokens", tmp_path / "tokens.toml") as url:
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


# Cards


def test_card_is_printed_and_valid(everything: str) -> None:
    done = acc("card", everything)
    assert done.returncode == 0, done.stderr
    for message in ("Does what it is told.", "HTTP+JSON 0.3", "anyone", "the card is valid"):
        assert message in done.stdout
    message = json.loads(acc("card", everything, "--json").stdout)
    assert (message["valid"], message["findings"], message["card"]["name"]) == (
        True,
        [],
        "everything",
    )


@contextmanager
def serve_files(folder: Path) -> Iterator[str]:
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


def test_invalid_card_is_reported_with_fixes(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_text('{"name": "x", "url": "desk"}', encoding="utf-8")
    with serve_files(tmp_path) as url:
        done = acc("card", f"{url}/card.json")
        missing = acc("card", url)
    assert done.returncode == 1
    assert "url is not an absolute URL; use a URL such as https://" in done.stdout
    assert "errors" in done.stdout
    assert missing.returncode == 1
    assert "has no agent card at" in missing.stderr


def test_card_signature_is_verified_with_a_key(everything: str, tmp_path: Path) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key, other = generate_key(kid="ours"), generate_key(kid="theirs")
    for name, jwk in (("ours.json", key), ("theirs.json", other)):
        (tmp_path / name).write_bytes(canonical_json(dict(jwk.as_dict(private=False))))
    card["signatures"] = [sign_card(card, key)]
    (tmp_path / "card.json").write_text(json.dumps(card), encoding="utf-8")
    with serve_files(tmp_path) as url:
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


def test_card_fields_outside_the_signature_are_reported_and_omitted(
    everything: str, tmp_path: Path
) -> None:
    card = json.loads(acc("card", everything, "--json").stdout)["card"]
    key = generate_key(kid="ours")
    (tmp_path / "ours.json").write_bytes(canonical_json(dict(key.as_dict(private=False))))
    content = card_content(read_card(json.dumps(card).encode()))
    card["signatures"] = [sign_card(card, key), sign_card(content, key)]
    changes: dict[str, dict[str, object]] = {
        "unchanged": {},
        "moved": {"url": "https://evil.example/"},
        "extended": {"added": "anything"},
    }
    for name, change in changes.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(card | change), encoding="utf-8")
    with serve_files(tmp_path) as url:
        message = {
            name: acc("card", f"{url}/{name}.json", "--key", tmp_path / "ours.json", "--json")
            for name in changes
        }
        output = acc("card", f"{url}/moved.json", "--key", tmp_path / "ours.json")
    assert [message[name].returncode for name in changes] == [0, 1, 1]
    assert json.loads(message["unchanged"].stdout)["signed_by"] == "ours"
    moved = json.loads(message["moved"].stdout)
    assert (moved["valid"], moved["signed_by"]) == (False, None)
    assert [jwk["field"] for jwk in moved["findings"]] == ["url"]
    assert "evil" not in message["moved"].stdout
    assert "anything" not in message["extended"].stdout
    assert "url is not covered by the signature of key ours" in output.stdout
    assert "signed by key" not in output.stdout
