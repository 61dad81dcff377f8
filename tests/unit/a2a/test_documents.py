"""Whole documents, as they stand on the wire in each generation."""

import json
from typing import Any

import pytest
from a2a_values import WIRES

from acc.adapters.a2a.wire.card_codec import card_content, merged_card
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
from acc.domain.value_objects.agent_card import AgentCard, Interface, Skill
from acc.domain.value_objects.content import Part
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


def test_a_task_in_1_0() -> None:
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


def test_a_task_in_0_3() -> None:
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


def test_a_task_in_0_3_over_http() -> None:
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
def test_a_move_in_each_generation(state: TaskState, final: bool) -> None:
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


def test_a_piece_of_an_artifact_in_each_generation() -> None:
    made = ArtifactUpdate(
        artifact=TaskArtifact(artifact_id="a", parts=(Part(text="x"),)),
        append=True,
        last_chunk=True,
    )
    told = {"taskId": "t", "contextId": "c", "append": True, "lastChunk": True}
    piece = {"artifactId": "a", "parts": [{"text": "x"}]}
    assert read(ONE.write_stream_item("t", "c", made)) == {
        "artifactUpdate": {**told, "artifact": piece}
    }
    assert read(REST.write_stream_item("t", "c", made)) == {
        "artifactUpdate": {**told, "artifact": piece}
    }
    old_piece = {"artifactId": "a", "parts": [{"kind": "text", "text": "x"}]}
    assert read(OLD.write_stream_item("t", "c", made)) == {
        "kind": "artifact-update",
        **told,
        "artifact": old_piece,
    }


@wires
def test_a_page_says_where_it_ends_and_leaves_artifacts_out_unless_wanted(wire: Wire) -> None:
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


def test_a_push_configuration_in_each_generation() -> None:
    held = {"id": "p-1", "url": "https://example.com/hook", "token": "tok"}
    assert read(ONE.write_push(CONFIG)) == {
        **held,
        "taskId": "t-1",
        "authentication": {"scheme": "Bearer", "credentials": "secret"},
    }
    old = {**held, "authentication": {"schemes": ["Bearer"], "credentials": "secret"}}
    assert read(OLD.write_push_list([CONFIG])) == [{"taskId": "t-1", "pushNotificationConfig": old}]
    assert read(REST.write_push_list([CONFIG], "more")) == {
        "configs": [
            {"name": "tasks/t-1/pushNotificationConfigs/p-1", "pushNotificationConfig": old}
        ],
        "nextPageToken": "more",
    }
    assert [wire.write_empty() for wire in WIRES.values()] == [b"{}", b"null", b"{}"]


def test_what_is_asked_in_each_generation() -> None:
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


def test_a_0_3_message_waits_unless_told_otherwise() -> None:
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
def test_an_address_asks_for_as_much_as_params_do(wire: Wire) -> None:
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
def test_a_path_says_whose_configuration_it_is(wire: Wire) -> None:
    config = PushConfig(
        id="p", task_id="u", url="https://example.com/h", protocol_version=wire.version
    )
    body = wire.write_request(Operation.PUSH_CREATE, PushCreateRequest(config=config))
    told: Any = wire.read_request(Operation.PUSH_CREATE, body, {"task_id": "t"})
    assert (told.config.task_id, told.config.id) == ("t", "p")


def test_params_become_a_query_again() -> None:
    request = ListRequest(query=TaskQuery(context_id="c", page_size=5), include_artifacts=True)
    params = ONE.write_request(Operation.LIST, request)
    assert params_to_query(params, {"contextId"}) == {"pageSize": "5", "includeArtifacts": "true"}


CARD = AgentCard(
    name="会計",
    description="",
    version="1",
    interfaces=(
        Interface(url="https://example.com/a2a", binding="JSONRPC", version="1.0"),
        Interface(url="https://example.com/a2a", binding="JSONRPC", version="0.3"),
        Interface(url="https://example.com/http", binding="HTTP+JSON", version="0.3"),
    ),
    skills=(Skill(id="pay", name="Pay", description="Pays."),),
    extended_card=True,
    security_schemes={
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "oauth": {
            "type": "oauth2",
            "flows": {
                "password": {"tokenUrl": "https://example.com/p", "scopes": {}},
                "clientCredentials": {"tokenUrl": "https://example.com/t", "scopes": {}},
            },
        },
    },
    security=({"bearer": ()}, {"oauth": ("read",)}),
)


