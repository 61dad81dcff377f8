"""Documents agree with the types of the official SDK."""

import json
from typing import Any

import msgspec
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.compat.v0_3 import conversions, proto_utils
from a2a.compat.v0_3 import types as old
from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, Parse, ParseDict
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_strategies import (
    WIRES,
    artifact_updates,
    cards,
    messages,
    pages,
    pushes,
    requests,
    status_updates,
    tasks,
)

from acc.adapters.a2a.wire.card_codec import card_content, write_public_card
from acc.adapters.a2a.wire.protocol import Operation
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    StatusUpdate,
    Task,
    TaskPage,
)

ONE, OLD, REST = WIRES["1.0"], WIRES["0.3"], WIRES["0.3 over HTTP"]
EXAMPLES = settings(max_examples=20)
REQUESTS = {
    Operation.SEND: a2a_pb2.SendMessageRequest,
    Operation.STREAM: a2a_pb2.SendMessageRequest,
    Operation.GET: a2a_pb2.GetTaskRequest,
    Operation.LIST: a2a_pb2.ListTasksRequest,
    Operation.CANCEL: a2a_pb2.CancelTaskRequest,
    Operation.SUBSCRIBE: a2a_pb2.SubscribeToTaskRequest,
    Operation.PUSH_CREATE: a2a_pb2.TaskPushNotificationConfig,
    Operation.PUSH_GET: a2a_pb2.GetTaskPushNotificationConfigRequest,
    Operation.PUSH_LIST: a2a_pb2.ListTaskPushNotificationConfigsRequest,
    Operation.PUSH_DELETE: a2a_pb2.DeleteTaskPushNotificationConfigRequest,
    Operation.EXTENDED_CARD: a2a_pb2.GetExtendedAgentCardRequest,
}


def through(kind: Any, written: bytes) -> bytes:
    """Return a document as the official types write it after they have read ours."""
    return json.dumps(MessageToDict(Parse(written, kind()))).encode()


def through_old(kind: Any, written: bytes) -> bytes:
    model = kind.model_validate_json(written)
    received: str = model.model_dump_json(by_alias=True, exclude_none=True)
    return received.encode()


@EXAMPLES
@given(task=tasks, message=messages)
def test_v1_tasks_and_messages_round_trip_through_official_types(
    task: Task, message: Message
) -> None:
    assert ONE.read_task(through(a2a_pb2.Task, ONE.write_task(task))) == task
    for result in (task, message):
        written = through(a2a_pb2.SendMessageResponse, ONE.write_send_result(result))
        assert ONE.read_send_result(written) == result


@EXAMPLES
@given(moved=status_updates, made=artifact_updates, task=tasks, message=messages)
def test_v1_streams_round_trip_through_official_types(
    moved: StatusUpdate, made: ArtifactUpdate, task: Task, message: Message
) -> None:
    for item in (moved, made, task, message):
        written = through(a2a_pb2.StreamResponse, ONE.write_stream_item("t", "c", item))
        assert ONE.read_stream_item(written).item == item


@EXAMPLES
@given(page=pages, configs=st.lists(pushes("1.0"), max_size=2))
def test_v1_pages_round_trip_through_official_types(
    page: TaskPage, configs: list[PushConfig]
) -> None:
    written = ONE.write_page(page, 50, include_artifacts=True)
    assert ONE.read_page(through(a2a_pb2.ListTasksResponse, written)) == page
    kind = a2a_pb2.ListTaskPushNotificationConfigsResponse
    received = ONE.read_push_list(through(kind, ONE.write_push_list(configs)))
    assert received.configs == tuple(configs)


@EXAMPLES
@given(asked=requests("1.0"))
def test_v1_requests_round_trip_through_official_types(asked: tuple[Operation, Any]) -> None:
    operation, request = asked
    written = through(REQUESTS[operation], ONE.write_request(operation, request))
    assert ONE.read_request(operation, written) == request


@EXAMPLES
@given(card=cards)
def test_card_is_read_by_official_types_of_both_versions(card: AgentCard) -> None:
    document = write_public_card(card)
    parsed = parse_agent_card(json.loads(document))
    assert ONE.read_card(json.dumps(MessageToDict(parsed)).encode()) == card
    if any(interface.version == "0.3" for interface in card.interfaces):
        legacy = old.AgentCard.model_validate_json(document)
        interfaces = [item for item in card.interfaces if item.version == "0.3"]
        assert (legacy.url, legacy.preferred_transport) == (
            interfaces[0].url,
            interfaces[0].binding,
        )
        assert set(legacy.security_schemes or {}) == set(card.security_schemes)
        ParseDict(
            json.loads(REST.write_card(card)), old_pb2.AgentCard(), ignore_unknown_fields=True
        )


@EXAMPLES
@given(card=cards)
def test_signed_content_equals_official_card(card: AgentCard) -> None:
    content = card_content(card)
    parsed = ParseDict(content, a2a_pb2.AgentCard())
    assert MessageToDict(parsed) == _without_empty_lists(content)


def _without_empty_lists(content: dict[str, Any]) -> dict[str, Any]:
    """Return what the official library writes of a card: it leaves out what is empty."""
    bare = {name: item for name, item in content.items() if item not in ("", [])}
    bare["skills"] = [
        {name: item for name, item in skill.items() if item not in ("", [])}
        for skill in content["skills"]
    ]
    return {name: item for name, item in bare.items() if item != []}


