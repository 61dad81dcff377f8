"""Results of tool calls: values, errors, denials, stubs, and the tool that reads earlier ones."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.application.agents.callbacks import maybe_await
from acc.application.memory.messages import READ_RESULT_TOOL, content_text, part_text
from acc.application.runtime.context import RunContext
from acc.application.runtime.json_types import encode_model
from acc.application.runtime.state import to_json_data
from acc.application.tools.function_tool import display_arguments, exit_loop
from acc.application.tools.tool import BaseTool, ToolContext
from acc.domain.errors import StateNotStorable
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer
from acc.domain.value_objects.base import JsonData, replace
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.domain.value_objects.flow import ToolLabels
from acc.ports.outbound.model_ports import ToolSpec

MAX_ERROR_LENGTH = 2_000


_DEFAULT_LENGTH = 8_000
_MAX_LENGTH = 16_000


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


def is_stubbed(scope: RunContext, tool: BaseTool) -> bool:
    """Return True if a tool is replaced in this run.

    Tools of the runtime itself, such as transfers, are not replaced in debug mode.
    """
    config = scope.config
    if tool.name in config.stubs:
        return True
    return config.debug and not (tool.replayable or tool.runs_in_debug or tool is exit_loop)


async def stub_of(scope: RunContext, tool: BaseTool, arguments: Mapping[str, Any]) -> object:
    """Return what replaces the result of a tool that is stubbed.

    A stub that is a text with JSON is decoded; a function gets the arguments.
    """
    stub = scope.config.stubs.get(tool.name)
    if stub is not None:
        return _decode(stub) if isinstance(stub, str) else await maybe_await(stub, arguments)
    shown = msgspec.json.encode(display_arguments(tool, arguments), enc_hook=str).decode()
    return f"[debug] {tool.name} would be called with {shown}"


def _decode(text: str) -> object:
    if not text.startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    offset: int = 0
    length: int = _DEFAULT_LENGTH


class ReadResultTool(BaseTool):
    """Returns a section of an earlier tool result; only results that were shown can be read."""

    name = READ_RESULT_TOOL
    description = (
        "Return characters of an earlier tool result that is shown shortened. `number` is in its "
        "note; `offset` is the first character."
    )
    idempotent = True
    labels = ToolLabels(effect="none")
    runs_in_debug = True

    def __init__(self, numbers: frozenset[int]) -> None:
        self._numbers = numbers

    @property
    def spec(self) -> ToolSpec:
        """Return the name, description and schema that the model receives."""
        integer = {"type": "integer", "minimum": 0}
        return ToolSpec(
            name=self.name,
            description=self.description,
            parameters={
                "type": "object",
                "properties": {
                    "number": integer,
                    "offset": {**integer, "default": 0},
                    "length": {**integer, "default": _DEFAULT_LENGTH, "maximum": _MAX_LENGTH},
                },
                "required": ["number"],
            },
        )

    def validate(self, arguments: Mapping[str, JsonData]) -> dict[str, JsonData]:
        """Return the arguments, or raise ValueError if the result cannot be read."""
        given = msgspec.convert(arguments, _Arguments)
        if given.number not in self._numbers:
            known = ", ".join(map(str, sorted(self._numbers))) or "none"
            raise ValueError(f"there is no result {given.number}; shortened results: {known}")
        if given.offset < 0 or not 0 < given.length <= _MAX_LENGTH:
            raise ValueError(f"offset must be >= 0 and length between 1 and {_MAX_LENGTH}")
        return {"number": given.number, "offset": given.offset, "length": given.length}

    async def invoke(self, arguments: Mapping[str, JsonData], ctx: ToolContext) -> object:
        """Read the result from the recorded events."""
        context = ctx.run_context
        number, offset = arguments["number"], arguments["offset"]
        key = context.run.request.key
        events = await context.services.sessions.events(key, after=number - 1, limit=1)
        if not events or events[0].seq != number or events[0].result is None:
            raise ValueError(f"result {number} is no longer stored")
        text = content_text(events[0].result.content)
        end = offset + arguments["length"]
        return {"text": text[offset:end], "next_offset": end if end < len(text) else None}


def reported_result(call: ToolCall, answer: InputAnswer) -> ToolResult:
    """Return the reported outcome of a long-running tool."""
    if answer.verdict is not ApprovalDecision.APPROVE:
        return denied_result(call, answer)
    return make_result(call, answer.value)
