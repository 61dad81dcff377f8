"""Bodies that strangers send over real sockets: the protocol's own errors in every shape."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from server_process import (
    ALICE,
    BOB,
    SIDES,
    Reply,
    Server,
    Side,
    check_error,
    head,
    read_reply,
    tokens_file,
)

PATIENCE = 1.0
MOST_BODY = 1024 * 1024
RPC, REST = Side("JSON-RPC", "1.0"), Side("REST", "1.0")
NOBODY = "acc_nobody"
HOST = [("Host", "127.0.0.1")]

every_side = pytest.mark.parametrize("side", SIDES, ids=str)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows two callers and has little patience."""
    folder = tmp_path_factory.mktemp("hostile")
    options = ["--tokens", str(tokens_file(folder)), "--max-body", "1M"]
    with Server(folder, *options, "--request-timeout", str(PATIENCE)) as started:
        yield started
        assert_it_serves(started)
        assert "internal error" not in started.log
        assert "Traceback" not in started.log


def assert_it_serves(server: Server) -> None:
    reply = server.send(RPC.send("hello", f"fine-{time.monotonic_ns()}"))
    assert reply.status == 200
    assert "echo: hello" in reply.body.decode()


def code_of(side: Side, reply: Reply, *, status: int = 0) -> int:
    code: int = check_error(reply, side, status=status)["code"]
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


@every_side
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_json_is_a_parse_error(server: Server, side: Side, body: bytes) -> None:
    code = code_of(side, server.send(side.post(body)))
    if side.is_rpc:
        assert code in (-32700, -32600)
    elif side.is_new:
        assert code == 400
    else:
        assert code in (-32700, -32602)


