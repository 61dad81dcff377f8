"""Control flow of a run that is not an error: pauses, rejections, cancellation.

These exceptions pass every `except Exception` of an agent, as a cancellation does.
"""

import asyncio
from collections.abc import Iterator, Sequence

from acc.domain.errors import (
    BudgetExceeded,
    RemoteRejected,
    ReplayMismatch,
    SessionConflict,
    StorageFailed,
)
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.approval import InputRequest

#: Errors that end the whole run, not only the branch or the tool call in which they occur.
RUN_LEVEL_ERRORS = (BudgetExceeded, ReplayMismatch, SessionConflict, StorageFailed)


class RunPaused(BaseException):
    """The run waits for input, or for a remote task; everything done so far is recorded.

    Without requests, an engine continues the run at `resume_at`, in seconds since the epoch.
    """

    def __init__(
        self, requests: Sequence[InputRequest] = (), *, resume_at: float | None = None
    ) -> None:
        super().__init__(", ".join(request.id for request in requests))
        self.requests = tuple(requests)
        self.resume_at = resume_at

    @classmethod
    def join(cls, pauses: Sequence["RunPaused"]) -> "RunPaused":
        """Return the pause of a run of which several parts are paused."""
        times = [pause.resume_at for pause in pauses if pause.resume_at is not None]
        requests = [request for pause in pauses for request in pause.requests]
        return cls(requests, resume_at=min(times, default=None))


class RunRejected(BaseException):
    """A person or an agent rejected a step, and nothing after it may happen."""

    def __init__(self, agent: str, reason: str) -> None:
        super().__init__(replace_surrogates(f"{agent}: {reason}" if reason else agent))
        self.agent = agent
        self.reason = reason


#: A person, a local agent or a remote agent rejected a step that the run needs.
REJECTIONS = (RunRejected, RemoteRejected)


def rejection_reason(error: RunRejected | RemoteRejected) -> str:
    """Return the agent of a rejected step, and the reason."""
    return replace_surrogates(f"{error.agent}: {error.reason}" if error.reason else error.agent)


def is_control_flow(error: BaseException) -> bool:
    """Return True if an exception must pass agents and tools unchanged.

    A CancelledError counts only if this task was cancelled: one that an agent's own code raises,
    for example from a future it awaited, would otherwise end a branch silently.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, RunPaused | RunRejected | KeyboardInterrupt | GeneratorExit)


def paused_in_group(error: BaseException) -> RunPaused | None:
    """Return the pause inside an exception group that contains nothing else."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    pauses, others = error.split(RunPaused)
    if pauses is None or others is not None:
        return None
    return RunPaused.join(list(_pauses(pauses)))


def _pauses(group: BaseExceptionGroup[RunPaused]) -> Iterator[RunPaused]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _pauses(error)
        else:
            yield error
