"""The retry policy, and the Retry-After header."""

import asyncio
import time
from email.utils import formatdate

import pytest

from acc.adapters.http.retry import RetryPolicy, retry_after_seconds
from acc.application.runtime.pausable_timeout import PausableTimeout
from acc.domain.errors import ModelFailed


def transient(after: float | None = None) -> ModelFailed:
    return ModelFailed("busy", reason="server", retryable=True, retry_after=after)


class Operation:
    """Raises the given errors, one with each call, and then returns a value."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "value"


class Sleeps(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def test_waits_grow_exponentially_with_jitter_up_to_max_wait() -> None:
    sleeps, operation = Sleeps(), Operation(*(transient() for _ in range(7)))
    policy = RetryPolicy(attempts=8, max_wait=4.0, sleep=sleeps)
    assert await policy.call(operation) == "value"
    bounds = (0.5, 1, 2, 4, 4, 4, 4)
    assert all(most / 2 <= wait <= most for wait, most in zip(sleeps, bounds, strict=True))


async def test_last_error_is_raised_after_all_attempts() -> None:
    operation = Operation(*(transient() for _ in range(3)))
    last = operation.errors[-1]
    with pytest.raises(ModelFailed) as caught:
        await RetryPolicy(attempts=3, max_wait=1, sleep=Sleeps()).call(operation)
    assert caught.value is last
    assert operation.calls == 3


@pytest.mark.parametrize(
    "error", [ModelFailed("no", reason="rejected"), KeyError("x"), transient(after=61.0)]
)
async def test_error_that_cannot_pass_is_raised_at_once(error: Exception) -> None:
    operation, sleeps = Operation(error), Sleeps()
    with pytest.raises(type(error)):
        await RetryPolicy(attempts=3, max_wait=60, sleep=sleeps).call(operation)
    assert (operation.calls, sleeps) == (1, [])


async def test_retry_after_is_the_least_wait() -> None:
    sleeps = Sleeps()
    await RetryPolicy(attempts=2, max_wait=60, sleep=sleeps).call(Operation(transient(7.0)))
    assert sleeps == [7.0]


async def test_cancellation_is_not_retried() -> None:
    operation = Operation(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await RetryPolicy(attempts=3, max_wait=60, sleep=Sleeps()).call(operation)
    assert operation.calls == 1


async def test_deadline_is_paused_between_attempts() -> None:
    policy = RetryPolicy(attempts=2, max_wait=60)
    async with PausableTimeout(0.05):
        assert await policy.call(Operation(transient(after=0.2))) == "value"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "nan", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "soon"}, None),
        ({"retry-after": "-1"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": formatdate(0)}, 0.0),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_number_or_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers) == seconds


def test_retry_after_date_is_relative_to_now() -> None:
    seconds = retry_after_seconds({"retry-after": formatdate(time.time() + 60)})
    assert seconds is not None and 50 < seconds <= 60
