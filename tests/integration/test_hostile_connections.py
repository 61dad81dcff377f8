"""Connections that want to become something else, or whose answers nobody fetches."""

import socket
import time
from collections.abc import Iterator

import pytest
from server_process import SIDES, Server, Side, closes_within, head, read_reply, tokens_file

PATIENCE = 1.0
RPC = Side("JSON-RPC", "1.0")
OTHERS = ["h2c", "websocket", "TLS/1.0"]

every_side = pytest.mark.parametrize("side", SIDES, ids=str)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that knows two callers and has little patience."""
    folder = tmp_path_factory.mktemp("connections")
    options = ["--tokens", str(tokens_file(folder)), "--request-timeout", str(PATIENCE)]
    with Server(folder, *options) as started:
        yield started
        assert "Traceback" not in started.log


def offering(request: bytes, other: str) -> bytes:
    """Return a request that offers to go on in another protocol, as Java's client does."""
    line, _, rest = request.partition(b"\r\n")
    offer = (
        f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {other}\r\nHTTP2-Settings: AAMAAABk\r\n"
    )
    return b"%b\r\n%b%b" % (line, offer.encode(), rest)


def in_chunks(request: bytes) -> bytes:
    heads, _, body = request.partition(b"\r\n\r\n")
    kept = [line for line in heads.split(b"\r\n") if not line.startswith(b"Content-Length")]
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return b"\r\n".join([*kept, b"Transfer-Encoding: chunked", b"", chunk])


@every_side
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_a_request_that_offers_another_protocol_is_answered_in_this_one(
    server: Server, side: Side, other: str, chunked: bool
) -> None:
    name = f"offer-{side}-{other}-{chunked}"
    raw = offering(side.send("hello", name), other)
    raw = in_chunks(raw) if chunked else raw
    heads, end, body = raw.partition(b"\r\n\r\n")
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"echo: hello" in read_reply(connection).body
        connection.sendall(heads + end)
        time.sleep(PATIENCE / 20)
        connection.sendall(body)
        assert b"echo: hello" in read_reply(connection).body


@pytest.mark.parametrize("other", OTHERS)
def test_the_body_of_a_request_that_offers_another_protocol_is_no_request(
    server: Server, other: str
) -> None:
    inner = RPC.send("smuggled", f"smuggled-{other}")
    raw = offering(RPC.post(inner), other)
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"smuggled" not in read_reply(connection).body
        connection.sendall(RPC.send("hello", f"after-{other}"))
        assert b"echo: hello" in read_reply(connection).body


def test_many_offers_at_once_are_answered_in_order(server: Server) -> None:
    texts = [f"number {number}" for number in range(50)]
    sent = [offering(RPC.send(text, f"offer {text}"), "h2c") for text in texts]
    checks = offering(head("GET", "/health", [("Host", "127.0.0.1")]), "h2c") * 500
    with server.connect() as connection:
        connection.sendall(b"".join(sent) + checks)
        got = closes_within(connection, 5 * PATIENCE).decode()
    places = [got.index(f"echo: {text}") for text in texts]
    assert places == sorted(places)
    assert got.count("HTTP/1.1 200 OK") == 550


def test_nobody_gets_a_tunnel(server: Server) -> None:
    inner = RPC.send("smuggled", "tunnel")
    with server.connect() as connection:
        connection.sendall(head("CONNECT", "example.com:443", [("Host", "example.com")]) + inner)
        got = closes_within(connection, 5 * PATIENCE)
    assert got.startswith(b"HTTP/1.1 405 ")
    assert b"smuggled" not in got


def until_held(server: Server, count: int, seconds: float) -> int:
    """Return how many descriptors the server holds, once they are so few, or after a while."""
    until = time.monotonic() + seconds
    while (held := server.descriptors) > count and time.monotonic() < until:
        time.sleep(PATIENCE / 20)
    return held


@pytest.mark.parametrize("leaves", [False, True])
def test_answers_that_nobody_fetches_are_not_kept(server: Server, leaves: bool) -> None:
    before = until_held(server, 0, PATIENCE / 2)  # those of other tests are gone by then
    waiting = head("GET", "/openapi.json", [("Host", "127.0.0.1")]) * 300
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(waiting)
        if leaves:
            connection.shutdown(socket.SHUT_WR)
        time.sleep(PATIENCE / 4)
        assert server.descriptors == before + 1
        assert until_held(server, before, 6 * PATIENCE) == before


def test_who_fetches_slowly_gets_all_of_it(server: Server) -> None:
    asked = 100
    with server.connect() as connection:
        connection.sendall(head("GET", "/openapi.json", [("Host", "127.0.0.1")]) * asked)
        got, began = b"", time.monotonic()
        while time.monotonic() - began < 3 * PATIENCE:
            got += connection.recv(65_536)
            time.sleep(PATIENCE / 10)
        got += closes_within(connection, 5 * PATIENCE)
    assert got.count(b"HTTP/1.1 200 OK") == asked
