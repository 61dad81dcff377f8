"""How a run leaves the tree other than by finishing.

These are no errors. They pass by every `except Exception` of an agent, as a cancellation does.
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

#: What is wrong with the whole run, and so is not for one of its branches to have.
RUN_LEVEL_ERRORS = (BudgetExceeded, ReplayMismatch, SessionConflict, StorageFailed)


class RunPaused(BaseException):
    """The run waits for answers; everything done so far is on record."""

    def __init__(self, requests: Sequence[InputRequest]) -> None:
        super().__init__(", ".join(request.id for request in requests))
        self.requests = tuple(requests)


class RunRejected(BaseException):
    """A person said no to a step, and nothing after it may happen."""

    def __init__(self, agent: str, reason: str) -> None:
        super().__init__(replace_surrogates(f"{agent}: {reason}" if reason else agent))
        self.agent = agent
        self.reason = reason


#: A person, an agent here or an agent over there said no, and nobody could do without it.
REJECTIONS = (RunRejected, RemoteRejected)


def why_rejected(error: RunRejected | RemoteRejected) -> str:
    """Return who said no, here or over there, and why."""
    return replace_surrogates(f"{error.agent}: {error.reason}" if error.reason else error.agent)


def is_control_flow(error: BaseException) -> bool:
    """Tell whether something raised is meant for others than the agent or tool it passes.

    A cancellation is so only if someone did cancel this task: one that an agent's own code lets
    out, say of a future it awaited, would otherwise end a branch without a word.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, RunPaused | RunRejected | KeyboardInterrupt | GeneratorExit)


def paused_in_group(error: BaseException) -> RunPaused | None:
    """Return the pause that a task group of an agent's own wrapped, if it wrapped nothing else."""
    if not isinstance(error, BaseExceptionGroup):
        return None
    pauses, others = error.split(RunPaused)
    if pauses is None or others is not None:
        return None
    return RunPaused(list(_requests(pauses)))


def _requests(group: BaseExceptionGroup[RunPaused]) -> Iterator[InputRequest]:
    for one in group.exceptions:
        if isinstance(one, BaseExceptionGroup):
            yield from _requests(one)
        else:
            yield from one.requests
