"""Untrusted JSON raises InvalidInput in requests and RemoteFailed in responses."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_strategies import WIRES, values

from acc.adapters.a2a.wire.card_codec import read_card
from acc.adapters.a2a.wire.json_fields import InvalidJson, camel_case_fields, decode
from acc.adapters.a2a.wire.jsonrpc import decode_rpc_request, decode_rpc_response, find_request_id
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.adapters.a2a.wire.v03 import WireV03
from acc.adapters.a2a.wire.v03_rest import WireV03Rest
from acc.adapters.a2a.wire.v1 import WireV1
from acc.application.a2a.requests import GetRequest, ListRequest, PushCreateRequest, SendRequest
from acc.domain.errors import InvalidInput, RemoteFailed
from acc.domain.value_objects.task import Role, TaskState

EXAMPLES = settings(max_examples=40)
wires = pytest.mark.parametrize("wire", list(WIRES.values()), ids=list(WIRES))
ONE, OLD, REST = WIRES["1.0"], WIRES["0.3"], WIRES["0.3 over HTTP"]

NAMES = st.sampled_from(
    [
        "message",
        "parts",
        "content",
        "text",
        "file",
        "data",
        "raw",
        "url",
        "bytes",
        "kind",
        "role",
        "messageId",
        "metadata",
        "configuration",
        "historyLength",
        "pageSize",
        "status",
        "state",
        "timestamp",
        "artifact",
        "artifacts",
        "history",
        "task",
        "statusUpdate",
        "artifactUpdate",
        "taskId",
        "contextId",
        "id",
        "pushNotificationConfig",
        "config",
        "configs",
        "name",
        "authentication",
        "schemes",
        "capabilities",
        "skills",
        "supportedInterfaces",
        "securitySchemes",
        "security",
    ]
)
LIKELY = st.sampled_from(
    ["text", "file", "data", "task", "message", "user", "ROLE_USER", "TASK_STATE_WORKING", "AAAA"]
)
#: JSON that has the protocol's names in wrong places.
CONFUSED = st.recursive(
    values | LIKELY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
DEEP = b'{"metadata":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
BROKEN = [
    b"",
    b"{",
    b"NaN",
    b'{"message":NaN}',
    b'{"metadata":{"a":-Infinity}}',
    b'{"metadata":{"a":"\xff"}}',
    b'{"id":"\xed\xa0\x80"}',
    b'{"id":"\\ud800"}',
    b'{"id":"a"} {"id":"b"}',
    b"\xef\xbb\xbf{}",
    DEEP,
    b'{"metadata":' + b'{"a":' * 200 + b"1" + b"}" * 200 + b"}",
    b"[" * 100_000,
    b"[]",
    b'"text"',
    b"17",
    b"true",
]


def _readers(wire: Wire) -> list[Callable[[bytes], Any]]:
    return [
        wire.read_task,
        wire.read_send_result,
        wire.read_stream_item,
        wire.read_page,
        wire.read_push,
        wire.read_push_list,
        wire.read_card,
        read_card,
        lambda data: decode_rpc_response(data, 1),
    ]


def _try_all(wire: Wire, data: bytes) -> None:
    for operation in Operation:
        try:
            wire.read_request(operation, data)
        except InvalidInput as error:
            assert "Traceback" not in str(error)
            assert ": " in str(error)
    for read in _readers(wire):
        try:
            read(data)
        except RemoteFailed as error:
            assert "Traceback" not in str(error)


@wires
@EXAMPLES
@given(document=CONFUSED)
def test_misplaced_fields_are_rejected_by_name(wire: Wire, document: Any) -> None:
    _try_all(wire, msgspec.json.encode(document))


@wires
@EXAMPLES
@given(data=st.binary(max_size=30))
def test_random_bytes_are_rejected(wire: Wire, data: bytes) -> None:
    _try_all(wire, data)


@wires
@pytest.mark.parametrize("data", BROKEN, ids=lambda data: str(data[:24]))
def test_invalid_json_is_rejected_for_every_operation(wire: Wire, data: bytes) -> None:
    _try_all(wire, data)
    if data:
        with pytest.raises(InvalidInput):
            wire.read_request(Operation.SEND, data)


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: str(data[:24]))
def test_invalid_envelopes_are_rejected(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_rpc_request(data)
    assert find_request_id(data) is None


def test_too_large_numbers_are_rejected() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        ONE.read_request(Operation.GET, b'{"id":"a","historyLength":' + b"9" * 5000 + b"}")
    with pytest.raises(InvalidInput, match="historyLength: must be at most"):
        ONE.read_request(Operation.GET, b'{"id":"a","historyLength":9999999999}')


def test_last_of_duplicate_fields_is_used() -> None:
    request = ONE.read_request(Operation.GET, b'{"id":"a","id":"b"}')
    assert getattr(request, "id", "") == "b"


def test_invalid_utf8_in_params_is_invalid_json() -> None:
    with pytest.raises(InvalidJson, match="params: is not valid JSON"):
        ONE.read_request(Operation.SEND, b'{"message":{"messageId":"\xff"}}')


GOOD = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
OLD_GOOD = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"messageId": ""}, "message.messageId: is required and cannot be empty"),
        ({"messageId": None}, "message.messageId: is required and cannot be empty"),
        ({"messageId": 5}, "message.messageId: must be a string, not an integer"),
        ({"role": "user"}, "message.role: is required; use ROLE_USER or ROLE_AGENT"),
        ({"role": "ROLE_UNSPECIFIED"}, "message.role: is required; use ROLE_USER or ROLE_AGENT"),
        ({"parts": []}, "message.parts: must contain at least one part"),
        ({"parts": "hi"}, "message.parts: must be a list, not a string"),
        ({"parts": [5]}, "message.parts[0]: must be an object, not an integer"),
        ({"parts": [{}]}, "message.parts[0]: must contain exactly one of text, raw, url and data"),
        (
            {"parts": [{"text": "a"}, {"text": "a", "url": "b"}]},
            "message.parts[1]: must contain exactly one of text, raw, url and data",
        ),
        (
            {"parts": [{"raw": "a*b"}]},
            "message.parts[0].raw: is not base64; encode the bytes as in RFC 4648",
        ),
        (
            {"parts": [{"raw": "A"}]},
            "message.parts[0].raw: is not base64; encode the bytes as in RFC 4648",
        ),
        ({"metadata": []}, "message.metadata: must be an object, not a list"),
        ({"extensions": [1]}, "message.extensions[0]: must be a string, not an integer"),
    ],
)
def test_v1_error_names_field_and_expectation(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ONE.read_request(Operation.SEND, msgspec.json.encode({"message": GOOD | change}))
    assert str(caught.value) == fault


@pytest.mark.parametrize("wire", [OLD, REST], ids=["0.3", "0.3 over HTTP"])
@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"messageId": ""}, "message.messageId: is required and cannot be empty"),
        ({"role": "robot"}, "message.role: is required; use user or agent"),
        ({"parts": []}, "message.parts: must contain at least one part"),
        ({"parts": [{}]}, "message.parts[0].kind: is required; use text, file or data"),
        (
            {"parts": [{"kind": "video", "text": "a"}]},
            "message.parts[0].kind: is required; use text, file or data",
        ),
        (
            {"parts": [{"kind": "text", "data": {}}]},
            "message.parts[0]: must contain text and no other kind of content",
        ),
        (
            {"parts": [{"kind": "file", "file": {"bytes": "AA==", "uri": "x"}}]},
            "message.parts[0].file: must contain exactly one of bytes and uri",
        ),
        (
            {"parts": [{"kind": "file", "file": {"bytes": "*"}}]},
            "message.parts[0].file.bytes: is not base64; encode the bytes as in RFC 4648",
        ),
        ({"parts": [{"kind": "data", "data": 5}]}, "message.parts[0].data: must be an object"),
    ],
)
def test_v03_error_names_field_and_expectation(
    wire: Wire, change: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        wire.read_request(Operation.SEND, msgspec.json.encode({"message": OLD_GOOD | change}))
    assert str(caught.value) == fault


@wires
@pytest.mark.parametrize(
    ("operation", "query", "field"),
    [
        (Operation.LIST, {"pageSize": "0"}, "pageSize"),
        (Operation.LIST, {"pageSize": "101"}, "pageSize"),
        (Operation.LIST, {"page_size": "many"}, "pageSize"),
        (Operation.LIST, {"historyLength": "-1"}, "historyLength"),
        (Operation.LIST, {"status": "RUNNING"}, "status"),
        (Operation.LIST, {"statusTimestampAfter": "yesterday"}, "statusTimestampAfter"),
        (Operation.LIST, {"includeArtifacts": "perhaps"}, "includeArtifacts"),
        (Operation.LIST, {"contextId": "\ud800"}, "query"),
        (Operation.GET, {"history_length": "-1"}, "historyLength"),
    ],
)
def test_query_error_names_parameter(
    wire: Wire, operation: Operation, query: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        wire.read_query(operation, {"id": "t"} if operation is Operation.GET else {}, query)


@wires
@pytest.mark.parametrize("operation", [Operation.GET, Operation.CANCEL, Operation.SUBSCRIBE])
def test_task_id_is_required(wire: Wire, operation: Operation) -> None:
    with pytest.raises(InvalidInput, match="^id: is required"):
        wire.read_request(operation, b"{}")


@pytest.mark.parametrize("text", ["_-8=", "/+8=", "_-8", "/+8"])
def test_base64_accepts_both_alphabets_and_missing_padding(text: str) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": text}]}
    request: Any = ONE.read_request(Operation.SEND, msgspec.json.encode({"message": message}))
    assert request.message.parts[0].raw == b"\xff\xef"


def test_null_means_absent_except_in_data() -> None:
    part: dict[str, Any] = {"text": "hi", "raw": None, "url": None, "data": None, "metadata": None}
    message = {**GOOD, "parts": [part, {"data": None}], "contextId": None, "extensions": None}
    request: Any = ONE.read_request(
        Operation.SEND, msgspec.json.encode({"message": message, "configuration": None})
    )
    assert [item.is_null for item in request.message.parts] == [False, True]


def test_integers_may_be_strings_and_unknown_fields_are_ignored() -> None:
    request: Any = ONE.read_request(Operation.GET, b'{"id":"t","historyLength":"5","new":[1]}')
    assert (request.id, request.history_length) == ("t", 5)


ONE, OLD, OLD_REST = WireV1(), WireV03(), WireV03Rest()


def asked(wire: Wire, operation: Operation, params: Any) -> Any:
    return wire.read_request(operation, msgspec.json.encode(params))


def sent(wire: Wire, role: Any) -> SendRequest:
    parts = "content" if wire is OLD_REST else "parts"
    message = {"messageId": "m", "role": role, parts: [{"text": "hi"}]}
    found = asked(wire, Operation.SEND, {"message": message})
    assert isinstance(found, SendRequest)
    return found


@pytest.mark.parametrize("wire", [ONE, OLD_REST])
def test_role_may_be_a_number(wire: Wire) -> None:
    assert sent(wire, 1).message.role is Role.USER
    assert sent(wire, 2).message.role is Role.AGENT
    for wrong in (0, 3, True, 1.5, [1]):
        with pytest.raises(InvalidInput, match="role: "):
            sent(wire, wrong)


@pytest.mark.parametrize("wire", [ONE, OLD_REST])
def test_state_filter_may_be_a_number(wire: Wire) -> None:
    for number, state in ((1, TaskState.SUBMITTED), (3, TaskState.COMPLETED), (0, None)):
        for received in (number, str(number)):
            found = asked(wire, Operation.LIST, {"status": received})
            assert isinstance(found, ListRequest)
            assert found.query.state is state
        found = wire.read_query(Operation.LIST, {}, {"status": str(number)})
        assert isinstance(found, ListRequest)
        assert found.query.state is state
    for wrong in (9, -1, 10**30, "9", "9" * 5000, "٣", "done"):
        with pytest.raises(InvalidInput, match="status: is not a task state; use one of .*TASK"):
            asked(wire, Operation.LIST, {"status": wrong})


def test_state_of_remote_task_may_be_a_number() -> None:
    for wire in (ONE, OLD_REST):
        for received, state in ((3, TaskState.COMPLETED), (99, TaskState.UNKNOWN)):
            task = {"id": "t", "contextId": "c", "status": {"state": received}}
            if wire is OLD_REST and state is TaskState.UNKNOWN:
                continue  # there what is no word is not read at all
            assert wire.read_task(msgspec.json.encode(task)).state is state


@pytest.mark.parametrize("wire", [ONE, OLD, OLD_REST])
def test_integer_accepts_every_json_form(wire: Wire) -> None:
    for received in (b"2", b'"2"', b"2.0", b"2e0", b"0.2e1", b'"2.0"', b'"2e0"', b'"20E-1"'):
        found = wire.read_request(Operation.GET, b'{"id":"t","historyLength":' + received + b"}")
        assert found == GetRequest(id="t", history_length=2)
        assert isinstance(found, GetRequest)
        assert type(found.history_length) is int
    for wrong, fault in (
        (b"1.5", "must be an integer of at least 0"),
        (b'"1.5"', "must be an integer of at least 0"),
        (b'"1_0"', "must be an integer of at least 0"),
        (b'"nan"', "must be an integer of at least 0"),
        (b"1e20", "must be at most"),
        (b'"1e99"', "must be at most"),
        (b"-1.0", "must be at least 0"),
        (b"true", "must be an integer or a string, not true or false"),
    ):
        with pytest.raises(InvalidInput, match=f"historyLength: {fault}"):
            wire.read_request(Operation.GET, b'{"id":"t","historyLength":' + wrong + b"}")


def test_fields_may_be_in_snake_case() -> None:
    wire = WireV1()
    got = wire.read_request(Operation.GET, b'{"id": "t", "history_length": 3}')
    assert got == GetRequest(id="t", history_length=3)
    made = wire.read_request(Operation.PUSH_CREATE, b'{"task_id": "t", "url": "https://a.example"}')
    assert isinstance(made, PushCreateRequest)
    assert made.config.task_id == "t"


def test_names_in_metadata_and_data_are_not_changed() -> None:
    sent = (
        b'{"message": {"message_id": "m", "role": "ROLE_USER", "metadata": {"a_b": {"c_d": 1}},'
        b' "parts": [{"data": {"e_f": [{"g_h": 2}]}, "media_type": "application/json"}]}}'
    )
    got = WireV1().read_request(Operation.SEND, sent)
    assert isinstance(got, SendRequest)
    assert got.message.message_id == "m"
    assert got.message.metadata == {"a_b": {"c_d": 1}}
    assert got.message.parts[0].data == {"e_f": [{"g_h": 2}]}
    assert got.message.parts[0].media_type == "application/json"


def test_invalid_json_is_not_renamed() -> None:
    assert camel_case_fields(b'{"task_id": ') == b'{"task_id": '


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 5000])
def test_number_out_of_range_is_explained(number: str) -> None:
    data = b'{"inputs":{"a":[%s]}}' % number.encode()
    with pytest.raises(InvalidInput, match="^body: contains a number that is out of range"):
        decode(msgspec.json.Decoder(), data, "body")