@every_side
@pytest.mark.parametrize("opening", [b"[", b'{"a":'], ids=["lists", "objects"])
def test_deep_nesting_is_refused(server: Server, side: Side, opening: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    deep = opening * 20_000 + b"1" + closing * 20_000
    check_error(server.send(side.post(deep)), side)
    message = side.message("hello", "deep", metadata={"deep": "HERE"})
    params = {"message" if side.is_rpc or side.is_new else "request": message}
    placed = side.call(params).replace(b'"HERE"', deep)
    check_error(server.send(side.post(placed)), side)


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


@every_side
def test_wrong_types_anywhere_are_told_as_such(server: Server, side: Side) -> None:
    whole = side.message("hello", "wrong-types", contextId="", metadata={})
    fields = [*whole, "taskId", "extensions", "referenceTaskIds"]
    envelope = "message" if side.is_rpc or side.is_new else "request"
    refused = 0
    for number, wrong in enumerate(WRONG):
        for name in fields:
            params: dict[str, Any] = {
                envelope: {**whole, "messageId": f"w-{number}-{name}", name: wrong}
            }
            refused += is_refused(server, side, params)
        for name in (envelope, "configuration", "metadata", "tenant"):
            params = {
                envelope: {**whole, "messageId": f"v-{number}-{name}"},
                name: wrong,
            }
            refused += is_refused(server, side, params)
        refused += is_refused(server, side, wrong)
    assert refused > len(WRONG) * 5


def is_refused(server: Server, side: Side, params: object) -> bool:
    reply = server.send(side.post(side.call(params)))
    assert reply.status < 500, (params, reply)
    if reply.status == 200 and "error" not in reply.json:
        return False
    check_error(reply, side)
    return True


@every_side
def test_numbers_that_no_machine_can_hold_do_no_harm(server: Server, side: Side) -> None:
    for number, held in enumerate((10**30, -(10**400), 1e308, "1e999", "0.1e-999", 2**64)):
        message = side.message("parts", f"big-{number}", metadata={"n": "HERE"})
        params = {"message" if side.is_rpc or side.is_new else "request": message}
        body = side.call(params).replace(b'"HERE"', str(held).encode())
        reply = server.send(side.post(body))
        assert reply.status in (200, 400), reply


@pytest.mark.parametrize("side", SIDES[:2], ids=str)
def test_strange_ids_of_calls_come_back_or_are_refused(server: Server, side: Side) -> None:
    for call_id in ("", "a" * 1000, 0, -1, 2**63, 1.5, None):
        reply = server.send(side.post(side.call({"id": "no-such"}, "get", call_id)))
        check_error(reply, side)
        assert reply.json["id"] == call_id
    strange: list[Any] = [True, [], {}, [1]]
    for wrong in strange:
        reply = server.send(side.post(side.call({"id": "no-such"}, "get", wrong)))
        assert code_of(side, reply) == -32600
        assert reply.json["id"] is None


@pytest.mark.parametrize("side", SIDES[:2], ids=str)
def test_calls_that_are_none_are_told_so(server: Server, side: Side) -> None:
    call = {"jsonrpc": "2.0", "id": 7, "method": side.method("get"), "params": {"id": "x"}}
    for change in (
        {"jsonrpc": "1.0"},
        {"jsonrpc": 2.0},
        {"jsonrpc": None},
        {"method": None},
        {"method": 1},
        {"method": ["GetTask"]},
    ):
        body = json.dumps(call | change).encode()
        assert code_of(side, server.send(side.post(body))) == -32600
    for lacking in ("jsonrpc", "method"):
        body = json.dumps({name: held for name, held in call.items() if name != lacking}).encode()
        assert code_of(side, server.send(side.post(body))) == -32600
    for batch in ([], [call], [call] * 1000, [1, 2]):
        body = json.dumps(batch).encode()
        assert code_of(side, server.send(side.post(body))) == -32600
    for method in ("", "GetTasks", "__class__", "a" * 100_000, "日本語", "rpc.discover"):
        body = json.dumps(call | {"method": method}).encode()
        assert code_of(side, server.send(side.post(body))) == -32601


@pytest.mark.parametrize("side", SIDES[:2], ids=str)
def test_a_method_of_the_other_generation_is_unknown_and_says_why(
    server: Server, side: Side
) -> None:
    other = Side(side.binding, "0.3" if side.is_new else "1.0")
    body = other.call({"id": "x"}, "get")
    error = check_error(server.send(side.post(body)), side)
    assert error["code"] == -32601
    assert "A2A-Version" in error["message"]


@pytest.mark.parametrize("binding", ["JSON-RPC", "REST"])
@pytest.mark.parametrize("version", ["2.0", "0.2", "1", "x" * 200, "1.0, 0.3", "-1", "１.０", "🙂"])
def test_versions_that_are_not_spoken_are_refused(
    server: Server, binding: str, version: str
) -> None:
    side = Side(binding, "1.0")
    headers = {"A2A_Version": version.encode().decode("latin-1")}
    error = check_error(server.send(side.post(b"{}", **headers)), side)
    assert error["code"] == (-32009 if side.is_rpc else 400)
    assert "is not supported" in error["message"]
    if side.is_rpc:
        named = server.send(side.post(side.call({}, call_id="七"), **headers))
        assert (named.json["id"], named.json["error"]["code"]) == ("七", -32009)


@every_side
def test_duplicate_keys_are_read_as_one(server: Server, side: Side) -> None:
    once = side.send("hello", "twice-over").partition(b"\r\n\r\n")[2]
    twice = once.replace(b'"messageId"', b'"messageId": "other", "messageId"')
    reply = server.send(side.post(twice))
    assert reply.status == 200
    assert b"echo: hello" in reply.body


@every_side
def test_ids_of_any_length_are_refused_in_few_words(server: Server, side: Side) -> None:
    for size in (1000, MOST_BODY - 10_000):
        for name in ("messageId", "contextId", "taskId"):
            message = side.message("hello", "long-id")
            message[name] = "i" * size
            params = {"message" if side.is_rpc or side.is_new else "request": message}
            check_error(server.send(side.post(side.call(params))), side)
        if side.is_rpc:
            check_error(server.send(side.get("i" * size)), side)
    ten_megabytes = side.post(side.call({"id": "i" * 10 * MOST_BODY}, "get"))
    check_error(server.send(ten_megabytes), side, status=413)


@every_side
def test_what_belongs_to_another_does_not_exist(server: Server, side: Side) -> None:
    reply = server.send(side.send("hello", f"foreign-{side}"))
    document = reply.json
    document = document.get("result", document)
    task = document.get("task", document)
    theirs = check_error(server.send(side.get(task["id"], token=BOB)), side)
    none = check_error(server.send(side.get("no-such-task", token=BOB)), side)
    assert theirs["code"] == none["code"]
    assert theirs["message"].replace(task["id"], "") == none["message"].replace("no-such-task", "")
    for name, foreign in (("contextId", task["contextId"]), ("taskId", task["id"])):
        message = side.message("hello", f"intruder-{name}", **{name: foreign})
        params = {"message" if side.is_rpc or side.is_new else "request": message}
        made_up = {**params}
        key = next(iter(params))
        made_up[key] = {**message, name: "0123456789"}
        theirs = check_error(server.send(side.post(side.call(params), token=BOB)), side)
        if name == "taskId":
            none = check_error(server.send(side.post(side.call(made_up), token=BOB)), side)
            assert theirs["code"] == none["code"]


@every_side
def test_unknown_and_missing_tokens_are_refused_in_the_same_words(
    server: Server, side: Side
) -> None:
    body = side.call({"id": "x"}, "get")
    replies = [server.send(side.post(body, token=token)) for token in ("", "acc_unknown", "x" * 9)]
    replies += [
        server.send(side.post(body, token="", Authorization=held))
        for held in ("", "Bearer", "Bearer ", "Basic YTpi", f"Bearer{ALICE}", ALICE, "Bearer \xff")
    ]
    for reply in replies:
        check_error(reply, side, status=401)
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert len({reply.body for reply in replies}) == 1


@every_side
def test_a_stranger_is_refused_before_a_body_is_read(server: Server, side: Side) -> None:
    headers = side.headers("", Content_Length=str(MOST_BODY))
    with server.connect() as connection:
        connection.sendall(head("POST", side.path, headers))
        check_error(read_reply(connection), side, status=401)
