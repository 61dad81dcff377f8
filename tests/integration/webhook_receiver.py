"""A receiver of notifications, on a socket of its own."""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True, slots=True)
class Notification:
    """What a receiver was sent."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """A webhook of our own."""

    url: str = ""
    got: list[Notification] = field(default_factory=list)

    def at(self, path: str) -> list[Notification]:
        """Return what came to a path, in the order in which it came."""
        return [one for one in self.got if one.path == path]

    async def told(self, path: str, last: str) -> list[Notification]:
        """Wait until a path has been told of a state, and return all that it was told."""
        for _ in range(200):
            got = self.at(path)
            if any(state_in(json.loads(one.body)) == last for one in got):
                return got
            await asyncio.sleep(0.1)
        raise AssertionError(f"{last} was not told, only {got}")


def state_in(notification: Mapping[str, Any]) -> str:
    """Return the state that a notification tells of, in the words of 1.0."""
    told = notification.get("statusUpdate", notification).get("status", {}).get("state", "")
    return str(told).removeprefix("TASK_STATE_").replace("-", "_").upper()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Take notifications on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Notification(self.path, dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        receiver.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            listening.shutdown()
            thread.join()
