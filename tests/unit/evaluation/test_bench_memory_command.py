"""`acc bench-memory` with small files in the published forms."""

import json
from pathlib import Path
from typing import Any

import pytest

from acc.cli import execute

_SMALL_TALK = [
    "The weather was fine today, was it not?",
    "I watched a film about trains last night.",
    "Did you hear the birds this morning?",
    "My neighbour paints his fence again.",
]


def _locomo() -> list[dict[str, Any]]:
    def session(number: int, *texts: str) -> list[dict[str, Any]]:
        return [
            {"speaker": "Ana" if n % 2 else "Ben", "dia_id": f"D{number}:{n}", "text": text}
            for n, text in enumerate(texts, 1)
        ]

    samples = []
    for name, animal in (("one", "parrot"), ("two", "tortoise")):
        filler = [f"{text} That was day {day}." for day in range(12) for text in _SMALL_TALK]
        first = session(1, f"My {animal} is called Quibble.", "What a nice name!", *filler)
        second = session(2, f"I bought a blue cage for the {animal}.", *filler)
        second[1]["blip_caption"] = "a photo of a lighthouse"
        samples.append(
            {
                "sample_id": name,
                "conversation": {
                    "speaker_a": "Ana",
                    "speaker_b": "Ben",
                    "session_1_date_time": "1:56 pm on 8 May, 2023",
                    "session_1": first,
                    "session_2_date_time": "9:10 am on 2 June, 2023",
                    "session_2": second,
                    "session_3_date_time": "no session with this date",
                },
                "qa": [
                    {
                        "question": f"What is the {animal} called?",
                        "answer": "Quibble",
                        "evidence": ["D1:1"],
                        "category": 4,
                    },
                    {
                        "question": f"What is the {animal} called and what was bought for it?",
                        "answer": "Quibble; a blue cage",
                        "evidence": ["D:1:01; D2:1", "D", "D9:9"],
                        "category": 1,
                    },
                    {"question": "Who is the king?", "evidence": [], "category": 5},
                ],
            }
        )
    return samples


def _longmemeval() -> list[dict[str, Any]]:
    return [
        {
            "question_id": "a1",
            "question_type": "single-session-user",
            "question": "Which instrument do I play?",
            "answer": "The cello",
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/25 (Thu) 10:00"],
            "haystack_session_ids": ["x", "y"],
            "haystack_sessions": [
                [
                    {"role": "user", "content": "I play the cello.", "has_answer": True},
                    {"role": "assistant", "content": "A wonderful instrument."},
                ],
                [
                    {"role": "user", "content": "Recommend a soup."},
                    {"role": "assistant", "content": "Try pumpkin."},
                ],
            ],
            "answer_session_ids": ["x"],
        },
        {
            "question_id": "b2_abs",
            "question_type": "single-session-user",
            "question": "What is my car called?",
            "answer": "It was never mentioned.",
            "haystack_sessions": [[{"role": "user", "content": "I play chess."}]],
        },
    ]


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert execute(["bench-memory", *arguments, "--json"]) == 0
    return list(json.loads(capsys.readouterr().out))


def _row(rows: list[dict[str, Any]], memory: str, budget: int, kind: str) -> dict[str, Any]:
    (row,) = [r for r in rows if (r["memory"], r["budget"], r["kind"]) == (memory, budget, kind)]
    return row


def test_locomo_by_type_budget_and_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, lines = tmp_path / "locomo.json", tmp_path / "results.jsonl"
    path.write_text(json.dumps(_locomo()))
    rows = _run(
        capsys, "locomo", str(path), "--budgets", "128,256,256", "--memories", "acc,bm25,last-n",
        "--output", str(lines),
    )  # fmt: skip
    for memory in ("acc", "bm25"):
        assert _row(rows, memory, 256, "single-hop")["recall"] == 1.0
        assert _row(rows, memory, 256, "single-hop")["recall_interval"] == [1.0, 1.0]
    # The evidence is older than what fits: the newest messages do not contain it.
    assert _row(rows, "last-n", 128, "single-hop")["recall"] == 0.0
    assert _row(rows, "acc", 128, "adversarial")["recall"] is None
    overall = _row(rows, "acc", 128, "all")
    assert overall["questions"] == 6
    assert 0 < overall["tokens"] <= 128 and overall["milliseconds"] > 0
    assert overall["f1"] is None
    results = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(results) == 2 * 3 * 3 * 2
    assert {r["conversation"] for r in results} == {"one", "two"}


