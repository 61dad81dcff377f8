"""Read server-sent events from a socket at a controlled speed."""

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from types import TracebackType
from typing import Any, NamedTuple

from server_process import ALICE, Server, WireFormat, head

REST = WireFormat("REST", "1.0")


class Event(NamedTuple):
    """A server-sent event; the number of a comment is negative."""

    number: int
    data: dict[str, Any]


class EventStream:
    """An open stream; use it as a context manager."""

    def __init__(self, connection: socket.socket, raw: bytes) -> None:
        self.connection = connection
        self._response = HTTPResponse(connection, method="POST")
        try:
            connection.sendall(raw)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "EventStream":
        try:
            self._response.begin()
        except BaseException:
            self.close()
            raise
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._response.close()
        self.connection.close()

    def lines(self) -> Iterator[Event]:
        """Yield events and comments until the stream ends."""
        number = -1
        while line := self._response.readline():
            if line.startswith(b"id: "):
                number = int(line[4:])
            elif line.startswith(b"data: "):
                yield Event(number, json.loads(line[6:]))
            elif line.startswith(b":"):
                yield Event(-1, {})

    def events(self) -> Iterator[Event]:
        """Yield events until the stream ends."""
        return (event for event in self.lines() if event.number >= 0)

    def numbers(self) -> list[int]:
        """Return the numbers of the remaining events."""
        return [event.number for event in self.events()]


def task_of(event: Event) -> str:
    """Return the ID of the task of an event."""
    payload = next(iter(event.data.values()))
    return str(payload.get("taskId") or payload["id"])


def state_of(event: Event) -> str:
    """Return the task state in an event, or an empty string."""
    payload = event.data.get("statusUpdate") or event.data.get("task") or {}
    return str(payload.get("status", {}).get("state", "")).removeprefix("TASK_STATE_")


def start(
    server: Server, text: str, message_id: str, *, after: int | None = None, buffer: int = 0
) -> EventStream:
    """Send a message and open its event stream."""
    headers = {} if after is None else {"Last_Event_ID": str(after)}
    body = REST.call({"message": REST.message(text, message_id)})
    raw = REST.post(body, path="/message:stream", **headers)
    return EventStream(server.connect(seconds=30, buffer=buffer), raw)


def subscribe(
    server: Server, task_id: str, *, after: int | None = None, buffer: int = 0
) -> EventStream:
    """Open an event stream of an existing task."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    raw = head("GET", f"/tasks/{task_id}:subscribe", REST.headers() | headers)
    return EventStream(server.connect(seconds=30, buffer=buffer), raw)


def send_without_waiting(server: Server, text: str, message_id: str) -> str:
    """Send a message without waiting for the result and return the task ID."""
    message = REST.message(text, message_id)
    body = REST.call({"message": message, "configuration": {"returnImmediately": True}})
    reply = server.send(REST.post(body))
    assert reply.status == 200, reply
    return str(reply.json["task"]["id"])


def get_task(server: Server, task_id: str) -> dict[str, Any]:
    """Return the current task."""
    reply = server.send(REST.get(task_id, token=ALICE))
    assert reply.status == 200, reply
    task: dict[str, Any] = reply.json
    return task
