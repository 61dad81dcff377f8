"""A proxy that sends every request to the next server, without sticky sessions."""

import contextlib
import itertools
import socket
import socketserver
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_CHUNK_BYTES = 65536


class RoundRobinProxy:
    """Forwards HTTP/1.1 requests; a server that refuses the connection is skipped."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._turns = itertools.cycle(ports)
        self._count = len(ports)
        self._lock = threading.Lock()
        #: The server of each request, in order.
        self.used: list[int] = []
        self.port = 0

    @contextmanager
    def run(self) -> Iterator["RoundRobinProxy"]:
        """Accept connections while the context is open."""
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                # A client or a server may go away at any time.
                with contextlib.suppress(OSError):
                    proxy._forward(self.request)

        with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as listener:
            listener.daemon_threads = True
            self.port = listener.server_address[1]
            threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True).start()
            yield self
            listener.shutdown()

    def _forward(self, client: socket.socket) -> None:
        request = _read_request(client)
        if not request:
            return
        with self._connect() as server:
            server.sendall(request)
            while piece := server.recv(_CHUNK_BYTES):
                client.sendall(piece)

    def _connect(self) -> socket.socket:
        for _ in range(self._count):
            with self._lock:
                port = next(self._turns)
            connection = socket.socket()
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                with self._lock:
                    self.used.append(port)
                return connection
            connection.close()
        raise ConnectionRefusedError("no server is running")


def _read_request(client: socket.socket) -> bytes:
    """Return one request that asks the server to close the connection after the response."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = client.recv(_CHUNK_BYTES)
        if not piece:
            return b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lengths = [line for line in lines if line.lower().startswith(b"content-length:")]
    missing = int(lengths[0].partition(b":")[2]) - len(body) if lengths else 0
    while missing > 0:
        piece = client.recv(_CHUNK_BYTES)
        if not piece:
            return b""
        body += piece
        missing -= len(piece)
    return b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body
