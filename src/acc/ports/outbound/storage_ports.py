"""Stores of sessions, artifacts and tasks, and the unit of work over them."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from acc.domain.errors import AccError
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey, StoredArtifact
from acc.domain.value_objects.task import (
    Message,
    PushConfig,
    Task,
    TaskEvent,
    TaskPage,
    TaskQuery,
    Update,
)


class BeginTurn(NamedTuple):
    """Write that opens a session and stores the message that starts a run.

    `agent` is the author of the ENDED event that closes a run whose process died. With
    `waits_for_runs` such a run is not closed: SessionBusy until an engine has continued it.
    """

    key: SessionKey
    message: Event
    holder: str
    agent: str
    waits_for_runs: bool = False


class AppendEvents(NamedTuple):
    """Write that appends events to a session; `release` ends the lease with them."""

    key: SessionKey
    events: Sequence[Event]
    holder: str
    release: bool = False


class AppendTaskUpdates(NamedTuple):
    """Write that appends updates to a task, all or none."""

    task_id: str
    updates: Sequence[Update]


Write = BeginTurn | AppendEvents | AppendTaskUpdates


class TurnStart(NamedTuple):
    """A session as it was before a turn, and the events that were stored to start the turn.

    Without events the session waits for input and nothing was stored.
    """

    session: Session
    events: tuple[Event, ...]


class CommitResult(NamedTuple):
    """What a unit of work stored: numbered events, numbered task updates.

    `session` is that of a BeginTurn. `refusal` is why the updates of a task were refused.
    """

    session: Session | None
    events: tuple[Event, ...]
    updates: tuple[TaskEvent, ...]
    refusal: AccError | None


class UnitOfWork(Protocol):
    """Stores writes to sessions and tasks together."""

    async def commit(self, *writes: Write) -> CommitResult:
        """Store all writes, in one transaction where the stores share a database.

        A refused task update does not undo the events before it. If events are refused, the error
        of `SessionStorePort.append` is raised and nothing is stored. If a BeginTurn stores nothing
        because the session waits for input, the writes after it are not stored either.
        """
        ...


#: How long a lease of a session or task lasts that is not renewed, unless it is configured.
LEASE_SECONDS = 30.0
#: Leases are renewed after this share of their time, so that slow calls do not lose them.
RENEWAL_SHARE = 1 / 3


class SessionStorePort(Protocol):
    """Stores sessions and their events, one writer at a time.

    A run holds the lease of its session from `open` or `begin_turn` to `release`. The store numbers
    the events of a session from 1. A write without the lease raises SessionConflict. Every call
    that the disk rejects raises StorageFailed.
    """

    @property
    def lease(self) -> float:
        """Return the seconds after which a lease expires that is not renewed."""
        ...

    async def open(self, key: SessionKey, *, holder: str, replaces: str = "") -> Session:
        """Acquire the lease of a session and return it, created if it does not exist.

        SessionBusy if another run holds the lease. A lease expires when it is not renewed, or when
        its process is known to be dead. A holder whose name begins with `replaces` loses the lease:
        its later writes raise SessionConflict. Events are not read.
        """
        ...

    async def begin_turn(
        self,
        key: SessionKey,
        message: Event,
        *,
        holder: str,
        agent: str,
        waits_for_runs: bool = False,
    ) -> TurnStart:
        """Open a session and store the message that starts a run, in one transaction.

        The store sets the number of the event and `turn` in its detail. An interrupted run is
        closed first, with an ENDED event of the author `agent`; with `waits_for_runs`, SessionBusy
        is raised instead. If the session waits for input, nothing is stored. If nothing is raised,
        the lease is acquired, as in `open`.
        """
        ...

    async def append(
        self, key: SessionKey, events: Sequence[Event], *, holder: str, release: bool = False
    ) -> tuple[Event, ...]:
        """Store events, all or none, apply their state deltas, and return them with numbers.

        The keys of a state delta go to the scope that their prefix names; `temp:` keys are not
        stored. A user's MESSAGE starts a run and counts a turn; ENDED sets the session's status.
        The events are stored even if the caller is cancelled while it waits. `release` ends the
        lease in the same transaction.
        """
        ...

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Extend the lease."""
        ...

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """End the lease; does nothing if it is not held."""
        ...

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, leased or not."""
        ...

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
        newest_first: bool = False,
    ) -> tuple[Event, ...]:
        """Return stored events in order that match all filters.

        Numbers are above `after` and below `before`. With `newest_first` the order is reversed, so
        that `limit` selects the newest; the cost then depends on the limit, not on the session.
        """
        ...

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of a kind and author."""
        ...

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions without state, most recently used first."""
        ...

    async def shared_state(self, app_name: str, user_id: str) -> Mapping[str, Any]:
        """Return the state of an app and a user, which all sessions of the user have."""
        ...

    async def rewind(self, key: SessionKey, marker: Event, *, after: int, holder: str) -> Session:
        """Delete the events with a number above `after`, in one transaction.

        State, turns, run and status of the session become those of the remaining events, and files
        of deleted events are deleted. State and files of the user and the app stay. Numbers are not
        used again: `marker` is stored with the next one.
        """
        ...

    async def fork(self, key: SessionKey, target: SessionKey, *, after: int, agent: str) -> Session:
        """Copy a session without the events with a number above `after` to a new session.

        State, turns, run and status are those of the copied events, and their files are copied. A
        run that waits for input or has not ended is canceled in the copy, by an event of `agent`.
        InvalidInput if the source does not exist, or if the target exists or is of another user.
        """
        ...

    async def delete(self, key: SessionKey) -> None:
        """Delete a session, its events and artifacts; user and app state stay."""
        ...

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Delete sessions without a lease or use since a time; return those that stay.

        The check and the deletion are atomic.
        """
        ...

    async def aclose(self) -> None:
        """Release files and threads."""
        ...


