"""Execute segments of runs in a worker: from what is stored until the run waits or ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from acc.application.runtime.interrupts import RunPaused
from acc.application.runtime.replay import has_new_answers, pending_requests
from acc.application.runtime.run import EventRecorder
from acc.domain.errors import AccError, NothingPending, SessionConflict, StorageFailed
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.engine_ports import AttemptPort, EngineWork, SegmentOutcome

if TYPE_CHECKING:
    from acc.application.runtime.runner import SessionRunner

ENDED = SegmentOutcome(has_ended=True)
#: Errors after which the engine makes another attempt, so they are not recorded as a failure.
RETRIED_ERRORS = (SessionConflict, StorageFailed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One attempt to execute a run: the run, the holder of its lease, and whether it is stopped."""

    run_id: str
    holder: str
    attempt: AttemptPort

    @property
    def replaces(self) -> str:
        """Return the prefix of the holders of earlier attempts, whose leases this one replaces."""
        return holder_prefix(self.run_id)


def holder_prefix(run_id: str) -> str:
    """Return the prefix of the names of all holders of a run."""
    return f"{run_id}/"


def is_handed_over(segment: Segment | None) -> bool:
    """Return True if another attempt continues the segment, so that no end is recorded."""
    return segment is not None and segment.attempt.is_handed_over


def waiting(requests: Sequence[InputRequest]) -> SegmentOutcome:
    """Return the outcome of a run that waits for answers to requests."""
    expiries = [request.expires_at for request in requests if request.expires_at is not None]
    return SegmentOutcome(has_ended=False, resume_at=min(expiries, default=None))


class RunSegments:
    """Executes segments of runs that have no task."""

    def __init__(self, runner: "SessionRunner") -> None:
        self._runner = runner

    async def execute(self, work: EngineWork, attempt: AttemptPort) -> SegmentOutcome:
        """Execute a run from what is stored until it waits or ends."""
        runner = self._runner
        key = runner.session_key(work.user_id, work.session_id)
        outcome = await self.outcome(key, work.run_id)
        if outcome is not None:
            return outcome
        segment = self.segment(work.run_id, attempt)
        recorder = EventRecorder(runner.services.sessions)
        try:
            result = await runner.resume(
                user_id=key.user_id, session_id=key.session_id, recorder=recorder, segment=segment
            )
        except RunPaused as pause:
            return SegmentOutcome(has_ended=False, resume_at=pause.resume_at)
        except NothingPending:
            # An earlier attempt has ended it in the meantime.
            return await self.outcome(key, work.run_id) or ENDED
        except AccError:
            if recorder.is_released:
                return ENDED  # the run has recorded its failure
            raise
        return waiting(result.requests) if result.requests else ENDED

    async def cancel(self, work: EngineWork) -> None:
        """Record that a run is canceled, unless it has ended."""
        await self._runner.cancel_engine_run(
            self._runner.session_key(work.user_id, work.session_id), work.run_id
        )

    def segment(self, run_id: str, attempt: AttemptPort) -> Segment:
        """Return a segment with a holder of its own."""
        holder = f"{holder_prefix(run_id)}{self._runner.services.ids.new()}"
        return Segment(run_id=run_id, holder=holder, attempt=attempt)

    async def outcome(self, key: SessionKey, run_id: str) -> SegmentOutcome | None:
        """Return the outcome of a run that has ended or waits, None if it must be continued."""
        session = await self._runner.services.sessions.read(key)
        if session is None or session.run_id != run_id:
            return ENDED
        return await self._outcome_of(session)

    async def _outcome_of(self, session: Session) -> SegmentOutcome | None:
        if session.status is RunStatus.WORKING:
            return None
        if session.status is not RunStatus.INPUT_REQUIRED:
            return ENDED
        services = self._runner.services
        events = await services.sessions.events(session.key, run_id=session.run_id)
        outcome = waiting(pending_requests(events))
        is_expired = outcome.resume_at is not None and outcome.resume_at <= services.clock.now()
        return None if is_expired or has_new_answers(events) else outcome
