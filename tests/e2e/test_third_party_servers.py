"""`acc call`, `card` and `doctor` with third-party servers."""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from command import acc
from third_party_server import third_party_server

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
def test_all_parts_of_an_answer_are_printed_and_saved(result: Any, tmp_path: Path) -> None:
    with third_party_server(result) as url:
        done = acc("call", url, "hi", "--out", tmp_path)
        line = json.loads(acc("call", url, "hi", "--json").stdout.splitlines()[-1])
    assert (done.returncode, done.stdout) == (0, f"Here:\n{TOTAL_TEXT}\n")
    expected = (
        "artifact answer: data; 請求書.pdf, application/pdf, 4 bytes; https://example.com/a.pdf"
    )
    assert expected in done.stderr
    assert (tmp_path / "請求書.pdf").read_bytes() == b"%PDF"
    assert json.loads((tmp_path / "answer.json").read_bytes()) == TOTAL["data"]
    assert line["text"] == f"Here:\n{TOTAL_TEXT}"
    parts = line["artifacts"][0]["parts"] if line.get("artifacts") else line["parts"]
    assert [part.get("filename") for part in parts][2] == "請求書.pdf"
    assert parts[1]["data"] == TOTAL["data"]
    assert parts[3]["url"] == LINK["url"]


def test_answer_with_only_data_is_printed(tmp_path: Path) -> None:
    for result in ({"message": message(TOTAL)}, task(message=message(TOTAL))):
        with third_party_server(result) as url:
            done = acc("call", url, "hi", "--out", tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{TOTAL_TEXT}\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answer-2.json", "answer.json"]


def test_answer_with_only_text_has_no_other_output(tmp_path: Path) -> None:
    with third_party_server({"message": message({"text": "one "}, {"text": "two"})}) as url:
        done = acc("call", url, "hi", "--out", tmp_path)
        line = json.loads(acc("call", url, "hi", "--json").stdout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "one two\n", "")
    assert list(tmp_path.iterdir()) == []
    assert line == {"type": "result", "state": "completed", "text": "one two", "context": ""}


def test_all_texts_of_several_artifacts_are_printed() -> None:
    artifacts = [{"artifactId": name, "parts": [{"text": name}]} for name in ("one", "two")]
    for status, expected in (
        ({}, "one\ntwo\n"),
        ({"message": message({"text": "both:"})}, "both:\none\ntwo\n"),
    ):
        with third_party_server(task(*artifacts, **status)) as url:
            done = acc("call", url, "hi")
        assert (done.returncode, done.stdout) == (0, expected)


def test_completed_task_without_an_answer_exits_with_1() -> None:
    with third_party_server(task()) as url:
        done = acc("call", url, "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has no answer" in done.stderr


def test_doctor_prints_which_card_it_checks() -> None:
    page = {"/html/.well-known/agent-card.json": b"<html>hi</html>"}
    with third_party_server(task(), pages=page) as url:
        broken = acc("doctor", f"{url}/html", "--only", "card-path")
        missing = acc("doctor", f"{url}/nowhere", "--only", "card-path")
        doctor = acc("doctor", url, "--only", "card-path")
    assert broken.returncode == 1
    assert broken.stdout.startswith(f"{url}/html\n")
    assert f"{url}/html/.well-known/agent-card.json is not a JSON object" in broken.stdout
    title = f"other, {url}, over JSONRPC 1.0\n"
    assert missing.stdout.startswith(
        f"{title}{url}/nowhere has no card; the card of {url} is used\n"
    )
    assert doctor.stdout.startswith(f"{title}\n")


@pytest.mark.parametrize(
    ("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
def test_compressed_responses_are_decoded(encoding: str, encode: Any) -> None:
    def encoded(body: bytes) -> tuple[bytes, dict[str, str]]:
        return encode(body), {"Content-Encoding": encoding}

    result = task({"artifactId": "answer", "parts": [{"text": "答え"}]})
    with third_party_server(result, encode=encoded) as url:
        assert acc("call", url, "hi").stdout == "答え\n"
        assert "Returns a fixed result." in acc("card", url).stdout
        doctor = acc("doctor", url, "--only", "card-path", "--only", "send")
    assert (doctor.returncode, doctor.stdout.count("✓")) == (0, 2)


def test_unsupported_content_encoding_is_reported() -> None:
    def encoded(body: bytes) -> tuple[bytes, dict[str, str]]:
        return b"\x0b\x02\x80", {"Content-Encoding": "br"}

    with third_party_server(task(), encode=encoded) as url:
        call, card = acc("call", url, "hi"), acc("card", url)
        doctor = acc("doctor", url)
    expected = f"{url} sent Content-Encoding br, which is not supported"
    for done in (call, card):
        assert done.returncode == 1
        assert expected in done.stderr
    assert doctor.returncode == 1
    assert "✗ The card is at the standard path" in doctor.stdout
    assert expected in doctor.stdout
    assert "no server at" not in doctor.stderr
