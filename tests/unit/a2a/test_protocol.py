"""Documents of each protocol version, and their round trips."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_strategies import (
    WIRES,
    cards,
    messages,
    pages,
    pushes,
    requests,
    tasks,
    updates,
)

from acc.adapters.a2a.wire.card_codec import card_content, read_card, write_public_card
from acc.adapters.a2a.wire.protocol import Operation, Wire, params_to_query
from acc.application.a2a.requests import (
    GetRequest,
    ListRequest,
    PushCreateRequest,
    PushRequest,
    SendRequest,
    TaskRequest,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.agent_card import AgentCard
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Part, ToolCall, ToolResult
from acc.domain.value_objects.task import (
    ArtifactUpdate,
    Message,
    PushConfig,
    Role,
    StatusUpdate,
    Task,
    TaskArtifact,
    TaskPage,
    TaskQuery,
    TaskState,
    TaskStatus,
)

ONE, OLD, REST = WIRES["1.0"], WIRES["0.3"], WIRES["0.3 over HTTP"]
AT = 1767225600.25
wires = pytest.mark.parametrize("wire", list(WIRES.values()), ids=list(WIRES))

ASKED = Message(
    message_id="m-1", role=Role.USER, parts=(Part(text="払い戻して"),), context_id="c-1"
)
TASK = Task(
    id="t-1",
    context_id="c-1",
    status=TaskStatus(
        state=TaskState.CANCELED,
        at=AT,
        message=Message(message_id="m-2", role=Role.AGENT, parts=(Part(text="stopped"),)),
    ),
    artifacts=(
        TaskArtifact(
            artifact_id="a-1",
            name="receipt",
            parts=(
                Part(raw=b"\x00\xff", filename="r.png", media_type="image/png"),
                Part(url="https://example.com/r", media_type="image/png"),
                Part(data={"total": 3}),
                Part(data=[1, 2]),
                Part(is_null=True),
            ),
        ),
    ),
    history=(ASKED,),
)
CONFIG = PushConfig(
    id="p-1",
    task_id="t-1",
    url="https://example.com/hook",
    token="tok",
    scheme="Bearer",
    credentials="secret",
)


def read(data: bytes) -> Any:
    return json.loads(data)


def test_task_document_of_v1() -> None:
    assert read(ONE.write_task(TASK)) == {
        "id": "t-1",
        "contextId": "c-1",
        "status": {
            "state": "TASK_STATE_CANCELED",
            "message": {"messageId": "m-2", "role": "ROLE_AGENT", "parts": [{"text": "stopped"}]},
            "timestamp": "2026-01-01T00:00:00.250Z",
        },
        "artifacts": [
            {
                "artifactId": "a-1",
                "name": "receipt",
                "parts": [
                    {"raw": "AP8=", "filename": "r.png", "mediaType": "image/png"},
                    {"url": "https://example.com/r", "mediaType": "image/png"},
                    {"data": {"total": 3}},
                    {"data": [1, 2]},
                    {"data": None},
                ],
            }
        ],
        "history": [
            {
                "messageId": "m-1",
                "contextId": "c-1",
                "role": "ROLE_USER",
                "parts": [{"text": "払い戻して"}],
            }
        ],
    }


def test_task_document_of_v03() -> None:
    assert read(OLD.write_task(TASK)) == {
        "kind": "task",
        "id": "t-1",
        "contextId": "c-1",
        "status": {
            "state": "canceled",
            "message": {
                "kind": "message",
                "messageId": "m-2",
                "role": "agent",
                "parts": [{"kind": "text", "text": "stopped"}],
            },
            "timestamp": "2026-01-01T00:00:00.250Z",
        },
        "artifacts": [
            {
                "artifactId": "a-1",
                "name": "receipt",
                "parts": [
                    {
                        "kind": "file",
                        "file": {"bytes": "AP8=", "name": "r.png", "mimeType": "image/png"},
                    },
                    {
                        "kind": "file",
                        "file": {"uri": "https://example.com/r", "mimeType": "image/png"},
                    },
                    {"kind": "data", "data": {"total": 3}},
                    {
                        "kind": "data",
                        "data": {"value": [1, 2]},
                        "metadata": {"data_part_compat": True},
                    },
                    {
                        "kind": "data",
                        "data": {"value": None},
                        "metadata": {"data_part_compat": True},
                    },
                ],
            }
        ],
        "history": [
            {
                "kind": "message",
                "messageId": "m-1",
                "contextId": "c-1",
                "role": "user",
                "parts": [{"kind": "text", "text": "払い戻して"}],
            }
        ],
    }


def test_task_document_of_v03_rest() -> None:
    written = read(REST.write_send_result(TASK))["task"]
    assert written["status"]["state"] == "TASK_STATE_CANCELLED"
    assert written["status"]["message"]["content"] == [{"text": "stopped"}]
    assert written["artifacts"][0]["parts"] == [
        {"file": {"fileWithBytes": "QVA4PQ==", "name": "r.png", "mimeType": "image/png"}},
        {"file": {"fileWithUri": "https://example.com/r", "mimeType": "image/png"}},
        {"data": {"data": {"total": 3}}},
        {"data": {"data": {"value": [1, 2]}}, "metadata": {"data_part_compat": True}},
        {"data": {"data": {"value": None}}, "metadata": {"data_part_compat": True}},
    ]


def test_file_name_and_type_of_text_and_data_are_metadata_in_v03_rest() -> None:
    parts = (
        Part(text="x", filename="x.md", media_type="text/markdown", metadata={"a": 1}),
        Part(data={"y": 1}, media_type="application/json"),
    )
    made = ArtifactUpdate(artifact=TaskArtifact(artifact_id="a", parts=parts))
    written = REST.write_stream_item("t", "c", made)
    assert read(written)["artifactUpdate"]["artifact"]["parts"] == [
        {"text": "x", "metadata": {"filename": "x.md", "mediaType": "text/markdown", "a": 1}},
        {"data": {"data": {"y": 1}}, "metadata": {"mediaType": "application/json"}},
    ]
    assert REST.read_stream_item(written).item == made


@pytest.mark.parametrize(
    ("content", "media_type", "expected"),
    [
        ("dGVzdA==", "text/plain", b"test"),
        ("ZEdWemRBPT0=", "text/plain", b"test"),
        ("AP8=", "image/png", b"\x00\xff"),
        ("QVA4PQ==", "image/png", b"\x00\xff"),
    ],
    ids=["text once", "text twice", "bytes once", "bytes twice"],
)
def test_uploaded_bytes_may_be_encoded_once_or_twice_in_v03_rest(
    content: str, media_type: str, expected: bytes
) -> None:
    file = {"fileWithBytes": content, "name": "f", "mimeType": media_type}
    message = {"messageId": "m", "role": "ROLE_USER", "content": [{"file": file}]}
    request = REST.read_request(Operation.SEND, json.dumps({"request": message}).encode())
    assert isinstance(request, SendRequest)
    assert request.message.parts[0].raw == expected


@pytest.mark.parametrize(
    ("state", "final"),
    [
        (TaskState.SUBMITTED, False),
        (TaskState.WORKING, False),
        (TaskState.INPUT_REQUIRED, True),
        (TaskState.AUTH_REQUIRED, True),
        (TaskState.COMPLETED, True),
        (TaskState.REJECTED, True),
        (TaskState.UNKNOWN, False),
    ],
)
def test_status_update_document_of_each_version(state: TaskState, final: bool) -> None:
    moved = StatusUpdate(status=TaskStatus(state=state))
    name = "UNSPECIFIED" if state is TaskState.UNKNOWN else state.upper().replace("-", "_")
    place = {"taskId": "t", "contextId": "c"}
    assert read(ONE.write_stream_item("t", "c", moved)) == {
        "statusUpdate": {**place, "status": {"state": f"TASK_STATE_{name}"}}
    }
    assert read(OLD.write_stream_item("t", "c", moved)) == {
        "kind": "status-update",
        **place,
        "status": {"state": state.value},
        "final": final,
    }
    assert read(REST.write_stream_item("t", "c", moved)) == {
        "statusUpdate": {**place, "status": {"state": f"TASK_STATE_{name}"}, "final": final}
    }


def test_artifact_update_document_of_each_version() -> None:
    made = ArtifactUpdate(
        artifact=TaskArtifact(artifact_id="a", parts=(Part(text="x"),)),
        append=True,
        last_chunk=True,
    )
    received = {"taskId": "t", "contextId": "c", "append": True, "lastChunk": True}
    piece = {"artifactId": "a", "parts": [{"text": "x"}]}
    assert read(ONE.write_stream_item("t", "c", made)) == {
        "artifactUpdate": {**received, "artifact": piece}
    }
    assert read(REST.write_stream_item("t", "c", made)) == {
        "artifactUpdate": {**received, "artifact": piece}
    }
    old_piece = {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}
    assert read(OLD.write_stream_item("t", "c", made)) == {
        "kind": "artifact-update",
        **received,
        "artifact": old_piece,
    }


@wires
def test_page_document_omits_artifacts_unless_included(wire: Wire) -> None:
    bare = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING))
    page = TaskPage(tasks=(bare,), next_page_token="", total=1)
    written = read(wire.write_page(page, 50, include_artifacts=False))
    assert (written["nextPageToken"], written["pageSize"], written["totalSize"]) == ("", 50, 1)
    assert "artifacts" not in written["tasks"][0]
    assert "history" not in written["tasks"][0]
    written = read(wire.write_page(page, 50, include_artifacts=True))
    assert written["tasks"][0]["artifacts"] == []
    empty = read(wire.write_page(TaskPage(tasks=(), next_page_token="", total=0), 50, False))
    assert empty == {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}


def test_push_configuration_document_of_each_version() -> None:
    item = {"id": "p-1", "url": "https://example.com/hook", "token": "tok"}
    assert read(ONE.write_push(CONFIG)) == {
        **item,
        "taskId": "t-1",
        "authentication": {"scheme": "Bearer", "credentials": "secret"},
    }
    old = {**item, "authentication": {"schemes": ["Bearer"], "credentials": "secret"}}
    assert read(OLD.write_push_list([CONFIG])) == [{"taskId": "t-1", "pushNotificationConfig": old}]
    assert read(REST.write_push_list([CONFIG], "more")) == {
        "configs": [
            {"name": "tasks/t-1/pushNotificationConfigs/p-1", "pushNotificationConfig": old}
        ],
        "nextPageToken": "more",
    }
    assert [wire.write_empty() for wire in WIRES.values()] == [b"{}", b"null", b"{}"]


def test_request_document_of_each_version() -> None:
    send = SendRequest(message=ASKED, wait=False, history_length=0)
    assert read(ONE.write_request(Operation.SEND, send)) == {
        "message": {
            "messageId": "m-1",
            "contextId": "c-1",
            "role": "ROLE_USER",
            "parts": [{"text": "払い戻して"}],
        },
        "configuration": {"historyLength": 0, "returnImmediately": True},
    }
    assert read(OLD.write_request(Operation.SEND, send))["configuration"] == {
        "historyLength": 0,
        "blocking": False,
    }
    push = PushRequest(task_id="t-1", id="p-1")
    assert read(ONE.write_request(Operation.PUSH_GET, push)) == {"taskId": "t-1", "id": "p-1"}
    assert read(OLD.write_request(Operation.PUSH_GET, push)) == {
        "id": "t-1",
        "pushNotificationConfigId": "p-1",
    }


def test_v03_message_waits_unless_not_blocking() -> None:
    message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}
    for how, over_rpc, over_http in (
        (None, True, True),
        ({}, True, False),
        ({"blocking": True}, True, True),
        ({"blocking": False}, False, False),
    ):
        body = json.dumps({"message": message, "configuration": how}).encode()
        rpc: Any = OLD.read_request(Operation.SEND, body)
        rest: Any = REST.read_request(Operation.SEND, body)
        assert (rpc.wait, rest.wait) == (over_rpc, over_http)


@wires
def test_path_and_query_are_equivalent_to_params(wire: Wire) -> None:
    assert wire.read_query(Operation.GET, {"id": "t"}, {"historyLength": "3"}) == GetRequest(
        id="t", history_length=3
    )
    assert wire.read_query(Operation.GET, {"id": "t"}, {"history_length": "3"}) == GetRequest(
        id="t", history_length=3
    )
    listed = wire.read_query(
        Operation.LIST,
        {"tenant": "shop"},
        {"status": "TASK_STATE_WORKING", "includeArtifacts": "true", "pageToken": "", "x": "y"},
    )
    query = TaskQuery(state=TaskState.WORKING)
    assert listed == ListRequest(query=query, include_artifacts=True, tenant="shop")
    assert wire.read_query(Operation.PUSH_DELETE, {"task_id": "t", "id": "p"}, {}) == PushRequest(
        task_id="t", id="p"
    )
    assert wire.read_query(Operation.PUSH_LIST, {"task_id": "t"}, {}) == PushRequest(task_id="t")
    assert wire.read_request(Operation.CANCEL, b"", {"id": "t"}) == TaskRequest(id="t")


@wires
def test_path_overrides_task_id_of_push_configuration(wire: Wire) -> None:
    config = PushConfig(
        id="p", task_id="u", url="https://example.com/h", protocol_version=wire.version
    )
    body = wire.write_request(Operation.PUSH_CREATE, PushCreateRequest(config=config))
    received: Any = wire.read_request(Operation.PUSH_CREATE, body, {"task_id": "t"})
    assert (received.config.task_id, received.config.id) == ("t", "p")


def test_params_are_converted_to_query() -> None:
    request = ListRequest(query=TaskQuery(context_id="c", page_size=5), include_artifacts=True)
    params = ONE.write_request(Operation.LIST, request)
    assert params_to_query(params, {"contextId"}) == {"pageSize": "5", "includeArtifacts": "true"}


@wires
def test_unknown_state_and_invalid_time_of_remote_task_are_accepted(wire: Wire) -> None:
    document = {
        "id": "t",
        "status": {"state": "TASK_STATE_PAUSED", "timestamp": "soon"},
        "progress": 3,
    }
    received = wire.read_task(json.dumps(document).encode())
    assert received == Task(id="t", context_id="", status=TaskStatus(state=TaskState.UNKNOWN))


@wires
def test_unpaired_surrogate_is_replaced(wire: Wire) -> None:
    message = Message(message_id="m", role=Role.AGENT, parts=(Part(text="a\ud800b"),))
    received = wire.read_send_result(wire.write_send_result(message))
    assert isinstance(received, Message)
    assert received.parts == (Part(text="a?b"),)


def test_every_operation_has_a_method_name() -> None:
    for wire in WIRES.values():
        assert set(wire.method_names) == set(Operation)
        assert {wire.methods[name] for name in wire.method_names.values()} == set(Operation)
    assert OLD.methods["agent/authenticatedExtendedCard"] is Operation.EXTENDED_CARD


@pytest.mark.parametrize("wire", [OLD, REST], ids=["JSON-RPC", "HTTP"])
def test_v03_time_filter_accepts_milliseconds(wire: Wire) -> None:
    for received in ("1794845006000", "2026-11-16T16:03:26Z"):
        for name in ("lastUpdatedAfter", "last_updated_after"):
            found = wire.read_query(Operation.LIST, {}, {name: received})
            assert isinstance(found, ListRequest)
            assert found.query.since == 1794845006.0
    asked = wire.read_request(Operation.LIST, b'{"lastUpdatedAfter": 1794845006000}')
    assert isinstance(asked, ListRequest)
    assert asked.query.since == 1794845006.0
    for wrong in (b"9" * 16, b"9" * 400, b'"' + b"9" * 16 + b'"', b'"yesterday"'):
        with pytest.raises(InvalidInput, match="lastUpdatedAfter: is "):
            wire.read_request(Operation.LIST, b'{"lastUpdatedAfter": ' + wrong + b"}")


EXAMPLES = settings(max_examples=20)
wires = pytest.mark.parametrize("wire", list(WIRES.values()), ids=list(WIRES))


@wires
@EXAMPLES
@given(task=tasks, message=messages)
def test_tasks_and_messages_round_trip(wire: Wire, task: Task, message: Message) -> None:
    assert wire.read_task(wire.write_task(task)) == task
    assert wire.read_send_result(wire.write_send_result(task)) == task
    assert wire.read_send_result(wire.write_send_result(message)) == message


@wires
@EXAMPLES
@given(update=updates, task=tasks, message=messages)
def test_stream_items_round_trip_with_ids(
    wire: Wire, update: StatusUpdate | ArtifactUpdate, task: Task, message: Message
) -> None:
    assert wire.read_stream_item(wire.write_stream_item("t", "c", update)) == ("t", "c", update)
    received = wire.read_stream_item(wire.write_stream_item(task.id, task.context_id, task))
    assert received == (task.id, task.context_id, task)
    received = wire.read_stream_item(wire.write_stream_item("", "", message))
    assert received == (message.task_id, message.context_id, message)


@wires
@EXAMPLES
@given(page=pages)
def test_pages_round_trip_with_and_without_artifacts(wire: Wire, page: TaskPage) -> None:
    assert wire.read_page(wire.write_page(page, 50, True)) == page
    bare = replace(page, tasks=tuple(replace(task, artifacts=()) for task in page.tasks))
    assert wire.read_page(wire.write_page(page, 50, False)) == bare


@wires
@EXAMPLES
@given(data=st.data())
def test_push_configurations_round_trip(wire: Wire, data: st.DataObject) -> None:
    configs: list[PushConfig] = data.draw(st.lists(pushes(wire.version), max_size=3))
    assert wire.read_push_list(wire.write_push_list(configs)) == (tuple(configs), "")
    for config in configs:
        assert wire.read_push(wire.write_push(config)) == config


@wires
@EXAMPLES
@given(data=st.data())
def test_requests_round_trip(wire: Wire, data: st.DataObject) -> None:
    asked: tuple[Operation, Any] = data.draw(requests(wire.version))
    operation, request = asked
    if wire is WIRES["0.3 over HTTP"] and operation is Operation.PUSH_CREATE:
        request = replace(request, tenant="")
    assert wire.read_request(operation, wire.write_request(operation, request)) == request


@EXAMPLES
@given(card=cards)
def test_cards_round_trip_in_every_form(card: AgentCard) -> None:
    signed = replace(card, signatures=({"protected": "e30", "signature": "c2ln"},))
    assert read_card(write_public_card(signed)) == signed
    assert read_card(msgspec.json.encode(card_content(signed))) == card
    for wire in WIRES.values():
        assert wire.read_card(wire.write_card(signed)) == signed


@wires
def test_tool_calls_and_results_are_not_sent(wire: Wire) -> None:
    text = Part(text="done")
    call = Part(call=ToolCall(id="1", name="pay"))
    result = Part(result=ToolResult(call_id="1", name="pay"))
    message = Message(message_id="m", role=Role.AGENT, parts=(call, text, result))
    received = wire.read_send_result(wire.write_send_result(message))
    assert isinstance(received, Message)
    assert received.parts == (text,)


@wires
def test_timestamp_has_milliseconds(wire: Wire) -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.WORKING, at=1.0005))
    assert b'"1970-01-01T00:00:01.000Z"' in wire.write_task(task)
    late = replace(task, status=TaskStatus(state=TaskState.WORKING, at=0.9996))
    assert b'"1970-01-01T00:00:01.000Z"' in wire.write_task(late)
