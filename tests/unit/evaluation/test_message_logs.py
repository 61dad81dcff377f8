"""Logs of conversations in every supported format, in English and Japanese."""

import json
from pathlib import Path

import pytest

from acc.adapters.evaluation.message_logs import LOG_FORMATS, read_logs
from acc.domain.errors import InvalidInput

LOGS = Path(__file__).parent / "logs"
FORMATS = {
    "openai-{}.json": "openai",
    "openai-{}.jsonl": "openai",
    "langsmith-{}.jsonl": "langsmith",
    "langfuse-{}.json": "langfuse",
    "langfuse-{}.csv": "langfuse",
    "table-{}.csv": "csv",
    "questions-{}.csv": "csv",
    "events-{}.jsonl": "events",
}
WORDS = {
    "en": [
        "Our tour leader is Petra Holm. Keep every answer under 40 words.",
        "The bus leaves at 7:45 on Friday.",
        "Who is the tour leader?",
        "Correction: the bus leaves at 8:15 on Friday. When does the bus leave on Friday?",
    ],
    "ja": [
        "担当者は木村です。回答は必ず60字以内にしてください。",
        "送迎バスは15時20分に出ます。",
        "担当者は誰ですか。",
        "訂正します、送迎バスは15時50分に出ます。送迎バスは何時に出ますか。",
    ],
}
CASES = [
    pytest.param(name.format(language), language, form, id=name.format(language))
    for language in WORDS
    for name, form in FORMATS.items()
]


@pytest.mark.parametrize(("name", "language", "form"), CASES)
def test_users_words_are_read_once_and_in_order(name: str, language: str, form: str) -> None:
    for selected in ("", form):
        (conversation,) = read_logs(LOGS / name, selected)
        words = [message.text for message in conversation.messages if message.role == "user"]
        assert words == WORDS[language]
        assert conversation.id in ("tour-desk", "ryokan-desk")


@pytest.mark.parametrize(("name", "language", "form"), CASES)
def test_answers_follow_the_message_that_they_answer(name: str, language: str, form: str) -> None:
    (conversation,) = read_logs(LOGS / name)
    last = conversation.messages[5]
    assert (last.role, last.text) == (
        "assistant",
        "Petra Holm." if language == "en" else "木村です。",
    )


def write(path: Path, *items: object) -> Path:
    path.write_text("\n".join(json.dumps(item) for item in items), encoding="utf-8")
    return path


def words_of(path: Path, form: str = "") -> list[list[str]]:
    return [
        [message.text for message in one.messages if message.role == "user"]
        for one in read_logs(path, form)
    ]


def message(role: str, content: object) -> dict[str, object]:
    return {"role": role, "content": content}


def test_one_message_per_line_is_one_conversation(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", message("user", "One."), message("assistant", "1"))
    assert words_of(path) == [["One."]]


def test_conversations_with_equal_beginnings_stay_separate(tmp_path: Path) -> None:
    first = {"messages": [message("user", "Hi."), message("assistant", "A"), message("user", "B.")]}
    other = {"messages": [message("user", "Hi."), message("assistant", "C"), message("user", "D.")]}
    assert words_of(write(tmp_path / "a.jsonl", first, other)) == [["Hi.", "B."], ["Hi.", "D."]]


@pytest.mark.parametrize("key", ["id", "custom_id"])
def test_conversations_are_named_by_the_id_of_their_item(tmp_path: Path, key: str) -> None:
    items = [{key: name, "messages": [message("user", name)]} for name in ("order-17", "注文")]
    found = read_logs(write(tmp_path / "a.jsonl", *items))
    assert [one.id for one in found] == ["order-17", "注文"]


@pytest.mark.parametrize("key", ["id", "custom_id"])
def test_equal_ids_of_different_conversations_are_refused(tmp_path: Path, key: str) -> None:
    items = [{key: "order-17", "messages": [message("user", text)]} for text in ("Hi.", "Bye.")]
    path = write(tmp_path / "a.jsonl", *items)
    with pytest.raises(InvalidInput, match="2 conversations with the id 'order-17'") as raised:
        read_logs(path)
    assert str(path) in str(raised.value)


def test_the_same_message_twice_is_two_turns(tmp_path: Path) -> None:
    traces = [
        {"id": str(n), "sessionId": "s", "timestamp": f"2026-01-0{n}", "input": "Yes.", "output": n}
        for n in (1, 2)
    ]
    assert words_of(write(tmp_path / "a.jsonl", *traces)) == [["Yes.", "Yes."]]


def test_history_that_was_cut_is_continued(tmp_path: Path) -> None:
    def request(*texts: str) -> dict[str, object]:
        return {"thread_id": "t", "messages": [message("user", text) for text in texts]}

    path = write(tmp_path / "a.jsonl", request("A", "B"), request("B", "C"), request("C", "D"))
    assert words_of(path) == [["A", "B", "C", "D"]]


def test_previous_response_id_continues_the_conversation(tmp_path: Path) -> None:
    def logged(name: str, given: object, previous: str | None = None) -> dict[str, object]:
        request = {"input": given, "previous_response_id": previous}
        text = [{"type": "output_text", "text": f"answer {name}"}]
        output = [{"type": "message", "role": "assistant", "content": text}]
        return {"request": request, "response": {"id": name, "output": output}}

    tool_output = [{"type": "function_call_output", "call_id": "c", "output": "4"}]
    path = write(
        tmp_path / "a.jsonl",
        logged("r1", "A"),
        logged("s1", "B"),
        logged("r2", tool_output, "r1"),
        logged("r3", "C", "r2"),
        logged("t1", "D", "not in the log"),
    )
    assert words_of(path) == [["A", "C"], ["B"], ["D"]]


def test_results_of_tools_are_no_words_of_the_user(tmp_path: Path) -> None:
    found = [{"type": "tool_result", "tool_use_id": "1", "content": "4"}]
    messages = [message("user", "A"), message("assistant", "1"), message("user", found)]
    assert words_of(write(tmp_path / "a.jsonl", {"messages": messages})) == [["A"]]


def test_columns_may_begin_with_a_capital_letter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("Conversation,Role,Content\n1,User,A\n1,Assistant,1\n2,User,B\n")
    assert words_of(path) == [["A"], ["B"]]


def test_a_part_without_text_is_named(tmp_path: Path) -> None:
    parts = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "x"}}]
    path = write(tmp_path / "a.jsonl", {"messages": [message("user", parts)]})
    assert words_of(path) == [["Look.\n[image_url]"]]


