"""A webhook receiver for push notifications."""

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
    """A received notification."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """A webhook with the notifications it has received."""

    url: str = ""
    notifications: list[Notification] = field(default_factory=list)

    def notifications_at(self, path: str) -> list[Notification]:
        """Return the notifications for a path in the order of arrival."""
        return [notification for notification in self.notifications if notification.path == path]

    async def wait_for_state(self, path: str, last: str) -> list[Notification]:
        """Wait until a path has received a state and return its notifications."""
        for _ in range(200):
            notifications = self.notifications_at(path)
            if any(
                state_in(json.loads(notification.body)) == last for notification in notifications
            ):
                return notifications
            await asyncio.sleep(0.1)
        raise AssertionError(f"no notification with state {last}: {notifications}")


def state_in(notification: Mapping[str, Any]) -> str:
    """Return the state in a notification, with its 1.0 name."""
    state = notification.get("statusUpdate", notification).get("status", {}).get("state", "")
    return str(state).removeprefix("TASK_STATE_").replace("-", "_").upper()


@contextmanager
def run_receiver() -> Iterator[Receiver]:
    """Receive notifications on a free local port."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.notifications.append(Notification(self.path, dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Do not log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        receiver.url = f"http://127.0.0.1:{http_server.server_address[1]}"
        thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            http_server.shutdown()
            thread.join()
