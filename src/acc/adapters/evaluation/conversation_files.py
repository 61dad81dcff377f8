"""Read recorded conversations with questions: LoCoMo, LongMemEval, and our own JSON lines."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.recorded_conversation import (
    RecordedConversation,
    RecordedMessage,
    RecordedQuestion,
)

Json = dict[str, Any]
#: The question types of LoCoMo by the number of their category.
_LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_LOCOMO_SESSION = re.compile(r"session_(\d+)")
_DATE_FORMATS = ("%I:%M %p on %d %B, %Y", "%Y/%m/%d (%a) %H:%M", "%Y/%m/%d %H:%M", "%Y/%m/%d")


def read_source(source: str, file: Path | None = None) -> list[RecordedConversation]:
    """Return the conversations of `locomo FILE`, `longmemeval FILE` or a path."""
    if source not in FORMS:
        if file is not None:
            raise InvalidInput(f"unknown form {source!r}: choose one of {', '.join(FORMS)}")
        return read_conversations(Path(source))
    if file is None:
        raise InvalidInput(
            f"acc bench-memory {source} requires the path of its file; the data set is not part of "
            f"acc: acc bench-memory {source} FILE"
        )
    return read_conversations(file, source)


def read_conversations(path: Path, form: str = "") -> list[RecordedConversation]:
    """Return the conversations of a file; without a form, it is recognised by its content.

    InvalidInput names the file and what is wrong with it.
    """
    if form and form not in FORMS:
        raise InvalidInput(f"unknown form {form!r}: choose one of {', '.join(FORMS)}")
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8: {error}; convert it first") from error
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        items = parse_items(content)
        selected = form or _recognise(items)
        found = [FORMS[selected](item, number) for number, item in enumerate(items, 1)]
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        name = form or "a known form"
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidInput(f"{path} is not a file of {name}: {reason}") from error
    if not any(conversation.questions for conversation in found):
        raise InvalidInput(f"{path} has no questions")
    return found


def parse_items(content: str) -> list[Json]:
    """Return the objects of a JSON list, a single object or JSON lines."""
    try:
        parsed = json.loads(content)
        items = parsed if isinstance(parsed, list) else [parsed]
    except ValueError:
        items = []
        for number, line in enumerate(content.splitlines(), 1):
            if line.strip():
                try:
                    items.append(json.loads(line))
                except ValueError as error:
                    raise ValueError(f"line {number} is not JSON: {error}") from error
    if not items:
        raise ValueError("it is empty")
    if not all(isinstance(item, dict) for item in items):
        raise ValueError("expected JSON objects")
    return items


def _recognise(items: list[Json]) -> str:
    keys = set(items[0])
    if "haystack_sessions" in keys:
        return "longmemeval"
    if {"conversation", "qa"} <= keys:
        return "locomo"
    if {"messages", "questions"} <= keys:
        return "conversations"
    raise ValueError(f"expected the keys of one of {', '.join(FORMS)}, got {', '.join(keys)}")


def _read_locomo(item: Json, number: int) -> RecordedConversation:
    conversation = item["conversation"]
    sessions = sorted(
        (int(match[1]), name) for name in conversation if (match := _LOCOMO_SESSION.fullmatch(name))
    )
    for _, name in sessions:
        if not isinstance(conversation[name], list):
            raise TypeError(f"sample {number}: {name} must be a list of messages")
    messages = [
        RecordedMessage(
            id=str(entry["dia_id"]),
            speaker=str(entry["speaker"]),
            text=_locomo_text(entry),
            at=_time(conversation.get(f"{name}_date_time")),
        )
        for _, name in sessions
        for entry in conversation[name]
    ]
    known = {message.id for message in messages}
    questions = [
        RecordedQuestion(
            id=f"q{index}",
            text=str(one["question"]),
            kind=_LOCOMO_KINDS.get(one.get("category", 0), "other"),
            answer=str(one.get("answer", "")),
            evidence=tuple(_locomo_evidence(one.get("evidence") or (), known)),
        )
        for index, one in enumerate(item["qa"], 1)
    ]
    return _conversation(item.get("sample_id", number), messages, questions)


def _locomo_text(entry: Mapping[str, Any]) -> str:
    caption = entry.get("blip_caption")
    return f"{entry['text']} [shares {caption}]" if caption else str(entry["text"])


def _locomo_evidence(evidence: Any, known: set[str]) -> Iterator[str]:
    """Return the ids of messages. Published files have several in one entry, and odd forms.

    `D:11:26` and `D11:026` mean `D11:26`. Entries that name no message are left out.
    """
    for entry in [evidence] if isinstance(evidence, str) else evidence:
        for session, place in re.findall(r"D:?(\d+):(\d+)", str(entry)):
            if (name := f"D{int(session)}:{int(place)}") in known:
                yield name


def _read_longmemeval(item: Json, number: int) -> RecordedConversation:
    messages: list[RecordedMessage] = []
    evidence: list[str] = []
    dates = item.get("haystack_dates") or []
    for index, session in enumerate(item["haystack_sessions"]):
        at = _time(dates[index]) if index < len(dates) else 0.0
        for place, entry in enumerate(session):
            message_id = f"s{index + 1}.{place + 1}"
            role = entry["role"]
            if role not in ("user", "assistant"):
                raise ValueError(f"item {number}: the role of a message must be user or assistant")
            messages.append(
                RecordedMessage(
                    id=message_id, speaker=role, role=role, text=str(entry["content"]), at=at
                )
            )
            if entry.get("has_answer"):
                evidence.append(message_id)
    question_id = str(item.get("question_id", number))
    question = RecordedQuestion(
        id=question_id,
        text=str(item["question"]),
        kind="abstention" if question_id.endswith("_abs") else str(item["question_type"]),
        answer=str(item.get("answer", "")),
        evidence=tuple(evidence),
    )
    return _conversation(question_id, messages, [question])


def _read_own(item: Json, number: int) -> RecordedConversation:
    messages = [
        {"id": str(index), **one, "at": _time(one.get("date", one.get("at")))}
        for index, one in enumerate(item["messages"], 1)
    ]
    questions = [
        {"id": f"q{index}", **one, "evidence": _own_evidence(one, index)}
        for index, one in enumerate(item["questions"], 1)
    ]
    return _conversation(
        item.get("id", number),
        [msgspec.convert(one, RecordedMessage) for one in messages],
        [msgspec.convert(one, RecordedQuestion) for one in questions],
    )


def _own_evidence(question: Json, number: int) -> list[str]:
    evidence = question.get("evidence", [])
    if not isinstance(evidence, list):
        raise TypeError(f"question {number}: evidence must be a list of message ids")
    return [str(each) for each in evidence]


def _conversation(
    name: object, messages: list[RecordedMessage], questions: list[RecordedQuestion]
) -> RecordedConversation:
    ids = {message.id for message in messages}
    if len(ids) != len(messages):
        raise ValueError(f"conversation {name}: ids of messages must be unique")
    for question in questions:
        if unknown := sorted(set(question.evidence) - ids):
            raise ValueError(
                f"conversation {name}, question {question.id}: there is no message {unknown[0]!r}"
            )
    if questions and not messages:
        raise ValueError(f"conversation {name} has no messages")
    return RecordedConversation(id=str(name), messages=tuple(messages), questions=tuple(questions))


def _time(given: object) -> float:
    """Return a date as Unix time; 0 if it is missing or has another form."""
    if isinstance(given, int | float):
        return float(given)
    text = str(given or "").strip()
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


#: The readers by form: one item of the file and its number.
FORMS: Mapping[str, Callable[[Json, int], RecordedConversation]] = {
    "locomo": _read_locomo,
    "longmemeval": _read_longmemeval,
    "conversations": _read_own,
}
