"""Two `acc serve` processes on one PostgreSQL database, without a shared file."""

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from postgres_server import ENCODED_PASSWORD, new_store_url
from server_process import Server

HEADERS = {"content-type": "application/json", "a2a-version": "1.0"}


def call(server: Server, method: str, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("POST", "/", json.dumps(body), HEADERS)
        reply = json.loads(connection.getresponse().read())
    return reply.get("result", reply)


def send(server: Server, text: str, message_id: str, **fields: Any) -> Any:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return call(server, "SendMessage", message=message, configuration={"returnImmediately": True})[
        "task"
    ]


def state(server: Server, task_id: str) -> str:
    return str(call(server, "GetTask", id=task_id)["status"]["state"])


def wait_for(server: Server, task_id: str, wanted: str, seconds: float = 20.0) -> float:
    began = time.monotonic()
    while state(server, task_id) != wanted:
        assert time.monotonic() - began < seconds, state(server, task_id)
        time.sleep(0.02)
    return time.monotonic() - began


@contextmanager
def open_stream(server: Server, task_id: str) -> Iterator[http.client.HTTPResponse]:
    body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task_id}}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("POST", "/", json.dumps(body), HEADERS)
        with connection.getresponse() as response:
            yield response


def test_task_is_cancelled_and_streamed_through_the_other_server(tmp_path: Path) -> None:
    url = new_store_url()
    with Server(tmp_path, "--store", url) as first, Server(tmp_path, "--store", url) as second:
        task = send(first, "sleep 60", "m1")
        wait_for(second, task["id"], "TASK_STATE_WORKING")
        with open_stream(second, task["id"]) as stream:
            canceled = call(first, "CancelTask", id=task["id"])
            assert canceled["status"]["state"] == "TASK_STATE_CANCELED"
            assert b"TASK_STATE_CANCELED" in stream.read()  # it ends with the task
        other = send(first, "sleep 60", "m2")
        wait_for(second, other["id"], "TASK_STATE_WORKING")
        call(second, "CancelTask", id=other["id"])
        assert state(first, other["id"]) == "TASK_STATE_CANCELED"
        # The same message through the other server leads to the same task.
        assert send(second, "sleep 60", "m2")["id"] == other["id"]
        assert ENCODED_PASSWORD not in first.log + second.log


def test_tasks_of_a_killed_server_end_on_the_other_one(tmp_path: Path) -> None:
    url = new_store_url()
    with Server(tmp_path, "--store", url) as first, Server(tmp_path, "--store", url) as second:
        task = send(first, "sleep 60", "m1")
        wait_for(second, task["id"], "TASK_STATE_WORKING")
        first.kill()
        took = wait_for(second, task["id"], "TASK_STATE_FAILED", seconds=40)
        assert took < 35  # the lease, and the interval at which orphans are searched
