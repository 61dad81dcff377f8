"""Durable engines: they execute runs in workers, and continue them after a crash."""

from typing import Protocol

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.session import SessionKey


class TaskWork(Value, frozen=True, kw_only=True):
    """What the run of an A2A task needs and the store does not contain.

    The caller and its permissions are those of the message, the rest is how the client wants to see
    the task.
    """

    caller: str
    tenant: str = ""
    permissions: tuple[str, ...] | None = None
    is_anonymous: bool = False
    any_tenant: bool = False
    deltas: bool = False
    as_data: bool = False
    may_reply: bool = False
    footprint: bool = False


class EngineWork(Value, frozen=True, kw_only=True):
    """A run that an engine executes: a reference to what is stored, never content.

    The run of a task has the id of the task; its session is found by the worker.
    """

    app_name: str
    run_id: str
    user_id: str = ""
    session_id: str = ""
    task: TaskWork | None = None

    @classmethod
    def of_run(cls, key: SessionKey, run_id: str) -> "EngineWork":
        """Return the work for a run of a session."""
        return cls(
            app_name=key.app_name, run_id=run_id, user_id=key.user_id, session_id=key.session_id
        )


class SegmentOutcome(Value, frozen=True, kw_only=True):
    """How a segment ended: the run has ended, or it waits.

    `resume_at` is when the run continues without a notification, in seconds since the epoch, for
    example because an input request expires.
    """

    has_ended: bool
    resume_at: float | None = None


class EnginePort(Protocol):
    """Starts runs in workers. The store has their state; the engine has references only.

    Every method raises Unavailable if the engine does not respond.
    """

    async def connect(self) -> None:
        """Check that the engine can be used; InvalidInput if its address is wrong."""
        ...

    async def start(self, work: EngineWork) -> None:
        """Execute a run; does nothing if it is being executed."""
        ...

    async def notify(self, work: EngineWork, *, start: bool = True) -> bool:
        """Continue a run because there is something new in the store, such as an answer.

        A run that is not being executed is started, or with `start=False`, False is returned.
        """
        ...

    async def cancel(self, work: EngineWork) -> None:
        """Cancel a run; does nothing if it is not being executed."""
        ...

    async def aclose(self) -> None:
        """Close the connection."""
        ...


class AttemptPort(Protocol):
    """One attempt of a worker to execute a segment."""

    @property
    def is_handed_over(self) -> bool:
        """Return True if the attempt is stopped so that another one continues the run."""
        ...

    async def age(self) -> float:
        """Return the seconds since the engine got the work, by the clock of the engine.

        Clocks of machines may differ, so the time of another machine is no measure.
        """
        ...


class SegmentExecutorPort(Protocol):
    """Executes segments in a worker: a run from what is stored until it waits or ends."""

    async def execute(self, work: EngineWork, attempt: AttemptPort) -> SegmentOutcome:
        """Execute a segment.

        An error means that the segment must be repeated. What the run has recorded is not repeated,
        and a tool call without a recorded result only if the tool is idempotent.
        """
        ...

    async def cancel(self, work: EngineWork) -> None:
        """Record that a run that is not being executed is canceled, unless it has ended."""
        ...
