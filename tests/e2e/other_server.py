"""A server of someone else's, in a thread, that answers as a test says."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Result = Mapping[str, Any]
#: Makes the body that is sent of the one meant, and the headers that go with it.
Pack = Callable[[bytes], tuple[bytes, Mapping[str, str]]]


def plainly(body: bytes) -> tuple[bytes, Mapping[str, str]]:
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
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": self.server.result}
        self._send(200, json.dumps(answer).encode())

    def _send(self, status: int, body: bytes) -> None:
        packed, headers = self.server.pack(body)
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(packed)))
        self.end_headers()
        self.wfile.write(packed)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, result: Result, pack: Pack, pages: Mapping[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.result, self.pack, self.pages = result, pack, pages
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        interface = {
            "url": f"{self.url}/",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        self.card = {
            "name": "other",
            "description": "Answers as it is told.",
            "version": "1",
            "capabilities": {},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [],
            "supportedInterfaces": [interface],
        }


@contextmanager
def other_server(
    result: Result, *, pack: Pack = plainly, pages: Mapping[str, bytes] | None = None
) -> Iterator[str]:
    """Serve an agent that gives one result to every call, and return its URL."""
    server = _Server(result, pack, pages or {})
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.url
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
