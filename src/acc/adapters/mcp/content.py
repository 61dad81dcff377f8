"""Conversion of tools and results of an MCP server to value objects, with size limits."""

import logging
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types
import msgspec
from mcp_types.methods import parse_server_result

from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import McpToolInfo, McpToolResult

log = logging.getLogger("acc.mcp")
MAX_TOOLS = 500
MAX_SCHEMA_BYTES = 100_000
MAX_DESCRIPTION_LENGTH = 8_000
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def convert_tools(tools: Iterable[mcp_types.Tool]) -> tuple[McpToolInfo, ...]:
    """Return the tools of a server without those that a model cannot use."""
    converted: dict[str, McpToolInfo] = {}
    for tool in tools:
        schema = tool.input_schema or _ANY_OBJECT
        if not tool.name.strip() or len(msgspec.json.encode(schema)) > MAX_SCHEMA_BYTES:
            log.warning(
                "a tool of an MCP server is ignored: it has no name, or its schema is too large"
            )
            continue
        hints = tool.annotations
        description = tool.description or tool.title or ""
        converted.setdefault(
            tool.name,
            McpToolInfo(
                name=tool.name,
                description=description[:MAX_DESCRIPTION_LENGTH],
                schema={**_ANY_OBJECT, **schema},
                destructive=None if hints is None else hints.destructive_hint,
                read_only=None if hints is None else hints.read_only_hint,
            ),
        )
    return tuple(converted.values())


def drop_malformed_tools(result: dict[str, Any], version: str) -> None:
    """Remove malformed tools from a list, because the SDK would reject the whole list."""
    if _is_valid_list(result, version):
        return
    tools = result["tools"]
    result["tools"] = [
        tool for tool in tools if _is_valid_list({**result, "tools": [tool]}, version)
    ]
    log.warning(
        "%d tools of an MCP server are ignored, because their descriptions are invalid",
        len(tools) - len(result["tools"]),
    )


def convert_result(result: mcp_types.CallToolResult) -> McpToolResult:
    """Return the result of a tool call."""
    return McpToolResult(
        parts=tuple(_convert_block(block) for block in result.content),
        structured=result.structured_content,
        is_error=bool(result.is_error),
    )


def _is_valid_list(result: dict[str, Any], version: str) -> bool:
    try:
        parse_server_result("tools/list", version, result)
    except (ValueError, KeyError, RecursionError):
        return False
    return True


def _convert_block(block: mcp_types.ContentBlock) -> Part:
    if isinstance(block, mcp_types.TextContent):
        return Part(text=block.text)
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return Part(raw=_decode_base64(block.data), media_type=block.mime_type)
    if isinstance(block, mcp_types.ResourceLink):
        return Part(url=str(block.uri), media_type=block.mime_type or "", filename=block.name)
    resource = block.resource
    name = str(resource.uri).rpartition("/")[2]
    media_type = resource.mime_type or ""
    if isinstance(resource, mcp_types.TextResourceContents):
        return Part(text=resource.text, media_type=media_type, filename=name)
    return Part(raw=_decode_base64(resource.blob), media_type=media_type, filename=name)


def _decode_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise RemoteFailed("the server sent a file with invalid base64") from None
