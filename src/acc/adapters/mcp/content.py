"""What an MCP server says, as ours: bounded, and checked as far as it must be."""

import logging
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types
import msgspec
from mcp_types.methods import parse_server_result

from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.endpoint import McpToolInfo, McpToolResult

log = logging.getLogger("acc.mcp")
MOST_TOOLS = 500
_MOST_SCHEMA = 100_000
_MOST_WORDS = 8_000
_MOST_FAULT = 500
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def read_tools(listed: Iterable[mcp_types.Tool]) -> tuple[McpToolInfo, ...]:
    """Return tools as the server describes them, without those that no model could be shown."""
    found: dict[str, McpToolInfo] = {}
    for tool in listed:
        schema = tool.input_schema or _ANY_OBJECT
        if not tool.name.strip() or len(msgspec.json.encode(schema)) > _MOST_SCHEMA:
            log.warning("a tool of an MCP server is left out: no name, or too large a schema")
            continue
        hints = tool.annotations
        described = tool.description or tool.title or ""
        found.setdefault(
            tool.name,
            McpToolInfo(
                name=tool.name,
                description=described[:_MOST_WORDS],
                schema={**_ANY_OBJECT, **schema},
                destructive=None if hints is None else hints.destructive_hint,
                read_only=None if hints is None else hints.read_only_hint,
            ),
        )
    return tuple(found.values())


def drop_malformed_tools(result: dict[str, Any], version: str) -> None:
    """Leave those tools out of a listing for which the SDK would refuse all the others too."""
    if _is_listing(result, version):
        return
    tools = result["tools"]
    result["tools"] = [tool for tool in tools if _is_listing({**result, "tools": [tool]}, version)]
    log.warning(
        "%d malformed tools of an MCP server are left out", len(tools) - len(result["tools"])
    )


def _is_listing(result: dict[str, Any], version: str) -> bool:
    try:
        parse_server_result("tools/list", version, result)
    except (ValueError, KeyError, RecursionError):
        return False
    return True


def read_answer(result: mcp_types.CallToolResult) -> McpToolResult:
    """Return what a call gave."""
    return McpToolResult(
        parts=tuple(_part(block) for block in result.content),
        structured=result.structured_content,
        is_error=bool(result.is_error),
    )


def _part(block: mcp_types.ContentBlock) -> Part:
    if isinstance(block, mcp_types.TextContent):
        return Part(text=block.text)
    if isinstance(block, mcp_types.ImageContent | mcp_types.AudioContent):
        return Part(raw=_bytes(block.data), media_type=block.mime_type)
    if isinstance(block, mcp_types.ResourceLink):
        return Part(url=str(block.uri), media_type=block.mime_type or "", filename=block.name)
    held = block.resource
    name = str(held.uri).rpartition("/")[2]
    if isinstance(held, mcp_types.TextResourceContents):
        return Part(text=held.text, media_type=held.mime_type or "", filename=name)
    return Part(raw=_bytes(held.blob), media_type=held.mime_type or "", filename=name)


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NoBase64, ValueError):
        raise RemoteFailed("the server sent a file that is no base64") from None
