"""The protobuf messages and services of the gRPC binding, as tables of names and numbers.

A line, with its indented continuations, describes one message: `Name: field field`. A field is
`name=number`, followed by

- `:type`, a scalar, a message, or `map<type>` with keys of type string; the default is string,
- `*` for a repeated field, or `?` for a field whose presence is known,
- `@oneof` for a member of a oneof,
- `>name` for a name in JSON that differs from the name in camel case.

The descriptors are in a pool of their own: other packages may load the same names in the default
pool of the process.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)
from google.protobuf.any_pb2 import DESCRIPTOR as ANY_FILE

from acc.adapters.a2a.wire.json_fields import camel_case

#: The package of the service of each protocol version.
PACKAGES: Mapping[str, str] = {"1.0": "lf.a2a.v1", "0.3": "a2a.v1"}
SERVICE = "A2AService"
STATUS_PACKAGE = "google.rpc"

#: Messages that are equal in both versions.
_SHARED = """
Task: id=1 context_id=2 status=3:TaskStatus artifacts=4:Artifact* history=5:Message*
  metadata=6:Struct
TaskArtifactUpdateEvent: task_id=1 context_id=2 artifact=3:Artifact append=4:bool last_chunk=5:bool
  metadata=6:Struct
AgentProvider: url=1 organization=2
AgentExtension: uri=1 description=2 required=3:bool params=4:Struct
AgentCardSignature: protected=1 signature=2 header=3:Struct
StringList: list=1*
SecurityScheme: api_key_security_scheme=1:APIKeySecurityScheme@scheme
  http_auth_security_scheme=2:HTTPAuthSecurityScheme@scheme
  oauth2_security_scheme=3:OAuth2SecurityScheme@scheme
  open_id_connect_security_scheme=4:OpenIdConnectSecurityScheme@scheme
  mtls_security_scheme=5:MutualTlsSecurityScheme@scheme
APIKeySecurityScheme: description=1 location=2 name=3
HTTPAuthSecurityScheme: description=1 scheme=2 bearer_format=3
OAuth2SecurityScheme: description=1 flows=2:OAuthFlows oauth2_metadata_url=3
OpenIdConnectSecurityScheme: description=1 open_id_connect_url=2
MutualTlsSecurityScheme: description=1
ClientCredentialsOAuthFlow: token_url=1 refresh_url=2 scopes=3:map<string>
ImplicitOAuthFlow: authorization_url=1 refresh_url=2 scopes=3:map<string>
PasswordOAuthFlow: token_url=1 refresh_url=2 scopes=3:map<string>
"""

_MESSAGES = {
    "1.0": _SHARED
    + """
SendMessageConfiguration: accepted_output_modes=1*
  task_push_notification_config=2:TaskPushNotificationConfig history_length=3:int32?
  return_immediately=4:bool
TaskStatus: state=1:TaskState message=2:Message timestamp=3:Timestamp
Part: text=1@content raw=2:bytes@content url=3@content data=4:Value@content metadata=5:Struct
  filename=6 media_type=7
Message: message_id=1 context_id=2 task_id=3 role=4:Role parts=5:Part* metadata=6:Struct
  extensions=7* reference_task_ids=8*
Artifact: artifact_id=1 name=2 description=3 parts=4:Part* metadata=5:Struct extensions=6*
TaskStatusUpdateEvent: task_id=1 context_id=2 status=3:TaskStatus metadata=4:Struct
AuthenticationInfo: scheme=1 credentials=2
AgentInterface: url=1 protocol_binding=2 tenant=3 protocol_version=4
AgentCard: name=1 description=2 supported_interfaces=3:AgentInterface* provider=4:AgentProvider
  version=5 documentation_url=6? capabilities=7:AgentCapabilities
  security_schemes=8:map<SecurityScheme> security_requirements=9:SecurityRequirement*
  default_input_modes=10* default_output_modes=11* skills=12:AgentSkill*
  signatures=13:AgentCardSignature* icon_url=14?
AgentCapabilities: streaming=1:bool? push_notifications=2:bool? extensions=3:AgentExtension*
  extended_agent_card=4:bool?
AgentSkill: id=1 name=2 description=3 tags=4* examples=5* input_modes=6* output_modes=7*
  security_requirements=8:SecurityRequirement*
