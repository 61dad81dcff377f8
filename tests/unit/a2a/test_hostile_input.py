"""Whatever comes in, a client gets InvalidInput and a server's answer is RemoteFailed."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from a2a_values import WIRES, values
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.adapters.a2a.wire.card_codec import read_card
from acc.adapters.a2a.wire.json_fields import InvalidJson
from acc.adapters.a2a.wire.jsonrpc import decode_rpc_request, decode_rpc_response, find_request_id
from acc.adapters.a2a.wire.protocol import Operation, Wire
from acc.domain.errors import InvalidInput, RemoteFailed

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
def test_confused_json_is_refused_by_name(wire: Wire, document: Any) -> None:
    _try_all(wire, msgspec.json.encode(document))


@wires
@EXAMPLES
@given(data=st.binary(max_size=30))
def test_random_bytes_are_refused(wire: Wire, data: bytes) -> None:
    _try_all(wire, data)


@wires
@pytest.mark.parametrize("data", BROKEN, ids=lambda data: str(data[:24]))
def test_broken_json_is_refused_whatever_is_asked(wire: Wire, data: bytes) -> None:
    _try_all(wire, data)
    if data:
        with pytest.raises(InvalidInput):
            wire.read_request(Operation.SEND, data)


@pytest.mark.parametrize("data", BROKEN, ids=lambda data: str(data[:24]))
def test_broken_envelopes_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        decode_rpc_request(data)
    assert find_request_id(data) is None


def test_numbers_too_big_for_anyone_are_refused() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        ONE.read_request(Operation.GET, b'{"id":"a","historyLength":' + b"9" * 5000 + b"}")
    with pytest.raises(InvalidInput, match="historyLength: must be at most"):
        ONE.read_request(Operation.GET, b'{"id":"a","historyLength":9999999999}')


def test_of_a_name_given_twice_the_last_counts() -> None:
    request = ONE.read_request(Operation.GET, b'{"id":"a","id":"b"}')
    assert getattr(request, "id", "") == "b"


def test_broken_text_in_params_is_broken_json() -> None:
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
def test_a_wrong_field_of_1_0_is_named_with_what_would_be_right(
    change: dict[str, Any], fault: str
) -> None:
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
def test_a_wrong_field_of_0_3_is_named_with_what_would_be_right(
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
def test_a_wrong_query_is_named(
    wire: Wire, operation: Operation, query: dict[str, str], field: str
) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        wire.read_query(operation, {"id": "t"} if operation is Operation.GET else {}, query)


@wires
@pytest.mark.parametrize("operation", [Operation.GET, Operation.CANCEL, Operation.SUBSCRIBE])
def test_a_task_must_be_named(wire: Wire, operation: Operation) -> None:
    with pytest.raises(InvalidInput, match="^id: is required"):
        wire.read_request(operation, b"{}")


@pytest.mark.parametrize("text", ["_-8=", "/+8=", "_-8", "/+8"])
def test_base64_is_read_in_either_alphabet_with_or_without_padding(text: str) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"raw": text}]}
    request: Any = ONE.read_request(Operation.SEND, msgspec.json.encode({"message": message}))
    assert request.message.parts[0].raw == b"\xff\xef"


def test_null_is_as_good_as_absent_except_as_data() -> None:
    part: dict[str, Any] = {"text": "hi", "raw": None, "url": None, "data": None, "metadata": None}
    message = {**GOOD, "parts": [part, {"data": None}], "contextId": None, "extensions": None}
    request: Any = ONE.read_request(
        Operation.SEND, msgspec.json.encode({"message": message, "configuration": None})
    )
    assert [held.is_null for held in request.message.parts] == [False, True]


def test_numbers_may_come_as_text_and_unknown_fields_are_ignored() -> None:
    request: Any = ONE.read_request(Operation.GET, b'{"id":"t","historyLength":"5","new":[1]}')
    assert (request.id, request.history_length) == ("t", 5)
