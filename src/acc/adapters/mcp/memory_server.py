"""ACC memory as an MCP server, with the official SDK."""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types
from mcp import MCPError

from acc.adapters.mcp.server import Context, ToolServer
from acc.application.use_cases.serve_memory import DEFAULT_CONVERSATION, ServeMemoryUseCase
from acc.domain.errors import AccError

_CONVERSATION = {
    "type": "string",
    "description": "The name of the conversation, so that several do not mix.",
    "default": DEFAULT_CONVERSATION,
}
_DESCRIPTIONS = {
    "remember": "Add what the user said to the memory, word by word. Rules and facts in it can "
    "replace or lift earlier ones. Returns how each sentence was read.",
    "recall": "Return what the memory knows for a question: active rules, the state, and the "
    "passages of the conversation that match. The size is bounded.",
    "rules": "Return the rules of the user that are active now.",
    "explain": "Return when a statement was made, how it was read, and when and why it was kept, "
    "replaced, rejected or dropped.",
}
#: The text argument of each tool; tools without one have None.
_ARGUMENTS = {"remember": "text", "recall": "query", "rules": None, "explain": "query"}


class MemoryMcpServer(ToolServer):
    """Serves a memory as four tools over MCP."""

    def __init__(self, use_case: ServeMemoryUseCase, *, version: str) -> None:
        super().__init__(name="acc-memory", version=version, aclose=use_case.aclose)
        self._tools: Mapping[str, Callable[..., Awaitable[dict[str, Any]]]] = {
            "remember": use_case.remember,
            "recall": use_case.recall,
            "rules": use_case.rules,
            "explain": use_case.explain,
        }

    async def _list_tools(
        self, _: Context, __: mcp_types.PaginatedRequestParams | None
    ) -> mcp_types.ListToolsResult:
        tools = [
            mcp_types.Tool(
                name=name,
                description=_DESCRIPTIONS[name],
                input_schema=_input_schema(argument),
                annotations=mcp_types.ToolAnnotations(
                    read_only_hint=name != "remember", open_world_hint=False
                ),
            )
            for name, argument in _ARGUMENTS.items()
        ]
        return mcp_types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, _: Context, params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        tool = self._tools.get(params.name)
        if tool is None:
            names = ", ".join(self._tools)
            message = f"there is no tool {params.name!r}; the tools are {names}"
            raise MCPError(mcp_types.INVALID_PARAMS, message)
        given = dict(params.arguments or {})
        argument = _ARGUMENTS[params.name]
        expected = {argument, "conversation"} - {None}
        if unknown := sorted(set(given) - expected):
            return _result({"error": f"unknown argument {unknown[0]!r}"}, is_error=True)
        if argument is not None and argument not in given:
            return _result({"error": f"the argument {argument!r} is missing"}, is_error=True)
        try:
            return _result(await tool(**given))
        except AccError as error:
            return _result({"error": str(error)}, is_error=True)


def _input_schema(argument: str | None) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    if argument is not None:
        properties[argument] = {"type": "string", "minLength": 1}
    properties["conversation"] = _CONVERSATION
    required = [] if argument is None else [argument]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _result(content: dict[str, Any], *, is_error: bool = False) -> mcp_types.CallToolResult:
    text = content["error"] if is_error else json.dumps(content, ensure_ascii=False, indent=1)
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(text=text)], structured_content=content, is_error=is_error
    )