def test_longmemeval_is_recognised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(_longmemeval()))
    rows = _run(capsys, str(path), "--budgets", "256", "--memories", "acc")
    assert _row(rows, "acc", 256, "single-session-user")["recall"] == 1.0
    assert _row(rows, "acc", 256, "abstention")["recall"] is None


def test_own_form_in_japanese_with_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.jsonl"
    conversation = {
        "id": "k",
        "messages": [
            {"text": "犬の名前はモモです。", "date": "2026-03-01"},
            {"text": "わかりました。", "role": "assistant", "speaker": "assistant"},
            {"text": "今日は雨ですね。"},
        ],
        "questions": [{"text": "犬の名前は何ですか。", "answer": "モモ", "evidence": [1]}],
    }
    path.write_text(json.dumps(conversation, ensure_ascii=False))
    rows = _run(capsys, str(path), "--memories", "acc", "--budgets", "256", "--model", "embedded")
    row = _row(rows, "acc", 256, "all")
    assert row["recall"] == 1.0
    assert row["recall_interval"] is None
    assert 0 < row["f1"] <= 1


def test_table_names_what_it_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(_longmemeval()))
    assert execute(["bench-memory", str(path), "--budgets", "256"]) == 0
    text = capsys.readouterr().out
    for word in ("acc", "bm25", "retrieval", "last-n", "evidence", "95 % interval", "abstention"):
        assert word in text


@pytest.mark.parametrize(
    ("content", "arguments", "expected"),
    [
        ("", [], "empty"),
        ("{", [], "not JSON"),
        ("[1]", [], "JSON objects"),
        ('{"messages": []}', [], "expected the keys"),
        ('{"messages": [], "questions": []}', [], "no questions"),
        ('{"messages": [{"text": 3}], "questions": []}', [], "text"),
        ('{"messages": [], "questions": [{"text": "?", "evidence": [9]}]}', [], "no message '9'"),
        (
            '{"messages": [{"text": "a"}], "questions": [{"text": "?", "evidence": "1"}]}',
            [],
            "evidence must be a list",
        ),
        ('{"conversation": {}, "qa": [{}]}', [], "'question' is missing"),
        ('{"conversation": {}, "qa": [{"question": "?"}]}', [], "conversation 1 has no messages"),
        ('{"conversation": {"session_1": "x"}, "qa": []}', [], "session_1 must be a list"),
        (
            '{"haystack_sessions": [[{"role": "bot", "content": "a"}]], "question": "?"}',
            [],
            "must be user or assistant",
        ),
        ('{"messages": [{"text": "a"}], "questions": [{"text": "?"}]}', ["--budgets", "x"], "numb"),
        ('{"messages": [{"text": "a"}], "questions": [{"text": "?"}]}', ["--budgets", "1"], "budg"),
        (
            '{"messages": [{"text": "a"}], "questions": [{"text": "?"}]}',
            ["--memories", "akk"],
            "did you mean 'acc'",
        ),
    ],
)
def test_invalid_files_and_options(
    content: str,
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "file.json"
    path.write_text(content)
    assert execute(["bench-memory", str(path), *arguments]) == 2
    assert expected in capsys.readouterr().err


def test_encoding_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(_longmemeval()), encoding="utf-8-sig")
    rows = _run(capsys, str(path), "--budgets", "256", "--memories", "last-n")
    assert _row(rows, "last-n", 256, "all")["questions"] > 0
    path.write_bytes("犬".encode("shift_jis"))
    assert execute(["bench-memory", str(path)]) == 2
    assert "is not UTF-8" in capsys.readouterr().err


def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.json"
    path.write_text(json.dumps(_longmemeval()))
    for output in (tmp_path, tmp_path / "none" / "x.jsonl"):
        assert execute(["bench-memory", str(path), "--output", str(output)]) == 2
        assert "--output" in capsys.readouterr().err


def test_form_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["bench-memory", "locomo"]) == 2
    assert "acc bench-memory locomo FILE" in capsys.readouterr().err
    assert execute(["bench-memory", "no-such-file.json"]) == 2
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is a device of Linux")
def test_table_is_printed_if_the_output_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "one.jsonl"
    message = {"id": "1", "text": "My order is 4711."}
    question = {"text": "Which order is it?", "evidence": ["1"]}
    source.write_text(json.dumps({"messages": [message], "questions": [question]}))
    words = ["bench-memory", str(source), "--memories", "last-n"]
    assert execute([*words, "--output", "/dev/full"]) == 1
    printed = capsys.readouterr()
    assert "last-n" in printed.out
    assert "cannot write /dev/full: No space left on device" in printed.err