class SessionList(NamedTuple):
    """One page of the sessions of a store, and how many match in all."""

    sessions: tuple[Session, ...]
    total: int


class TaskSummary(NamedTuple):
    """A task as it is listed across callers."""

    app_name: str
    task_id: str
    context_id: str
    caller: str
    tenant: str
    state: str
    updated_at: float


class PendingDelivery(NamedTuple):
    """A push notification that is not delivered yet; `due_at` is when it is tried next."""

    app_name: str
    task_id: str
    caller: str
    config: PushConfig
    seq: int
    attempts: int
    due_at: float | None


class StoreCatalogPort(Protocol):
    """Lists what a store contains across apps and users. For operators, not for callers."""

    async def list_sessions(
        self,
        *,
        text: str = "",
        status: RunStatus | None = None,
        limit: int,
        skip: int = 0,
    ) -> SessionList:
        """Return sessions without state, most recently used first.

        With `text`, only those whose ids or messages contain it; ASCII letters match in both cases.
        """
        ...

    async def list_tasks(
        self, *, caller: str = "", state: str = "", limit: int, skip: int = 0
    ) -> tuple[TaskSummary, ...]:
        """Return tasks of all callers or of one, most recently updated first."""
        ...

    async def list_deliveries(
        self, *, task_id: str = "", limit: int
    ) -> tuple[PendingDelivery, ...]:
        """Return push notifications that are not delivered yet, oldest first."""
        ...


