"""Errors are mapped to each protocol version and back."""

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
    decode_rpc_response,
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


@pytest.mark.parametrize(("error", "code", "http", "status"), KNOWN, ids=lambda item: str(item))
def test_error_is_mapped_by_table(error: AccError, code: int, http: int, status: str) -> None:
    received = wire_error_for(error)
    assert (received.code, received.http_status, received.status) == (code, http, status)


@pytest.mark.parametrize(
    ("error", "http"),
    [
        (errors.Unauthenticated("who"), 401),
        (errors.PermissionDenied("no"), 403),
        (errors.LimitExceeded("slow down"), 429),
    ],
)
def test_access_error_has_http_status(error: AccError, http: int) -> None:
    assert wire_error_for(error).http_status == http


def test_task_not_found_document_of_each_version() -> None:
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


def test_invalid_field_is_named_in_details() -> None:
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
def test_internal_error_is_not_disclosed(version: str, error: Exception) -> None:
    for document in (encode_rpc_error(error, 1, version), encode_http_error(error, version)):
        assert b"hunter2" not in document
        assert b"secret" not in document
        assert b"Internal error" in document


def test_v03_uses_invalid_params_for_undefined_codes() -> None:
    error = errors.VersionNotSupported("speak 1.0 or 0.3")
    assert json.loads(encode_rpc_error(error, 1, "0.3"))["error"]["code"] == -32602


def test_unpaired_surrogate_in_error_is_replaced() -> None:
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
    ids=lambda item: type(item).__name__,
)
def test_errors_round_trip_over_http(version: str, error: AccError) -> None:
    received = error_from_http(
        wire_error_for(error).http_status, encode_http_error(error, version), task_id="t"
    )
    assert (type(received), str(received)) == (type(error), str(error))


@pytest.mark.parametrize(("error", "code", "_http", "_status"), KNOWN[:6], ids=str)
@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_errors_round_trip_over_rpc(
    version: str, error: AccError, code: int, _http: int, _status: str
) -> None:
    answer = decode_rpc_response(encode_rpc_error(error, 1, version), 1)
    assert answer.error["code"] == code
    received = error_from_rpc(answer.error, task_id="t")
    assert (type(received), str(received)) == (type(error), str(error))


@pytest.mark.parametrize(
    ("status", "retryable"), [(429, True), (502, True), (503, True), (504, True), (500, False)]
)
def test_remote_error_is_retryable_by_status(status: int, retryable: bool) -> None:
    received = error_from_http(status, b"<html>")
    assert isinstance(received, RemoteFailed)
    assert (received.retryable, received.remote_code) == (retryable, str(status))


def test_unknown_remote_error_preserves_code() -> None:
    received = error_from_rpc({"code": -32050, "message": "out of luck"})
    assert isinstance(received, RemoteFailed)
    assert (received.remote_code, str(received)) == (
        "-32050",
        "the remote agent failed: out of luck",
    )
    assert isinstance(error_from_rpc("what"), RemoteFailed)
    assert isinstance(error_from_http(418, b'{"title":"a teapot"}'), RemoteFailed)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda item: (
        st.lists(item, max_size=2)
        | st.dictionaries(
            st.sampled_from(["error", "code", "data", "details", "reason", "type", "message"]), item
        )
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(error=JSON, status=st.integers(400, 599))
def test_any_remote_error_document_is_mapped(error: Any, status: int) -> None:
    assert isinstance(error_from_rpc(error), AccError)
    assert isinstance(error_from_http(status, json.dumps(error).encode()), AccError)


def test_not_found_without_task_id_is_not_task_not_found() -> None:
    error = {"code": -32001, "message": "context c-1 not found"}
    found = error_from_rpc(error)
    assert (type(found), str(found)) == (errors.NotFound, "context c-1 not found")
    assert type(error_from_rpc(error, task_id="t-1")) is errors.TaskNotFound
    assert type(error_from_rpc({"code": -32001})) is errors.TaskNotFound
