"""A2AClient: the circuit breaker of a remote agent."""

import asyncio
import logging
import time
from typing import Any

import pytest
from remote_server import close_connection, message, remote_server, stream, task

from acc.application.tracing.circuits import report_circuits
from acc.domain.circuit_breaker import CircuitBreaker, CircuitState
from acc.domain.errors import CircuitOpen, RemoteFailed
from acc.domain.value_objects.base import replace

COMPLETED = stream({"task": task("COMPLETED", {"artifactId": "a", "parts": [{"text": "done"}]})})


async def test_open_circuit_fails_without_dialling_and_a_probe_closes_it() -> None:
    async with remote_server(close_connection) as server:
        client = server.client(retries=0, max_failures=2, recovery=0.3)
        for _ in range(2):
            with pytest.raises(RemoteFailed):
                await client.send(message())
        calls = len(server.calls)
        with pytest.raises(CircuitOpen) as caught:
            await client.send(message())
        assert len(server.calls) == calls
        assert "next attempt" in str(caught.value)
        server.handlers[:] = [COMPLETED]
        delay = caught.value.next_attempt - time.time()
        await asyncio.sleep(max(0.0, delay))
        await client.send(message())
        assert client.breaker.state is CircuitState.CLOSED


async def test_answers_with_errors_do_not_open_the_circuit() -> None:
    async with remote_server(stream({"task": task("FAILED")})) as server:
        client = server.client(retries=0, max_failures=1)
        for _ in range(3):
            await client.send(message())
        assert client.breaker.state is CircuitState.CLOSED


async def test_retries_are_logged_with_attempt_trace_and_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with remote_server(close_connection, COMPLETED) as server:
        with caplog.at_level(logging.WARNING, "acc.retry"):
            await server.client().send(replace(message(), metadata={"traceId": "a" * 32}))
    (record,) = [record for record in caplog.records if record.name == "acc.retry"]
    assert vars(record)["attempt"] == 1
    assert vars(record)["trace_id"] == "a" * 32
    assert "connection" in record.getMessage()


def test_changes_of_a_circuit_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[tuple[str, Any]] = []

    class Tracer:
        def count(self, metric: str, attributes: Any, value: int = 1) -> None:
            counted.append((metric, attributes["acc.circuit.state"]))

    now = [1_000.0]
    breaker = CircuitBreaker(
        "https://w.example",
        failures=1,
        reset=60,
        now=lambda: now[0],
        on_change=report_circuits(lambda: Tracer()),  # type: ignore[arg-type, return-value]
    )
    with pytest.raises(RemoteFailed), breaker.call((RemoteFailed,)):
        raise RemoteFailed("down")
    now[0] += 61
    with breaker.call((RemoteFailed,)):
        pass
    assert counted == [("acc.circuit.changes", "open"), ("acc.circuit.changes", "closed")]
    assert "opened after 1 failures; next attempt at 1970-01-01T00:17:40+00:00" in caplog.text
    assert "closed: it responds again" in caplog.text
