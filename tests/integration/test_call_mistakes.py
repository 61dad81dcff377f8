"""`acc call`, `acc card` and `acc eval` where something is wrong: with a word, and no traceback."""

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
def test_what_is_no_url_is_refused(
    command: str, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    further = {"call": [url, "hi"], "card": [url], "eval": ["--agents", f"theirs=a2a:{url}"]}
    assert acc([command, *further[command]]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "URL" in said


@pytest.mark.parametrize("value", ["s3cret\nb", "s3cret-あ"])
def test_what_can_be_no_token_is_refused_and_not_shown(
    value: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN", value)
    for command in (["call", "http://127.0.0.1:9", "hi"], ["card", "http://127.0.0.1:9"]):
        assert acc([*command, "--token-env", "BROKEN"]) == 2
        said = capsys.readouterr().err
        assert "BROKEN must contain printable ASCII" in said
        assert "s3cret" not in said


@contextmanager
def served(answer: Any, *, status: int = 200, port: int = 0) -> Iterator[str]:
    """Serve a card of 1.0 and one answer to every call; `port` is another that the card names."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = f"http://127.0.0.1:{port or server.server_port}"
            interface = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            self._say(200, {"name": "far", "supportedInterfaces": [interface]})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self._say(status, {"jsonrpc": "2.0", "id": asked["id"], "result": answer})

        def _say(self, code: int, document: Any) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *told: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_who_must_say_who_they_are_is_told_how(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "s3cret")
    with served(None, status=401) as url:
        assert acc(["call", url, "hi"]) == 1
        assert "with --token-env" in capsys.readouterr().err
        assert acc(["call", url, "hi", "--token-env", "MINE"]) == 1
        said = capsys.readouterr().err
    assert "the token in MINE is not accepted" in said
    assert "s3cret" not in said


def test_another_port_of_this_machine_is_refused_with_the_entry_that_allows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with served(None, port=9) as url:
        assert acc(["call", url, "hi"]) == 2
    said = capsys.readouterr().err
    assert "adds '127.0.0.1:9' to the allow-list, which is --allow here" in said


@pytest.mark.parametrize("state", ["COMPLETED", "FAILED"])
def test_signs_that_steer_a_terminal_or_turn_text_around_are_shown(
    state: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a\x1b[31mb\u202ec\u2066d"}]}
    task = {"id": "t", "status": {"state": f"TASK_STATE_{state}", "message": said}}
    with served({"task": task}) as url:
        assert acc(["call", url, "hi"]) == (0 if state == "COMPLETED" else 1)
    found = capsys.readouterr()
    assert "a␛[31mb\ufffdc\ufffdd" in found.out + found.err
    assert not set("\x1b\u202e\u2066") & set(found.out + found.err)


def test_an_answer_without_anything_in_it_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with served({"message": {}}) as url:
        assert acc(["call", url, "hi"]) == 1
    assert "invalid response" in capsys.readouterr().err