class ArtifactStorePort(Protocol):
    """Stores versioned files. Names that begin with `user:` are shared by a user's sessions."""

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a new version and return its number, from 1."""
        ...

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        ...

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        ...

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        ...


#: No owner has a delivery in flight.
NONE_IN_FLIGHT: Mapping[Owner, int] = MappingProxyType({})


class SubmitResult(NamedTuple):
    """The task that a message led to; `is_new` is False for a repeated message."""

    task: Task
    is_new: bool


class ContentLimit(NamedTuple):
    """What may be stored for an account: a number of tasks, and bytes of messages in them."""

    account: Owner
    tasks: int
    bytes: int


class ExpiredTask(NamedTuple):
    """A terminal task; `is_last` if no other task of its context remains."""

    task_id: str
    context_id: str
    owner: Owner
    is_last: bool


class Delivery(NamedTuple):
    """A notification to deliver: an event of a task, its receiver, and the failed attempts."""

    id: int
    config: PushConfig
    owner: Owner
    event: TaskEvent
    attempts: int


class TaskStorePort(Protocol):
    """Stores the tasks of one application with their events.

    Invalid transitions are refused, from any process. Everything is stored before a call returns,
    even if the caller is cancelled while it waits. Every call that the disk rejects raises
    StorageFailed.
    """

    @property
    def lease(self) -> float:
        """Return the seconds after which a lease expires that is not renewed."""
        ...

    async def wait_for_changes(self) -> Collection[str] | None:
        """Wait until other processes may have changed tasks, for a second at most.

        Return the tasks that they are known to have changed, or None if any task may have changed.
        """
        ...

    async def create(
        self,
        task: Task,
        *,
        owner: Owner,
        message: Message,
        push: PushConfig | None = None,
        key: str = "",
        max_active: int | None = None,
        content: ContentLimit | None = None,
    ) -> SubmitResult:
        """Store a new task, leased by this process; its first event is its status.

        The message opens the task's history. A message is repeated if the same owner has sent the
        same id and parts before; then nothing changes and the earlier task is returned, unless the
        message names another context. `key` replaces the id as idempotency key. ContextNotFound if
        the context belongs to another owner, LimitExceeded if the owner has `max_active` tasks
        that are submitted or working, or if `content` would be exceeded, by tasks of all processes.
        Without `content`, the task is counted for its owner. It counts until it is deleted.
        """
        ...

    async def continue_task(
        self,
        task_id: str,
        *,
        owner: Owner,
        message: Message,
        updates: Sequence[Update],
        expected: Task | None,
        key: str = "",
        content: ContentLimit | None = None,
    ) -> SubmitResult:
        """Add a message and updates to a task, which this process leases from now on.

        `expected` is the task as the caller read it. TaskNotFound if the owner has no such task,
        InvalidTransition if the task has changed since, or if `expected` is None. A repeated
        message changes nothing, as in `create`. The message is counted for the account of the
        task; LimitExceeded if the bytes of `content` would be exceeded.
        """
        ...

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers.

        InvalidTransition if the state of the task does not allow one of them, TaskNotFound if
        there is no such task.
        """
        ...

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the given owner has no such task."""
        ...

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        ...

    async def latest_seqs(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task that exists, in one query."""
        ...

    async def list_tasks(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, most recently updated first, in constant time.

        Tasks with a direct reply are not listed. InvalidInput for an invalid page token.
        """
        ...

    async def renew(self, task_ids: Collection[str]) -> None:
        """Extend the leases of tasks."""
        ...

    async def claim_orphans(self) -> tuple[str, ...]:
        """Lease and return active tasks whose process is dead or whose lease has expired.

        Each orphan is returned to one process only.
        """
        ...

    async def expired(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, in a stable order, without the first `skip`.

        `is_last` counts the returned tasks as deleted.
        """
        ...

    async def delete_expired(self, task_ids: Collection[str]) -> int:
        """Delete those of the tasks that are terminal, with their data; return how many."""
        ...

    async def save_push_config(self, config: PushConfig, *, max_configs: int | None = None) -> None:
        """Store a push configuration; one with the same task and id is replaced.

        LimitExceeded if the task has `max_configs` others, also under concurrent calls.
        """
        ...

    async def list_push_configs(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the push configurations of a task, oldest first."""
        ...

    async def delete_push_config(self, task_id: str, config_id: str) -> None:
        """Delete a configuration and its pending deliveries; does nothing if it is gone."""
        ...

    async def claim_deliveries(
        self,
        *,
        limit: int,
        lease: float,
        max_per_owner: int | None = None,
        in_flight: Mapping[Owner, int] = NONE_IN_FLIGHT,
    ) -> tuple[Delivery, ...]:
        """Lease due deliveries, the oldest of each configuration.

        Every status and every finished artifact of a task with configurations is delivered to each
        of them in order. A claimed delivery is due again after `lease` seconds unless it is
        completed or rescheduled. An owner gets at most `max_per_owner`, including those
        `in_flight`; skipping an owner costs the same however many deliveries are pending.
        """
        ...

    async def complete_delivery(self, delivery_id: int) -> None:
        """Delete a delivery that succeeded or is given up."""
        ...

    async def reschedule(self, delivery_id: int, *, seconds: float) -> None:
        """Retry a delivery later and count the attempt."""
        ...

    async def count_deliveries(self) -> int:
        """Return how many deliveries of the app are pending, due or not."""
        ...

    async def aclose(self) -> None:
        """Release files and threads."""
        ...
