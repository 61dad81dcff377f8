"""What is checked of a message before anything is done with it."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from acc.application.agents.base import BaseAgent
from acc.application.serving.limits import ServeLimits
from acc.domain.errors import ContentTypeNotSupported, InvalidInput
from acc.domain.value_objects.event import Part
from acc.domain.value_objects.task import Message, Role

TEXT = "text/plain"
JSON = "application/json"
_BYTES = "application/octet-stream"
_MOST_ID = 256
_MOST_MODES = 100


def input_modes(agent: BaseAgent) -> tuple[str, ...]:
    """Return the media types that an agent reads."""
    return tuple(agent.input_modes)


def output_modes(agent: BaseAgent) -> tuple[str, ...]:
    """Return the media types that an agent writes; structured answers are JSON first."""
    declared = tuple(agent.output_modes)
    if getattr(agent, "output_schema", None) is not None:
        return (JSON, *(mode for mode in declared if mode != JSON))
    return declared


def check_message(message: Message, limits: ServeLimits, modes: Sequence[str]) -> None:
    """Refuse a message that is not a client's, is too large, or that the agent cannot read."""
    if message.role is not Role.USER:
        raise InvalidInput("message.role: a client's message has the role of the user")
    ids = message.message_id, message.context_id, message.task_id
    if max(map(len, ids)) > _MOST_ID or not "".join(ids).isprintable():
        raise _not_an_id(ids)
    if not message.message_id.strip():
        raise InvalidInput("message.messageId: must not be empty")
    if not message.parts:
        raise InvalidInput("message.parts: at least one part")
    if len(message.parts) > limits.parts:
        raise InvalidInput(f"message.parts: at most {limits.parts} parts in one message")
    for part in message.parts:
        if part.text is not None and len(part.text) > limits.text:
            raise InvalidInput(f"message.parts: at most {limits.text} characters in one text")
        kind = media_type(part)
        if not reads(kind, modes):
            raise ContentTypeNotSupported(
                f"this agent does not read {kind}; it reads {', '.join(modes)}"
            )


def _not_an_id(ids: tuple[str, str, str]) -> InvalidInput:
    named = zip(("messageId", "contextId", "taskId"), ids, strict=True)
    name = next(name for name, held in named if len(held) > _MOST_ID or not held.isprintable())
    return InvalidInput(f"message.{name}: at most {_MOST_ID} printable characters")


def media_type(part: Part) -> str:
    """Return the media type of a part, without its parameters."""
    told = part.media_type and part.media_type.partition(";")[0].strip().lower()
    if told:
        return told
    if part.text is not None:
        return TEXT
    return _BYTES if part.raw is not None or part.url is not None else JSON


def reads(kind: str, modes: Sequence[str]) -> bool:
    """Tell whether one of the modes covers a media type; who reads plain text reads any text."""
    return kind in modes or any(
        fnmatchcase(kind, mode) or (mode == TEXT and kind.startswith("text/")) for mode in modes
    )


def wants_data(accepted: Sequence[str], modes: Sequence[str]) -> bool:
    """Tell whether the answer is to be data, by what the client takes and the agent writes."""
    if not accepted:
        return modes[:1] == (JSON,)
    if len(accepted) > _MOST_MODES or any(len(wanted) > _MOST_ID for wanted in accepted):
        raise InvalidInput(
            f"acceptedOutputModes: at most {_MOST_MODES}, each of at most {_MOST_ID} characters"
        )
    for wanted in accepted:
        pattern = wanted.partition(";")[0].strip().lower()
        if pattern in ("text", "*"):  # what older clients say
            pattern = "text/*" if pattern == "text" else "*/*"
        for mode in modes:
            if fnmatchcase(mode, pattern) or fnmatchcase(pattern, mode):
                return mode == JSON
    raise ContentTypeNotSupported(
        f"this agent writes {', '.join(modes)}, and the client takes only {', '.join(accepted)}"
    )
