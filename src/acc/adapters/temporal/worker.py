"""A worker: polls a Temporal service and executes the segments of runs."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from acc.adapters.temporal.engine import TemporalEngine, from_payload, task_queue
from acc.adapters.temporal.workflow import CANCEL, EXECUTE, RunWorkflow
from acc.domain.errors import AccError
from acc.domain.value_objects.base import replace
from acc.ports.outbound.engine_ports import EngineWork, SegmentExecutorPort

T = TypeVar("T")
log = logging.getLogger("acc.worker")
#: Below the heartbeat timeout of the workflow. A cancellation arrives with a heartbeat.
HEARTBEAT_SECONDS = 0.5
#: Otherwise a workflow whose worker died would wait for 10 seconds.
_STICKY_TIMEOUT = timedelta(seconds=1)

#: The library sometimes waits forever when a worker is stopped.
_STOP_SECONDS = 5.0
#: Smaller differences between the clocks are not corrected.
_MIN_SKEW_SECONDS = 0.5


class _Attempt:
    """The running activity."""

    def __init__(self, engine: TemporalEngine, work: EngineWork) -> None:
        self._engine = engine
        self._work = work

    @property
    def is_handed_over(self) -> bool:
        details = activity.cancellation_details()
        return details is None or not details.cancel_requested

    async def age(self) -> float:
        submitted = await self._engine.started_at(self._work)
        return (activity.info().started_time - submitted).total_seconds()


class _Activities:
    def __init__(self, engine: TemporalEngine, segments: SegmentExecutorPort) -> None:
        self._engine = engine
        self._segments = segments

    @activity.defn(name=EXECUTE)
    async def execute(self, payload: dict[str, Any]) -> Any:
        """Execute a segment while heartbeats are sent."""
        work, skew = from_payload(payload), _clock_skew()
        outcome = await _with_heartbeats(
            work, self._segments.execute(work, _Attempt(self._engine, work))
        )
        if outcome.resume_at is not None:
            outcome = replace(outcome, resume_at=outcome.resume_at + skew)
        return msgspec.to_builtins(outcome)

    @activity.defn(name=CANCEL)
    async def cancel(self, payload: dict[str, Any]) -> None:
        """Record that a run is canceled."""
        work = from_payload(payload)
        await _with_heartbeats(work, self._segments.cancel(work))


def _clock_skew() -> float:
    """Return the seconds by which the clock of the service is ahead of this machine's now.

    The time for which the worker did not begin the activity is part of the result, so a timer can
    end earlier by this time. Then the segment finds that it is too early, and waits again.
    """
    started = activity.info().started_time
    skew = started.timestamp() - time.time()
    return skew if abs(skew) >= _MIN_SKEW_SECONDS else 0.0


async def _with_heartbeats(work: EngineWork, step: Awaitable[T]) -> T:
    """Return the result of a step while heartbeats are sent; the engine repeats a failed one."""
    results: list[T] = []
    code = ""
    async with asyncio.TaskGroup() as group:
        beats = group.create_task(_send_heartbeats())
        try:
            results.append(await step)
        except AccError as error:
            code = error.code
            log.warning(
                "segment failed, it will be repeated: %s", error, extra={"run_id": work.run_id}
            )
        except Exception:
            code = "internal"
            log.exception("segment failed, it will be repeated", extra={"run_id": work.run_id})
        finally:
            beats.cancel()
    if not results:
        # Histories contain no text of errors, which may quote messages.
        raise ApplicationError(f"the segment failed ({code}); see the log of the worker")
    return results[0]


async def _send_heartbeats() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_SECONDS)


@asynccontextmanager
async def run_worker(
    engine: TemporalEngine,
    segments: SegmentExecutorPort,
    *,
    app_name: str,
    concurrency: int = 100,
    grace: float = 10.0,
    workflow: type = RunWorkflow,
) -> AsyncIterator[Worker]:
    """Execute segments while the context is open.

    At the end, segments get the grace time to finish; other workers continue the rest. A worker
    that does not stop within a few more seconds is left.
    """
    activities = _Activities(engine, segments)
    worker = Worker(
        await engine.client(),
        task_queue=task_queue(app_name),
        workflows=[workflow],
        activities=[activities.execute, activities.cancel],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_concurrent_activities=concurrency,
        max_heartbeat_throttle_interval=timedelta(seconds=HEARTBEAT_SECONDS),
        sticky_queue_schedule_to_start_timeout=_STICKY_TIMEOUT,
        graceful_shutdown_timeout=timedelta(seconds=grace),
    )
    await worker.__aenter__()
    try:
        yield worker
    finally:
        try:
            async with asyncio.timeout(grace + _STOP_SECONDS):
                await worker.__aexit__(*sys.exc_info())
        except TimeoutError:
            log.warning(
                "the Temporal worker of %r did not stop in time and is left running", app_name
            )