TaskPushNotificationConfig: tenant=1 id=2 task_id=3 url=4 token=5
  authentication=6:AuthenticationInfo
SecurityRequirement: schemes=1:map<StringList>
OAuthFlows: authorization_code=1:AuthorizationCodeOAuthFlow@flow
  client_credentials=2:ClientCredentialsOAuthFlow@flow implicit=3:ImplicitOAuthFlow@flow
  password=4:PasswordOAuthFlow@flow device_code=5:DeviceCodeOAuthFlow@flow
AuthorizationCodeOAuthFlow: authorization_url=1 token_url=2 refresh_url=3 scopes=4:map<string>
  pkce_required=5:bool
DeviceCodeOAuthFlow: device_authorization_url=1 token_url=2 refresh_url=3 scopes=4:map<string>
SendMessageRequest: tenant=1 message=2:Message configuration=3:SendMessageConfiguration
  metadata=4:Struct
GetTaskRequest: tenant=1 id=2 history_length=3:int32?
ListTasksRequest: tenant=1 context_id=2 status=3:TaskState page_size=4:int32? page_token=5
  history_length=6:int32? status_timestamp_after=7:Timestamp include_artifacts=8:bool?
ListTasksResponse: tasks=1:Task* next_page_token=2 page_size=3:int32 total_size=4:int32
CancelTaskRequest: tenant=1 id=2 metadata=3:Struct
GetTaskPushNotificationConfigRequest: tenant=1 task_id=2 id=3
DeleteTaskPushNotificationConfigRequest: tenant=1 task_id=2 id=3
SubscribeToTaskRequest: tenant=1 id=2
ListTaskPushNotificationConfigsRequest: tenant=4 task_id=1 page_size=2:int32 page_token=3
GetExtendedAgentCardRequest: tenant=1
SendMessageResponse: task=1:Task@payload message=2:Message@payload
StreamResponse: task=1:Task@payload message=2:Message@payload
  status_update=3:TaskStatusUpdateEvent@payload artifact_update=4:TaskArtifactUpdateEvent@payload
ListTaskPushNotificationConfigsResponse: configs=1:TaskPushNotificationConfig* next_page_token=2
""",
    "0.3": _SHARED
    + """
SendMessageConfiguration: accepted_output_modes=1* push_notification=2:PushNotificationConfig
  history_length=3:int32 blocking=4:bool
TaskStatus: state=1:TaskState update=2:Message>message timestamp=3:Timestamp
Part: text=1@part file=2:FilePart@part data=3:DataPart@part metadata=4:Struct
FilePart: file_with_uri=1@file file_with_bytes=2:bytes@file mime_type=3 name=4
DataPart: data=1:Struct
Message: message_id=1 context_id=2 task_id=3 role=4:Role content=5:Part* metadata=6:Struct
  extensions=7*
Artifact: artifact_id=1 name=3 description=4 parts=5:Part* metadata=6:Struct extensions=7*
TaskStatusUpdateEvent: task_id=1 context_id=2 status=3:TaskStatus final=4:bool metadata=5:Struct
PushNotificationConfig: id=1 url=2 token=3 authentication=4:AuthenticationInfo
AuthenticationInfo: schemes=1* credentials=2
AgentInterface: url=1 transport=2
AgentCard: protocol_version=16 name=1 description=2 url=3 preferred_transport=14
  additional_interfaces=15:AgentInterface* provider=4:AgentProvider version=5 documentation_url=6
  capabilities=7:AgentCapabilities security_schemes=8:map<SecurityScheme> security=9:Security*
  default_input_modes=10* default_output_modes=11* skills=12:AgentSkill*
  supports_authenticated_extended_card=13:bool signatures=17:AgentCardSignature* icon_url=18
AgentCapabilities: streaming=1:bool push_notifications=2:bool extensions=3:AgentExtension*
AgentSkill: id=1 name=2 description=3 tags=4* examples=5* input_modes=6* output_modes=7*
  security=8:Security*
TaskPushNotificationConfig: name=1 push_notification_config=2:PushNotificationConfig
Security: schemes=1:map<StringList>
OAuthFlows: authorization_code=1:AuthorizationCodeOAuthFlow@flow
  client_credentials=2:ClientCredentialsOAuthFlow@flow implicit=3:ImplicitOAuthFlow@flow
  password=4:PasswordOAuthFlow@flow