def _as_0_3_holds(part: Part) -> Part:
    """Return a part without what only our own reader would see."""
    if part.raw is None and part.url is None:
        return replace(part, media_type="", filename="")
    return part


def _plain_parts(message: Message) -> Message:
    return replace(message, parts=tuple(_as_0_3_holds(part) for part in message.parts))


def _plain_task(task: Task) -> Task:
    message = task.status.message
    status = replace(task.status, message=None if message is None else _plain_parts(message))
    made = tuple(
        replace(item, parts=tuple(_as_0_3_holds(part) for part in item.parts))
        for item in task.artifacts
    )
    history = tuple(_plain_parts(message) for message in task.history)
    return replace(task, status=status, artifacts=made, history=history)


@EXAMPLES
@given(task=tasks, message=messages)
def test_v03_tasks_and_messages_round_trip_through_official_types(
    task: Task, message: Message
) -> None:
    task, message = _plain_task(task), _plain_parts(message)
    assert OLD.read_task(through_old(old.Task, OLD.write_task(task))) == task
    assert OLD.read_send_result(through_old(old.Message, OLD.write_send_result(message))) == message


@EXAMPLES
@given(moved=status_updates, made=artifact_updates)
def test_v03_updates_are_read_by_official_types(moved: StatusUpdate, made: ArtifactUpdate) -> None:
    written = OLD.write_stream_item("t", "c", moved)
    event = old.TaskStatusUpdateEvent.model_validate_json(written)
    assert (event.task_id, event.context_id) == ("t", "c")
    assert event.status.state.value == moved.status.state
    written = OLD.write_stream_item("t", "c", made)
    piece = old.TaskArtifactUpdateEvent.model_validate_json(written)
    assert bool(piece.append) == made.append
    assert len(piece.artifact.parts) == len(made.artifact.parts)


@EXAMPLES
@given(asked=requests("0.3"))
def test_v03_messages_round_trip_through_official_types(
    asked: tuple[Operation, Any],
) -> None:
    operation, request = asked
    kinds = {
        Operation.SEND: old.MessageSendParams,
        Operation.GET: old.TaskQueryParams,
        Operation.CANCEL: old.TaskIdParams,
        Operation.PUSH_CREATE: old.TaskPushNotificationConfig,
        Operation.PUSH_GET: old.GetTaskPushNotificationConfigParams,
        Operation.PUSH_DELETE: old.DeleteTaskPushNotificationConfigParams,
    }
    if operation not in kinds:
        return
    request = replace(request, tenant="")
    if operation is Operation.SEND:
        request = replace(request, message=_plain_parts(request.message))
    written = through_old(kinds[operation], OLD.write_request(operation, request))
    assert OLD.read_request(operation, written) == request


@EXAMPLES
@given(task=tasks, message=messages)
def test_official_v03_rest_client_reads_our_documents(task: Task, message: Message) -> None:
    for result in (task, message):
        item = old_pb2.SendMessageResponse()
        ParseDict(json.loads(REST.write_send_result(result)), item, ignore_unknown_fields=True)
        received = proto_utils.FromProto.task_or_message(item)
        written = received.model_dump_json(by_alias=True, exclude_none=True).encode()
        back = OLD.read_send_result(written)
        assert type(back) is type(result)
    read = back if isinstance(back, Message) else None
    assert read is not None
    assert [part.raw for part in read.parts] == [part.raw for part in message.parts]
    assert [part.text for part in read.parts] == [part.text for part in message.parts]


def _sent_by_the_official_client(request: bytes) -> bytes:
    """Return the body that the official 0.3 client posts for a 1.0 request."""
    asked = Parse(request, a2a_pb2.SendMessageRequest())
    legacy = conversions.to_compat_send_message_request(asked, request_id=0)
    posted = old_pb2.SendMessageRequest(
        request=proto_utils.ToProto.message(legacy.params.message),
        configuration=proto_utils.ToProto.message_send_configuration(legacy.params.configuration),
        metadata=proto_utils.ToProto.metadata(legacy.params.metadata),
    )
    return json.dumps(MessageToDict(posted, preserving_proto_field_name=True)).encode()


@pytest.mark.parametrize("wait", [True, False])
def test_requests_of_official_v03_rest_client_are_read(wait: bool) -> None:
    document = {
        "message": {
            "messageId": "m",
            "role": "ROLE_USER",
            "contextId": "c",
            "parts": [
                {"text": "見て"},
                {"raw": "AAEC/w==", "filename": "a.bin", "mediaType": "image/png"},
                {"url": "https://example.com/a"},
                {"data": {"n": 1}},
                {"data": [1, 2]},
            ],
        },
        "configuration": {
            "acceptedOutputModes": ["text/plain"],
            "returnImmediately": not wait,
            "taskPushNotificationConfig": {"url": "https://example.com/hook", "id": "p"},
        },
        "metadata": {"k": "v"},
    }
    sent = msgspec.json.encode(document)
    theirs = REST.read_request(Operation.SEND, _sent_by_the_official_client(sent))
    ours = ONE.read_request(Operation.SEND, sent)
    assert _without_generation(theirs) == _without_generation(ours)


def _without_generation(request: Any) -> Any:
    message = replace(request.message, parts=tuple(map(_as_0_3_holds, request.message.parts)))
    return replace(request, message=message, push=replace(request.push, protocol_version=""))
