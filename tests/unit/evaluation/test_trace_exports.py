"""Variants of the exports of LangSmith and Langfuse, in English and Japanese."""

import csv
import gzip
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acc.adapters.evaluation.message_logs import read_logs
from acc.domain.errors import InvalidInput

Turns = Sequence[tuple[str, str]]
Entry = dict[str, Any]
TURNS: dict[str, Turns] = {
    "en": [("The gate is B4.", "Noted."), ("Which gate is it?", "Gate B4.")],
    "ja": [("搭乗口はB4です。", "承知しました。"), ("搭乗口はどこですか。", "B4です。")],
}


def messages_of(path: Path, form: str = "") -> list[list[tuple[str, str]]]:
    return [[(one.role, one.text) for one in log.messages] for log in read_logs(path, form)]


def expected(turns: Turns) -> list[tuple[str, str]]:
    return [one for turn in turns for one in zip(("user", "assistant"), turn, strict=True)]


def write(path: Path, entries: Sequence[Entry]) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in entries), encoding="utf-8")
    return path


def constructed(name: str, text: str) -> Entry:
    identifier = ["langchain", "schema", "messages", name]
    return {"lc": 1, "type": "constructor", "id": identifier, "kwargs": {"content": text}}


def run(number: int, inputs: Any, outputs: Any, **fields: Any) -> Entry:
    """Return a root run of LangSmith in the thread t."""
    return {
        **{"id": f"run-{number}", "trace_id": f"run-{number}", "parent_run_id": None},
        **{"run_type": "chain", "start_time": f"2026-05-04T09:0{number}:00"},
        **{"extra": {"metadata": {"thread_id": "t"}}, "inputs": inputs, "outputs": outputs},
        **fields,
    }


def chat_model_runs(turns: Turns) -> list[Entry]:
    """Return calls of a chat model with all earlier messages."""
    history: list[Entry] = []
    entries: list[Entry] = []
    for number, (message, answer) in enumerate(turns, 1):
        history.append(constructed("HumanMessage", message))
        reply = constructed("AIMessage", answer)
        generation = {"text": answer, "type": "ChatGeneration", "message": reply}
        outputs = {"generations": [[generation]], "llm_output": None, "type": "LLMResult"}
        entries.append(run(number, {"messages": [list(history)]}, outputs, run_type="llm"))
        history.append(reply)
    return entries


def completion(answer: str) -> Entry:
    return {
        "id": "c",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}}],
    }


def nested_model_runs(turns: Turns) -> list[Entry]:
    """Return root runs without readable messages, and calls of a model with a tool below them."""
    entries: list[Entry] = []
    for number, (message, answer) in enumerate(turns, 1):
        entries.append(run(number, {"state": {"step": 1, "limit": 2}}, {"done": True}))
        call = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find"}}]}
        asked = [{"role": "user", "content": message}]
        found = [*asked, call, {"role": "tool", "content": "B4"}]
        for step, (messages, text) in enumerate(((asked, ""), (found, answer)), 1):
            below = {"id": f"call-{number}-{step}", "parent_run_id": f"run-{number}"}
            time = f"2026-05-04T09:0{number}:0{step}"
            fields = {**below, "trace_id": f"run-{number}", "run_type": "llm", "start_time": time}
            entries.append(run(number, {"messages": messages}, completion(text), **fields))
    return entries


LANGSMITH: dict[str, Callable[[Turns], list[Entry]]] = {
    "calls of a chat model": chat_model_runs,
    "calls below root runs": nested_model_runs,
    "calls of a completion model": lambda turns: [
        run(n, {"prompts": [message]}, {"generations": [[{"text": answer}]]}, run_type="llm")
        for n, (message, answer) in enumerate(turns)
    ],
    "pairs of role and text": lambda turns: [
        run(n, {"messages": [["system", "Be brief."], ["user", message]]}, {"output": answer})
        for n, (message, answer) in enumerate(turns)
    ],
    "messages that are texts": lambda turns: [
        run(n, {"messages": [message]}, {"messages": [constructed("AIMessage", answer)]})
        for n, (message, answer) in enumerate(turns)
    ],
    "an object of the OpenAI client": lambda turns: [
        run(n, {"messages": [{"role": "user", "content": message}]}, completion(answer))
        for n, (message, answer) in enumerate(turns)
    ],
    "a function with one argument": lambda turns: [
        run(n, {"customer_text": message}, {"output": answer})
        for n, (message, answer) in enumerate(turns)
    ],
    "contents with parts": lambda turns: [
        run(
            n,
            {"contents": [{"role": "user", "parts": [{"text": message}]}]},
            {"content": {"role": "model", "parts": [{"text": answer}]}},
        )
        for n, (message, answer) in enumerate(turns)
    ],
    "threads with runs": lambda turns: [
        {
            "thread_id": "t",
            "count": len(turns),
            "runs": [
                run(n, {"question": message}, {"answer": answer}, extra={})
                for n, (message, answer) in enumerate(turns)
            ],
        }
    ],
}


