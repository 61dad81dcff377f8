"""Invalid HTTP requests: the server returns protocol errors and continues to serve."""

import socket
import time
from collections.abc import Iterator

import pytest
from limited_server import (
    HOST,
    MAX_BODY_BYTES,
    REST,
    RPC,
    TIMEOUT_SECONDS,
    UNKNOWN_TOKEN,
    assert_server_responds,
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
    read_until_closed,
)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server without tokens, which accepts only local requests."""
    with Server(tmp_path_factory.mktemp("open")) as started:
        yield started


# Sizes and timeouts


@every_wire_format
def test_oversized_bodies_are_rejected(server: Server, wire_format: WireFormat) -> None:
    declared = head(
        "POST", wire_format.path, wire_format.headers(Content_Length=str(10 * MAX_BODY_BYTES))
    )
    check_error(server.send(declared), wire_format, status=413)
    chunked = head("POST", wire_format.path, wire_format.headers(Transfer_Encoding="chunked"))
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    check_error(server.send(chunked + piece * 40), wire_format, status=413)


@every_wire_format
def test_body_in_small_chunks_is_accepted(server: Server, wire_format: WireFormat) -> None:
    body = wire_format.send("hello", f"pieces-{wire_format}").partition(b"\r\n\r\n")[2]
    raw = head("POST", wire_format.path, wire_format.headers(Transfer_Encoding="chunked"))
    raw += b"".join(b"%x;ext=1\r\n%b\r\n" % (1, body[at : at + 1]) for at in range(len(body)))
    assert b"echo: hello" in server.send(raw + b"0\r\nTrailer: x\r\n\r\n").body


@every_wire_format
def test_large_and_many_headers_are_rejected(server: Server, wire_format: WireFormat) -> None:
    check_error(server.send(wire_format.post(b"{}", X_Large="x" * 40_000)), wire_format, status=431)
    many = {f"X_{number}": "y" for number in range(10_000)}
    reply = server.send(wire_format.post(b"{}", **many))
    check_error(reply, wire_format, status=431)


def test_endless_head_closes_connection(server: Server) -> None:
    for endless in (b"POST / HTTP/1.1\r\nX: ", b"POST /", b"POST / HTTP/1.1\r\n"):
        filler = b"a: b\r\n" if endless.endswith(b"\n") else b"a" * 6
        before = server.memory()
        reply = server.send(endless + filler * 1_000_000)
        assert reply.status in (0, 431)
        assert server.memory() - before < 8 * MAX_BODY_BYTES


def test_idle_connections_are_closed(server: Server) -> None:
    began = time.monotonic()
    with server.connect() as silent, server.connect() as slow, server.connect() as half:
        slow.sendall(b"POST / HTTP/1.1\r\nHost:")
        half.shutdown(socket.SHUT_WR)
        for _ in range(3):
            time.sleep(TIMEOUT_SECONDS / 4)
            slow.sendall(b" ")
        assert read_until_closed(silent, 5 * TIMEOUT_SECONDS) == b""
        assert read_until_closed(slow, 5 * TIMEOUT_SECONDS) == b""
        assert read_until_closed(half, 5 * TIMEOUT_SECONDS) == b""
    assert time.monotonic() - began < 5 * TIMEOUT_SECONDS


def test_keep_alive_connection_times_out(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(RPC.send("hello", "kept"))
        assert read_reply(connection).status == 200
        assert read_until_closed(connection, 5 * TIMEOUT_SECONDS) == b""


@every_wire_format
def test_slow_body_times_out(server: Server, wire_format: WireFormat) -> None:
    with server.connect() as connection:
        connection.sendall(
            head("POST", wire_format.path, wire_format.headers(Content_Length="1000")) + b"{"
        )
        check_error(read_reply(connection), wire_format, status=408)
        assert read_until_closed(connection, 5 * TIMEOUT_SECONDS) == b""


@every_wire_format
def test_disconnect_within_body_is_handled(server: Server, wire_format: WireFormat) -> None:
    raw = wire_format.send("hello", f"left-{wire_format}")
    for cut in (1, 20, len(raw) - 40, len(raw) - 1):
        with server.connect() as connection:
            connection.sendall(raw[:cut])
    message = wire_format.message("hello", f"left-{wire_format}")
    params = {"message" if wire_format.is_rpc or wire_format.is_new else "request": message}
    assert b"echo: hello" in server.send(wire_format.post(wire_format.call(params))).body


def test_unread_response_times_out(server: Server) -> None:
    for number in range(8):
        assert server.send(RPC.send("x" * 900_000, f"large-{number}")).status == 200
    with server.connect(buffer=2048) as connection:
        connection.sendall(head("GET", "/tasks?includeArtifacts=true", REST.headers()))
        time.sleep(4 * TIMEOUT_SECONDS)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS)
    declared = int(received.split(b"content-length: ")[1].split(b"\r\n")[0])
    assert declared > 8 * 1_800_000
    assert len(received) < declared


@every_wire_format
def test_connection_stays_usable_after_rejected_request(
    server: Server, wire_format: WireFormat
) -> None:
    name = f"goes-on-{wire_format}"
    smuggled = wire_format.send("smuggled", f"{name}-smuggled")
    rejected = [
        wire_format.post(b"{"),
        wire_format.post(smuggled, token=UNKNOWN_TOKEN),
        wire_format.post(smuggled, token=""),
        wire_format.post(smuggled, path="/nothing/at/all"),
        wire_format.post(smuggled, A2A_Version="7.0"),
        wire_format.post(smuggled, Content_Type="text/plain"),
    ]
    with server.connect() as connection:
        for raw in rejected:
            connection.sendall(raw)
            reply = read_reply(connection)
            assert "smuggled" not in reply.body.decode()
        connection.sendall(wire_format.send("hello", name))
        assert b"echo: hello" in read_reply(connection).body


# Request heads


SMUGGLED = head("POST", "/", RPC.headers(Content_Length="2")) + b"{}"
CHUNKED = [("Transfer-Encoding", "chunked")]
HEADS = {
    "two lengths": [("Content-Length", "5"), ("Content-Length", "6")],
    "two equal lengths": [("Content-Length", "5"), ("Content-Length", "5")],
    "a list of lengths": [("Content-Length", "5, 5")],
    "a negative length": [("Content-Length", "-5")],
    "a signed length": [("Content-Length", "+5")],
    "a hexadecimal length": [("Content-Length", "0x5")],
    "a length without end": [("Content-Length", "9" * 100)],
    "length and chunks": [("Content-Length", "5"), *CHUNKED],
    "chunks and length": [*CHUNKED, ("Content-Length", "5")],
    "chunks twice": [*CHUNKED, ("Transfer-Encoding", "identity")],
    "unknown coding": [("Transfer-Encoding", "xchunked")],
    "a space before the colon": [("Transfer-Encoding ", "chunked")],
    "a vertical tab": [("Transfer-Encoding", "\x0bchunked")],
    "a folded line": [("X", "a\r\n b")],
    "a bare line feed": [("X", "a\nContent-Length: 5")],
    "a bare carriage return": [("X", "a\rContent-Length: 5")],
    "a NUL in a value": [("X", "a\x00b")],
    "a NUL in a name": [("X\x00Y", "a")],
    "a space in a name": [("X Y", "a")],
    "an empty name": [("", "a")],
}


@pytest.mark.parametrize("extra", HEADS.values(), ids=HEADS.keys())
def test_ambiguous_heads_are_rejected_and_close_connection(
    server: Server, extra: list[tuple[str, str]]
) -> None:
    headers = [*RPC.headers().items(), *extra]
    with server.connect() as connection:
        connection.sendall(head("POST", "/", headers) + b"0\r\n\r\n" + SMUGGLED)
        reply = read_reply(connection)
        assert reply.status in (400, 408), reply
        assert read_until_closed(connection, 5 * TIMEOUT_SECONDS) == b"", (
            "an answer to what was smuggled"
        )


@every_wire_format
@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("Authorization", f"Bearer {BOB}", f"Bearer {ALICE}"),
        ("Authorization", f"Bearer {ALICE}", "Bearer x"),
        ("Content-Type", "application/json", "text/plain"),
        ("Host", "127.0.0.1", "evil.example"),
        ("A2A-Version", "1.0", "0.3"),
    ],
)
def test_duplicate_single_value_headers_are_rejected(
    server: Server, wire_format: WireFormat, name: str, first: str, second: str
) -> None:
    headers = [(key, value) for key, value in wire_format.headers().items() if key != name]
    headers += [("Content-Length", "2"), (name, first), (name, second)]
    expected = wire_format if name != "A2A-Version" else WireFormat(wire_format.binding, "1.0")
    status = 401 if name == "Authorization" else 400
    reply = server.send(head("POST", wire_format.path, headers) + b"{}")
    assert reply.status == status, reply
    if status == 400:
        assert "occurs twice" in check_error(reply, expected, status=status)["message"]


def test_request_without_host_is_rejected(server: Server) -> None:
    headers = {name: value for name, value in REST.headers().items() if name != "Host"}
    check_error(server.send(head("GET", "/tasks", headers)), REST, status=400)


def test_http_1_0_response_closes_connection(server: Server) -> None:
    raw = RPC.send("hello", "old").replace(b"HTTP/1.1", b"HTTP/1.0")
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"echo: hello" in read_reply(connection).body
        assert connection.recv(1) == b""


def test_non_http_data_is_rejected(server: Server) -> None:
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"get / http/1.1\r\n\r\n",
        b"FROB / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\r\n" * 100 + b"nonsense\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /日本語 HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n",
    ):
        reply = server.send(raw)
        assert reply.status in (0, 400, 404, 405), (raw, reply)
        assert reply.status == 0 or reply.json  # the error of the protocol
        assert b"Traceback" not in reply.body


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    raw = b"".join(RPC.send(f"number {number}", f"pipe-{number}") for number in range(5))
    with server.connect() as connection:
        connection.sendall(raw)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS).decode()
    places = [received.index(f"echo: number {number}") for number in range(5)]
    assert places == sorted(places)


@every_wire_format
def test_half_closed_connection_receives_response(server: Server, wire_format: WireFormat) -> None:
    with server.connect() as connection:
        connection.sendall(wire_format.send("hello", f"half-{wire_format}"))
        connection.shutdown(socket.SHUT_WR)  # the response may be sent before the end is received
        assert b"echo: hello" in read_until_closed(connection, 5 * TIMEOUT_SECONDS)
    with server.connect() as connection:
        connection.sendall(
            wire_format.send(f"sleep {TIMEOUT_SECONDS / 4}", f"half-later-{wire_format}")
        )
        connection.shutdown(socket.SHUT_WR)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS)
    assert b"awake" in received
    assert b"connection: close" in received.lower()


def test_pipelined_requests_before_half_close_are_answered(server: Server) -> None:
    with server.connect() as connection:
        for number in range(3):
            connection.sendall(RPC.send(f"number {number}", f"half-pipe-{number}"))
        connection.shutdown(socket.SHUT_WR)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS).decode()
    assert [f"echo: number {number}" in received for number in range(3)] == [True, True, True]


def test_half_closed_connection_is_closed_after_timeout(server: Server) -> None:
    began = time.monotonic()
    with server.connect() as connection:
        connection.sendall(RPC.send("sleep 4", "half-slow"))
        connection.shutdown(socket.SHUT_WR)
        assert read_until_closed(connection, 10 * TIMEOUT_SECONDS) == b""
    assert TIMEOUT_SECONDS / 2 < time.monotonic() - began < 5 * TIMEOUT_SECONDS
    with server.connect() as connection:  # an incomplete request
        connection.sendall(RPC.send("hello", "half-half")[:-5])
        connection.shutdown(socket.SHUT_WR)
        assert b"echo" not in read_until_closed(connection, 5 * TIMEOUT_SECONDS)


def test_expect_header_receives_100_continue(server: Server) -> None:
    raw = RPC.post(RPC.call({"id": "x"}, "get"), Expect="100-continue")
    heads, _, body = raw.partition(b"\r\n\r\n")
    with server.connect() as connection:
        connection.sendall(heads + b"\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_reply(connection).status == 200
    unauthenticated = head("POST", "/", RPC.headers("", Content_Length="9", Expect="100-continue"))
    check_error(server.send(unauthenticated), RPC, status=401)


def test_websocket_upgrade_is_not_accepted(server: Server) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    check_error(server.send(head("GET", "/", REST.headers() | upgrade)), REST, status=405)
    for protocol in ("h2c", "websocket", "TLS/1.0"):
        raw = head("GET", "/health", [*HOST, ("Connection", "Upgrade"), ("Upgrade", protocol)])
        assert server.send(raw).status == 200


# Paths


UNKNOWN_PATHS = [
    "/nothing",
    "/../../etc/passwd",
    "/..%2f..%2fetc%2fpasswd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/.well-known/../tasks/x/y/z",
    "/.well-known/agent-card.json/..",
    "/tasks/a/b/c/d/e",
    "/v1/v1/v1",
    "/message:send/x",
    "/\\..\\..\\windows",
    "/openapi.json/",
    "/a/b/tasks",
    "/" + "a/" * 5000,
]


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[2:], ids=str)
@pytest.mark.parametrize("path", UNKNOWN_PATHS, ids=lambda path: path[:30])
def test_unknown_paths_are_not_found(server: Server, wire_format: WireFormat, path: str) -> None:
    check_error(server.send(head("GET", path, wire_format.headers())), wire_format, status=404)


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[2:], ids=str)
@pytest.mark.parametrize("name", ["..", "%2e%2e%2f%2e%2e", "a%2Fb", "%00", "%ff%fe", "%", "a%zz"])
def test_unusual_task_ids_are_not_found(server: Server, wire_format: WireFormat, name: str) -> None:
    error = check_error(server.send(wire_format.get(name)), wire_format, status=404)
    assert error["code"] == (404 if wire_format.is_new else -32001)


@pytest.mark.parametrize("tenant", ["%00", "a%2Fb", "%C2%84", "a" * 129, "%E5%96%B6" * 30])
def test_invalid_tenant_names_are_rejected(server: Server, tenant: str) -> None:
    raw = head("GET", f"/{tenant}/tasks", REST.headers())
    error = check_error(server.send(raw), REST, status=400)
    assert error["message"].startswith("tenant: ")


def test_tasks_of_tenants_are_isolated(server: Server) -> None:
    body = REST.call({"message": REST.message("hello", "in-a-tenant")})
    tenant = "%E5%96%B6%E6%A5%AD%E9%83%A8"
    task = server.send(REST.post(body, path=f"/{tenant}/message:send")).json["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    within = head("GET", f"/{tenant}/tasks/{task['id']}", REST.headers())
    assert server.send(within).json["id"] == task["id"]
    check_error(server.send(REST.get(task["id"])), REST, status=404)


def test_absolute_request_target_is_accepted(server: Server) -> None:
    raw = head("GET", "http://127.0.0.1/health", HOST)
    assert server.send(raw).json == {"status": "ok"}


@pytest.mark.parametrize("wire_format", WIRE_FORMATS[2:], ids=str)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "DELETE", "PROPFIND"])
def test_unsupported_method_response_lists_allowed_methods(
    server: Server, wire_format: WireFormat, method: str
) -> None:
    prefix = "" if wire_format.is_new else "/v1"
    for path, allowed in (
        ("/", "POST"),
        ("/health", "GET, HEAD"),
        ("/openapi.json", "GET, HEAD"),
        ("/.well-known/agent-card.json", "GET, HEAD"),
        (f"{prefix}/message:send", "POST"),
        (f"{prefix}/tasks", "GET"),
        (f"{prefix}/tasks/x:cancel", "POST"),
        (f"{prefix}/tasks/x:subscribe", "POST, GET"),
        (f"{prefix}/tasks/x/pushNotificationConfigs", "POST, GET"),
    ):
        reply = server.send(head(method, path, wire_format.headers()))
        check_error(reply, wire_format, status=405)
        assert reply.headers["allow"] == allowed


def test_head_is_supported_except_for_streams(server: Server) -> None:
    for path, status in (("/health", 200), ("/tasks", 200), ("/tasks/x", 404)):
        with server.connect() as connection:
            connection.sendall(head("HEAD", path, REST.headers()))
            reply = read_reply(connection, "HEAD")
            assert (reply.status, reply.body) == (status, b"")
    with server.connect() as connection:
        connection.sendall(head("HEAD", "/tasks/x:subscribe", REST.headers()))
        assert read_reply(connection, "HEAD").status == 405


def test_invalid_query_strings_are_rejected(server: Server) -> None:
    wire_format = REST
    for query in (
        "pageSize=x",
        "pageSize=-1",
        "pageSize=99999999999999",
        "pageSize=%FF",
        "historyLength=1.5",
        "status=SLEEPING",
        "includeArtifacts=perhaps",
        "statusTimestampAfter=yesterday",
        "pageToken=%00",
        "pageToken=" + "x" * 5000,
        "&".join(f"a{number}=1" for number in range(100)),
    ):
        check_error(
            server.send(head("GET", f"/tasks?{query}", wire_format.headers())),
            wire_format,
            status=400,
        )


@every_wire_format
@pytest.mark.parametrize(
    "event_id", ["x", "-1", "1.5", "9" * 400, "１", "1\t2", "\xff", "0x10", "1,2"]
)
def test_non_numeric_last_event_id_is_rejected(
    server: Server, wire_format: WireFormat, event_id: str
) -> None:
    headers = {"Last_Event_ID": event_id.encode("utf-8").decode("latin-1")}
    if wire_format.is_rpc:
        raw = wire_format.post(wire_format.call({"id": "no-such"}, "subscribe"), **headers)
    else:
        path = "/tasks/no-such:subscribe" if wire_format.is_new else "/v1/tasks/no-such:subscribe"
        raw = wire_format.post(b"", path=path, **headers)
    reply = server.send(raw)
    if reply.headers["content-type"].startswith("text/event-stream"):
        assert wire_format == WireFormat("JSON-RPC", "0.3")
        reply = Reply(200, reply.headers, reply.body.removeprefix(b"data: "))
    assert "Last-Event-ID" in check_error(reply, wire_format)["message"]


# Requests that a web page can send


@every_wire_format
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "",
        "text/plain; application/json",
        "application/jsonp",
        "application/xml",
    ],
)
def test_cors_simple_content_types_are_rejected(
    server: Server, wire_format: WireFormat, kind: str
) -> None:
    raw = wire_format.send("hello", "from-a-page").replace(
        b"Content-Type: application/json", b"Content-Type: " + kind.encode()
    )
    error = check_error(server.send(raw), wire_format, status=415)
    assert "application/json" in error["message"]


@every_wire_format
def test_compressed_body_is_rejected(server: Server, wire_format: WireFormat) -> None:
    for coding in ("gzip", "deflate", "br", "identity, gzip"):
        raw = wire_format.post(b"{}", Content_Encoding=coding)
        check_error(server.send(raw), wire_format, status=415)


@every_wire_format
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]", "localhost."],
)
def test_open_server_rejects_foreign_host_names(
    open_server: Server, wire_format: WireFormat, host: str
) -> None:
    raw = wire_format.post(wire_format.call({}), token="", Host=host)
    check_error(open_server.send(raw), wire_format, status=421)
    card = head("GET", "/.well-known/agent-card.json", [("Host", host)])
    assert open_server.send(card).status == 421


def test_open_server_accepts_local_host_names(open_server: Server) -> None:
    for host in ("localhost", "127.0.0.1:1234", "LOCALHOST:80", "[::1]:99"):
        assert open_server.send(head("GET", "/health", [("Host", host)])).status == 200


def test_listing_requires_authentication(server: Server) -> None:
    reply = server.send(head("GET", "/tasks", REST.headers("")))
    check_error(reply, REST, status=401)


# Load


def test_memory_is_stable_after_thousands_of_bad_requests(server: Server) -> None:
    bad = [
        *(
            wire_format.post(body)
            for wire_format in WIRE_FORMATS
            for body in (b"{", b"[]", b"[" * 5000, b"\xff" * 5000)
        ),
        *(wire_format.get(f"none-{number}") for wire_format in WIRE_FORMATS for number in range(4)),
        *(wire_format.post(b"{}", token=UNKNOWN_TOKEN) for wire_format in WIRE_FORMATS),
        *(wire_format.post(b"x" * 100_000) for wire_format in WIRE_FORMATS),
        head("GET", "/nothing", HOST),
        b"nonsense\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n",
    ]

    def send_all(times: int) -> None:
        for number in range(times):
            raw = bad[number % len(bad)]
            with server.connect() as connection:
                connection.sendall(raw)
                if number % 7:
                    read_reply(connection)

    send_all(1000)
    before = server.memory()
    send_all(3000)
    assert server.memory() - before < 4 * 1024 * 1024
    assert_server_responds(server)


def test_idle_connections_do_not_block_other_clients(
    server: Server,
) -> None:
    connections = [server.connect() for _ in range(300)]
    try:
        for connection in connections[::2]:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n")
        assert_server_responds(server)
    finally:
        for connection in connections:
            connection.close()
