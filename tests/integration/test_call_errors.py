"""Error messages of `acc call`, `acc card` and `acc eval`."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from acc.cli import execute as acc


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize(
    "url",
    ["http://[::1", "http://[zz]/", "http://127.0.0.1:notaport", "http://127.0.0.1:99999", "[::1"],
)
@pytest.mark.parametrize("command", ["call", "card", "eval"])
def test_invalid_url_is_rejected(
    command: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"call": [url, "hi"], "card": [url], "eval": ["--agents", f"theirs=a2a:{url}"]}
    assert acc([command, *arguments[command]]) == 2
    stderr = capsys.readouterr().err
    assert "Traceback" not in stderr
    assert "URL" in stderr


@pytest.mark.parametrize("value", ["s3cret\nb", "s3cret-あ"])
def test_invalid_token_is_rejected_and_not_printed(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", value)
    for command in (["call", "http://127.0.0.1:9", "hi"], ["card", "http://127.0.0.1:9"]):
        assert acc([*command, "--token-env", "BROKEN"]) == 2
        stderr = capsys.readouterr().err
        assert "BROKEN must contain printable ASCII" in stderr
        assert "s3cret" not in stderr


@contextmanager
def serve_agent(answer: Any, *, status: int = 200, port: int = 0) -> Iterator[str]:
    """Serve a 1.0 card and one response; `port` overrides the port in the card."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{port or server.server_port}"
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            self._send_json(200, {"name": "far", "supportedInterfaces": [interface]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._send_json(status, {"jsonrpc": "2.0", "id": request["id"], "result": answer})

        def _send_json(self, code: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_unauthorized_error_explains_token_option(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "s3cret")
    with serve_agent(None, status=401) as url:
        assert acc(["call", url, "hi"]) == 1
        assert "with --token-env" in capsys.readouterr().err
        assert acc(["call", url, "hi", "--token-env", "MINE"]) == 1
        stderr = capsys.readouterr().err
    assert "the token in MINE is not accepted" in stderr
    assert "s3cret" not in stderr


def test_card_with_other_local_port_error_names_allow_entry(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with serve_agent(None, port=9) as url:
        assert acc(["call", url, "hi"]) == 2
    stderr = capsys.readouterr().err
    assert "adds '127.0.0.1:9' to the allow-list, which is --allow here" in stderr


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_control_and_bidi_characters_are_escaped(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    message = {
        "messageId": "m",
        "role": "ROLE_AGENT",
        "parts": [{"text": "a\x1b[31mb\u202ec\u2066d"}],
    }
    task = {"id": "t", "status": {"state": f"TASK_STATE_{state}", "message": message}}
    with serve_agent({"task": task}) as url:
        assert acc(["call", url, "hi"]) == (0 if state == "COMPLETED" else 1)
    output = capsys.readouterr()
    assert "a␛[31mb\ufffdc\ufffdd" in output.out + output.err
    assert not set("\x1b\u202e\u2066") & set(output.out + output.err)


def test_empty_response_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with serve_agent({"message": {}}) as url:
        assert acc(["call", url, "hi"]) == 1
    assert "invalid response" in capsys.readouterr().err
