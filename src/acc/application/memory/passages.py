"""Messages of a turn as passages of the recall index, and back."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from acc.application.memory.messages import (
    CountTokens,
    content_text,
    count_tokens,
    part_text,
    shorten_message,
    unknown_outcome,
)
from acc.domain.language import normalize_text
from acc.domain.quotations import Origin
from acc.domain.segmentation import split_message
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import (
    RUNTIME_AUTHOR,
    ChatMessage,
    Part,
    ToolCall,
    ToolResult,
    text_part,
)
from acc.domain.value_objects.memory import ConversationTurn, Passage, SentencePlace, Source

#: Takes the place of a superseded sentence in a recalled message.
SUPERSEDED_MARKER = "[superseded]"
#: A copy of an empty message is created much faster than a message.
_MESSAGES = {
    Source.USER: ChatMessage(role="user", parts=()),
    Source.AGENT: ChatMessage(role="assistant", parts=()),
}
_SOURCES = {"user": Source.USER, "assistant": Source.AGENT, "tool": Source.TOOL}
_MAX_LENGTH = 8_000
#: The index contains files up to this size. Of larger ones it has the name.
_MAX_FILE_BYTES = 1_000_000


def passage_id(turn_id: int, number: int) -> str:
    """Return the id of a message of a turn; the user's message has the number 0."""
    return f"t{turn_id}.{number}"


def turn_passages(turn: ConversationTurn, count: CountTokens) -> list[Passage]:
    """Return the messages of a turn that can be recalled, with their size in tokens."""
    passages: list[Passage] = []
    calls: dict[str, ToolCall] = {}
    unknown = _unknown_calls(turn)
    for message in turn.messages:
        calls |= {call.id: call for call in message.calls}
        text = _passage_text(message, calls)
        if text.strip() and not message.calls:
            passage = Passage(
                id=passage_id(turn.turn_id, len(passages)),
                order=len(passages),
                turn_id=turn.turn_id,
                text=text[:_MAX_LENGTH],
                author=message.author,
                source=_SOURCES[message.role],
                at=turn.at,
                unknown_calls=() if message.role == "tool" else unknown,
            )
            passage = replace(passage, parts=tuple(_native_parts(message, passage.id, calls)))
            shown = passage_messages(passage)
            tokens = sum(count_tokens(shown_message, count) for shown_message in shown)
            passages.append(replace(passage, tokens=tokens))
    return passages


def _unknown_calls(turn: ConversationTurn) -> tuple[str, ...]:
    """Return the names of the tools that were started and whose outcome is unknown."""
    errors = [r for m in turn.messages if m.role == "tool" for r in m.results if r.is_error]
    names = [r.name for r in errors if r.content == {"error": unknown_outcome(r.name)}]
    return tuple(dict.fromkeys(names))


def _passage_text(message: ChatMessage, calls: Mapping[str, ToolCall]) -> str:
    """Return a message as the text of a passage; a tool result follows its arguments."""
    if message.role != "tool":
        return "\n".join(part_text(part) for part in message.parts if part.call is None)
    lines: list[str] = []
    for result in message.results:
        call = calls.get(result.call_id)
        lines.append(msgspec.json.encode(call.arguments if call else {}, enc_hook=str).decode())
        lines.append(content_text(result.content))
    return "\n".join(lines)


def _native_parts(
    message: ChatMessage, recalled: str, calls: Mapping[str, ToolCall]
) -> Iterator[Part]:
    """Yield the parts of a message that is not only text; a tool result follows its call."""
    if message.role != "tool":
        if any(part.text is None for part in message.parts):
            yield from map(_storable, message.parts)
        return
    for number, result in enumerate(message.results):
        call = calls.get(result.call_id)
        # Ids of earlier turns may occur again, and a recalled call is another message.
        call_id = f"recalled-{recalled}" + (f".{number}" if number else "")
        arguments = {} if call is None else call.arguments
        yield Part(call=ToolCall(id=call_id, name=result.name, arguments=arguments))
        files = tuple(map(_storable, result.files))
        content = result.content
        if len(text := content_text(content)) > _MAX_LENGTH:
            content = text[:_MAX_LENGTH]
        is_complete = all(file.text is None for file in files)
        if not is_complete:
            names = ", ".join(file.text for file in files if file.text)
            content = f"{content_text(content)} {names}"
        stored = tuple(file for file in files if file.text is None)
        yield Part(
            result=replace(result, call_id=call_id, content=content, files=stored),
        )


