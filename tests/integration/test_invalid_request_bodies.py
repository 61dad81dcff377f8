"""Invalid request bodies: every wire format returns the errors of the protocol."""

import json
from typing import Any

import pytest
from limited_server import (
    MAX_BODY_BYTES,
    every_wire_format,
)
from limited_server import server as server
from server_process import (
    ALICE,
    BOB,
    WIRE_FORMATS,
    Reply,
    Server,
    WireFormat,
    check_error,
    head,
    read_reply,
)


def code_of(wire_format: WireFormat, reply: Reply, *, status: int = 0) -> int:
    code: int = check_error(reply, wire_format, status=status)["code"]
    return code


# Bodies

BROKEN = {
    "nothing": b"",
    "half a document": b'{"jsonrpc": "2.0", "id": 1, "method"',
    "two documents": b"{}{}",
    "text": b"hello",
    "single quotes": b"{'message': {}}",
    "NaN": b'{"message": NaN}',
    "Infinity": b'{"message": -Infinity}',
    "invalid UTF-8": b'{"message": "\xff\xfe"}',
    "UTF-16": '{"message": 1}'.encode("utf-16"),
    "a NUL": b'{"message": "a\x00b"}',
    "half a character": b'{"message": "\\ud800"}',
    "a number without end": b"1" * 100_000,
    "a byte order mark": b"\xef\xbb\xbf{}",
    "trailing comma": b'{"message": {},}',
    "comments": b'{/* hello */"message": {}}',
}


@every_wire_format
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_invalid_json_is_a_parse_error(
    server: Server, wire_format: WireFormat, body: bytes
) -> None:
    code = code_of(wire_format, server.send(wire_format.post(body)))
    if wire_format.is_rpc:
        assert code in (-32700, -32600)
    elif wire_format.is_new:
        assert code == 400
    else:
        assert code in (-32700, -32602)


@every_wire_format
@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["lists", "objects"])
def test_deep_nesting_is_rejected(server: Server, wire_format: WireFormat, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * 20_000 + b"1" + closing * 20_000
    check_error(server.send(wire_format.post(deep)), wire_format)
    message = wire_format.message("hello", "deep", metadata={"deep": "HERE"})
    params = {"message" if wire_format.is_rpc or wire_format.is_new else "request": message}
    placed = wire_format.call(params).replace(b'"HERE"', deep)
    check_error(server.send(wire_format.post(placed)), wire_format)


WRONG: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**30,
    "text",
    [],
    [1],
    {},
    {"a": 1},
    [[]],
    "\x00",
    "\ud800",
]


@every_wire_format
def test_wrong_field_types_are_rejected(server: Server, wire_format: WireFormat) -> None:
    valid_message = wire_format.message("hello", "wrong-types", contextId="", metadata={})
    fields = [*valid_message, "taskId", "extensions", "referenceTaskIds"]
    envelope = "message" if wire_format.is_rpc or wire_format.is_new else "request"
    rejected = 0
    for number, wrong in enumerate(WRONG):
        for name in fields:
            params: dict[str, Any] = {
                envelope: {**valid_message, "messageId": f"w-{number}-{name}", name: wrong}
            }
            rejected += is_rejected(server, wire_format, params)
        for name in (envelope, "configuration", "metadata", "tenant"):
            params = {
                envelope: {**valid_message, "messageId": f"v-{number}-{name}"},
                name: wrong,
            }
            rejected += is_rejected(server, wire_format, params)
        rejected += is_rejected(server, wire_format, wrong)
    assert rejected > len(WRONG) * 5


def is_rejected(server: Server, wire_format: WireFormat, params: object) -> bool:
    reply = server.send(wire_format.post(wire_format.call(params)))
    assert reply.status < 500, (params, reply)
    if reply.status == 200 and "error" not in reply.json:
        return False
    check_error(reply, wire_format)
    return True


@every_wire_format
def test_out_of_range_numbers_are_handled(server: Server, wire_format: WireFormat) -> None:
    for number, value in enumerate((10**30, -(10**400), 1e308, "1e999", "0.1e-999", 2**64)):
        message = wire_format.message("parts", f"big-{number}", metadata={"n": "HERE"})
        params = {"message" if wire_format.is_rpc or wire_format.is_new else "request": message}
        body = wire_format.call(params).replace(b'"HERE"', str(value).encode())
        reply = server.send(wire_format.post(body))
        assert reply.status in (200, 400), reply


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[:2], ids=str)
def test_unusual_call_ids_are_echoed_or_rejected(server: Server, wire_format: WireFormat) -> None:
    for call_id in ("", "a" * 1000, 0, -1, 2**63, 1.5, None):
        reply = server.send(wire_format.post(wire_format.call({"id": "no-such"}, "get", call_id)))
        check_error(reply, wire_format)
        assert reply.json["id"] == call_id
    unusual_ids: list[Any] = [True, [], {}, [1]]
    for wrong in unusual_ids:
        reply = server.send(wire_format.post(wire_format.call({"id": "no-such"}, "get", wrong)))
        assert code_of(wire_format, reply) == -32600
        assert reply.json["id"] is None


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[:2], ids=str)
def test_malformed_calls_return_jsonrpc_errors(server: Server, wire_format: WireFormat) -> None:
    call = {"jsonrpc": "2.0", "id": 7, "method": wire_format.method("get"), "params": {"id": "x"}}
    for change in (
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": None},
        {"method": 1},
        {"method": ["GetTask"]},
    ):
        body = json.dumps(call | change).encode()
        assert code_of(wire_format, server.send(wire_format.post(body))) == -32600
    for lacking in ("jsonrpc", "method"):
        body = json.dumps({name: value for name, value in call.items() if name != lacking}).encode()
        assert code_of(wire_format, server.send(wire_format.post(body))) == -32600
    for batch in ([], [call], [call] * 1000, [1, 2]):
        body = json.dumps(batch).encode()
        assert code_of(wire_format, server.send(wire_format.post(body))) == -32600
    for method in ("", "GetTasks", "__class__", "a" * 100_000, "日本語", "rpc.discover"):
        body = json.dumps(call | {"method": method}).encode()
        assert code_of(wire_format, server.send(wire_format.post(body))) == -32601


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[:2], ids=str)
def test_method_of_other_version_is_not_found_with_hint(
    server: Server, wire_format: WireFormat
) -> None:
    other = WireFormat(wire_format.binding, "0.3" if wire_format.is_new else "1.0")
    body = other.call({"id": "x"}, "get")
    error = check_error(server.send(wire_format.post(body)), wire_format)
    assert error["code"] == -32601
    assert "A2A-Version" in error["message"]


