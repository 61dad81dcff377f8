"""Instructions with placeholders: `{key}`, `{user:key}`, `{key?}` and `{artifact.name}`."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from acc.application.agents.base import called
from acc.application.context import RunContext
from acc.domain.errors import StateMissing

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
        return str(await called(instruction, ctx))
    pieces: list[str] = []
    end = 0
    for match in _PLACEHOLDER.finditer(instruction):
        pieces.append(instruction[end : match.start()])
        pieces.append(await _filled(ctx, match))
        end = match.end()
    pieces.append(instruction[end:])
    return "".join(pieces)


async def _filled(ctx: RunContext, match: re.Match[str]) -> str:
    if match[0] in ("{{", "}}"):
        return match[0][0]
    if match[1] is not None:
        stored = await ctx.artifacts.load(match[1])
        if stored is not None:
            return stored.text
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