def test_answers_of_chat_completions_and_responses_are_read(tmp_path: Path) -> None:
    chat = {
        "request": {"messages": [message("user", "A")]},
        "response": {"choices": [{"message": message("assistant", "1")}]},
    }
    responses = {
        "input": "B",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "2"}]}],
    }
    for item, answer in ((chat, "1"), (responses, "2")):
        (conversation,) = read_logs(write(tmp_path / "a.jsonl", item))
        assert conversation.messages[-1].text == answer


def test_the_runs_of_a_trace_are_one_conversation(tmp_path: Path) -> None:
    runs = [{"run_id": str(n), "message": f"Turn {n}.", "answer": "ok"} for n in (1, 2)]
    assert words_of(write(tmp_path / "a.json", {"runs": runs})) == [["Turn 1.", "Turn 2."]]


def test_a_table_of_acc_export_has_each_query_once(tmp_path: Path) -> None:
    path = tmp_path / "turns.csv"
    path.write_text(
        "scenario,seed,turn,agent,query,answer\ns,0,1,acc,A,1\ns,0,1,full,A,2\ns,0,2,acc,B,3\n"
    )
    assert words_of(path) == [["A", "B"]]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.json", '{"colour": "red"}', "colour"),
        ("a.json", "[]", "empty"),
        ("a.json", "[1, 2]", "objects"),
        ("a.jsonl", '{"role": "user"\n', "line 1 is not JSON"),
        ("a.csv", "colour,size\nred,3\n", "colour, size"),
        ("a.csv", "role,colour\nuser,red\n", "the column content"),
        ("a.csv", "question\n", "no rows"),
        ("a.json", '{"messages": 3}', "item 1 has no messages"),
        ("a.json", '{"messages": [{"role": "system", "content": "x"}]}', "item 1 has no messages"),
        ("a.json", '{"inputs": {"topic": 3}}', "no messages of users"),
    ],
)
def test_a_file_without_conversations_is_explained(
    name: str, content: str, expected: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InvalidInput) as caught:
        read_logs(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)
    assert "--replay-format" in str(caught.value)


def test_unpaired_surrogates_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        r'{"thread_id": "c\udc00", "messages": [{"role": "user", "content": "\ud83d 京都"}]}'
    )
    (found,) = read_logs(path)
    assert (found.id, found.messages[0].text) == ("c?", "? 京都")


def test_an_unknown_format_is_rejected_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput) as caught:
        read_logs(LOGS / "openai-en.json", "excel")
    assert all(name in str(caught.value) for name in ("excel", *LOG_FORMATS))


def test_a_wrong_format_is_rejected() -> None:
    with pytest.raises(InvalidInput):
        read_logs(LOGS / "events-en.jsonl", "openai")


def test_a_file_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    missing = tmp_path / "none.json"
    with pytest.raises(InvalidInput) as caught:
        read_logs(missing)
    assert str(caught.value) == f"{missing} cannot be read: No such file or directory"
    other = tmp_path / "sjis.csv"
    other.write_bytes("question\n担当者は誰ですか\n".encode("shift_jis"))
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_logs(other)


def test_deep_nesting_is_rejected(tmp_path: Path) -> None:
    value: object = [message("user", "x")]
    for _ in range(40):
        value = {"input": value}
    with pytest.raises(InvalidInput, match="nested"):
        read_logs(write(tmp_path / "a.json", {"inputs": value}))
