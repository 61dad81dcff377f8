"""A third-party A2A server in a thread, with a fixed result."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Result = Mapping[str, Any]
#: Returns the encoded body and the headers of the encoding.
Encoder = Callable[[bytes], tuple[bytes, Mapping[str, str]]]


def identity(body: bytes) -> tuple[bytes, Mapping[str, str]]:
    return body, {}


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path in self.server.pages:
            self._send(200, self.server.pages[self.path])
        elif self.path == "/.well-known/agent-card.json":
            self._send(200, json.dumps(self.server.card).encode())
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        response = {"jsonrpc": "2.0", "id": request["id"], "result": self.server.result}
        self._send(200, json.dumps(response).encode())

    def _send(self, status: int, body: bytes) -> None:
        encoded, headers = self.server.encode(body)
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, result: Result, encode: Encoder, pages: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.result, self.encode, self.pages = result, encode, pages
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        interface = {
            "url": f"{self.url}/",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        self.card = {
            "name": "other",
            "description": "Returns a fixed result.",
            "version": "1",
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            "supportedInterfaces": [interface],
        }


@contextmanager
def third_party_server(
    result: Result, *, encode: Encoder = identity, pages: Mapping[str, bytes] | None = None
) -> Iterator[str]:
    """Serve an agent that returns one result for every call, and yield its URL."""
    server = _Server(result, encode, pages or {})
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
