"""Two of three processes are killed at the same time; the third one takes over their tasks."""

import asyncio
import json
import signal
import subprocess
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from durable_agents import STEPS, agent
from postgres_server import new_store_url
from server_process import Server
from temporal_server import shared_server
from worker_process import (
    MAX_TAKEOVER_SECONDS,
    Ledger,
    run_worker_process,
    wait_until_ready,
)

from acc import Runner, RunStatus
from acc.adapters.temporal.location import DEFAULT_WORKER_TIMEOUT

RUNS = 12
_ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "acc.db") if request.param == "sqlite" else new_store_url()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


async def _run_all(runner: Runner[Any, Any]) -> list[str]:
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        turns = [
            group.create_task(runner.run(f"book {n}", session_id=f"s{n}")) for n in range(RUNS)
        ]
    assert {turn.result().status for turn in turns} == {RunStatus.COMPLETED}
    return [turn.result().text for turn in turns]


@pytest.fixture
async def workers(
    tmp_path: Path, store: str, ledger: Ledger
) -> AsyncIterator[Sequence["subprocess.Popen[str]"]]:
    """Three workers, whose tools need half a second."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(
                run_worker_process(tmp_path, ledger, store=store, STEP_SECONDS="0.5")
            )
            for _ in range(3)
        ]
        for worker in started:
            await asyncio.to_thread(wait_until_ready, worker)
        yield started


async def test_runs_of_two_killed_workers_continue_on_the_third(
    store: str, ledger: Ledger, workers: Sequence["subprocess.Popen[str]"]
) -> None:
    runner = Runner(agent, store=store, engine=shared_server().url)
    async with asyncio.TaskGroup() as group:
        turns = group.create_task(_run_all(runner))
        await ledger.until(RUNS)
        for worker in workers[:2]:
            worker.kill()
        for worker in workers[:2]:
            worker.wait()
        killed_at = time.monotonic()
        killed = {worker.pid for worker in workers[:2]}
        last = {run: (step, process_id) for run, step, process_id in ledger.entries()}
        lost = {run for run, (step, owner) in last.items() if owner in killed and step < STEPS}
        assert lost
        while not lost <= {run for run, _, owner in ledger.entries() if owner not in killed}:
            assert time.monotonic() - killed_at < MAX_TAKEOVER_SECONDS
            await asyncio.sleep(0.02)
    assert len(turns.result()) == RUNS
    assert ledger.repeated() == 0
    await runner.aclose()


async def test_runs_that_paused_workers_have_not_begun_start_after_these_are_killed(
    store: str, ledger: Ledger, workers: Sequence["subprocess.Popen[str]"]
) -> None:
    runner = Runner(agent, store=store, engine=shared_server().url)
    for worker in workers[:2]:
        worker.send_signal(signal.SIGSTOP)  # the service still sends it work
    async with asyncio.TaskGroup() as group:
        turns = group.create_task(_run_all(runner))
        await asyncio.sleep(0.5)
        for worker in workers[:2]:
            worker.kill()
        killed_at = time.monotonic()
        assert len({run for run, _, _ in ledger.entries()}) < RUNS
        while len({run for run, _, _ in ledger.entries()}) < RUNS:
            # The default of the service for a lost step of a workflow is 10 seconds.
            assert time.monotonic() - killed_at < DEFAULT_WORKER_TIMEOUT + 3.0
            await asyncio.sleep(0.02)
    assert sorted(turns.result()) == sorted(f"booked {n}" for n in range(RUNS))
    assert len(ledger.entries()) == RUNS * STEPS
    await runner.aclose()


def _rpc(server: Server, method: str, **params: Any) -> Any:
    request = urllib.request.Request(  # noqa: S310 - a loopback URL
        server.url,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode(),
        {"Content-Type": "application/json", "A2A-Version": "1.0"},
    )
    with urllib.request.urlopen(request, timeout=20) as response:  # noqa: S310
        return json.load(response)["result"]


def _send(server: Server, text: str, message_id: str, context_id: str, *, wait: bool) -> Any:
    message = {
        "messageId": message_id,
        "contextId": context_id,
        "role": "ROLE_USER",
        "parts": [{"text": text}],
    }
    configuration = {"returnImmediately": not wait}
    return _rpc(server, "SendMessage", message=message, configuration=configuration)["task"]


def _wait_for_end(server: Server, task_ids: Sequence[str]) -> set[str]:
    """Return the states of tasks that ended within the time for a takeover."""
    deadline = time.monotonic() + MAX_TAKEOVER_SECONDS
    while True:
        tasks = [_rpc(server, "GetTask", id=task_id) for task_id in task_ids]
        states = {task["status"]["state"] for task in tasks}
        if states <= set(_ENDED):
            return states
        assert time.monotonic() < deadline, states
        time.sleep(0.05)


@pytest.mark.parametrize("seconds_between", [0.0, 3.5])
def test_tasks_of_two_killed_servers_end_on_the_third(
    tmp_path: Path, store: str, seconds_between: float
) -> None:
    with ExitStack() as stack:
        servers = [stack.enter_context(Server(tmp_path, "--store", store)) for _ in range(3)]
        _check_takeover(servers, seconds_between)


def test_tasks_of_servers_on_other_machines_end_when_a_short_lease_expires(tmp_path: Path) -> None:
    store = new_store_url()
    with ExitStack() as stack:
        servers = [
            stack.enter_context(
                Server(
                    tmp_path,
                    *("--store", store),
                    agent="other_machine_agents:everything",
                    ACC_LEASE_SECONDS="5",
                )
            )
            for _ in range(3)
        ]
        _check_takeover(servers, 4.0)


def _check_takeover(servers: Sequence[Server], seconds_between: float) -> None:
    *killed, left = servers
    tasks = [
        _send(server, "sleep 60", f"m{number}", f"c{number}", wait=False)
        for number, server in enumerate([*killed, *killed])
    ]
    time.sleep(0.5)  # the runs have begun
    for number, server in enumerate(killed):
        time.sleep(seconds_between * number)
        server.kill()
    # What the first killed server had may belong to the second one meanwhile.
    assert _wait_for_end(left, [task["id"] for task in tasks]) == {"TASK_STATE_FAILED"}
    for number, _ in enumerate(tasks):
        task = _send(left, "hello", f"next-{number}", f"c{number}", wait=True)
        assert task["status"]["state"] == "TASK_STATE_COMPLETED"
