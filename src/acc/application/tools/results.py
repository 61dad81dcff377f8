"""Results of tool calls as JSON data: values, errors and denials."""

from typing import Any

import msgspec

from acc.application.memory.messages import part_text
from acc.application.runtime.json_types import encode_model
from acc.application.runtime.state import to_json_data
from acc.domain.errors import StateNotStorable
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, ToolCall, ToolResult

MAX_ERROR_LENGTH = 2_000


def make_result(call: ToolCall, content: Any) -> ToolResult:
    """Return content as a result; content that is not JSON data becomes an error.

    Files that a tool returns, alone or in a list, are part of the result.
    """
    files: tuple[Part, ...] = ()
    try:
        if isinstance(content, Part | list | tuple):
            content, files = _split_files(content)
        if not isinstance(content, str | int | bool | None):
            content = msgspec.to_builtins(content, enc_hook=encode_model)
        content = to_json_data(content, call.name)
        msgspec.json.encode(content)  # rejects unpaired surrogates, which cannot be stored
    except (TypeError, ValueError, StateNotStorable, RecursionError) as error:
        return error_result(call, f"{call.name} returned a value that cannot be stored: {error}")
    return ToolResult(call_id=call.id, name=call.name, content=content, files=files)


def _split_files(content: Any) -> tuple[Any, tuple[Part, ...]]:
    """Return what a tool returned without its files, and the files."""
    items = [content] if isinstance(content, Part) else list(content)
    if not any(isinstance(item, Part) for item in items):
        return content, ()
    files = tuple(i for i in items if isinstance(i, Part) and (i.raw is not None or i.url))
    others = [part_text(i) if isinstance(i, Part) else i for i in items if i not in files]
    names = [f"file {file.filename or file.media_type or 'without a name'}" for file in files]
    return others[0] if len(others) == 1 else others or ", ".join(names), files


def with_edit(result: ToolResult, answer: InputAnswer | None) -> ToolResult:
    """Return a result with the arguments that a person entered, if there are any."""
    if answer is None or answer.arguments is None:
        return result
    return replace(result, edited_arguments=answer.arguments)


def error_result(call: ToolCall, text: str) -> ToolResult:
    """Return an error that the model receives."""
    content = {"error": replace_surrogates(text[:MAX_ERROR_LENGTH])}
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=True)


def denied_result(call: ToolCall, answer: InputAnswer) -> ToolResult:
    """Return the result of a call that a person did not approve."""
    if answer.verdict is ApprovalDecision.EXPIRED:
        content = {"status": "expired", "reason": answer.reason or "the approval expired"}
    else:
        content = {"status": "denied", "reason": answer.reason or "a person denied this call"}
    return ToolResult(call_id=call.id, name=call.name, content=content, is_error=True)
