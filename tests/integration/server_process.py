"""`acc serve` in a separate process, and raw HTTP requests to it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPResponse
from pathlib import Path
from types import TracebackType
from typing import Any

from acc.adapters.auth.bearer_tokens import TokenEntry, append_entry, token_hash

HERE = Path(__file__).parent
ALICE, BOB = "acc_alice-token", "acc_bob-token"
_START_TIMEOUT_SECONDS = 60.0


def tokens_file(folder: Path) -> Path:
    """Write a token file with two callers and return its path."""
    path = folder / "tokens.toml"
    for token, caller in ((ALICE, "alice"), (BOB, "bob")):
        append_entry(path, TokenEntry(sha256=token_hash(token), caller=caller))
    return path


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Server:
    """A server on a free local port with extra environment variables; a context manager."""

    def __init__(
        self, folder: Path, *options: str, agent: str = "sample_agents:everything", **extra: str
    ) -> None:
        #: The summary has the port, unless it shows another URL.
        self._port = _free_port() if "--public-url" in options else 0
        self._command = [sys.executable, "-m", "acc", "serve", agent]
        self._command += ["--port", str(self._port), *options]
        self._log = folder / f"server-{time.monotonic_ns()}.log"
        self._extra = extra
        self.port = 0

    def __enter__(self) -> "Server":
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=HERE,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join([*sys.path, str(HERE)]),
                    **self._extra,
                },
            )
        assert self._process.stdout is not None
        began = time.monotonic()
        for line in self._process.stdout:
            if b"agent-card" in line:
                self.port = self._port or int(line.split(b"127.0.0.1:")[1].split(b"/")[0])
                return self
            assert time.monotonic() - began < _START_TIMEOUT_SECONDS, self.log
        self._process.wait()
        raise AssertionError(f"the server did not start: {self.log}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def descriptors(self) -> int:
        """Return the number of open file descriptors of the process."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def logs(self, text: str, *, within: float = 10.0) -> bool:
        """Return True once the log contains a text; a line may follow the response of a request."""
        deadline = time.monotonic() + within
        while text not in self.log:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def memory(self) -> int:
        """Return the resident memory of the server in bytes."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(kilobytes.split()[1]) * 1024

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="utf-8")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def terminate(self, within: float) -> float:
        """Send SIGTERM and return how many seconds the server needed to stop."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(within)
        return time.monotonic() - began

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()

    def connect(self, *, seconds: float = 10.0, buffer: int = 0) -> socket.socket:
        """Return a connection; `buffer` limits the size of its receive buffer."""
        connection = socket.socket()
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(seconds)
        try:
            connection.connect(("127.0.0.1", self.port))
        except BaseException:
            connection.close()
            raise
        return connection

    def send(self, raw: bytes) -> "Reply":
        """Send bytes on a new connection and return the response."""
        with self.connect() as connection:
            # The server may respond and close the connection before everything is sent.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.sendall(raw)
            return read_reply(connection)


@dataclass(frozen=True)
class Reply:
    """A response; status 0 if the connection was closed without one."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def read_reply(connection: socket.socket, method: str = "POST") -> Reply:
    """Read one response."""
    response = HTTPResponse(connection, method=method)
    try:
        response.begin()
        body = response.read()
    except (ConnectionError, OSError, ValueError) as error:
        if isinstance(error, TimeoutError):
            raise
        return Reply(0)
    except Exception as error:  # noqa: BLE001 - http.client has a tree of errors of its own
        assert type(error).__name__ in {"RemoteDisconnected", "BadStatusLine"}, error
        return Reply(0)
    finally:
        response.close()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, body)


def read_until_closed(connection: socket.socket, seconds: float) -> bytes:
    """Return the received bytes; fail if the peer does not close the connection."""
    connection.settimeout(seconds)
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def head(
    method: str, path: str, headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()
) -> bytes:
    """Return the head of a request."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs), "", ""]
    return "\r\n".join(lines).encode("latin-1")


