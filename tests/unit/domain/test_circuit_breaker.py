import asyncio

import pytest

from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import CircuitOpen, InvalidInput

FAILURES = (ConnectionError,)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def attempt(breaker: CircuitBreaker, error: BaseException | None = None) -> None:
    with breaker.call(FAILURES):
        if error is not None:
            raise error


def opened(clock: Clock, failures: int = 3) -> CircuitBreaker:
    breaker = CircuitBreaker("https://a.example", failures=failures, reset=30, now=clock)
    for _ in range(failures):
        with pytest.raises(ConnectionError):
            attempt(breaker, ConnectionError())
    return breaker


def test_circuit_opens_after_consecutive_failures_and_names_next_attempt() -> None:
    clock = Clock()
    breaker = opened(clock)
    assert breaker.state.name == "OPEN"
    with pytest.raises(CircuitOpen, match="1970-01-12T13:47:10") as caught:
        attempt(breaker)
    assert caught.value.next_attempt == clock.now + 30 == breaker.next_attempt
    assert caught.value.code == "circuit_open"


def test_success_and_answers_reset_the_count() -> None:
    breaker = CircuitBreaker("a", failures=2)
    for error in (ConnectionError(), ValueError(), ConnectionError(), None, ConnectionError()):
        if error is None:
            attempt(breaker)
        else:
            with pytest.raises(type(error)):
                attempt(breaker, error)
    assert breaker.state.name == "CLOSED"
    assert breaker.next_attempt is None


def test_one_probe_is_admitted_and_closes_the_circuit() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 30
    with breaker.call(FAILURES):
        assert breaker.state.name == "HALF_OPEN"
        with pytest.raises(CircuitOpen):
            attempt(breaker)
    assert breaker.state.name == "CLOSED"
    attempt(breaker)


def test_failed_probe_opens_the_circuit_again() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 30
    with pytest.raises(ConnectionError):
        attempt(breaker, ConnectionError())
    assert breaker.next_attempt == clock.now + 30
    with pytest.raises(CircuitOpen):
        attempt(breaker)


def test_late_failures_of_earlier_calls_are_no_further_change() -> None:
    clock, changes = Clock(), list[str]()
    breaker = CircuitBreaker(
        "a", failures=2, reset=30, now=clock, on_change=lambda status: changes.append(status.state)
    )
    calls = [breaker.call(FAILURES) for _ in range(5)]
    for call in calls:
        call.__enter__()
    for call in calls:
        error = ConnectionError()
        with pytest.raises(ConnectionError):
            call.__exit__(ConnectionError, error, None)
            raise error
    assert changes == ["open"]
    clock.now += 30
    with pytest.raises(ConnectionError):
        attempt(breaker, ConnectionError())
    assert changes == ["open", "open"]


def test_cancelled_probe_leaves_room_for_the_next() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 30
    with pytest.raises(asyncio.CancelledError):
        attempt(breaker, asyncio.CancelledError())
    assert breaker.state.name == "OPEN"
    attempt(breaker)
    assert breaker.state.name == "CLOSED"


def test_zero_failures_turn_it_off() -> None:
    breaker = CircuitBreaker("a", failures=0)
    for _ in range(10):
        with pytest.raises(ConnectionError):
            attempt(breaker, ConnectionError())
    assert breaker.state.name == "CLOSED"
    with pytest.raises(InvalidInput):
        CircuitBreaker("a", failures=-1)
