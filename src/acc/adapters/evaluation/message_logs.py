"""Read logs of conversations: OpenAI messages, LangSmith, Langfuse, our events and CSV."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acc.adapters.evaluation.log_files import Json, read_entries
from acc.domain.errors import InvalidInput
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.recorded_conversation import RecordedConversation, RecordedMessage

_USER_ROLES = frozenset({"user", "human"})
_ASSISTANT_ROLES = frozenset({"assistant", "ai", "model"})
_OTHER_ROLES = frozenset({"system", "developer", "tool", "function"})
#: Columns of tables with the words of the user and with answers, in this order.
_TEXT_COLUMNS = ("input", "question", "query", "prompt", "user", "message", "text")
_ANSWER_COLUMNS = ("output", "answer", "response", "assistant", "completion", "text")
#: Keys under which applications store messages or one message, in this order.
_INPUT_KEYS = (
    *("messages", *_TEXT_COLUMNS, "prompts", "contents", "content", "new_message"),
    *("parts", "kwargs", "args"),
)
_OUTPUT_KEYS = (
    *("messages", "message", "generations", "choices", *_ANSWER_COLUMNS, "content", "parts"),
    *("outputs", "result"),
)
#: Keys that name the conversation of a message or request.
_CONVERSATION_KEYS = (
    *("conversation", "conversation_id", "conversationId", "thread", "thread_id", "session"),
    *("session_id", "sessionId", "chat_id"),
)
_OPENAI_KEYS = ("messages", "body", "request")
_TIME_KEYS = ("timestamp", "start_time", "startTime", "createdAt", "created_at")
_LANGFUSE_KEYS = frozenset(
    {
        *("sessionId", "session_id", "traceId", "trace_id", "userId", "user_id", "htmlPath"),
        *("observations", "parentObservationId", "parent_observation_id"),
        *("datasetId", "expectedOutput"),
    }
)
#: Columns of a data set in a table: `input_question`, `output_answer`.
_EXAMPLE_COLUMN = re.compile(r"(inputs?|outputs?)[._](.+)")
_PARENT_KEYS = ("parent_run_id", "parentObservationId", "parent_observation_id")
_TRACE_KEYS = ("trace_id", "traceId", "id")
_MODEL_CALLS = frozenset({"LLM", "GENERATION"})
_MAX_NESTING = 20


@dataclass(slots=True)
class _Log:
    """One conversation while it is read; `speech` has roles and texts in order."""

    id: str
    speech: list[tuple[str, str]] = field(default_factory=list)

    def add(self, request: Sequence[tuple[str, str]], answer: str = "") -> None:
        """Add the messages of a request that are new, and its answer.

        A request with one message has no history: the message is new. Other requests repeat
        messages of earlier ones, all of them or the newest.
        """
        new = list(request)
        if len(new) > 1:
            for size in range(min(len(self.speech), len(new)), 0, -1):
                if self.speech[-size:] == new[:size]:
                    new = new[size:]
                    break
        self.speech += new
        if answer and self.speech[-1:] != [("assistant", answer)]:
            self.speech.append(("assistant", answer))

    def conversation(self) -> RecordedConversation:
        """Return the conversation without blank messages."""
        messages = [
            RecordedMessage(
                id=str(number),
                text=replace_surrogates(text),
                speaker=role,
                role="user" if role == "user" else "assistant",
            )
            for number, (role, text) in enumerate(self.speech, 1)
            if text.strip()
        ]
        return RecordedConversation(
            id=replace_surrogates(self.id), messages=tuple(messages), questions=()
        )


def read_logs(path: Path, form: str = "") -> list[RecordedConversation]:
    """Return the conversations of a file; without a format, it is recognised by its content.

    InvalidInput names the file and what is wrong with it.
    """
    if form and form not in LOG_FORMATS:
        raise InvalidInput(
            f"unknown format {form!r} of a replay: choose one of {', '.join(LOG_FORMATS)}"
        )
    try:
        items, is_table = read_entries(path)
        selected = form or recognise_format(items, is_table=is_table)
        logs = list(LOG_FORMATS[selected](items))
    except InvalidInput:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        name = f"in the format {form}" if form else "in a known format"
        raise InvalidInput(
            f"{path} is not a log {name}: {error}. Formats are {', '.join(LOG_FORMATS)}; "
            "--replay-format selects one"
        ) from error
    found = [log.conversation() for log in logs]
    found = [one for one in found if any(message.role == "user" for message in one.messages)]
    if not found:
        raise InvalidInput(
            f"{path} has no messages of users; it was read in the format {selected}, and "
            "--replay-format selects another one"
        )
    name, count = Counter(one.id for one in found).most_common(1)[0]
    if count > 1:
        raise InvalidInput(
            f"{path} has {count} conversations with the id {name!r}: ids must be unique. Use a "
            "different id for each conversation. If the entries are requests of one conversation, "
            "add the same conversation_id to each of them"
        )
    return found


def recognise_format(items: Sequence[Json], *, is_table: bool = False) -> str:
    """Return the format of the items of a file, or raise ValueError."""
    keys = set(items[0])
    if "run_type" in keys or "inputs" in keys:
        return "langsmith"
    if keys & _LANGFUSE_KEYS:
        if "input" in keys:
            return "langfuse"
        if not keys & {"role", *_OPENAI_KEYS, *_TEXT_COLUMNS}:
            raise ValueError(
                "its entries have no input and output; a downloaded session of Langfuse does not "
                "contain them: export the traces or the observations instead"
            )
    if is_table and not keys & {"role", *_TEXT_COLUMNS} and any(map(_EXAMPLE_COLUMN.match, keys)):
        return "langsmith"
    if is_table:
        return "csv"
    if {"run_id", "message"} <= keys or {"kind", "run_id", "author"} <= keys:
        return "events"
    if keys & {"role", "input", *_OPENAI_KEYS}:
        return "openai"
    raise ValueError(f"its first item has the keys {', '.join(sorted(map(str, keys))) or 'none'}")


def _read_openai(items: Sequence[Json]) -> Iterator[_Log]:
    """Read messages, one conversation per item or one message per item, and logged requests."""
    if all("role" in item for item in items):
        yield from _grouped((_key(item), [item], None) for item in items)
        return
    logs: dict[str, _Log] = {}
    responses: dict[str, _Log] = {}
    for number, item in enumerate(items, 1):
        body = _object(item.get("body") or item.get("request") or item)
        speech = list(_speech(body.get("messages", body.get("input"))))
        if not speech and "previous_response_id" not in body:
            raise ValueError(f"item {number} has no messages with role and content")
        response = _response(item.get("response") or item)
        answer = _answer(response)
        key = _key(item)
        previous, response_id = body.get("previous_response_id"), response.get("id")
        continued = responses.get(previous) if isinstance(previous, str) else None
        if key or continued is not None:
            log = logs.setdefault(key, _Log(key)) if key or continued is None else continued
            log.add(speech, answer)
            if isinstance(response_id, str):
                responses[response_id] = log
            continue
        # A request without a name continues the conversation whose messages it repeats.
        known = next(
            (log for log in logs.values() if log.speech == speech[: len(log.speech)]), None
        )
        name = item.get("custom_id") or item.get("id") or number
        log = known or logs.setdefault(f"#{number}", _Log(str(name)))
        log.speech = list(speech)
        if answer:
            log.speech.append(("assistant", answer))
        if isinstance(response_id, str):
            responses[response_id] = log
    yield from logs.values()


def _response(logged: Any) -> Json:
    """Return the response of chat completions or responses in an item; batches have a body."""
    found = logged.get("body", logged) if isinstance(logged, Mapping) else {}
    return found if isinstance(found, Mapping) else {}


def _answer(body: Json) -> str:
    """Return the answer in a response of chat completions or responses, or ""."""
    for choice in body.get("choices") or ():
        return _text(_object(choice.get("message") or {}).get("content"))
    for item in body.get("output") or ():
        if isinstance(item, Mapping) and item.get("type") == "message":
            return _text(item.get("content"))
    return ""


def _read_langsmith(items: Sequence[Json]) -> Iterator[_Log]:
    """Read runs, grouped by their thread, or the examples of a data set."""
    entries = [item if "inputs" in item else _example(item) for item in items]
    yield from _grouped(
        (_langsmith_thread(item) or f"example-{number}", item.get("inputs"), item.get("outputs"))
        for number, item in enumerate(_by_time(_conversational(entries, "inputs")), 1)
    )


def _example(row: Json) -> Json:
    """Return a row of the table of a data set as an example."""
    example: dict[str, Any] = {"inputs": {}, "outputs": {}}
    for column, value in row.items():
        if found := _EXAMPLE_COLUMN.fullmatch(column):
            example[found[1].removesuffix("s") + "s"][found[2]] = value
        else:
            example[column] = value
    return example


def _langsmith_thread(item: Json) -> str:
    extra = _decoded(item.get("extra"))
    inside = extra.get("metadata") if isinstance(extra, Mapping) else None
    for metadata in (inside, _decoded(item.get("metadata"))):
        if isinstance(metadata, Mapping) and (name := _key(metadata)):
            return name
    return str(item.get("thread_id") or item.get("trace_id") or item.get("id") or "")


def _read_langfuse(items: Sequence[Json]) -> Iterator[_Log]:
    """Read traces, observations or the items of a data set, grouped by session."""
    yield from _grouped(
        (
            _key(item) or _trace(item),
            item.get("input"),
            item.get("output") or item.get("expectedOutput"),
        )
        for item in _by_time(_conversational(items, "input"))
    )


def _conversational(items: Sequence[Json], field_name: str) -> list[Json]:
    """Return the entries of each trace that contain messages of the user.

    These are its roots. If no root has a message, these are its model calls. Of consecutive calls
    with equal messages only the last one is returned, because it has the answer.
    """
    traces: dict[str, list[Json]] = {}
    for number, item in enumerate(items):
        traces.setdefault(_trace(item) or f"#{number}", []).append(item)
    found: list[Json] = []
    for entries in traces.values():
        roots = [one for one in entries if _is_root(one)]
        with_words = [one for one in roots if _users_words(one.get(field_name))]
        calls: list[Json] = []
        if not with_words:
            for one in _by_time(entries):
                if str(one.get("run_type") or one.get("type")).upper() not in _MODEL_CALLS:
                    continue
                words = _users_words(one.get(field_name))
                if calls and words == _users_words(calls[-1].get(field_name)):
                    calls.pop()
                calls.append(one)
        found += with_words or calls or roots or entries
    return found


def _trace(item: Json) -> str:
    return next((str(item[name]) for name in _TRACE_KEYS if item.get(name)), "")


def _is_root(item: Json) -> bool:
    """Return True for entries without a parent; observations without that column have no root."""
    parents = [item[name] for name in _PARENT_KEYS if name in item]
    return not any(parents) if parents else "type" not in item


def _users_words(value: Any) -> list[str]:
    return [text for role, text in _speech(_decoded(value)) if role == "user"]


def _read_events(items: Sequence[Json]) -> Iterator[_Log]:
    """Read events of `acc run --json`, stored events, or the runs of `acc trace --json`."""
    logs: dict[str, _Log] = {}
    pending = _Log("session")
    for item in items:
        if item.get("type") == "result":  # the last line of a run names its session
            session = str(item.get("session_id") or "session")
            logs.setdefault(session, _Log(session)).speech += pending.speech
            pending = _Log("session")
        elif item.get("kind") == "message":
            text = "\n".join(str(part.get("text", "")) for part in item.get("parts") or ())
            pending.speech.append(("user" if item["author"] == "user" else "assistant", text))
        elif "kind" not in item and isinstance(item.get("message"), str):
            pending.speech.append(("user", item["message"]))
            pending.speech.append(("assistant", str(item.get("answer") or "")))
    yield from logs.values()
    yield pending


def _read_csv(items: Sequence[Json]) -> Iterator[_Log]:
    """Read rows with role and text, or rows with the words of the user and an answer."""
    columns = set(items[0])
    if {"scenario", "agent"} <= columns:  # a table of `acc export`: each query once
        first = items[0]["agent"]
        rows = [
            {**item, "conversation": f"{item['scenario']}-{item.get('seed', '')}"}
            for item in items
            if item["agent"] == first
        ]
    else:
        rows = [dict(item) for item in items]
    if "role" in columns:
        text = next((name for name in ("content", "text", "message") if name in columns), "")
        if not text:
            raise ValueError("a table with the column role needs the column content")
        yield from _grouped(
            (_key(row), [{"role": row["role"], "content": row[text] or ""}], None) for row in rows
        )
        return
    column = next((name for name in _TEXT_COLUMNS if name in columns), "")
    if not column:
        raise ValueError(
            "a table needs the columns role and content, or one of "
            f"{', '.join(_TEXT_COLUMNS)}; it has {', '.join(sorted(map(str, columns)))}"
        )
    answer = next((name for name in _ANSWER_COLUMNS if name in columns and name != column), "")
    yield from _grouped((_key(row), row[column] or "", row.get(answer)) for row in rows)


def _grouped(entries: Iterable[tuple[str, Any, Any]]) -> Iterator[_Log]:
    """Yield one log per key from requests and answers; entries without a key are one log."""
    logs: dict[str, _Log] = {}
    for key, request, answer in entries:
        log = logs.setdefault(key, _Log(key or "conversation"))
        decoded = _decoded(answer)
        answers = [text for role, text in _speech(decoded, _OUTPUT_KEYS) if role == "assistant"]
        log.add(list(_speech(_decoded(request))), answers[-1] if answers else "")
    yield from logs.values()


def _speech(
    value: Any, keys: Sequence[str] = _INPUT_KEYS, depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield role and text of the messages of users and assistants in a value.

    It is a text, a message, a pair of role and text, a list of these, or an object with one of
    these under a usual key or as its only text.
    """
    if depth > _MAX_NESTING:
        raise ValueError(f"messages are nested more than {_MAX_NESTING} levels deep")
    if isinstance(value, str):
        yield ("user" if keys is _INPUT_KEYS else "assistant"), value
    elif isinstance(value, Mapping) and (message := _message(value)) is not None:
        if message[0]:
            yield message
    elif isinstance(value, Mapping):
        name = next((key for key in keys if value.get(key)), "")
        inside = value[name] if name else _only_text(value)
        # The first argument of a traced function is the message; others are ids and settings.
        first = inside[:1] if name == "args" and isinstance(inside, list) else inside
        yield from _speech(_decoded(first), keys, depth + 1)
    elif isinstance(value, list | tuple) and (pair := _pair(value)) is not None:
        if pair[0]:
            yield pair
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _speech(one, keys, depth + 1)


