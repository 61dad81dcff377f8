"""What MCP servers say, however odd it is."""

import time
from base64 import b64encode
from typing import Any

import mcp_types
import pytest

from acc.adapters.mcp.content import convert_result, convert_tools
from acc.adapters.mcp.transports import minimal_environment
from acc.adapters.system.json_schema import JsonSchemaValidator
from acc.bootstrap.mcp import LazyMcpConnections
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.content import Part


def described(name: str, **fields: Any) -> mcp_types.Tool:
    return mcp_types.Tool(name=name, input_schema=fields.pop("schema", {}), **fields)


def test_tools_are_taken_as_far_as_a_model_can_be_shown_them() -> None:
    huge = {"type": "object", "description": "x" * 200_000}
    found = convert_tools(
        [
            described("good", description="y" * 20_000),
            described("good", description="again"),
            described(" "),
            described("huge", schema=huge),
            described("titled", title="題名", schema={"properties": {"a": {}}}),
            described("sharp", annotations=mcp_types.ToolAnnotations(destructive_hint=True)),
        ]
    )
    assert [tool.name for tool in found] == ["good", "titled", "sharp"]
    assert len(found[0].description) == 8_000
    assert found[1].description == "題名"
    assert found[1].schema == {"type": "object", "properties": {"a": {}}}
    assert found[2].destructive is True and found[0].destructive is None


@pytest.mark.parametrize(
    ("schema", "arguments", "fault"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, ""),
        ({"properties": {"数": {"type": "integer"}}}, {"数": "三"}, "数: '三' is not of type"),
        ({"required": ["a"]}, {}, "'a' is a required property"),
        ({"type": "nonsense"}, {"a": 1}, ""),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, {"a": 1}, ""),
        ({"properties": {"a": {"$ref": "#/$defs/no"}}}, {"a": 1}, ""),
        ({"$ref": "#"}, {"a": 1}, ""),
        (
            {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
            {"a": "x"},
            "a: 'x' is not of type 'integer'",
        ),
        ({"additionalProperties": False}, {"b": 1}, "'b' was unexpected"),
    ],
)
def test_arguments_are_held_against_a_schema_and_nothing_is_fetched(
    schema: Any, arguments: Any, fault: str
) -> None:
    found = JsonSchemaValidator().schema_error(schema, arguments)
    assert fault in found and bool(found) == bool(fault)


def test_a_pattern_of_a_server_cannot_hold_us_up() -> None:
    begun = time.monotonic()
    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}, "patternProperties": {"^(a+)+$": {}}}
    assert JsonSchemaValidator().schema_error(schema, {"a": "a" * 40 + "!"}) == ""
    assert time.monotonic() - begun < 5


def test_an_answer_is_taken_piece_by_piece() -> None:
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


def test_a_file_that_is_none_is_told() -> None:
    broken = mcp_types.ImageContent(data="not base64!", mime_type="image/png")
    with pytest.raises(RemoteFailed, match="invalid base64"):
        convert_result(mcp_types.CallToolResult(content=[broken]))


def test_a_server_sees_little_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("PATH", "/bin")
    found = minimal_environment({"REGION": "東京"})
    assert found["PATH"] == "/bin" and found["REGION"] == "東京" and "SECRET" not in found


async def test_what_was_never_used_is_closed_without_being_loaded() -> None:
    await LazyMcpConnections().aclose()