@pytest.mark.parametrize("binding", ["JSON-RPC", "REST"])
@pytest.mark.parametrize("version", ["2.0", "0.2", "1", "x" * 200, "1.0, 0.3", "-1", "１.０", "🙂"])
def test_unsupported_versions_are_rejected(server: Server, binding: str, version: str) -> None:
    wire_format = WireFormat(binding, "1.0")
    headers = {"A2A_Version": version.encode().decode("latin-1")}
    error = check_error(server.send(wire_format.post(b"{}", **headers)), wire_format)
    assert error["code"] == (-32009 if wire_format.is_rpc else 400)
    assert "is not supported" in error["message"]
    if wire_format.is_rpc:
        named = server.send(wire_format.post(wire_format.call({}, call_id="七"), **headers))
        assert (named.json["id"], named.json["error"]["code"]) == ("七", -32009)


@every_wire_format
def test_duplicate_keys_are_accepted(server: Server, wire_format: WireFormat) -> None:
    once = wire_format.send("hello", "twice-over").partition(b"\r\n\r\n")[2]
    twice = once.replace(b'"messageId"', b'"messageId": "other", "messageId"')
    reply = server.send(wire_format.post(twice))
    assert reply.status == 200
    assert b"echo: hello" in reply.body


@every_wire_format
def test_long_ids_are_rejected_with_short_error(server: Server, wire_format: WireFormat) -> None:
    for size in (1000, MAX_BODY_BYTES - 10_000):
        for name in ("messageId", "contextId", "taskId"):
            message = wire_format.message("hello", "long-id")
            message[name] = "i" * size
            params = {"message" if wire_format.is_rpc or wire_format.is_new else "request": message}
            check_error(server.send(wire_format.post(wire_format.call(params))), wire_format)
        if wire_format.is_rpc:
            check_error(server.send(wire_format.get("i" * size)), wire_format)
    ten_megabytes = wire_format.post(wire_format.call({"id": "i" * 10 * MAX_BODY_BYTES}, "get"))
    check_error(server.send(ten_megabytes), wire_format, status=413)


@every_wire_format
def test_task_of_other_caller_is_not_found(server: Server, wire_format: WireFormat) -> None:
    reply = server.send(wire_format.send("hello", f"foreign-{wire_format}"))
    document = reply.json
    document = document.get("result", document)
    task = document.get("task", document)
    theirs = check_error(server.send(wire_format.get(task["id"], token=BOB)), wire_format)
    none = check_error(server.send(wire_format.get("no-such-task", token=BOB)), wire_format)
    assert theirs["code"] == none["code"]
    assert theirs["message"].replace(task["id"], "") == none["message"].replace("no-such-task", "")
    for name, foreign in (("contextId", task["contextId"]), ("taskId", task["id"])):
        message = wire_format.message("hello", f"intruder-{name}", **{name: foreign})
        params = {"message" if wire_format.is_rpc or wire_format.is_new else "request": message}
        made_up = {**params}
        key = next(iter(params))
        made_up[key] = {**message, name: "0123456789"}
        theirs = check_error(
            server.send(wire_format.post(wire_format.call(params), token=BOB)), wire_format
        )
        if name == "taskId":
            none = check_error(
                server.send(wire_format.post(wire_format.call(made_up), token=BOB)), wire_format
            )
            assert theirs["code"] == none["code"]


@every_wire_format
def test_unknown_and_missing_tokens_have_same_error(
    server: Server, wire_format: WireFormat
) -> None:
    body = wire_format.call({"id": "x"}, "get")
    replies = [
        server.send(wire_format.post(body, token=token)) for token in ("", "acc_unknown", "x" * 9)
    ]
    replies += [
        server.send(wire_format.post(body, token="", Authorization=credentials))
        for credentials in (
            "",
            "Bearer",
            "Bearer ",
            "Basic YTpi",
            f"Bearer{ALICE}",
            ALICE,
            "Bearer \xff",
        )
    ]
    for reply in replies:
        check_error(reply, wire_format, status=401)
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert len({reply.body for reply in replies}) == 1


@every_wire_format
def test_unauthenticated_request_is_rejected_before_body_is_read(
    server: Server, wire_format: WireFormat
) -> None:
    headers = wire_format.headers("", Content_Length=str(MAX_BODY_BYTES))
    with server.connect() as connection:
        connection.sendall(head("POST", wire_format.path, headers))
        check_error(read_reply(connection), wire_format, status=401)
