"""`acc call` and `acc doctor` against servers of others, which do things in ways of their own."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from command import acc
from other_server import other_server

PDF = {"raw": "JVBERg==", "filename": "請求書.pdf", "mediaType": "application/pdf"}
LINK = {"url": "https://example.com/a.pdf", "mediaType": "application/pdf"}
TOTAL = {"data": {"total": 42, "通貨": "円"}}
TOTAL_TEXT = '{"total":42,"通貨":"円"}'


def message(*parts: Any) -> dict[str, Any]:
    return {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}


def task(*artifacts: Any, **status: Any) -> dict[str, Any]:
    state = {"state": "TASK_STATE_COMPLETED", **status}
    return {"task": {"id": "t", "contextId": "c", "status": state, "artifacts": artifacts}}


MIXED = ({"text": "Here:"}, TOTAL, PDF, LINK)


@pytest.mark.parametrize(
    "result",
    [
        {"message": message(*MIXED)},
        task({"artifactId": "answer", "parts": MIXED}),
        task(message=message(*MIXED)),
    ],
)
def test_everything_that_an_answer_holds_is_told_and_saved(result: Any, tmp_path: Path) -> None:
    with other_server(result) as url:
        done = acc("call", url, "hi", "--out", tmp_path)
        line = json.loads(acc("call", url, "hi", "--json").stdout.splitlines()[-1])
    assert (done.returncode, done.stdout) == (0, f"Here:\n{TOTAL_TEXT}\n")
    told = "artifact answer: data; 請求書.pdf, application/pdf, 4 bytes; https://example.com/a.pdf"
    assert told in done.stderr
    assert (tmp_path / "請求書.pdf").read_bytes() == b"%PDF"
    assert json.loads((tmp_path / "answer.json").read_bytes()) == TOTAL["data"]
    assert line["text"] == f"Here:\n{TOTAL_TEXT}"
    parts = line["artifacts"][0]["parts"] if line.get("artifacts") else line["parts"]
    assert [part.get("filename") for part in parts][2] == "請求書.pdf"
    assert parts[1]["data"] == TOTAL["data"]
    assert parts[3]["url"] == LINK["url"]


def test_an_answer_of_data_alone_is_printed(tmp_path: Path) -> None:
    for result in ({"message": message(TOTAL)}, task(message=message(TOTAL))):
        with other_server(result) as url:
            done = acc("call", url, "hi", "--out", tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{TOTAL_TEXT}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer-2.json", "answer.json"]


def test_an_answer_of_text_alone_is_printed_alone(tmp_path: Path) -> None:
    with other_server({"message": message({"text": "one "}, {"text": "two"})}) as url:
        done = acc("call", url, "hi", "--out", tmp_path)
        line = json.loads(acc("call", url, "hi", "--json").stdout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one two\n", "")
    assert list(tmp_path.iterdir()) == []
    assert line == {"type": "result", "state": "completed", "text": "one two", "context": ""}


def test_the_doctor_says_whose_card_it_looks_at() -> None:
    page = {"/html/.well-known/agent-card.json": b"<html>hi</html>"}
    with other_server(task(), pages=page) as url:
        broken = acc("doctor", f"{url}/html", "--only", "card-path")
        missing = acc("doctor", f"{url}/nowhere", "--only", "card-path")
        found = acc("doctor", url, "--only", "card-path")
    assert broken.returncode == 1
    assert broken.stdout.startswith(f"{url}/html\n")
    assert f"{url}/html/.well-known/agent-card.json is not a JSON object" in broken.stdout
    title = f"other, {url}, over JSONRPC 1.0\n"
    assert missing.stdout.startswith(
        f"{title}{url}/nowhere has no card; the card of {url} is used\n"
    )
    assert found.stdout.startswith(f"{title}\n")


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_a_server_that_compresses_is_called_and_examined(encoding: str, pack: Any) -> None:
    def packed(body: bytes) -> tuple[bytes, dict[str, str]]:
        return pack(body), {"Content-Encoding": encoding}

    result = task({"artifactId": "answer", "parts": [{"text": "答え"}]})
    with other_server(result, pack=packed) as url:
        assert acc("call", url, "hi").stdout == "答え\n"
        assert "Answers as it is told." in acc("card", url).stdout
        found = acc("doctor", url, "--only", "card-path", "--only", "send")
    assert (found.returncode, found.stdout.count("✓")) == (0, 2)


def test_a_server_that_compresses_as_nobody_can_read_is_told_what_to_do() -> None:
    def packed(body: bytes) -> tuple[bytes, dict[str, str]]:
        return b"\x0b\x02\x80", {"Content-Encoding": "br"}

    with other_server(task(), pack=packed) as url:
        called, shown = acc("call", url, "hi"), acc("card", url)
        found = acc("doctor", url)
    told = f"{url} sent Content-Encoding br, which is not supported"
    for done in (called, shown):
        assert done.returncode == 1
        assert told in done.stderr
    assert found.returncode == 1
    assert "✗ The card is at the standard path" in found.stdout
    assert told in found.stdout
    assert "no server at" not in found.stderr