def _only_text(value: Json) -> str | None:
    texts = [one for one in value.values() if isinstance(one, str) and one.strip()]
    return texts[0] if len(texts) == 1 else None


def _pair(value: Sequence[Any]) -> tuple[str, str] | None:
    """Return role and text of a message that is a list of both, None for other lists."""
    if len(value) != 2 or not all(isinstance(one, str) for one in value):
        return None
    role = value[0].casefold()
    if role not in _USER_ROLES | _ASSISTANT_ROLES | _OTHER_ROLES:
        return None
    return _role(role), value[1]


def _role(name: str) -> str:
    """Return the role of a message, "" for system and tools."""
    if name in _USER_ROLES:
        return "user"
    return "assistant" if name in _ASSISTANT_ROLES else ""


def _message(value: Json) -> tuple[str, str] | None:
    """Return role and text of a message; no role for system and tools, None for other objects.

    Messages of LangChain have a type, a class or `data` instead of a role.
    """
    inside = value.get("data") or value.get("kwargs")
    source = inside if isinstance(inside, Mapping) and "content" in inside else value
    role = str(value.get("role") or "").casefold()
    if not role and "content" in source:
        role = str(source.get("type") or value.get("type") or "").casefold()
        if role in ("", "constructor") and isinstance(value.get("id"), list):
            role = str(value["id"][-1]).casefold()
        role = role.removesuffix("chunk").removesuffix("message")
    # A message with tool calls may have no content. A part with text is not a message.
    has_content = any(name in source for name in ("content", "parts", "tool_calls"))
    if not role or role == "text" or not has_content:
        return None
    content = source.get("content", source.get("parts"))
    return ("" if _is_tool_result(content) else _role(role)), _text(content)


