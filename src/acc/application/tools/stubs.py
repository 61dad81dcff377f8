"""Results that replace those of tools in a run: `RunConfig.stubs` and debug mode."""

from collections.abc import Mapping
from typing import Any

import msgspec

from acc.application.agents.callbacks import maybe_await
from acc.application.runtime.context import RunContext
from acc.application.tools.function_tool import display_arguments, exit_loop
from acc.application.tools.tool import BaseTool


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
