"""JSON-RPC envelopes are encoded and validated."""

import json

import pytest

from acc.adapters.a2a.wire.errors import (
    InvalidRpcRequest,
)
from acc.adapters.a2a.wire.json_fields import InvalidJson
from acc.adapters.a2a.wire.jsonrpc import (
    decode_rpc_request,
    decode_rpc_response,
    encode_rpc_request,
    encode_rpc_result,
    find_request_id,
)
from acc.domain.errors import RemoteFailed


def test_requests_and_results_round_trip() -> None:
    body = encode_rpc_request("SendMessage", "id-1", b'{"a":1}')
    assert decode_rpc_request(body) == ("SendMessage", "id-1", b'{"a":1}', False)
    assert decode_rpc_request(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == ("m", 1, b"{}", False)
    assert (
        decode_rpc_request(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}').params == b"{}"
    )
    assert decode_rpc_response(encode_rpc_result("id-1", b'{"b":2}'), "id-1") == (b'{"b":2}', None)
    assert decode_rpc_response(encode_rpc_result(None, b"null"), None).result == b"null"


def test_only_a_request_without_an_id_is_a_notification() -> None:
    assert decode_rpc_request(b'{"jsonrpc":"2.0","method":"m"}') == ("m", None, b"{}", True)
    assert not decode_rpc_request(b'{"jsonrpc":"2.0","id":null,"method":"m"}').is_notification


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"jsonrpc":"1.0","method":"m","id":1}', 'jsonrpc: must be "2.0"'),
        (b'{"method":"m","id":1}', 'jsonrpc: is required and must be "2.0"'),
        (b'{"jsonrpc":"2.0","id":1}', "method: is required and must be a string"),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', "method: is required and must be a string"),
        (b'{"jsonrpc":"2.0","id":[1],"method":"m"}', "id: must be a string, a number or null"),
    ],
)
def test_request_fails_when_envelope_is_invalid(body: bytes, fault: str) -> None:
    with pytest.raises(InvalidRpcRequest) as caught:
        decode_rpc_request(body)
    assert str(caught.value) == fault


def test_id_of_invalid_request_is_found() -> None:
    assert find_request_id(b'{"id":"x"}') == "x"
    assert find_request_id(b'{"id":true}') is None
    assert find_request_id(b"[1]") is None


def test_invalid_json_after_invalid_field_is_reported() -> None:
    with pytest.raises(InvalidJson):
        decode_rpc_request(b'{"jsonrpc":2,"method"')


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id":1}', b"[" * 100_000])
def test_response_fails_when_it_is_not_json_rpc(body: bytes) -> None:
    with pytest.raises(RemoteFailed):
        decode_rpc_response(body, 1)


@pytest.mark.parametrize("other", ["2", '"1"', "null", "true", "[1]"])
def test_response_fails_when_id_differs(other: str) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"result":{}}' % other.encode()
    with pytest.raises(RemoteFailed, match="id of another request"):
        decode_rpc_response(body, 1)


def test_error_response_without_id_is_accepted() -> None:
    error = {"code": -32700, "message": "no JSON"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    assert decode_rpc_response(body, 1).error == error
    with pytest.raises(RemoteFailed, match="id of another request"):
        decode_rpc_response(body.replace(b"null", b"2"), 1)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b'{"a": "\xff"}', "it is not UTF-8; check the encoding"),
        (b"{", "is not valid JSON: input data was truncated$"),
        (b'"\\ud800"', "a surrogate must be one of a pair$"),
        (b'"\\uDC00a"', "a surrogate must be one of a pair$"),
        (b'{"secret":NaN}', "is not valid JSON: invalid character [(]byte 10[)]$"),
        (b"\xef\xbb\xbf{}", "remove the byte order mark$"),
    ],
)
def test_request_fails_when_body_is_not_json(body: bytes, why: str) -> None:
    with pytest.raises(InvalidJson, match=why):
        decode_rpc_request(body)
