"""Event streams over HTTP: completeness, slow readers and shutdown."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from event_streams import (
    REST,
    Event,
    get_task,
    send_without_waiting,
    start,
    state_of,
    subscribe,
    task_of,
)
from server_process import Server, check_error, head, tokens_file

MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("streams")
    options = ["--tokens", str(tokens_file(folder)), "--heartbeat", "0.3", "--max-streams", "40"]
    with Server(folder, *options) as started:
        yield started
        assert "internal error" not in started.log
        assert "Traceback" not in started.log


def server_with_file(folder: Path, *options: str, grace: str = "0.5") -> Server:
    """Return a server that stores its tasks in a file of the folder."""
    tokens = folder / "tokens.toml"
    if not tokens.exists():
        tokens_file(folder)
    store = str(folder / "tasks.db")
    return Server(folder, "--tokens", str(tokens), "--store", store, "--grace", grace, *options)


def wait_until_ended(server: Server, task_id: str, *, within: float = 20.0) -> dict[str, Any]:
    """Wait until a task has ended and return it."""
    until = time.monotonic() + within
    while True:
        task = get_task(server, task_id)
        if task["status"]["state"] not in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"):
            return task
        assert time.monotonic() < until, task["status"]
        time.sleep(0.1)


def read_until(events: Iterator[Event], number: int) -> list[Event]:
    collected = []
    for event in events:
        collected.append(event)
        if event.number >= number:
            break
    return collected


# Completeness


def test_resubscription_returns_remaining_events(server: Server) -> None:
    with start(server, "count 12 0.05", "comes-back") as stream:
        first = read_until(stream.events(), 5)
    with subscribe(server, task_of(first[0]), after=first[-1].number) as stream:
        rest = list(stream.events())
    numbers = [event.number for event in (*first, *rest)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert state_of(rest[-1]) == "COMPLETED"
    pieces = [
        event.data["artifactUpdate"]["artifact"]["parts"][0]["text"]
        for event in (*first, *rest)
        if event.data.get("artifactUpdate", {}).get("artifact", {}).get("name") == "numbers"
    ]
    assert "".join(pieces).split() == [str(number) for number in range(1, 13)]


def test_repeated_message_returns_remaining_events(server: Server) -> None:
    with start(server, "count 12 0.05", "sent-again") as stream:
        first = read_until(stream.events(), 5)
    with start(server, "count 12 0.05", "sent-again", after=first[-1].number) as stream:
        rest = list(stream.events())
    assert {task_of(event) for event in (*first, *rest)} == {task_of(first[0])}
    numbers = [event.number for event in (*first, *rest)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    # The task has ended, and the events after the fifth are still available.
    with start(server, "count 12 0.05", "sent-again", after=first[-1].number) as stream:
        assert stream.numbers() == [event.number for event in rest]
    with subscribe(server, task_of(first[0]), after=0) as stream:
        assert stream.numbers() == list(range(1, rest[-1].number + 1))


def test_subscription_to_ended_task_is_rejected(server: Server) -> None:
    with start(server, "hello", "over") as stream:
        events = list(stream.events())
    raw = head("GET", f"/tasks/{task_of(events[0])}:subscribe", REST.headers())
    error = check_error(server.send(raw), REST, status=400)
    assert error["details"][0]["reason"] == "UNSUPPORTED_OPERATION"


def test_future_event_number_waits_for_new_events(server: Server) -> None:
    with start(server, "count 8 0.1", "from-the-future") as stream:
        task_id = task_of(next(stream.events()))
        with subscribe(server, task_id, after=10**9) as other:
            assert state_of(list(other.events())[-1]) == "COMPLETED"


# Slow and disconnected readers


def test_slow_reader_does_not_delay_others_or_increase_memory(server: Server) -> None:
    with start(server, "count 1500", "slow-reader") as fast:
        task_id = task_of(next(fast.events()))
        slow = [subscribe(server, task_id, after=0, buffer=2048) for _ in range(20)]
        try:
            before = server.memory()
            began = time.monotonic()
            last = list(fast.events())[-1]
            assert state_of(last) == "COMPLETED"
            assert time.monotonic() - began < 60
            assert server.memory() - before < 40 * MEGABYTE
            with slow[0] as reader:
                time.sleep(0.2)
                assert reader.numbers() == list(range(1, last.number + 1))
        finally:
            for reader in slow[1:]:
                reader.close()


def test_client_disconnect_does_not_stop_task(server: Server) -> None:
    with start(server, "count 10 0.05", "leaves") as stream:
        task_id = task_of(next(stream.events()))
    task = wait_until_ended(server, task_id)
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


def test_idle_stream_sends_keep_alive_comments(server: Server) -> None:
    with start(server, "count 1 1.5", "idle") as stream:
        lines = list(stream.lines())
    assert sum(event.number < 0 for event in lines) >= 3
    assert state_of(lines[-1]) == "COMPLETED"


def test_disconnected_clients_do_not_count_towards_limit(tmp_path: Path) -> None:
    tokens = str(tokens_file(tmp_path))
    with Server(tmp_path, "--tokens", tokens, "--max-streams", "1") as server:
        with start(server, "count 1000 0.1", "first") as stream:
            task_id = task_of(next(stream.events()))
            with subscribe(server, task_id) as other:
                assert other.status == 429
                assert "retry-after" in other.headers
        for pipelined in (b"", head("GET", "/health", {"Host": "x"}), b"POST / HT"):
            until = time.monotonic() + 5
            status = 0
            while status != 200:  # until the server has noticed the last disconnect
                assert time.monotonic() < until, pipelined
                with subscribe(server, task_id) as stream:
                    status = stream.status
                    stream.connection.sendall(pipelined)
                    assert status == 429 or next(stream.events())
                time.sleep(0.05)


# Shutdown


def test_server_stop_ends_streams_and_tasks(tmp_path: Path) -> None:
    with server_with_file(tmp_path) as server:
        with (
            start(server, "count 1000 0.1", "stopped") as stream,
            subscribe(server, task_of(next(stream.events())), buffer=2048) as unread_streams,
        ):
            task_id = task_of(next(unread_streams.events()))
            waiting = send_without_waiting(server, "ask what now", "waits")
            wait_until_ended(server, waiting)
            assert server.terminate(within=10) < 6
            assert state_of(list(stream.events())[-1]) == "FAILED"
        assert "Traceback" not in server.log
    with server_with_file(tmp_path) as server:
        task = get_task(server, task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        assert "interrupted" in json.dumps(task)
        assert get_task(server, waiting)["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        with subscribe(server, task_id, after=0) as stream:
            assert state_of(list(stream.events())[-1]) == "FAILED"


def test_stream_completes_if_task_ends_within_grace_period(tmp_path: Path) -> None:
    with server_with_file(tmp_path, grace="30") as server:
        with start(server, "count 8 0.25", "in-time") as stream:
            next(stream.events())
            assert server.terminate(within=30) < 20
            assert state_of(list(stream.events())[-1]) == "COMPLETED"
        assert "Traceback" not in server.log


def test_unread_stream_does_not_block_server_stop(
    tmp_path: Path,
) -> None:
    with server_with_file(tmp_path) as server:
        unread_streams = [
            start(server, "count 3000", f"stuck-{number}", buffer=2048) for number in range(2)
        ]
        time.sleep(1.0)
        assert server.terminate(within=15) < 8
        for stream in unread_streams:
            stream.close()
        assert "Traceback" not in server.log


def test_tasks_of_killed_server_are_not_active_after_restart(tmp_path: Path) -> None:
    with server_with_file(tmp_path) as server:
        task_id = send_without_waiting(server, "count 1000 0.1", "killed")
        assert get_task(server, task_id)["status"]["state"] in (
            "TASK_STATE_SUBMITTED",
            "TASK_STATE_WORKING",
        )
        server.kill()
    with server_with_file(tmp_path) as server:
        task = wait_until_ended(server, task_id)
        assert task["status"]["state"] == "TASK_STATE_FAILED"
        with subscribe(server, task_id, after=0) as stream:
            last = list(stream.events())[-1]
        assert last.data["statusUpdate"]["metadata"]["code"] == "interrupted"
        # The same message returns the same task; a new message starts a new task.
        assert send_without_waiting(server, "count 1000 0.1", "killed") == task_id


# Two servers with one file


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    folder = tmp_path_factory.mktemp("pair")
    with server_with_file(folder) as one, server_with_file(folder) as other:
        yield one, other
        for server in (one, other):
            assert "internal error" not in server.log
            assert "Traceback" not in server.log


def test_task_can_be_streamed_from_another_process(pair: tuple[Server, Server]) -> None:
    one, other = pair
    with (
        start(one, "count 15 0.1", "followed") as here,
        subscribe(other, task_of(next(here.events())), after=0) as there,
    ):
        received = list(there.events())
        assert state_of(received[-1]) == "COMPLETED"
        assert [event.number for event in received] == list(range(1, received[-1].number + 1))
        assert [event.number for event in here.events()][-1] == received[-1].number


def test_task_can_be_canceled_from_another_process(pair: tuple[Server, Server]) -> None:
    one, other = pair
    with start(one, "count 1000 0.05", "canceled") as stream:
        first = next(stream.events())
        reply = other.send(REST.post(b"", path=f"/tasks/{task_of(first)}:cancel"))
        assert reply.json["status"]["state"] == "TASK_STATE_CANCELED"
        assert state_of(list(stream.events())[-1]) == "CANCELED"
    before = get_task(one, task_of(first))
    time.sleep(0.5)
    assert get_task(one, task_of(first)) == before
    assert get_task(other, task_of(first)) == before


def test_same_message_sent_to_two_servers_creates_one_task(pair: tuple[Server, Server]) -> None:
    for number in range(10):
        task_ids: list[str] = []

        def send(server: Server, number: int = number, task_ids: list[str] = task_ids) -> None:
            task_ids.append(send_without_waiting(server, "count 3 0.01", f"both-{number}"))

        threads = [threading.Thread(target=send, args=(server,)) for server in pair for _ in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(task_ids) == 4
        assert len(set(task_ids)) == 1
        assert wait_until_ended(pair[0], task_ids[0])["status"]["state"] == "TASK_STATE_COMPLETED"
