"""Conversion of MCP tools and results, and the environment of servers."""

from base64 import b64encode
from typing import Any

import mcp_types
import pytest

from acc.adapters.mcp.client import convert_result, convert_tools
from acc.adapters.mcp.transports import minimal_environment
from acc.bootstrap.mcp import LazyMcpConnections
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part


def mcp_tool(name: str, **fields: Any) -> mcp_types.Tool:
    return mcp_types.Tool(name=name, input_schema=fields.pop("schema", {}), **fields)


def test_unusable_tools_are_ignored() -> None:
    huge = {"type": "object", "description": "x" * 200_000}
    found = convert_tools(
        [
            mcp_tool("good", description="y" * 20_000),
            mcp_tool("good", description="again"),
            mcp_tool(" "),
            mcp_tool("huge", schema=huge),
            mcp_tool("titled", title="題名", schema={"properties": {"a": {}}}),
            mcp_tool("sharp", annotations=mcp_types.ToolAnnotations(destructive_hint=True)),
        ]
    )
    assert [tool.name for tool in found] == ["good", "titled", "sharp"]
    assert len(found[0].description) == 8_000
    assert found[1].description == "題名"
    assert found[1].schema == {"type": "object", "properties": {"a": {}}}
    assert found[2].destructive is True and found[0].destructive is None


def test_content_blocks_are_converted() -> None:
    data = b64encode(b"bytes").decode()
    uri = "file:///a/報告.txt"
    words = mcp_types.TextResourceContents(uri=uri, text="中身", mime_type="text/plain")
    file = mcp_types.BlobResourceContents(uri="file:///b.bin", blob=data)
    found = convert_result(
        mcp_types.CallToolResult(
            content=[
                mcp_types.TextContent(text="やあ"),
                mcp_types.ImageContent(data=data, mime_type="image/png"),
                mcp_types.AudioContent(data=data, mime_type="audio/wav"),
                mcp_types.ResourceLink(uri="https://x.example/a", name="a"),
                mcp_types.EmbeddedResource(resource=words),
                mcp_types.EmbeddedResource(resource=file),
            ],
            structured_content={"x": 1},
        )
    )
    assert found.structured == {"x": 1} and not found.is_error
    assert found.parts == (
        Part(text="やあ"),
        Part(raw=b"bytes", media_type="image/png"),
        Part(raw=b"bytes", media_type="audio/wav"),
        Part(url="https://x.example/a", filename="a"),
        Part(text="中身", media_type="text/plain", filename="報告.txt"),
        Part(raw=b"bytes", filename="b.bin"),
    )


def test_invalid_base64_is_rejected() -> None:
    broken = mcp_types.ImageContent(data="not base64!", mime_type="image/png")
    with pytest.raises(RemoteFailed, match="invalid base64"):
        convert_result(mcp_types.CallToolResult(content=[broken]))


def test_server_environment_is_minimal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("PATH", "/bin")
    found = minimal_environment({"REGION": "東京"})
    assert found["PATH"] == "/bin" and found["REGION"] == "東京" and "SECRET" not in found


async def test_unused_connections_can_be_closed() -> None:
    await LazyMcpConnections().aclose()