AuthorizationCodeOAuthFlow: authorization_url=1 token_url=2 refresh_url=3 scopes=4:map<string>
SendMessageRequest: request=1:Message>message configuration=2:SendMessageConfiguration
  metadata=3:Struct
GetTaskRequest: name=1 history_length=2:int32
CancelTaskRequest: name=1
GetTaskPushNotificationConfigRequest: name=1
DeleteTaskPushNotificationConfigRequest: name=1
CreateTaskPushNotificationConfigRequest: parent=1 config_id=2 config=3:TaskPushNotificationConfig
TaskSubscriptionRequest: name=1
ListTaskPushNotificationConfigRequest: parent=1 page_size=2:int32 page_token=3
GetAgentCardRequest:
SendMessageResponse: task=1:Task@payload msg=2:Message@payload>message
StreamResponse: task=1:Task@payload msg=2:Message@payload>message
  status_update=3:TaskStatusUpdateEvent@payload artifact_update=4:TaskArtifactUpdateEvent@payload
ListTaskPushNotificationConfigResponse: configs=1:TaskPushNotificationConfig* next_page_token=2
""",
}
#: What a status contains; it is sent as trailing metadata of a failed call.
_STATUS_MESSAGES = """
Status: code=1:int32 message=2 details=3:Any*
ErrorInfo: reason=1 domain=2 metadata=3:map<string>
BadRequest: field_violations=1:FieldViolation*
FieldViolation: field=1 description=2
"""
_STATES = "SUBMITTED WORKING COMPLETED FAILED {canceled} INPUT_REQUIRED REJECTED AUTH_REQUIRED"
_CANCELED = {"1.0": "CANCELED", "0.3": "CANCELLED"}


class Method(NamedTuple):
    """A method of a service, with the names of its messages."""

    name: str
    request: str
    response: str
    is_stream: bool = False


_SHARED_METHODS = (
    Method("SendMessage", "SendMessageRequest", "SendMessageResponse"),
    Method("SendStreamingMessage", "SendMessageRequest", "StreamResponse", is_stream=True),
    Method("GetTask", "GetTaskRequest", "Task"),
    Method("CancelTask", "CancelTaskRequest", "Task"),
    Method(
        "GetTaskPushNotificationConfig",
        "GetTaskPushNotificationConfigRequest",
        "TaskPushNotificationConfig",
    ),
    Method("DeleteTaskPushNotificationConfig", "DeleteTaskPushNotificationConfigRequest", "Empty"),
)
METHODS: Mapping[str, Sequence[Method]] = {
    "1.0": (
        *_SHARED_METHODS,
        Method("ListTasks", "ListTasksRequest", "ListTasksResponse"),
        Method("SubscribeToTask", "SubscribeToTaskRequest", "StreamResponse", is_stream=True),
        Method(
            "CreateTaskPushNotificationConfig",
            "TaskPushNotificationConfig",
            "TaskPushNotificationConfig",
        ),
        Method(
            "ListTaskPushNotificationConfigs",
            "ListTaskPushNotificationConfigsRequest",
            "ListTaskPushNotificationConfigsResponse",
        ),
        Method("GetExtendedAgentCard", "GetExtendedAgentCardRequest", "AgentCard"),
    ),
    "0.3": (
        *_SHARED_METHODS,
        Method("TaskSubscription", "TaskSubscriptionRequest", "StreamResponse", is_stream=True),
        Method(
            "CreateTaskPushNotificationConfig",
            "CreateTaskPushNotificationConfigRequest",
            "TaskPushNotificationConfig",
        ),
        Method(
            "ListTaskPushNotificationConfig",
            "ListTaskPushNotificationConfigRequest",
            "ListTaskPushNotificationConfigResponse",
        ),
        Method("GetAgentCard", "GetAgentCardRequest", "AgentCard"),
    ),
}

_FIELD = re.compile(
    r"(?P<name>\w+)=(?P<number>\d+)(?::(?P<type>map<\w+>|\w+))?(?P<label>[*?]?)"
    r"(?:@(?P<oneof>\w+))?(?:>(?P<json>\w+))?"
)
_Type = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Type.TYPE_STRING,
    "bytes": _Type.TYPE_BYTES,
    "bool": _Type.TYPE_BOOL,
    "int32": _Type.TYPE_INT32,
}
_WELL_KNOWN = frozenset({"Any", "Empty", "Struct", "Timestamp", "Value"})
_ENUMS = frozenset({"TaskState", "Role"})
_WELL_KNOWN_FILES = (
    ANY_FILE,
    empty_pb2.DESCRIPTOR,
    struct_pb2.DESCRIPTOR,
    timestamp_pb2.DESCRIPTOR,
)


def service_name(version: str) -> str:
    """Return the full name of the service of a protocol version."""
    return f"{PACKAGES[version]}.{SERVICE}"


@cache
def schema_pool() -> Any:
    """Return the pool of all descriptors."""
    pool = descriptor_pool.DescriptorPool()
    for known in _WELL_KNOWN_FILES:
        pool.AddSerializedFile(known.serialized_pb)
    pool.AddSerializedFile(_build_file(STATUS_PACKAGE, _STATUS_MESSAGES).SerializeToString())
    for version, package in PACKAGES.items():
        file = _build_file(package, _MESSAGES[version])
        _add_enums(file, version)
        service = file.service.add(name=SERVICE)
        for method in METHODS[version]:
            service.method.add(
                name=method.name,
                input_type=_full_name(package, method.request),
                output_type=_full_name(package, method.response),
                server_streaming=method.is_stream,
            )
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@cache
def message_class(package: str, name: str) -> Any:
    """Return the class of a message."""
    full_name = _full_name(package, name).removeprefix(".")
    return message_factory.GetMessageClass(schema_pool().FindMessageTypeByName(full_name))


def _build_file(package: str, table: str) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}/messages.proto",
        package=package,
        syntax="proto3",
        dependency=[known.name for known in _WELL_KNOWN_FILES],
    )
    for line in filter(None, table.replace("\n  ", " ").splitlines()):
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for match in _matches(fields):
            _add_field(message, package, match)
        # The oneofs of optional fields follow those that are declared.
        for field in message.field:
            if field.proto3_optional:
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{field.name}")
    return file


def _matches(fields: str) -> Iterator[re.Match[str]]:
    for text in fields.split():
        match = _FIELD.fullmatch(text)
        assert match is not None, text  # noqa: S101 - the tables are constants
        yield match


def _add_field(message: descriptor_pb2.DescriptorProto, package: str, match: re.Match[str]) -> None:
    kind = match["type"] or "string"
    is_map = kind.startswith("map<")
    field = message.field.add(
        name=match["name"],
        number=int(match["number"]),
        label=_Type.LABEL_REPEATED if is_map or match["label"] == "*" else _Type.LABEL_OPTIONAL,
        json_name=match["json"] or camel_case(match["name"]),
    )
    if is_map:
        entry = message.nested_type.add(name=f"{_title(match['name'])}Entry")
        entry.options.map_entry = True
        for number, (name, type_) in enumerate((("key", "string"), ("value", kind[4:-1])), 1):
            part = entry.field.add(
                name=name, number=number, label=_Type.LABEL_OPTIONAL, json_name=name
            )
            _set_type(part, package, type_)
        field.type = _Type.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
    else:
        _set_type(field, package, kind)
    if match["label"] == "?":
        field.proto3_optional = True
    if match["oneof"]:
        if not message.oneof_decl:
            message.oneof_decl.add(name=match["oneof"])
        field.oneof_index = 0


def _set_type(field: descriptor_pb2.FieldDescriptorProto, package: str, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = _Type.TYPE_ENUM if kind in _ENUMS else _Type.TYPE_MESSAGE
    field.type_name = _full_name(package, kind)


def _full_name(package: str, name: str) -> str:
    return f".google.protobuf.{name}" if name in _WELL_KNOWN else f".{package}.{name}"


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _add_enums(file: descriptor_pb2.FileDescriptorProto, version: str) -> None:
    states = _STATES.format(canceled=_CANCELED[version]).split()
    for name, prefix, values in (
        ("TaskState", "TASK_STATE", states),
        ("Role", "ROLE", ["USER", "AGENT"]),
    ):
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(("UNSPECIFIED", *values)):
            enum.value.add(name=f"{prefix}_{value}", number=number)