def observation(number: int, kind: str, parent: str | None, **fields: Any) -> Entry:
    """Return an observation of Langfuse in the session s, as in files of a blob storage."""
    return {
        **{"id": f"{kind}-{number}", "trace_id": f"trace-{number}", "session_id": "s"},
        **{"type": kind, "parent_observation_id": parent, "input": None, "output": None},
        **{"start_time": f"2026-05-04 09:0{number}:00.000000", **fields},
    }


def enriched_observations(turns: Turns) -> list[Entry]:
    """Return spans of functions with a rewritten question below them, the newest first."""
    entries: list[Entry] = []
    for number, (message, answer) in enumerate(turns, 1):
        asked = json.dumps({"args": [message, "customer-7"], "kwargs": {}})
        rewritten = json.dumps([{"role": "user", "content": f"Rewrite: {message}"}])
        entries += [
            observation(number, "SPAN", None, input=asked, output=answer),
            observation(number, "TOOL", "SPAN", input='{"query": "gate"}', output="B4"),
            observation(number, "GENERATION", "SPAN", input=rewritten, output="gate"),
        ]
    return entries[::-1]


def model_observations(turns: Turns) -> list[Entry]:
    """Return root spans without input, and messages in the form of OpenTelemetry below them."""
    entries: list[Entry] = []
    for number, (message, answer) in enumerate(turns, 1):
        asked = {"role": "user", "parts": [{"type": "text", "content": message}]}
        reply = {"role": "assistant", "parts": [{"type": "text", "content": answer}]}
        fields = {"input": json.dumps([asked]), "output": json.dumps([reply])}
        entries += [
            observation(number, "AGENT", None),
            observation(number, "GENERATION", "AGENT", **fields),
        ]
    return entries


LANGFUSE: dict[str, Callable[[Turns], list[Entry]]] = {
    "enriched observations": enriched_observations,
    "observations with an empty root": model_observations,
    "traces of a blob storage": lambda turns: [
        {
            **{"id": f"trace-{n}", "timestamp": f"2026-05-04 09:0{n}:00.000000"},
            **{"session_id": "s", "user_id": "", "input": message, "output": answer},
        }
        for n, (message, answer) in reversed(list(enumerate(turns)))
    ],
    "traces with observations": lambda turns: [
        {
            **{"id": f"trace-{n}", "timestamp": f"2026-05-04T09:0{n}:00Z", "sessionId": "s"},
            **{"input": None, "output": None},
            "observations": [
                {
                    **{"id": f"g-{n}", "traceId": f"trace-{n}", "type": "GENERATION"},
                    **{"startTime": f"2026-05-04T09:0{n}:01Z", "parentObservationId": None},
                    **{"input": [{"role": "user", "content": message}]},
                    **{"output": {"role": "assistant", "content": answer}},
                }
            ],
        }
        for n, (message, answer) in enumerate(turns)
    ],
    "the download of a trace": lambda turns: [
        {
            "scores": [],
            "observations": [
                observation(
                    1,
                    "GENERATION",
                    None,
                    input=[{"role": r, "content": t} for r, t in expected(turns)[:-1]],
                    output={"role": "assistant", "content": turns[-1][1]},
                )
            ],
        }
    ],
}


@pytest.mark.parametrize("language", TURNS)
@pytest.mark.parametrize("variant", LANGSMITH)
def test_runs_of_langsmith_are_one_conversation(
    variant: str, language: str, tmp_path: Path
) -> None:
    turns = TURNS[language]
    path = write(tmp_path / "runs.jsonl", LANGSMITH[variant](turns))
    for form in ("", "langsmith"):
        assert messages_of(path, form) == [expected(turns)]
    assert read_logs(path)[0].id == "t"


