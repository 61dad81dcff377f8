"""A server with two callers, short timeouts and a small body limit, for invalid requests."""

import time
from collections.abc import Iterator

import pytest
from server_process import WIRE_FORMATS, Server, WireFormat, tokens_file

TIMEOUT_SECONDS = 1.0
MAX_BODY_BYTES = 1024 * 1024
RPC, REST = WireFormat("JSON-RPC", "1.0"), WireFormat("REST", "1.0")
UNKNOWN_TOKEN = "acc_nobody"
HOST = [("Host", "127.0.0.1")]

every_wire_format = pytest.mark.parametrize("wire_format", WIRE_FORMATS, ids=str)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start the server; at the end it must still respond and have logged no internal error."""
    folder = tmp_path_factory.mktemp("limited")
    options = ["--tokens", str(tokens_file(folder)), "--max-body", "1M"]
    with Server(folder, *options, "--request-timeout", str(TIMEOUT_SECONDS)) as started:
        yield started
        assert_server_responds(started)
        assert "internal error" not in started.log
        assert "Traceback" not in started.log


def assert_server_responds(server: Server) -> None:
    reply = server.send(RPC.send("hello", f"fine-{time.monotonic_ns()}"))
    assert reply.status == 200
    assert "echo: hello" in reply.body.decode()