def _is_tool_result(content: Any) -> bool:
    """Return True for results of tools, which Anthropic sends in messages of the user."""
    parts = content if isinstance(content, list) else ()
    return bool(parts) and all(
        isinstance(part, Mapping) and part.get("type") == "tool_result" for part in parts
    )


def _text(content: Any) -> str:
    """Return the text of a content; another part is replaced by its type in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
        elif "text" in part:
            texts.append(str(part["text"]))
        elif part.get("type") == "text":
            texts.append(str(part.get("content") or ""))
        else:
            texts.append(f"[{part.get('type', 'attachment')}]")
    return "\n".join(texts)


def _key(item: Json) -> str:
    return next((str(item[name]) for name in _CONVERSATION_KEYS if item.get(name)), "")


def _by_time(items: Sequence[Json]) -> list[Json]:
    """Return the items in the order of their times, if all have one; exports have the newest first.

    Equal formats of times can be compared as texts.
    """
    name = next((name for name in _TIME_KEYS if all(item.get(name) for item in items)), "")
    return sorted(items, key=lambda item: str(item[name])) if name else list(items)


def _decoded(value: Any) -> Any:
    """Return the value of a text that is JSON, and other values as they are."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _object(value: Any) -> Json:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    return value


#: The readers of logs by the name of their format.
LOG_FORMATS: Mapping[str, Callable[[Sequence[Json]], Iterator[_Log]]] = {
    "openai": _read_openai,
    "langsmith": _read_langsmith,
    "langfuse": _read_langfuse,
    "events": _read_events,
    "csv": _read_csv,
}