def test_one_card_for_both_generations() -> None:
    flow = {"clientCredentials": {"tokenUrl": "https://example.com/t", "scopes": {}}}
    signed = {
        "name": "会計",
        "description": "",
        "version": "1",
        "supportedInterfaces": [
            {
                "url": "https://example.com/a2a",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "1.0",
            },
            {
                "url": "https://example.com/a2a",
                "protocolBinding": "JSONRPC",
                "protocolVersion": "0.3",
            },
            {
                "url": "https://example.com/http",
                "protocolBinding": "HTTP+JSON",
                "protocolVersion": "0.3",
            },
        ],
        "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "pay", "name": "Pay", "description": "Pays.", "tags": []}],
        "securitySchemes": {
            "bearer": {"httpAuthSecurityScheme": {"scheme": "bearer"}},
            "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}},
            "oauth": {"oauth2SecurityScheme": {"flows": flow}},
        },
        "securityRequirements": [
            {"schemes": {"bearer": {}}},
            {"schemes": {"oauth": {"list": ["read"]}}},
        ],
    }
    assert card_content(CARD) == signed
    assert merged_card(CARD) == {
        **signed,
        "securitySchemes": {
            "bearer": {
                "type": "http",
                "scheme": "bearer",
                "httpAuthSecurityScheme": {"scheme": "bearer"},
            },
            "key": {
                "type": "apiKey",
                "in": "header",
                "name": "X-Key",
                "apiKeySecurityScheme": {"location": "header", "name": "X-Key"},
            },
            "oauth": {
                "type": "oauth2",
                "flows": flow,
                "oauth2SecurityScheme": {"flows": flow},
            },
        },
        "protocolVersion": "0.3.0",
        "url": "https://example.com/a2a",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"url": "https://example.com/a2a", "transport": "JSONRPC"},
            {"url": "https://example.com/http", "transport": "HTTP+JSON"},
        ],
        "supportsAuthenticatedExtendedCard": True,
        "security": [{"bearer": []}, {"oauth": ["read"]}],
    }


def test_a_card_of_0_3_alone_is_read() -> None:
    document = {
        "name": "old",
        "description": "An old one.",
        "version": "2",
        "protocolVersion": "0.3.0",
        "url": "https://example.com/rpc",
        "additionalInterfaces": [
            {"url": "https://example.com/rpc", "transport": "JSONRPC"},
            {"url": "https://example.com/v1", "transport": "HTTP+JSON"},
        ],
        "capabilities": {"streaming": True},
        "supportsAuthenticatedExtendedCard": True,
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "", "tags": ["t"]}],
        "security": [{"bearer": []}],
        "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    }
    assert OLD.read_card(json.dumps(document).encode()) == AgentCard(
        name="old",
        description="An old one.",
        version="2",
        interfaces=(
            Interface(url="https://example.com/rpc", binding="JSONRPC", version="0.3"),
            Interface(url="https://example.com/v1", binding="HTTP+JSON", version="0.3"),
        ),
        skills=(Skill(id="s", name="S", description="", tags=("t",)),),
        push_notifications=False,
        extended_card=True,
        security_schemes={"bearer": {"type": "http", "scheme": "bearer"}},
        security=({"bearer": ()},),
    )


@wires
def test_what_another_server_says_is_read_with_patience(wire: Wire) -> None:
    document = {
        "id": "t",
        "status": {"state": "TASK_STATE_PAUSED", "timestamp": "soon"},
        "progress": 3,
    }
    told = wire.read_task(json.dumps(document).encode())
    assert told == Task(id="t", context_id="", status=TaskStatus(state=TaskState.UNKNOWN))


@wires
def test_half_a_character_does_not_keep_a_task_from_being_told(wire: Wire) -> None:
    said = Message(message_id="m", role=Role.AGENT, parts=(Part(text="a\ud800b"),))
    told = wire.read_send_result(wire.write_send_result(said))
    assert isinstance(told, Message)
    assert told.parts == (Part(text="a?b"),)


def test_every_operation_has_a_name_in_both_generations() -> None:
    for wire in WIRES.values():
        assert set(wire.method_names) == set(Operation)
        assert {wire.methods[name] for name in wire.method_names.values()} == set(Operation)
    assert OLD.methods["agent/authenticatedExtendedCard"] is Operation.EXTENDED_CARD


@pytest.mark.parametrize("wire", [OLD, REST], ids=["JSON-RPC", "HTTP"])
def test_a_time_of_the_older_generation_may_be_milliseconds_in_either_binding(wire: Wire) -> None:
    for told in ("1794845006000", "2026-11-16T16:03:26Z"):
        for name in ("lastUpdatedAfter", "last_updated_after"):
            found = wire.read_query(Operation.LIST, {}, {name: told})
            assert isinstance(found, ListRequest)
            assert found.query.since == 1794845006.0
    asked = wire.read_request(Operation.LIST, b'{"lastUpdatedAfter": 1794845006000}')
    assert isinstance(asked, ListRequest)
    assert asked.query.since == 1794845006.0
    for wrong in (b"9" * 16, b"9" * 400, b'"' + b"9" * 16 + b'"', b'"yesterday"'):
        with pytest.raises(InvalidInput, match="lastUpdatedAfter: is "):
            wire.read_request(Operation.LIST, b'{"lastUpdatedAfter": ' + wrong + b"}")
