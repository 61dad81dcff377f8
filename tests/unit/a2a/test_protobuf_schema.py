"""The descriptors of the gRPC binding, compared with those of the official SDK."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2
from a2a.types import a2a_pb2
from google.protobuf import descriptor_pb2
from google.rpc import error_details_pb2, status_pb2

from acc.adapters.a2a.wire.protobuf_schema import PACKAGES, schema_pool, service_name

OFFICIAL: dict[str, Any] = {"1.0": a2a_pb2.DESCRIPTOR, "0.3": a2a_v0_3_pb2.DESCRIPTOR}


def parts_of(file: Any) -> dict[str, Any]:
    """Return messages, enums and methods of a file by name, without options and order."""
    proto = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    parts: dict[str, Any] = {"package": proto.package, "syntax": proto.syntax}
    for message in proto.message_type:
        parts |= message_parts(message)
    for enum in proto.enum_type:
        parts[enum.name] = {value.name: value.number for value in enum.value}
    for service in proto.service:
        parts |= {
            f"{service.name}.{method.name}": (
                method.input_type,
                method.output_type,
                method.client_streaming,
                method.server_streaming,
            )
            for method in service.method
        }
    return parts


def message_parts(message: Any) -> dict[str, Any]:
    oneofs = [oneof.name for oneof in message.oneof_decl]
    parts = {
        message.name: {
            field.name: (
                field.number,
                field.type,
                field.type_name,
                field.label,
                field.json_name,
                field.proto3_optional,
                oneofs[field.oneof_index] if field.HasField("oneof_index") else "",
            )
            for field in message.field
        }
    }
    for nested in message.nested_type:
        inner = message_parts(nested)[nested.name]
        parts[f"{message.name}.{nested.name}"] = {**inner, "": nested.options.map_entry}
    return parts


@pytest.mark.parametrize("version", PACKAGES)
def test_schema_equals_the_official_descriptors(version: str) -> None:
    own = schema_pool().FindServiceByName(service_name(version)).file

    assert parts_of(own) == parts_of(OFFICIAL[version])


def test_status_messages_have_the_official_numbers_and_types() -> None:
    official = parts_of(status_pb2.DESCRIPTOR) | parts_of(error_details_pb2.DESCRIPTOR)
    # The official descriptor nests this type, which changes its name and not its encoding.
    official["FieldViolation"] = official["BadRequest.FieldViolation"]
    own = parts_of(schema_pool().FindMessageTypeByName("google.rpc.Status").file)

    for name in ("Status", "ErrorInfo", "ErrorInfo.MetadataEntry", "BadRequest"):
        fields = {key: field[:2] for key, field in own[name].items() if key}
        assert fields == {key: official[name][key][:2] for key in fields}
    for key in ("field", "description"):
        assert own["FieldViolation"][key][:2] == official["FieldViolation"][key][:2]
