"""What strangers send over real sockets: the protocol's own errors, and a server that goes on."""

import socket
import time
from collections.abc import Iterator

import pytest
from server_process import (
    ALICE,
    BOB,
    SIDES,
    Reply,
    Server,
    Side,
    check_error,
    closes_within,
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


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server without tokens, which is for this machine only."""
    with Server(tmp_path_factory.mktemp("open")) as started:
        yield started


def assert_it_serves(server: Server) -> None:
    reply = server.send(RPC.send("hello", f"fine-{time.monotonic_ns()}"))
    assert reply.status == 200
    assert "echo: hello" in reply.body.decode()


# Sizes and times


@every_side
def test_huge_bodies_are_refused_however_they_come(server: Server, side: Side) -> None:
    declared = head("POST", side.path, side.headers(Content_Length=str(10 * MOST_BODY)))
    check_error(server.send(declared), side, status=413)
    chunked = head("POST", side.path, side.headers(Transfer_Encoding="chunked"))
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    check_error(server.send(chunked + piece * 40), side, status=413)


@every_side
def test_bodies_in_small_pieces_are_read(server: Server, side: Side) -> None:
    whole = side.send("hello", f"pieces-{side}").partition(b"\r\n\r\n")[2]
    raw = head("POST", side.path, side.headers(Transfer_Encoding="chunked"))
    raw += b"".join(b"%x;ext=1\r\n%b\r\n" % (1, whole[at : at + 1]) for at in range(len(whole)))
    assert b"echo: hello" in server.send(raw + b"0\r\nTrailer: x\r\n\r\n").body


@every_side
def test_large_and_many_headers_are_refused(server: Server, side: Side) -> None:
    check_error(server.send(side.post(b"{}", X_Large="x" * 40_000)), side, status=431)
    many = {f"X_{number}": "y" for number in range(10_000)}
    reply = server.send(side.post(b"{}", **many))
    check_error(reply, side, status=431)


def test_a_head_without_end_is_cut_off(server: Server) -> None:
    for endless in (b"POST / HTTP/1.1\r\nX: ", b"POST /", b"POST / HTTP/1.1\r\n"):
        filler = b"a: b\r\n" if endless.endswith(b"\n") else b"a" * 6
        before = server.memory()
        reply = server.send(endless + filler * 1_000_000)
        assert reply.status in (0, 431)
        assert server.memory() - before < 8 * MOST_BODY


def test_connections_that_say_nothing_are_closed(server: Server) -> None:
    began = time.monotonic()
    with server.connect() as silent, server.connect() as slow, server.connect() as half:
        slow.sendall(b"POST / HTTP/1.1\r\nHost:")
        half.shutdown(socket.SHUT_WR)
        for _ in range(3):
            time.sleep(PATIENCE / 4)
            slow.sendall(b" ")
        assert closes_within(silent, 5 * PATIENCE) == b""
        assert closes_within(slow, 5 * PATIENCE) == b""
        assert closes_within(half, 5 * PATIENCE) == b""
    assert time.monotonic() - began < 5 * PATIENCE


def test_a_connection_is_not_kept_for_ever_after_its_answer(server: Server) -> None:
    with server.connect() as connection:
        connection.sendall(RPC.send("hello", "kept"))
        assert read_reply(connection).status == 200
        assert closes_within(connection, 5 * PATIENCE) == b""


@every_side
def test_a_slow_body_is_given_up(server: Server, side: Side) -> None:
    with server.connect() as connection:
        connection.sendall(head("POST", side.path, side.headers(Content_Length="1000")) + b"{")
        check_error(read_reply(connection), side, status=408)
        assert closes_within(connection, 5 * PATIENCE) == b""


@every_side
def test_a_client_that_leaves_within_its_body_does_no_harm(server: Server, side: Side) -> None:
    raw = side.send("hello", f"left-{side}")
    for cut in (1, 20, len(raw) - 40, len(raw) - 1):
        with server.connect() as connection:
            connection.sendall(raw[:cut])
    message = side.message("hello", f"left-{side}")
    params = {"message" if side.is_rpc or side.is_new else "request": message}
    assert b"echo: hello" in server.send(side.post(side.call(params))).body


def test_an_answer_that_nobody_fetches_is_given_up(server: Server) -> None:
    for number in range(8):
        assert server.send(RPC.send("x" * 900_000, f"large-{number}")).status == 200
    with server.connect(buffer=2048) as connection:
        connection.sendall(head("GET", "/tasks?includeArtifacts=true", REST.headers()))
        time.sleep(4 * PATIENCE)
        got = closes_within(connection, 5 * PATIENCE)
    declared = int(got.split(b"content-length: ")[1].split(b"\r\n")[0])
    assert declared > 8 * 1_800_000
    assert len(got) < declared


@every_side
def test_a_connection_goes_on_after_what_was_refused_on_it(server: Server, side: Side) -> None:
    name = f"goes-on-{side}"
    smuggled = side.send("smuggled", f"{name}-smuggled")
    refused = [
        side.post(b"{"),
        side.post(smuggled, token=NOBODY),
        side.post(smuggled, token=""),
        side.post(smuggled, path="/nothing/at/all"),
        side.post(smuggled, A2A_Version="7.0"),
        side.post(smuggled, Content_Type="text/plain"),
    ]
    with server.connect() as connection:
        for raw in refused:
            connection.sendall(raw)
            reply = read_reply(connection)
            assert "smuggled" not in reply.body.decode()
        connection.sendall(side.send("hello", name))
        assert b"echo: hello" in read_reply(connection).body


# Heads


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
def test_heads_that_others_could_read_differently_are_refused_and_end_the_connection(
    server: Server, extra: list[tuple[str, str]]
) -> None:
    headers = [*RPC.headers().items(), *extra]
    with server.connect() as connection:
        connection.sendall(head("POST", "/", headers) + b"0\r\n\r\n" + SMUGGLED)
        reply = read_reply(connection)
        assert reply.status in (400, 408), reply
        assert closes_within(connection, 5 * PATIENCE) == b"", "an answer to what was smuggled"


@every_side
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
def test_headers_that_may_come_once_are_refused_twice(
    server: Server, side: Side, name: str, first: str, second: str
) -> None:
    headers = [(held, value) for held, value in side.headers().items() if held != name]
    headers += [("Content-Length", "2"), (name, first), (name, second)]
    seen = side if name != "A2A-Version" else Side(side.binding, "1.0")
    error = check_error(server.send(head("POST", side.path, headers) + b"{}"), seen, status=400)
    assert "occurs twice" in error["message"]


def test_a_request_without_a_host_is_refused(server: Server) -> None:
    headers = {name: held for name, held in REST.headers().items() if name != "Host"}
    check_error(server.send(head("GET", "/tasks", headers)), REST, status=400)


def test_http_1_0_is_answered_and_the_connection_closed(server: Server) -> None:
    raw = RPC.send("hello", "old").replace(b"HTTP/1.1", b"HTTP/1.0")
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"echo: hello" in read_reply(connection).body
        assert connection.recv(1) == b""


def test_what_is_no_http_is_refused(server: Server) -> None:
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
        assert reply.status == 0 or reply.json  # the protocol's own error
        assert b"Traceback" not in reply.body


def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    raw = b"".join(RPC.send(f"number {number}", f"pipe-{number}") for number in range(5))
    with server.connect() as connection:
        connection.sendall(raw)
        got = closes_within(connection, 5 * PATIENCE).decode()
    places = [got.index(f"echo: number {number}") for number in range(5)]
    assert places == sorted(places)


@every_side
def test_who_has_said_all_and_says_so_is_answered(server: Server, side: Side) -> None:
    with server.connect() as connection:
        connection.sendall(side.send("hello", f"half-{side}"))
        connection.shutdown(socket.SHUT_WR)  # the answer may be on its way before this is seen
        assert b"echo: hello" in closes_within(connection, 5 * PATIENCE)
    with server.connect() as connection:
        connection.sendall(side.send(f"sleep {PATIENCE / 4}", f"half-later-{side}"))
        connection.shutdown(socket.SHUT_WR)
        got = closes_within(connection, 5 * PATIENCE)
    assert b"awake" in got
    assert b"connection: close" in got.lower()


def test_several_requests_before_the_end_are_all_answered(server: Server) -> None:
    with server.connect() as connection:
        for number in range(3):
            connection.sendall(RPC.send(f"number {number}", f"half-pipe-{number}"))
        connection.shutdown(socket.SHUT_WR)
        got = closes_within(connection, 5 * PATIENCE).decode()
    assert [f"echo: number {number}" in got for number in range(3)] == [True, True, True]


def test_nobody_waits_long_for_who_may_have_left(server: Server) -> None:
    began = time.monotonic()
    with server.connect() as connection:
        connection.sendall(RPC.send("sleep 4", "half-slow"))
        connection.shutdown(socket.SHUT_WR)
        assert closes_within(connection, 10 * PATIENCE) == b""
    assert PATIENCE / 2 < time.monotonic() - began < 5 * PATIENCE
    with server.connect() as connection:  # half a request
        connection.sendall(RPC.send("hello", "half-half")[:-5])
        connection.shutdown(socket.SHUT_WR)
        assert b"echo" not in closes_within(connection, 5 * PATIENCE)


def test_a_client_that_expects_to_be_asked_for_its_body_is(server: Server) -> None:
    raw = RPC.post(RPC.call({"id": "x"}, "get"), Expect="100-continue")
    heads, _, body = raw.partition(b"\r\n\r\n")
    with server.connect() as connection:
        connection.sendall(heads + b"\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert read_reply(connection).status == 200
    stranger = head("POST", "/", RPC.headers("", Content_Length="9", Expect="100-continue"))
    check_error(server.send(stranger), RPC, status=401)


def test_nobody_gets_a_websocket(server: Server) -> None:
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    check_error(server.send(head("GET", "/", REST.headers() | upgrade)), REST, status=405)
    for held in ("h2c", "websocket", "TLS/1.0"):
        raw = head("GET", "/health", [*HOST, ("Connection", "Upgrade"), ("Upgrade", held)])
        assert server.send(raw).status == 200


# Addresses


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


@pytest.mark.parametrize("side", SIDES[2:], ids=str)
@pytest.mark.parametrize("path", UNKNOWN_PATHS, ids=lambda path: path[:30])
def test_unknown_addresses_are_not_found(server: Server, side: Side, path: str) -> None:
    check_error(server.send(head("GET", path, side.headers())), side, status=404)


@pytest.mark.parametrize("side", SIDES[2:], ids=str)
@pytest.mark.parametrize("name", ["..", "%2e%2e%2f%2e%2e", "a%2Fb", "%00", "%ff%fe", "%", "a%zz"])
def test_strange_names_of_tasks_are_names_of_no_task(server: Server, side: Side, name: str) -> None:
    error = check_error(server.send(side.get(name)), side, status=404)
    assert error["code"] == (404 if side.is_new else -32001)


@pytest.mark.parametrize("tenant", ["%00", "a%2Fb", "%C2%84", "a" * 129, "%E5%96%B6" * 30])
def test_names_that_no_tenant_can_have_are_refused(server: Server, tenant: str) -> None:
    raw = head("GET", f"/{tenant}/tasks", REST.headers())
    error = check_error(server.send(raw), REST, status=400)
    assert error["message"].startswith("tenant: ")


def test_tasks_within_a_tenant_are_apart(server: Server) -> None:
    body = REST.call({"message": REST.message("hello", "in-a-tenant")})
    tenant = "%E5%96%B6%E6%A5%AD%E9%83%A8"
    task = server.send(REST.post(body, path=f"/{tenant}/message:send")).json["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    within = head("GET", f"/{tenant}/tasks/{task['id']}", REST.headers())
    assert server.send(within).json["id"] == task["id"]
    check_error(server.send(REST.get(task["id"])), REST, status=404)


def test_a_whole_url_is_understood_as_its_path(server: Server) -> None:
    raw = head("GET", "http://127.0.0.1/health", HOST)
    assert server.send(raw).json == {"status": "ok"}


@pytest.mark.parametrize("side", SIDES[2:], ids=str)
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "DELETE", "PROPFIND"])
def test_methods_that_an_address_does_not_know_are_told_which_it_does(
    server: Server, side: Side, method: str
) -> None:
    prefix = "" if side.is_new else "/v1"
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
        reply = server.send(head(method, path, side.headers()))
        check_error(reply, side, status=405)
        assert reply.headers["allow"] == allowed


def test_the_head_of_an_answer_can_be_asked_for_but_not_that_of_a_stream(server: Server) -> None:
    for path, status in (("/health", 200), ("/tasks", 200), ("/tasks/x", 404)):
        with server.connect() as connection:
            connection.sendall(head("HEAD", path, REST.headers()))
            reply = read_reply(connection, "HEAD")
            assert (reply.status, reply.body) == (status, b"")
    with server.connect() as connection:
        connection.sendall(head("HEAD", "/tasks/x:subscribe", REST.headers()))
        assert read_reply(connection, "HEAD").status == 405


def test_queries_that_cannot_be_read_are_refused(server: Server) -> None:
    side = REST
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
        check_error(server.send(head("GET", f"/tasks?{query}", side.headers())), side, status=400)


@every_side
@pytest.mark.parametrize("told", ["x", "-1", "1.5", "9" * 400, "１", "1\t2", "\xff", "0x10", "1,2"])
def test_a_last_event_that_is_no_number_is_refused(server: Server, side: Side, told: str) -> None:
    headers = {"Last_Event_ID": told.encode("utf-8").decode("latin-1")}
    if side.is_rpc:
        raw = side.post(side.call({"id": "no-such"}, "subscribe"), **headers)
    else:
        path = "/tasks/no-such:subscribe" if side.is_new else "/v1/tasks/no-such:subscribe"
        raw = side.post(b"", path=path, **headers)
    reply = server.send(raw)
    if reply.headers["content-type"].startswith("text/event-stream"):
        assert side == Side("JSON-RPC", "0.3")
        reply = Reply(200, reply.headers, reply.body.removeprefix(b"data: "))
    assert "Last-Event-ID" in check_error(reply, side)["message"]


# What a page of the web could do


@every_side
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
def test_a_body_that_a_web_page_may_send_is_refused(server: Server, side: Side, kind: str) -> None:
    raw = side.send("hello", "from-a-page").replace(
        b"Content-Type: application/json", b"Content-Type: " + kind.encode()
    )
    error = check_error(server.send(raw), side, status=415)
    assert "application/json" in error["message"]


@every_side
def test_a_compressed_body_is_refused(server: Server, side: Side) -> None:
    for coding in ("gzip", "deflate", "br", "identity, gzip"):
        raw = side.post(b"{}", Content_Encoding=coding)
        check_error(server.send(raw), side, status=415)


@every_side
@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "", "[::2]", "localhost."],
)
def test_an_open_server_does_not_answer_to_other_names(
    open_server: Server, side: Side, host: str
) -> None:
    raw = side.post(side.call({}), token="", Host=host)
    check_error(open_server.send(raw), side, status=421)
    card = head("GET", "/.well-known/agent-card.json", [("Host", host)])
    assert open_server.send(card).status == 421


def test_an_open_server_answers_to_its_own_names(open_server: Server) -> None:
    for host in ("localhost", "127.0.0.1:1234", "LOCALHOST:80", "[::1]:99"):
        assert open_server.send(head("GET", "/health", [("Host", host)])).status == 200


def test_listing_needs_someone_who_is_known(server: Server) -> None:
    reply = server.send(head("GET", "/tasks", REST.headers("")))
    check_error(reply, REST, status=401)


# All of it, many times


def test_thousands_of_bad_requests_leave_the_memory_as_it_was(server: Server) -> None:
    bad = [
        *(side.post(body) for side in SIDES for body in (b"{", b"[]", b"[" * 5000, b"\xff" * 5000)),
        *(side.get(f"none-{number}") for side in SIDES for number in range(4)),
        *(side.post(b"{}", token=NOBODY) for side in SIDES),
        *(side.post(b"x" * 100_000) for side in SIDES),
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
    assert_it_serves(server)


def test_hundreds_of_connections_that_say_nothing_do_not_keep_others_out(
    server: Server,
) -> None:
    held = [server.connect() for _ in range(300)]
    try:
        for connection in held[::2]:
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n")
        assert_it_serves(server)
    finally:
        for connection in held:
            connection.close()
