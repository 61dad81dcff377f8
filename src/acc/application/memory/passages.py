"""Messages of a turn as passages of the recall index, and back."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.application.memory.messages import content_text, part_text, shorten_text
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult, text_part
from acc.domain.value_objects.memory import ConversationTurn, Passage, Source

_SOURCES = {"user": Source.USER, "assistant": Source.AGENT, "tool": Source.TOOL}
_MAX_LENGTH = 8_000


def passage_id(turn_id: int, number: int) -> str:
    """Return the id of a message of a turn; the user's message has the number 0."""
    return f"t{turn_id}.{number}"


def turn_passages(turn: ConversationTurn) -> list[Passage]:
    """Return the messages of a turn that can be recalled."""
    passages: list[Passage] = []
    calls: dict[str, ToolCall] = {}
    for message in turn.messages:
        calls |= {call.id: call for call in message.calls}
        text = _passage_text(message, calls)
        if text.strip() and not message.calls:
            passages.append(
                Passage(
                    id=passage_id(turn.turn_id, len(passages)),
                    order=len(passages),
                    turn_id=turn.turn_id,
                    text=text[:_MAX_LENGTH],
                    author=message.author,
                    source=_SOURCES[message.role],
                    at=turn.at,
                )
            )
    return passages


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


def passage_messages(passage: Passage, max_length: int = _MAX_LENGTH) -> tuple[ChatMessage, ...]:
    """Return a passage as the message it was; a tool result with its call."""
    if passage.source is not Source.TOOL:
        role: Any = "user" if passage.source is Source.USER else "assistant"
        parts = text_part(shorten_text(passage.text, max_length))
        return (ChatMessage(role=role, author=passage.author, parts=parts),)
    arguments, _, content = passage.text.partition("\n")
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any])
    except msgspec.MsgspecError:
        given, content = {}, passage.text
    call = ToolCall(id=f"recalled-{passage.id}", name=passage.author, arguments=given)
    result = ToolResult(call_id=call.id, name=call.name, content=shorten_text(content, max_length))
    return (
        ChatMessage(role="assistant", author="assistant", parts=(Part(call=call),)),
        ChatMessage(role="tool", author=call.name, parts=(Part(result=result),)),
    )
