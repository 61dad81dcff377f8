"""Events as they are shown on pages: plain text, never markup."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus

#: Kinds that are part of the conversation; the others are only in the list of events.
CONVERSATION = (
    EventKind.MESSAGE,
    EventKind.TOOL_CALLS,
    EventKind.TOOL_RESULT,
    EventKind.TRANSFER,
    EventKind.ROUTE,
    EventKind.DELEGATION,
    EventKind.INPUT_REQUIRED,
    EventKind.INPUT,
    EventKind.ARTIFACT,
    EventKind.FAULT,
    EventKind.ENDED,
    EventKind.REWOUND,
)
_KINDS_WITH_DETAIL = frozenset(
    {
        EventKind.FAULT,
        EventKind.FLOW,
        EventKind.MEMORY,
        EventKind.MODEL_REQUEST,
        EventKind.STATE,
    }
)
#: What browsers show; other files are downloads.
IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
MAX_SHOWN_CHARACTERS = 1_200
MAX_LISTED_CHARACTERS = 160
#: Control characters and those that hide or reorder text.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)


def visible(text: str) -> str:
    """Return text in which hidden characters are replaced by their code point, as [U+202E]."""
    plain = text.replace("\r\n", "\n")
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", plain)


def as_json(value: Any, *, indent: int = 2) -> str:
    """Return data as JSON for people."""
    return msgspec.json.format(msgspec.json.encode(value), indent=indent).decode()


def as_text(value: Any) -> str:
    """Return a string as it is and other data as JSON."""
    return value if isinstance(value, str) else as_json(value)


class Block(NamedTuple):
    """A labelled piece of an event; `is_clipped` if the page shows only its beginning.

    `part` is the number of a part with a file, from 1.
    """

    label: str
    text: str
    is_clipped: bool = False
    is_code: bool = False
    part: int = 0
    is_image: bool = False


class EventView(NamedTuple):
    """An event on a page; `turn` if it begins one."""

    seq: int
    kind: str
    author: str
    at: float
    style: str
    title: str
    blocks: tuple[Block, ...]
    turn: int = 0


def view_event(
    event: Event, *, limit: int | None = MAX_SHOWN_CHARACTERS, with_state: bool = True
) -> EventView:
    """Return an event for a page, with texts of at most `limit` characters.

    With `with_state`, the changes of the state are part of it.
    """
    pieces = _blocks(event) + (_state_blocks(event) if with_state else [])
    blocks = [_clip(block, limit) for block in pieces if block.text]
    return EventView(
        seq=event.seq,
        kind=event.kind.value,
        author=event.author,
        at=event.at,
        style=_style(event),
        title=visible(_title(event)),
        blocks=tuple(blocks),
        turn=turn_of(event),
    )


def turn_of(event: Event) -> int:
    """Return the number of the turn that a message of the user begins, 0 for other events."""
    turn = event.detail.get("turn") if event.author == "user" else None
    return turn if isinstance(turn, int) else 0


def summary(event: Event) -> str:
    """Return an event in one line."""
    view = view_event(event, limit=MAX_LISTED_CHARACTERS)
    texts = [text for block in view.blocks for text in (block.label, block.text)]
    words = " ".join([view.title, *texts]).split()
    return shorten(" ".join(words))


def shorten(text: str) -> str:
    """Return the beginning of a text for a list."""
    return f"{text[:MAX_LISTED_CHARACTERS]}…" if len(text) > MAX_LISTED_CHARACTERS else text


def is_in_conversation(event: Event, messages: Sequence[Event]) -> bool:
    """Return True if an event is part of the conversation.

    The end of a run is, if it failed or if its answer is not one of the messages of the run.
    """
    if event.kind is not EventKind.ENDED:
        return event.kind in CONVERSATION
    if event.status is RunStatus.INPUT_REQUIRED:
        return False
    if event.status is not RunStatus.COMPLETED:
        return True
    return bool(event.text) and not any(m.text and m.text in event.text for m in messages)


def _clip(block: Block, limit: int | None) -> Block:
    text = visible(block.text if limit is None else block.text[: limit + 1])
    if limit is None or len(block.text) <= limit:
        return block._replace(text=text)
    return block._replace(text=visible(block.text[:limit]) + "…", is_clipped=True)


def _style(event: Event) -> str:
    if event.kind is EventKind.MESSAGE:
        return "user" if event.author == "user" else "agent"
    if event.kind is EventKind.ENDED:
        return "agent" if event.status is RunStatus.COMPLETED else "problem"
    if event.kind is EventKind.FAULT or (event.result is not None and event.result.is_error):
        return "problem"
    return "ask" if event.kind in (EventKind.INPUT_REQUIRED, EventKind.INPUT) else "step"


def _title(event: Event) -> str:
    detail = event.detail
    match event.kind:
        case EventKind.TRANSFER:
            return f"→ {event.actions.transfer_to_agent}"
        case EventKind.ARTIFACT:
            version = detail.get("version")
            return f"{detail.get('name')}" + (f" ({version})" if version else "")
        case EventKind.ENDED:
            return "" if event.status in (None, RunStatus.COMPLETED) else str(event.status)
        case EventKind.ROUTE | EventKind.DELEGATION:
            target = detail.get("to") or detail.get("delegated_intent") or ""
            return f"→ {target if isinstance(target, str) else ', '.join(map(str, target))}"
    if event.result is not None:
        return event.result.name
    if event.request is not None:
        return event.request.message
    return "" if event.answer is None else event.answer.verdict.value


def _blocks(event: Event) -> list[Block]:
    if event.kind is EventKind.ENDED and event.text == event.status:
        return []  # the title says it
    blocks = [_part(part, number) for number, part in enumerate(event.parts, 1)]
    if event.request is not None and (event.request.tool or event.request.arguments):
        code = as_json(event.request.arguments)
        blocks.append(Block(event.request.tool, code, is_code=True))
    if event.answer is not None:
        answer = event.answer
        blocks.append(Block("reason", answer.reason))
        if answer.value is not None:
            blocks.append(Block("value", as_text(answer.value)))
        if answer.arguments is not None:
            blocks.append(Block("arguments", as_json(answer.arguments), is_code=True))
    if event.kind in _KINDS_WITH_DETAIL and event.detail:
        shown = {k: v for k, v in event.detail.items() if k != "snapshot"}
        blocks.append(Block("detail", as_json(shown), is_code=True))
    return blocks


def _state_blocks(event: Event) -> list[Block]:
    changes = {**event.actions.state_delta, **event.actions.branch_delta}
    removed = (*event.actions.state_removed, *event.actions.branch_removed)
    blocks = []
    if changes:
        blocks.append(Block("state", as_json(changes), is_code=True))
    if removed:
        blocks.append(Block("removed", ", ".join(removed)))
    return blocks


def _part(part: Part, number: int) -> Block:
    if part.text is not None:
        return Block("", part.text)
    if part.call is not None:
        return Block(part.call.name, as_json(part.call.arguments), is_code=True)
    if part.result is not None:
        content = part.result.content
        return Block("", as_text(content), is_code=not isinstance(content, str))
    if part.raw is not None:
        name = part.filename or part.media_type or "file"
        text = f"{len(part.raw):,} bytes, {part.media_type or 'unknown type'}"
        return Block(name, text, part=number, is_image=part.media_type in IMAGE_TYPES)
    if part.url is not None:
        return Block(part.filename or "URL", part.url)
    return Block("data", as_json(part.data), is_code=True)