@dataclass(frozen=True)
class WireFormat:
    """A binding and protocol version, with requests in its format."""

    binding: str
    protocol_version: str

    def __str__(self) -> str:
        return f"{self.binding} {self.protocol_version}"

    @property
    def is_rpc(self) -> bool:
        return self.binding == "JSON-RPC"

    @property
    def is_new(self) -> bool:
        return self.protocol_version == "1.0"

    @property
    def path(self) -> str:
        if self.is_rpc:
            return "/"
        return "/message:send" if self.is_new else "/v1/message:send"

    def headers(self, token: str = ALICE, **more: str) -> dict[str, str]:
        headers = {"Host": "127.0.0.1", "Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if self.is_new:
            headers["A2A-Version"] = "1.0"
        return headers | {name.replace("_", "-"): value for name, value in more.items()}

    def post(self, body: bytes, *, path: str = "", token: str = ALICE, **more: str) -> bytes:
        """Return a request with a body."""
        headers = self.headers(token, Content_Length=str(len(body)), **more)
        return head("POST", path or self.path, headers) + body

    def method(self, name: str) -> str:
        new = {
            "send": "SendMessage",
            "stream": "SendStreamingMessage",
            "get": "GetTask",
            "subscribe": "SubscribeToTask",
        }
        old = {
            "send": "message/send",
            "stream": "message/stream",
            "get": "tasks/get",
            "subscribe": "tasks/resubscribe",
        }
        return (new if self.is_new else old)[name]

    def message(self, text: str, message_id: str, **more: Any) -> dict[str, Any]:
        if self.is_new:
            return {
                "messageId": message_id,
                "role": "ROLE_USER",
                "parts": [{"text": text}],
                **more,
            }
        if self.is_rpc:
            parts = [{"kind": "text", "text": text}]
            return {
                "kind": "message",
                "messageId": message_id,
                "role": "user",
                "parts": parts,
                **more,
            }
        return {
            "messageId": message_id,
            "role": "ROLE_USER",
            "content": [{"text": text}],
            **more,
        }

    def call(self, params: Any, name: str = "send", call_id: Any = 1) -> bytes:
        """Return the body of a request."""
        if not self.is_rpc:
            return json.dumps(params).encode()
        call = {"jsonrpc": "2.0", "id": call_id, "method": self.method(name), "params": params}
        return json.dumps(call).encode()

    def send(self, text: str, message_id: str, **more: Any) -> bytes:
        """Return a request that sends a message."""
        params = {"message": self.message(text, message_id, **more)}
        if not self.is_rpc and not self.is_new:
            params = {"request": params["message"]}
        return self.post(self.call(params))

    def get(self, task_id: str, *, token: str = ALICE) -> bytes:
        """Return a request for a task."""
        if self.is_rpc:
            return self.post(self.call({"id": task_id}, "get"), token=token)
        path = f"/tasks/{task_id}" if self.is_new else f"/v1/tasks/{task_id}"
        return head("GET", path, self.headers(token))


WIRE_FORMATS = [
    WireFormat(binding, version) for binding in ("JSON-RPC", "REST") for version in ("1.0", "0.3")
]
_LEAKS = (b"Traceback", b'File "', b"site-packages", b"/src/acc", b"Error(", b"object at 0x")


def check_error(reply: Reply, wire_format: WireFormat, *, status: int = 0) -> dict[str, Any]:
    """Check that a response is an error in the expected wire format and return the error."""
    assert 200 <= reply.status < 500, reply
    assert not any(leak in reply.body for leak in _LEAKS), reply.body
    assert len(reply.body) < 10_000
    if status:
        assert reply.status == status, reply
    document = reply.json
    if wire_format.is_rpc:
        assert document["jsonrpc"] == "2.0"
        assert "id" in document
        assert "result" not in document
        error: dict[str, Any] = document["error"]
        details = error.get("data", None if wire_format.is_new else {})
        assert isinstance(details, list if wire_format.is_new else dict), document
    elif wire_format.is_new:
        error = document["error"]
        assert error["code"] == reply.status
        assert error["details"][0]["reason"]
        assert error["status"]
    else:
        error = document
        assert error["type"].endswith("Error")
    assert isinstance(error["code"], int)
    assert error["message"]
    return error
