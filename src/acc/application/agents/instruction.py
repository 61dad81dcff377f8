"""Instructions with placeholders: `{key}`, `{user:key}`, `{key?}` and `{artifact.name}`."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from acc.application.agents.base import called
from acc.application.context import RunContext
from acc.domain.errors import InvalidInput, StateMissing
from acc.domain.value_objects.session import StoredArtifact

#: A text, or a function from the context to one.
Instruction = str | Callable[[RunContext], Any]

_PLACEHOLDER = re.compile(
    r"\{\{|\}\}|\{(?:artifact\.([^{}?]+)|((?:(?:app|user|temp):)?[^\W\d]\w*))(\?)?\}"
)


def placeholders(instruction: Instruction) -> tuple[tuple[str, bool], ...]:
    """Return the state keys that an instruction asks for, and whether each may be absent."""
    if not isinstance(instruction, str) or "{" not in instruction:
        return ()
    found = _PLACEHOLDER.finditer(instruction)
    return tuple((match[2], bool(match[3])) for match in found if match[2])


async def resolve(ctx: RunContext, instruction: Instruction) -> str:
    """Return the instruction with its placeholders filled from state and artifacts."""
    if not isinstance(instruction, str):
        found = await called(instruction, ctx)
        if not isinstance(found, str):
            kind = type(found).__name__
            raise TypeError(f"its instruction is a function, which returned a {kind} and no text")
        return found
    pieces: list[str] = []
    end = opened = 0
    for match in _PLACEHOLDER.finditer(instruction):
        pieces.append(instruction[end : match.start()])
        end = match.end()
        if match[0] == "{{":
            opened += 1
            pieces.append("{")
        elif match[0] == "}}":
            # What nobody opened is no escape: two things end here, as in JSON.
            pieces.append("}" if opened else "}}")
            opened = max(opened - 1, 0)
        else:
            pieces.append(await _filled(ctx, match))
    pieces.append(instruction[end:])
    return "".join(pieces)


async def _filled(ctx: RunContext, match: re.Match[str]) -> str:
    if match[1] is not None:
        stored = await ctx.artifacts.load(match[1])
        if stored is not None:
            return _text_of(stored)
        if match[3]:
            return ""
        raise StateMissing(ctx.agent.name, f"artifact.{match[1]}", await ctx.artifacts.names())
    key = match[2]
    if key not in ctx.state:
        if match[3]:
            return ""
        raise StateMissing(ctx.agent.name, key, list(ctx.state))
    value = ctx.state[key]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text_of(stored: StoredArtifact) -> str:
    try:
        return stored.text
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{{artifact.{stored.name}}} in an instruction stands for text, and the file is "
            f"{stored.media_type} that is none"
        ) from None
