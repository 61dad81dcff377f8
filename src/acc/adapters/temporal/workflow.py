"""The workflow of a run. Its history contains references only.

A change of the commands that it issues needs `workflow.patched(...)`, so that runs that started
before can finish; see the guide on durable execution.
"""

import asyncio
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

#: Names in histories; they cannot change.
WORKFLOW = "acc.run"
EXECUTE = "acc.execute"
CANCEL = "acc.cancel"
NOTIFY = "notify"
#: Only a limit of the service: a dead worker is recognised by its heartbeat.
_ATTEMPT_TIMEOUT = timedelta(days=30)
#: A run continues at most this time after its store is back. Workers that died with the run count
#: as failed attempts, so a longer interval would delay the run after several of them.
_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=0.2),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=2),
)


@workflow.defn(name=WORKFLOW)
class RunWorkflow:
    """Executes the segments of a run, and waits between them for answers or expiry."""

    def __init__(self) -> None:
        self._work: dict[str, Any] | None = None
        self._notifications = 0

    @workflow.signal(name=NOTIFY)
    def notify(self, work: dict[str, Any] | None = None) -> None:
        """Continue, because there is something new in the store."""
        self._work = work or self._work
        self._notifications += 1

    @workflow.run
    async def run(self, work: dict[str, Any]) -> None:
        """Execute the run to its end."""
        self._work = self._work or work
        try:
            await self._execute()
        except (asyncio.CancelledError, ActivityError):
            await self._cancel()
            raise

    async def _execute(self) -> None:
        while True:
            seen = self._notifications
            outcome = await workflow.execute_activity(
                EXECUTE,
                self._work,
                result_type=dict[str, Any],
                start_to_close_timeout=_ATTEMPT_TIMEOUT,
                # The engine that started the run chose how soon a silent worker is dead.
                heartbeat_timeout=workflow.info().task_timeout,
                retry_policy=_RETRIES,
                cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            )
            if outcome["has_ended"]:
                return
            if workflow.info().is_continue_as_new_suggested() and self._notifications == seen:
                workflow.continue_as_new(self._work)
            await self._wait(seen, outcome.get("resume_at"))

    async def _wait(self, seen: int, resume_at: float | None) -> None:
        """Wait for a notification, or until a request expires."""
        seconds = None if resume_at is None else max(resume_at - workflow.time(), 0.0) + 0.01
        try:
            await workflow.wait_condition(
                lambda: self._notifications > seen,
                timeout=None if seconds is None else timedelta(seconds=seconds),
            )
        except TimeoutError:
            return

    async def _cancel(self) -> None:
        """Record the cancellation, if no activity did."""
        await workflow.execute_activity(
            CANCEL,
            self._work,
            start_to_close_timeout=timedelta(minutes=1),
            heartbeat_timeout=workflow.info().task_timeout,
            retry_policy=_RETRIES,
        )
