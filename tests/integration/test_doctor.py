"""`acc doctor` with our server and the server of the official SDK."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from forked_command import run_command

from acc.adapters.auth.bearer_tokens import token_hash

HERE = Path(__file__).parent
TOKENS = {"ANN": "secret-ann", "BOB": "secret-bob"}
CALLERS = ("--token-env", "ANN", "--second-token-env", "BOB")
#: Checks that the official server is known to fail.
MISSING = {"push-targets", "size-limit"}


def environment() -> dict[str, str]:
    folders = [str(HERE), str(HERE.parent / "support"), os.environ.get("PYTHONPATH", "")]
    path = os.pathsep.join(filter(None, folders))
    variables = {**TOKENS, "BROKEN": "s3cret あ", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **variables, "PYTHONPATH": path}


def doctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("doctor", *arguments, env=environment())


def statuses(completed: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert completed.stdout, completed.stderr
    return {entry["id"]: entry["status"] for entry in json.loads(completed.stdout)["results"]}


def with_status(results: dict[str, str], status: str) -> set[str]:
    return {name for name, actual in results.items() if actual == status}


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=HERE,
        env=environment(),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=20)


@contextmanager
def our_server(agent: str, *arguments: str) -> Iterator[str]:
    with running("-m", "acc", "serve", agent, "--port", "0", *arguments) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if line.startswith("serving"):
                break
        else:
            raise AssertionError(output)
        yield line.split()[-1]


@contextmanager
def official_server(*options: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running("official_server.py", str(port), *options):
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.toml"
    entries = [
        f'[[token]]\nsha256 = "{token_hash(token)}"\ncaller = "{name}"\n'
        for name, token in TOKENS.items()
    ]
    file.write_text("\n".join(entries))
    return file


def test_own_open_server_has_no_failure() -> None:
    with our_server("sample_agents:everything") as url:
        completed = doctor(url, "--json")
        output = doctor(url, "--only", "send", "--only", "https")
    results = statuses(completed)
    assert (completed.returncode, with_status(results, "fail")) == (0, set()), completed.stdout
    for name in ("send", "resume", "subscribe", "idempotent", "push-targets", "size-limit"):
        assert results[name] == "ok"
    assert output.returncode == 0
    assert "✓ A message gets a reply" in output.stdout
    assert "! All traffic uses HTTPS" in output.stdout
    assert "分散トレーシング" not in output.stdout, "who asks for two checks gets two"
    manual = [each["title_ja"] for each in json.loads(completed.stdout)["manual_checks"]]
    assert "サーキットブレーカーパターンを適用" in manual
    assert "1 ok, 0 note, 1 warn, 0 fail, 0 skipped" in output.stdout
    assert output.stderr == ""


def test_own_server_with_tokens_isolates_callers(tokens: Path) -> None:
    with our_server("sample_agents:payment", "--tokens", str(tokens)) as url:
        results = statuses(doctor(url, *CALLERS, "--json"))
        alone = doctor(url, "--json")
    assert with_status(results, "fail") == set()
    for name in ("foreign-task", "foreign-context", "extended-card", "auth-enforced", "list"):
        assert results[name] == "ok"
    assert (alone.returncode, with_status(statuses(alone), "fail")) == (0, set())
    assert statuses(alone)["send"] == "skipped"


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_agent_with_intents_is_checked_with_a_call_of_one(version: str) -> None:
    call = ("--intent", "summarize_text", "--data", '{"text": "要約してください。"}')
    with our_server("intent_agents:desk", "--protocol-version", version) as url:
        text = doctor(url, "--json")
        called = doctor(url, "--json", *call)
        wrong = doctor(url, "--only", "send", "--intent", "summarize_text", "--data", "{}")
        usage = [doctor(url, "--data", "{}"), doctor(url, "--intent", "x", "--data", "[]")]
    assert (text.returncode, with_status(statuses(text), "fail")) == (0, set())
    results = {entry["id"]: entry for entry in json.loads(text.stdout)["results"]}
    for name in ("send", "stream"):
        assert results[name]["status"] == "skipped"
        assert "summarize_text" in results[name]["observation"]
        assert "--intent NAME" in results[name]["observation"]
    found = statuses(called)
    assert (called.returncode, with_status(found, "fail")) == (0, set()), called.stdout
    for name in ("send", "get", "stream", "idempotent", "interfaces-answer", "message-to-ended"):
        assert found[name] == "ok", name
    assert wrong.returncode == 1
    assert "the message was rejected" in wrong.stdout
    assert [one.returncode for one in usage] == [2, 2]
    assert "--intent" in usage[0].stderr
    assert "JSON object" in usage[1].stderr


def test_official_server_fails_known_checks() -> None:
    with official_server() as url:
        completed = doctor(url, "--json")
    assert completed.returncode == 1
    assert with_status(statuses(completed), "fail") == MISSING | {"extended-card"}


def test_official_server_with_tokens_does_not_isolate_contexts() -> None:
    with official_server("tokens") as url:
        results = statuses(doctor(url, *CALLERS, "--json"))
    assert with_status(results, "fail") == MISSING | {"foreign-context"}
    assert (results["auth-enforced"], results["foreign-task"]) == ("ok", "ok")


@pytest.mark.parametrize(
    ("options", "interface"),
    [
        (["rest"], "HTTP+JSON 1.0"),
        (["0.3"], "JSONRPC 0.3"),
        (["0.3", "rest"], "HTTP+JSON 0.3"),
    ],
)
def test_server_with_one_version_and_binding_is_tested(options: list[str], interface: str) -> None:
    with official_server(*options) as url:
        completed = doctor(url, "--json")
    report: dict[str, Any] = json.loads(completed.stdout)
    assert report["interface"] == interface
    results = statuses(completed)
    for name in ("send", "get", "stream", "subscribe"):
        assert results[name] == "ok"
    assert with_status(results, "fail") == MISSING | {"extended-card"}, completed.stdout


class _ControlCharacterHandler(BaseHTTPRequestHandler):
    """Serves a card whose text contains terminal control characters."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"name": "x\x1b]0;owned\x07\nfail", "skills": [7]}).encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log."""