def _storable(part: Part) -> Part:
    if part.raw is None or len(part.raw) <= _MAX_FILE_BYTES:
        return part
    name = part.filename or "without a name"
    return Part(text=f"[file {name}, {part.media_type or 'no type'}, too large to be recalled]")


def passage_messages(passage: Passage, max_length: int = _MAX_LENGTH) -> tuple[ChatMessage, ...]:
    """Return a passage as the message it was; a tool result with its call.

    Texts and results that are longer than `max_length` are shortened.
    """
    if passage.source is not Source.TOOL:
        parts = passage.parts or text_part(passage.text)
        messages = [replace(_MESSAGES[passage.source], author=passage.author, parts=parts)]
    else:
        messages = []
        for part in passage.parts or _tool_parts(passage):
            role: Any
            role, author = ("tool", passage.author) if part.call is None else ("assistant",) * 2
            messages.append(ChatMessage(role=role, author=author, parts=(part,)))
    if len(passage.text) > max_length:
        messages = [shorten_message(message, max_length) for message in messages]
    # The result of the call may not be recalled, but whoever sees the request must know of it.
    for name in passage.unknown_calls:
        parts = text_part(f"[In this turn, {unknown_outcome(name)}.]")
        messages.append(ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=parts))
    return tuple(messages)


def user_sentences(passage: Passage) -> Iterator[tuple[str, int, int, tuple[int, ...]]]:
    """Yield the sentences of a user's message: text, place, and `Reading.words` if it is known."""
    if passage.sentences:
        normal = normalize_text(passage.text)
        for read in passage.sentences:
            text = " ".join(normal[read.start : read.end].split())
            yield text, read.start, read.end, read.words
        return
    for sentence in split_message(passage.text):
        if sentence.origin is Origin.DIRECT:
            yield sentence.text, sentence.start, sentence.end, ()


def without_files(passage: Passage) -> Passage:
    """Return a passage whose files are replaced by their names."""
    messages = (shorten_message(message, _MAX_LENGTH) for message in passage_messages(passage))
    parts = tuple(part for message in messages for part in message.parts)
    return replace(passage, parts=parts, tokens=0)


def without_sentences(passage: Passage, places: Iterable[SentencePlace]) -> Passage:
    """Return a passage without the sentences at these places, empty if no other remains.

    A marker takes the place of a sentence. Everything else stays as it was written.
    """
    # Sentences are found in the normalised text; most texts are equal to it or as long.
    normal = normalize_text(passage.text)
    text = passage.text if len(passage.text) == len(normal) else normal
    rest = text
    for _, start, end in sorted(places, reverse=True):
        text = text[:start] + SUPERSEDED_MARKER + text[end:]
        rest = rest[:start] + rest[end:]
    if not any(map(str.isalnum, rest)):
        return replace(passage, text="")
    others = tuple(part for part in passage.parts if part.text is None)
    parts = (*text_part(text), *others) if others else ()
    return replace(passage, text=text, parts=parts, tokens=0)


def _tool_parts(passage: Passage) -> tuple[Part, ...]:
    """Return call and result of a passage that an earlier version stored as text."""
    arguments, _, content = passage.text.partition("\n")
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.MsgspecError:
        given, content = {}, passage.text
    call = ToolCall(id=f"recalled-{passage.id}", name=passage.author, arguments=given)
    return Part(call=call), Part(
        result=ToolResult(call_id=call.id, name=call.name, content=content)
    )


def has_files(message: ChatMessage) -> bool:
    """Return True if a message contains files."""
    return has_file_parts(message.parts)


def has_file_parts(parts: Sequence[Part]) -> bool:
    """Return True if parts contain files."""
    return bool(parts) and any(
        part.raw is not None or (part.result is not None and part.result.files) for part in parts
    )


def day(at: float) -> int:
    """Return the number of the day of a time."""
    return int(at // 86_400)


def heading(at: float, previous: float = 0.0) -> str:
    """Return the heading of recalled messages of a day, short after one of an earlier day."""
    if not at:
        return "[Earlier]"
    date = datetime.fromtimestamp(at, UTC).date()
    is_same_year = previous and datetime.fromtimestamp(previous, UTC).year == date.year
    return f"[{date:%m-%d}]" if is_same_year else f"[{date.isoformat()}]"


def heading_message(text: str) -> ChatMessage:
    """Return a heading of recalled messages as a message of the runtime."""
    return ChatMessage(role="user", author=RUNTIME_AUTHOR, parts=text_part(text))
