"""Connections that request a protocol upgrade or do not read their responses."""

import socket
import time
from collections.abc import Iterator

import pytest
from server_process import (
    WIRE_FORMATS,
    Server,
    WireFormat,
    head,
    read_reply,
    read_until_closed,
    tokens_file,
)

TIMEOUT_SECONDS = 1.0
RPC = WireFormat("JSON-RPC", "1.0")
OTHERS = ["h2c", "websocket", "TLS/1.0"]

every_wire_format = pytest.mark.parametrize("wire_format", WIRE_FORMATS, ids=str)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server with two callers and short timeouts."""
    folder = tmp_path_factory.mktemp("connections")
    options = ["--tokens", str(tokens_file(folder)), "--request-timeout", str(TIMEOUT_SECONDS)]
    with Server(folder, *options) as started:
        yield started
        assert "Traceback" not in started.log


def with_upgrade_offer(request: bytes, other: str) -> bytes:
    """Return a request that offers an upgrade, as the Java HTTP client does."""
    line, _, rest = request.partition(b"\r\n")
    offer = (
        f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {other}\r\nHTTP2-Settings: AAMAAABk\r\n"
    )
    return b"%b\r\n%b%b" % (line, offer.encode(), rest)


def in_chunks(request: bytes) -> bytes:
    heads, _, body = request.partition(b"\r\n\r\n")
    remaining_lines = [
        line for line in heads.split(b"\r\n") if not line.startswith(b"Content-Length")
    ]
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    return b"\r\n".join([*remaining_lines, b"Transfer-Encoding: chunked", b"", chunk])


@every_wire_format
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("chunked", [False, True])
def test_upgrade_offer_is_answered_with_http_1_1(
    server: Server, wire_format: WireFormat, other: str, chunked: bool
) -> None:
    name = f"offer-{wire_format}-{other}-{chunked}"
    raw = with_upgrade_offer(wire_format.send("hello", name), other)
    raw = in_chunks(raw) if chunked else raw
    heads, end, body = raw.partition(b"\r\n\r\n")
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"echo: hello" in read_reply(connection).body
        connection.sendall(heads + end)
        time.sleep(TIMEOUT_SECONDS / 20)
        connection.sendall(body)
        assert b"echo: hello" in read_reply(connection).body


@pytest.mark.parametrize("other", OTHERS)
def test_body_of_upgrade_request_is_not_parsed_as_request(server: Server, other: str) -> None:
    inner = RPC.send("smuggled", f"smuggled-{other}")
    raw = with_upgrade_offer(RPC.post(inner), other)
    with server.connect() as connection:
        connection.sendall(raw)
        assert b"smuggled" not in read_reply(connection).body
        connection.sendall(RPC.send("hello", f"after-{other}"))
        assert b"echo: hello" in read_reply(connection).body


def test_pipelined_upgrade_offers_are_answered_in_order(server: Server) -> None:
    texts = [f"number {number}" for number in range(50)]
    sent = [with_upgrade_offer(RPC.send(text, f"offer {text}"), "h2c") for text in texts]
    checks = with_upgrade_offer(head("GET", "/health", [("Host", "127.0.0.1")]), "h2c") * 500
    with server.connect() as connection:
        connection.sendall(b"".join(sent) + checks)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS).decode()
    places = [received.index(f"echo: {text}") for text in texts]
    assert places == sorted(places)
    assert received.count("HTTP/1.1 200 OK") == 550


def test_connect_method_is_rejected(server: Server) -> None:
    inner = RPC.send("smuggled", "tunnel")
    with server.connect() as connection:
        connection.sendall(head("CONNECT", "example.com:443", [("Host", "example.com")]) + inner)
        received = read_until_closed(connection, 5 * TIMEOUT_SECONDS)
    assert received.startswith(b"HTTP/1.1 405 ")
    assert b"smuggled" not in received


def wait_for_descriptors(server: Server, count: int, seconds: float) -> int:
    """Wait until the server has at most `count` descriptors and return their number."""
    until = time.monotonic() + seconds
    while (descriptors := server.descriptors) > count and time.monotonic() < until:
        time.sleep(TIMEOUT_SECONDS / 20)
    return descriptors


@pytest.mark.parametrize("disconnects", [False, True])
def test_unread_responses_are_discarded(server: Server, disconnects: bool) -> None:
    before = wait_for_descriptors(
        server, 0, TIMEOUT_SECONDS / 2
    )  # connections of earlier tests are closed first
    waiting = head("GET", "/openapi.json", [("Host", "127.0.0.1")]) * 300
    with server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(waiting)
        if disconnects:
            connection.shutdown(socket.SHUT_WR)
        time.sleep(TIMEOUT_SECONDS / 4)
        assert server.descriptors == before + 1
        assert wait_for_descriptors(server, before, 6 * TIMEOUT_SECONDS) == before


def test_slow_reader_receives_complete_response(server: Server) -> None:
    request_count = 100
    with server.connect() as connection:
        connection.sendall(head("GET", "/openapi.json", [("Host", "127.0.0.1")]) * request_count)
        received, began = b"", time.monotonic()
        while time.monotonic() - began < 3 * TIMEOUT_SECONDS:
            received += connection.recv(65_536)
            time.sleep(TIMEOUT_SECONDS / 10)
        received += read_until_closed(connection, 5 * TIMEOUT_SECONDS)
    assert received.count(b"HTTP/1.1 200 OK") == request_count