def test_control_characters_of_server_are_escaped() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _ControlCharacterHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        completed = doctor(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()
        thread.join()
    assert completed.returncode == 1
    assert "\x1b" not in completed.stdout
    assert completed.stdout.splitlines()[0].startswith("x")
    assert "✗ The card has all required fields" in completed.stdout


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["http://127.0.0.1:1"], "no server at http://127.0.0.1:1: the server cannot be reached"),
        (["localhost:1"], "no server at http://localhost:1"),
        (["http://10.0.0.1"], "--allow"),
        (["http://127.0.0.1:99999"], "is not the URL of a server"),
        (["http://127.0.0.1:1", "--only", "nope"], "unknown check 'nope'"),
        (["http://127.0.0.1:1", "--timeout", "0"], "--timeout must be positive"),
        (["http://127.0.0.1:1", "--token-env", "NO_SUCH"], "NO_SUCH"),
        (["http://127.0.0.1:1", "--token-env", "BROKEN"], "BROKEN must contain printable ASCII"),
        (["[::1"], "is not the URL of a server"),
    ],
)
def test_wrong_usage_and_unreachable_server_exit_with_2(
    arguments: list[str], expected: str
) -> None:
    completed = doctor(*arguments)
    assert (completed.returncode, completed.stdout) == (2, "")
    assert expected in completed.stderr


def test_server_with_grpc_only_is_not_tested() -> None:
    class GrpcCardHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(
                {
                    "name": "far",
                    "description": "Speaks gRPC.",
                    "version": "1",
                    "supportedInterfaces": [
                        {
                            "url": f"http://127.0.0.1:{server.server_port}",
                            "protocolBinding": "GRPC",
                            "protocolVersion": "1.0",
                        }
                    ],
                    "capabilities": {},
                    "defaultInputModes": ["text/plain"],
                    "defaultOutputModes": ["text/plain"],
                    "skills": [
                        {"id": "far", "name": "far", "description": "Goes far.", "tags": ["far"]}
                    ],
                }
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), GrpcCardHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            completed = doctor(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    assert completed.returncode == 2
    assert "the server was not tested: the card lists GRPC 1.0" in completed.stderr
