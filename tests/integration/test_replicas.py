"""Three `acc serve` replicas on one PostgreSQL database behind a round-robin proxy."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from event_streams import REST, Event, EventStream, state_of, task_of
from postgres_server import new_store_url
from round_robin import RoundRobinProxy
from server_process import Server, head, read_reply, tokens_file

REPLICAS = 3
Opener = Callable[..., EventStream]


class Front:
    """A client that knows only the proxy."""

    def __init__(self, proxy: RoundRobinProxy, replicas: dict[int, Server]) -> None:
        self.proxy = proxy
        self.replicas = replicas

    def start(self, text: str, message_id: str) -> EventStream:
        body = REST.call({"message": REST.message(text, message_id)})
        return EventStream(self._connect(), REST.post(body, path="/message:stream"))

    def subscribe(self, task_id: str, *, after: int) -> EventStream:
        headers = REST.headers() | {"Last-Event-ID": str(after)}
        return EventStream(self._connect(), head("GET", f"/tasks/{task_id}:subscribe", headers))

    def send(self, text: str, message_id: str, **fields: Any) -> dict[str, Any]:
        message = REST.message(text, message_id, **fields)
        body = {"message": message, "configuration": {"returnImmediately": True}}
        task: dict[str, Any] = self._request(REST.post(REST.call(body)))["task"]
        return task

    def get(self, task_id: str) -> dict[str, Any]:
        return self._request(REST.get(task_id))

    def cancel(self, task_id: str) -> dict[str, Any]:
        return self._request(REST.post(b"{}", path=f"/tasks/{task_id}:cancel"))

    def states(self, task_id: str) -> set[str]:
        """Return the state of a task as each replica shows it."""
        before = len(self.proxy.used)
        states = {self.get(task_id)["status"]["state"] for _ in range(REPLICAS)}
        assert len(set(self.proxy.used[before:])) == REPLICAS
        return states

    def wait_for(self, task_id: str, wanted: str) -> dict[str, Any]:
        until = time.monotonic() + 20
        while (task := self.get(task_id))["status"]["state"] != wanted:
            assert time.monotonic() < until, task["status"]
            time.sleep(0.02)
        return task

    def _request(self, raw: bytes) -> dict[str, Any]:
        with self._connect() as connection:
            connection.sendall(raw)
            reply = read_reply(connection)
        assert reply.status == 200, reply
        document: dict[str, Any] = json.loads(reply.body)
        return document

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.proxy.port), timeout=30)
        return connection


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp("replicas")
    options = ["--store", new_store_url(), "--tokens", str(tokens_file(folder)), "--grace", "10"]
    servers = [Server(folder, *options) for _ in range(REPLICAS)]
    with ExitStack() as stack:
        with ThreadPoolExecutor(REPLICAS) as pool:
            list(pool.map(stack.enter_context, servers))
        replicas = {server.port: server for server in servers}
        proxy = stack.enter_context(RoundRobinProxy(list(replicas)).run())
        yield Front(proxy, replicas)
        assert all("Traceback" not in server.log for server in servers)


def read_some(stream: EventStream, count: int) -> list[Event]:
    events = stream.events()
    return [next(events) for _ in range(count)]


def counted(events: list[Event]) -> list[str]:
    """Return the numbers that the agent has counted."""
    artifacts = [event.data.get("artifactUpdate", {}).get("artifact", {}) for event in events]
    texts = [one["parts"][0]["text"] for one in artifacts if one.get("name") == "numbers"]
    return "".join(texts).split()


def test_stream_that_is_cut_continues_on_every_replica(front: Front) -> None:
    before = len(front.proxy.used)
    with front.start("count 16 0.05", "cut") as stream:
        events = read_some(stream, 3)
    for _ in range(REPLICAS - 1):
        with front.subscribe(task_of(events[0]), after=events[-1].number) as stream:
            events += read_some(stream, 3)
    with front.subscribe(task_of(events[0]), after=events[-1].number) as stream:
        events += stream.events()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert counted(events) == [str(number) for number in range(1, 17)]
    assert state_of(events[-1]) == "COMPLETED"
    assert set(front.proxy.used[before:]) == set(front.replicas)


def test_every_replica_shows_a_task_and_accepts_its_answer(front: Front) -> None:
    for number in range(REPLICAS):
        task = front.send("ask 何色ですか", f"question-{number}")
        front.wait_for(task["id"], "TASK_STATE_INPUT_REQUIRED")
        assert front.states(task["id"]) == {"TASK_STATE_INPUT_REQUIRED"}
        asked_at = len(front.proxy.used)
        front.send("緑", f"answer-{number}", taskId=task["id"], contextId=task["contextId"])
        answered = front.wait_for(task["id"], "TASK_STATE_COMPLETED")
        assert "you answered 緑" in json.dumps(answered, ensure_ascii=False)
        assert front.states(task["id"]) == {"TASK_STATE_COMPLETED"}
        if number + 1 < REPLICAS and front.proxy.used[asked_at] == front.proxy.used[-1]:
            front.get(task["id"])  # the next answer reaches another replica


def test_task_is_cancelled_through_any_replica(front: Front) -> None:
    for number in range(REPLICAS):
        task = front.send("sleep 60", f"cancel-{number}")
        front.wait_for(task["id"], "TASK_STATE_WORKING")
        with front.subscribe(task["id"], after=0) as stream:
            assert front.cancel(task["id"])["status"]["state"] == "TASK_STATE_CANCELED"
            assert state_of(list(stream.events())[-1]) == "CANCELED"
        assert front.states(task["id"]) == {"TASK_STATE_CANCELED"}


def test_repeated_message_reaches_the_same_task_on_any_replica(front: Front) -> None:
    sent = {front.send("hello", "the same")["id"] for _ in range(REPLICAS + 1)}
    assert len(sent) == 1


def test_drain_hands_streams_to_other_replicas(front: Front) -> None:
    """The last test of this module: it stops a replica."""
    task = front.send("count 40 0.05", "drained")
    home = front.proxy.used[-1]
    with front.subscribe(task["id"], after=0) as stream:
        drained = front.proxy.used[-1]
        assert drained != home
        events = read_some(stream, 3)
        front.replicas[drained].terminate(within=20)
        events += stream.events()  # it ends, although the task has not
        assert state_of(events[-1]) != "COMPLETED"
    with front.subscribe(task["id"], after=events[-1].number) as stream:
        assert front.proxy.used[-1] != drained
        events += stream.events()
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert counted(events) == [str(number) for number in range(1, 41)]
    assert state_of(events[-1]) == "COMPLETED"


def test_drained_replica_finishes_its_own_tasks(front: Front) -> None:
    with front.start("count 12 0.1", "own task") as stream:
        home = front.proxy.used[-1]
        events = read_some(stream, 3)
        front.replicas[home].terminate(within=20)
        events += stream.events()
    assert state_of(events[-1]) == "COMPLETED"
    # The remaining replica has the whole task.
    with front.subscribe(task_of(events[0]), after=0) as stream:
        assert front.proxy.used[-1] != home
        stored = list(stream.events())
    assert counted(stored) == [str(number) for number in range(1, 13)]