@pytest.mark.parametrize("language", TURNS)
@pytest.mark.parametrize("variant", LANGFUSE)
def test_traces_of_langfuse_are_one_conversation(
    variant: str, language: str, tmp_path: Path
) -> None:
    turns = TURNS[language]
    path = write(tmp_path / "traces.jsonl", LANGFUSE[variant](turns))
    for form in ("", "langfuse"):
        assert messages_of(path, form) == [expected(turns)]
    assert read_logs(path)[0].id == "s"


@pytest.mark.parametrize("language", TURNS)
def test_parquet_of_a_bulk_export_is_read(language: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    turns = TURNS[language]
    rows = [
        {
            **entry,
            **{name: json.dumps(entry[name]) for name in ("inputs", "outputs", "extra")},
            "start_time": datetime.fromisoformat(entry["start_time"]).replace(tzinfo=UTC),
        }
        for entry in nested_model_runs(turns)
    ]
    path = tmp_path / "runs.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, compression="zstd")
    assert messages_of(path) == [expected(turns)]
    parquet.write_table(pyarrow.Table.from_pylist(enriched_observations(turns)), path)
    assert messages_of(path) == [expected(turns)]


def test_damaged_parquet_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(InvalidInput, match="not a Parquet file"):
        read_logs(path)


@pytest.mark.parametrize("name", ["traces.jsonl.gz", "traces.gz"])
def test_compressed_files_are_read(name: str, tmp_path: Path) -> None:
    plain = write(tmp_path / "traces.jsonl", enriched_observations(TURNS["ja"]))
    path = tmp_path / name
    path.write_bytes(gzip.compress(plain.read_bytes()))
    assert messages_of(path) == [expected(TURNS["ja"])]


def test_a_compressed_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "questions.csv.gz"
    path.write_bytes(gzip.compress("question,answer\n搭乗口は?,B4です。\n".encode()))
    assert messages_of(path) == [[("user", "搭乗口は?"), ("assistant", "B4です。")]]


def test_a_damaged_compressed_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"messages": []}' * 100)[:40])
    with pytest.raises(InvalidInput, match="cannot be decompressed"):
        read_logs(path)


@pytest.mark.parametrize("language", TURNS)
def test_each_example_of_a_data_set_is_a_conversation(language: str, tmp_path: Path) -> None:
    turns = TURNS[language]
    examples = [{"inputs": {"question": m}, "outputs": {"answer": a}} for m, a in turns]
    path = write(tmp_path / "examples.jsonl", examples)
    assert messages_of(path) == [expected([turn]) for turn in turns]

    table = tmp_path / "examples.csv"
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["id", "input_question", "output_answer"], ["a", *turns[0]]])
    assert messages_of(table) == [expected(turns[:1])]

    items = [
        {"id": f"item-{n}", "datasetId": "d", "input": {"text": m}, "expectedOutput": {"text": a}}
        for n, (m, a) in enumerate(turns)
    ]
    assert messages_of(write(tmp_path / "items.jsonl", items)) == [
        expected([turn]) for turn in turns
    ]


def test_columns_with_token_counts_are_not_those_of_a_data_set(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question,input_tokens,output_tokens\nWhich gate?,3,4\n")
    assert messages_of(path) == [[("user", "Which gate?")]]


def test_other_roles_and_fields_are_not_words_of_the_user(tmp_path: Path) -> None:
    messages = [{"role": "critic", "content": "Too long."}, {"role": "user", "content": "Why?"}]
    entries = [
        run(1, {"messages": messages}, None),
        run(2, {"role": "user", "question": "Which gate?"}, None),
        run(3, {"messages": [{"type": "reasoning", "content": "hm"}, ["human", "Now?"]]}, None),
    ]
    (log,) = messages_of(write(tmp_path / "runs.jsonl", entries))
    assert log == [("user", "Why?"), ("user", "Which gate?"), ("user", "Now?")]


@pytest.mark.parametrize(
    "content",
    [
        {"id": "s", "projectId": "p", "traces": [{"id": "t", "sessionId": "s", "name": "desk"}]},
        [{"id": "o", "trace_id": "t", "type": "SPAN", "start_time": "2026-05-04 09:00:00"}],
    ],
)
def test_an_export_without_messages_says_what_to_export(content: object, tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match="input and output"):
        read_logs(path)
