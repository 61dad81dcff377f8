"""Instructions of agents: texts with placeholders, or functions of the context."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from acc.application.agents.callbacks import maybe_await
from acc.application.runtime.context import RunContext
from acc.application.runtime.type_variables import DepsT, MaybeAwaitable
from acc.domain.errors import InvalidInput, StateMissing

#: A text, or a function from the context to a text.
Instruction: TypeAlias = str | Callable[[RunContext[DepsT]], MaybeAwaitable[str]]
_PLACEHOLDER = re.compile(
    r"\{\{|\}\}|\{(?:artifact\.([^{}?]+)|((?:(?:app|user|temp):)?[^\W\d]\w*))(\?)?\}"
)


def placeholders(instruction: object) -> tuple[tuple[str, bool], ...]:
    """Return the state keys of an instruction, each with True if it is optional."""
    if not isinstance(instruction, str) or "{" not in instruction:
        return ()
    matches = _PLACEHOLDER.finditer(instruction)
    return tuple((match[2], bool(match[3])) for match in matches if match[2])


async def render_instruction(ctx: RunContext, instruction: Instruction[Any]) -> str:
    """Return the instruction with its placeholders replaced from state and artifacts."""
    if not isinstance(instruction, str):
        text = await maybe_await(instruction, ctx)
        if not isinstance(text, str):
            raise TypeError(
                f"the instruction function returned {type(text).__name__}; expected str"
            )
        return text
    pieces: list[str] = []
    end = open_braces = 0
    for match in _PLACEHOLDER.finditer(instruction):
        pieces.append(instruction[end : match.start()])
        end = match.end()
        if match[0] == "{{":
            open_braces += 1
            pieces.append("{")
        elif match[0] == "}}":
            # Without a preceding "{{" it is not an escape but the end of two objects, as in JSON.
            pieces.append("}" if open_braces else "}}")
            open_braces = max(open_braces - 1, 0)
        else:
            pieces.append(await _placeholder_value(ctx, match))
    pieces.append(instruction[end:])
    return "".join(pieces)


async def _placeholder_value(ctx: RunContext, match: re.Match[str]) -> str:
    artifact_name, key, is_optional = match[1], match[2], bool(match[3])
    if artifact_name is not None:
        artifact = await ctx.artifacts.load(artifact_name)
        if artifact is not None:
            try:
                return artifact.text
            except UnicodeDecodeError:
                raise InvalidInput(
                    f"placeholder {{artifact.{artifact_name}}} must refer to a text; the artifact "
                    f"has the media type {artifact.media_type}"
                ) from None
        if is_optional:
            return ""
        raise StateMissing(ctx.agent.name, f"artifact.{artifact_name}", await ctx.artifacts.names())
    if key not in ctx.state:
        if is_optional:
            return ""
        raise StateMissing(ctx.agent.name, key, list(ctx.state))
    value = ctx.state[key]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
