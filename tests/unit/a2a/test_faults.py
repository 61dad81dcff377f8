"""Errors in the words of both generations, and what other servers' errors are to us."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.adapters.a2a.wire.errors import (
    InvalidRpcRequest,
    UnknownMethod,
    encode_http_error,
    encode_rpc_error,
    error_from_http,
    error_from_rpc,
    wire_error_for,
)
from acc.adapters.a2a.wire.json_fields import InvalidJson
from acc.adapters.a2a.wire.jsonrpc import (
    decode_rpc_request,
    decode_rpc_response,
    encode_rpc_request,
    encode_rpc_result,
    find_request_id,
)
from acc.domain import errors
from acc.domain.errors import AccError, InvalidInput, RemoteFailed

KNOWN: list[tuple[AccError, int, int, str]] = [
    (errors.TaskNotFound("t"), -32001, 404, "NOT_FOUND"),
    (errors.TaskNotCancelable("over"), -32002, 400, "FAILED_PRECONDITION"),
    (errors.PushNotSupported("no"), -32003, 400, "FAILED_PRECONDITION"),
    (errors.UnsupportedOperation("no"), -32004, 400, "FAILED_PRECONDITION"),
    (errors.ContentTypeNotSupported("no"), -32005, 400, "INVALID_ARGUMENT"),
    (errors.ExtendedCardMissing("no"), -32007, 400, "FAILED_PRECONDITION"),
    (errors.ExtensionRequired("no"), -32008, 400, "FAILED_PRECONDITION"),
    (errors.VersionNotSupported("no"), -32009, 400, "FAILED_PRECONDITION"),
    (InvalidJson("no"), -32700, 400, "INVALID_ARGUMENT"),
    (InvalidRpcRequest("no"), -32600, 400, "INVALID_ARGUMENT"),
    (UnknownMethod("no"), -32601, 404, "NOT_FOUND"),
    (InvalidInput("no"), -32602, 400, "INVALID_ARGUMENT"),
    (errors.AddressRefused("no"), -32602, 400, "INVALID_ARGUMENT"),
    (errors.ContextNotFound("c"), -32602, 400, "INVALID_ARGUMENT"),
    (errors.InvalidTransition("t", "completed", "a message"), -32004, 400, "FAILED_PRECONDITION"),
    (errors.StorageFailed("disk"), -32603, 500, "INTERNAL"),
]


@pytest.mark.parametrize(("error", "code", "http", "status"), KNOWN, ids=lambda held: str(held))
def test_every_error_has_its_place_in_the_table(
    error: AccError, code: int, http: int, status: str
) -> None:
    told = wire_error_for(error)
    assert (told.code, told.http_status, told.status) == (code, http, status)


@pytest.mark.parametrize(
    ("error", "http"),
    [
        (errors.Unauthenticated("who"), 401),
        (errors.PermissionDenied("no"), 403),
        (errors.LimitExceeded("slow down"), 429),
    ],
)
def test_who_may_not_is_told_by_http_status(error: AccError, http: int) -> None:
    assert wire_error_for(error).http_status == http


def test_a_missing_task_in_each_shape() -> None:
    error = errors.TaskNotFound("t-9")
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {"taskId": "t-9"},
    }
    text = "task 't-9' not found"
    assert json.loads(encode_rpc_error(error, 7, "1.0")) == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32001, "message": text, "data": [info]},
    }
    assert json.loads(encode_http_error(error, "1.0")) == {
        "error": {"code": 404, "status": "NOT_FOUND", "message": text, "details": [info]}
    }
    assert json.loads(encode_rpc_error(error, None, "0.3")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32001, "message": text, "data": {"taskId": "t-9"}},
    }
    assert json.loads(encode_http_error(error, "0.3")) == {
        "type": "TaskNotFoundError",
        "code": -32001,
        "message": text,
        "data": {"taskId": "t-9"},
    }


def test_a_wrong_field_is_told_apart() -> None:
    error = InvalidInput("message.parts[0].raw: is not base64")
    details = json.loads(encode_rpc_error(error, "a", "1.0"))["error"]["data"]
    assert details[1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts[0].raw", "description": "is not base64"}],
    }
    assert json.loads(encode_rpc_error(error, "a", "0.3"))["error"]["data"] == {
        "field": "message.parts[0].raw"
    }
    assert (
        "data" not in json.loads(encode_rpc_error(InvalidInput("no such thing"), 1, "0.3"))["error"]
    )


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize(
    "error", [RuntimeError("password=hunter2"), errors.StorageFailed("/secret/path")]
)
def test_an_internal_error_shows_nothing_of_itself(version: str, error: Exception) -> None:
    for document in (encode_rpc_error(error, 1, version), encode_http_error(error, version)):
        assert b"hunter2" not in document
        assert b"secret" not in document
        assert b"Internal error" in document


def test_codes_that_0_3_has_no_name_for_are_those_of_wrong_params() -> None:
    error = errors.VersionNotSupported("speak 1.0 or 0.3")
    assert json.loads(encode_rpc_error(error, 1, "0.3"))["error"]["code"] == -32602


def test_half_a_character_does_not_keep_an_error_from_being_told() -> None:
    assert b"not found" in encode_rpc_error(errors.TaskNotFound("\ud800"), 1, "1.0")
    assert b"x?" in encode_http_error(InvalidInput("x\ud800"), "0.3")


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize(
    "error",
    [
        errors.TaskNotFound("t"),
        errors.TaskNotCancelable("over"),
        errors.PushNotSupported("no"),
        errors.UnsupportedOperation("no"),
        errors.ContentTypeNotSupported("no"),
        errors.ExtendedCardMissing("no"),
        errors.InvalidInput("no"),
        errors.Unauthenticated("no"),
        errors.PermissionDenied("no"),
    ],
    ids=lambda held: type(held).__name__,
)
def test_our_errors_come_back_as_they_were_over_http(version: str, error: AccError) -> None:
    told = error_from_http(
        wire_error_for(error).http_status, encode_http_error(error, version), task_id="t"
    )
    assert (type(told), str(told)) == (type(error), str(error))


@pytest.mark.parametrize(("error", "code", "_http", "_status"), KNOWN[:6], ids=str)
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_our_errors_come_back_as_they_were_over_json_rpc(
    version: str, error: AccError, code: int, _http: int, _status: str
) -> None:
    answer = decode_rpc_response(encode_rpc_error(error, 1, version), 1)
    assert answer.error["code"] == code
    told = error_from_rpc(answer.error, task_id="t")
    assert (type(told), str(told)) == (type(error), str(error))


@pytest.mark.parametrize(
    ("status", "retryable"), [(429, True), (502, True), (503, True), (504, True), (500, False)]
)
def test_what_may_go_away_can_be_tried_again(status: int, retryable: bool) -> None:
    told = error_from_http(status, b"<html>")
    assert isinstance(told, RemoteFailed)
    assert (told.retryable, told.remote_code) == (retryable, str(status))


def test_an_error_that_nobody_knows_keeps_its_code() -> None:
    told = error_from_rpc({"code": -32050, "message": "out of luck"})
    assert isinstance(told, RemoteFailed)
    assert (told.remote_code, str(told)) == ("-32050", "the remote agent failed: out of luck")
    assert isinstance(error_from_rpc("what"), RemoteFailed)
    assert isinstance(error_from_http(418, b'{"title":"a teapot"}'), RemoteFailed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda held: (
        st.lists(held, max_size=2)
        | st.dictionaries(
            st.sampled_from(["error", "code", "data", "details", "reason", "type", "message"]), held
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(error=JSON, status=st.integers(400, 599))
def test_whatever_a_server_says_went_wrong_is_an_error_of_ours(error: Any, status: int) -> None:
    assert isinstance(error_from_rpc(error), AccError)
    assert isinstance(error_from_http(status, json.dumps(error).encode()), AccError)


def test_calls_and_answers_are_read_as_they_were_written() -> None:
    body = encode_rpc_request("SendMessage", "id-1", b'{"a":1}')
    assert decode_rpc_request(body) == ("SendMessage", "id-1", b'{"a":1}')
    assert decode_rpc_request(b'{"jsonrpc":"2.0","id":1,"method":"m"}') == ("m", 1, b"{}")
    assert (
        decode_rpc_request(b'{"jsonrpc":"2.0","id":1,"method":"m","params":null}').params == b"{}"
    )
    assert decode_rpc_response(encode_rpc_result("id-1", b'{"b":2}'), "id-1") == (b'{"b":2}', None)
    assert decode_rpc_response(encode_rpc_result(None, b"null"), None).result == b"null"


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
def test_what_is_no_call_is_told_why(body: bytes, fault: str) -> None:
    with pytest.raises(InvalidRpcRequest) as caught:
        decode_rpc_request(body)
    assert str(caught.value) == fault


def test_a_call_that_is_wrong_still_has_its_id() -> None:
    assert find_request_id(b'{"id":"x"}') == "x"
    assert find_request_id(b'{"id":true}') is None
    assert find_request_id(b"[1]") is None


def test_json_that_breaks_after_a_wrong_field_is_broken_json() -> None:
    with pytest.raises(InvalidJson):
        decode_rpc_request(b'{"jsonrpc":2,"method"')


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"id":1}', b"[" * 100_000])
def test_what_is_no_answer_is_the_servers_failure(body: bytes) -> None:
    with pytest.raises(RemoteFailed):
        decode_rpc_response(body, 1)


@pytest.mark.parametrize("other", ["2", '"1"', "null", "true", "[1]"])
def test_what_answers_another_call_is_refused(other: str) -> None:
    body = b'{"jsonrpc":"2.0","id":%b,"result":{}}' % other.encode()
    with pytest.raises(RemoteFailed, match="id of another request"):
        decode_rpc_response(body, 1)


def test_who_could_not_read_an_id_answers_without_one() -> None:
    error = {"code": -32700, "message": "no JSON"}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    assert decode_rpc_response(body, 1).error == error
    with pytest.raises(RemoteFailed, match="id of another request"):
        decode_rpc_response(body.replace(b"null", b"2"), 1)


def test_what_a_new_task_lacks_is_no_task() -> None:
    error = {"code": -32001, "message": "context c-1 not found"}
    found = error_from_rpc(error)
    assert (type(found), str(found)) == (errors.NotFound, "context c-1 not found")
    assert type(error_from_rpc(error, task_id="t-1")) is errors.TaskNotFound
    assert type(error_from_rpc({"code": -32001})) is errors.TaskNotFound


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b'{"a": "\xff"}', "it is not UTF-8; check the encoding"),
        (b"{", "is not valid JSON$"),
        (b'"\\ud800"', "is not valid JSON$"),
    ],
)
def test_what_is_no_json_is_told_as_far_as_it_is_plain(body: bytes, why: str) -> None:
    with pytest.raises(InvalidJson, match=why):
        decode_rpc_request(body)
