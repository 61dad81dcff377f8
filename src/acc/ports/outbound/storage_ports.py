"""Where sessions, their events and their artifacts are kept."""

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.principal import Owner
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


class AlongPort(Protocol):
    """Something for another store that is to be stored along with a session's events."""

    async def store(self) -> None:
        """Store it by itself; whether it was refused is for whoever made it to ask."""
        ...


class SessionStorePort(Protocol):
    """Keeps sessions and their events, one writer at a time.

    A run holds its session from `open` to `release`; events are numbered from 1 by the holder, and
    an append that does not continue the numbers, or comes from someone who no longer holds the
    session, is refused with SessionConflict. Every call that the disk refuses raises StorageFailed.
    """

    async def open(self, key: SessionKey, *, holder: str) -> Session:
        """Take hold of a session and return it, made anew if need be; SessionBusy if it is held.

        A holder that is known to be dead, or has been silent for longer than its lease, is put out.
        Events are not read.
        """
        ...

    async def begin(
        self,
        key: SessionKey,
        first: Callable[[Session], Sequence[Event]],
        *,
        holder: str,
        along: AlongPort | None = None,
    ) -> tuple[Session, tuple[Event, ...]]:
        """Open a session and store the events that a run of it begins with, in one go.

        `first` tells them, given the session, and must do nothing else: it may be called in another
        thread, and again. Returned are the session as it was and the events. The rest is as in
        `open` and `append`; without events, nothing goes along either.
        """
        ...

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        holder: str,
        release: bool = False,
        along: AlongPort | None = None,
    ) -> None:
        """Store events, all or none, and apply their state deltas; returning acknowledges them.

        The keys of a state delta go to the scope that their prefix names; `temp:` keys go nowhere.
        A user's MESSAGE starts a run and counts a turn; ENDED sets the session's status. Once this
        is called, the events are stored even if the caller is cancelled while it waits. With
        `release` the session is let go of together with them. What goes `along` is stored with
        them, in one transaction where both are in one file and right after them elsewhere; not at
        all if they are refused. They stay if it is refused.
        """
        ...

    async def renew(self, key: SessionKey, *, holder: str) -> None:
        """Keep hold for another lease."""
        ...

    async def release(self, key: SessionKey, *, holder: str) -> None:
        """Let go of the session; harmless if it is not held."""
        ...

    async def read(self, key: SessionKey) -> Session | None:
        """Return a session as it is now, held by someone or not."""
        ...

    async def events(
        self,
        key: SessionKey,
        *,
        after: int = 0,
        limit: int | None = None,
        kinds: Collection[EventKind] | None = None,
        run_id: str = "",
    ) -> tuple[Event, ...]:
        """Return stored events in order, those that pass all the filters given."""
        ...

    async def newest(self, key: SessionKey, *, kind: EventKind, author: str) -> Event | None:
        """Return the last event of one kind and author."""
        ...

    async def sessions(self, app_name: str, user_id: str) -> tuple[Session, ...]:
        """Return a user's sessions, the last used first, without their state."""
        ...

    async def delete(self, key: SessionKey) -> None:
        """Forget a session, its events and artifacts; state of user and app stays."""
        ...

    async def delete_unused(
        self, keys: Collection[SessionKey], *, since: float
    ) -> frozenset[SessionKey]:
        """Forget sessions that nobody holds or has used since a time; return those that stay.

        Whether a session is in use is found out together with its deletion, so that nobody loses
        one by it.
        """
        ...

    async def aclose(self) -> None:
        """Let go of files and threads."""
        ...


class ArtifactStorePort(Protocol):
    """Keeps versioned files. A name that begins with `user:` is shared by the user's sessions."""

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a further version and return its number, from 1 on."""
        ...

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest if none is named."""
        ...

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        ...

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of one name."""
        ...


#: Nobody has anything under way.
NOTHING: Mapping[Owner, int] = MappingProxyType({})


class SubmitResult(NamedTuple):
    """A task that a message has led to; `is_new` if the message had not come before."""

    task: Task
    is_new: bool


class ExpiredTask(NamedTuple):
    """A task that is over: whose it is, and whether nothing else is left of its context."""

    task_id: str
    context_id: str
    owner: Owner
    is_last: bool


class Delivery(NamedTuple):
    """A notification on its way: which event of a task goes to which address, tried how often."""

    id: int
    config: PushConfig
    owner: Owner
    event: TaskEvent
    attempts: int


class UpdatesAlongPort(AlongPort, Protocol):
    """Updates of a task that are stored along with the events of its session."""

    def result(self) -> tuple[TaskEvent, ...]:
        """Return them with their numbers, once they are stored; raises what `append` does."""
        ...


class TaskStorePort(Protocol):
    """Keeps the tasks of one application, in the order in which things happened to them.

    Nothing that the table of moves forbids can be stored, from any process. Everything is stored
    before a call returns, even if the caller is cancelled while it waits. Every call that the disk
    refuses raises StorageFailed.
    """

    @property
    def is_shared(self) -> bool:
        """Tell whether other processes may move the tasks, so that one has to look now and then."""
        ...

    async def create(
        self,
        task: Task,
        *,
        owner: Owner,
        message: Message,
        push: PushConfig | None = None,
        key: str = "",
        most_active: int | None = None,
    ) -> SubmitResult:
        """File a task that a message starts, held by this process; its first event is its status.

        The message opens the task's history. If the same owner has sent this message before, with
        the same id and the same parts, nothing changes and the task that it led to is returned,
        unless the message names another context than that task's. A `key` counts in place of the
        id. ContextNotFound if the context belongs to another owner, LimitExceeded if the owner has
        `most_active` tasks that are submitted or working already.
        """
        ...

    async def proceed(
        self,
        task_id: str,
        *,
        owner: Owner,
        message: Message,
        updates: Sequence[Update],
        seen: Task | None,
        key: str = "",
    ) -> SubmitResult:
        """Let a message move a task on, held by this process from now on.

        `seen` is the task as it was when the message was understood. The message goes to the
        history, then the updates are stored. TaskNotFound if the owner has no such task,
        MoveForbidden if anything has happened to it since, or if it was not to be moved. A message
        that came before changes nothing, as in `create`.
        """
        ...

    async def append(self, task_id: str, updates: Sequence[Update]) -> tuple[TaskEvent, ...]:
        """Store updates, all or none, and return them with their numbers.

        MoveForbidden if the table forbids one of them, TaskNotFound if there is no such task.
        """
        ...

    def along(self, task_id: str, updates: Sequence[Update]) -> UpdatesAlongPort:
        """Return updates to append along with the events of a session, all or none."""
        ...

    async def read(self, task_id: str, *, owner: Owner | None = None) -> Task | None:
        """Return a task as it is now, None if the owner given has no such task."""
        ...

    async def events(
        self, task_id: str, *, after: int = 0, limit: int | None = None
    ) -> tuple[TaskEvent, ...]:
        """Return the events of a task with numbers above `after`, in order."""
        ...

    async def heads(self, task_ids: Collection[str]) -> Mapping[str, int]:
        """Return the number of the last event of each task there is; one cheap look for all."""
        ...

    async def listed(self, owner: Owner, query: TaskQuery) -> TaskPage:
        """Return a page of an owner's tasks, the last moved first; what it costs does not grow.

        Tasks that were answered directly are not listed. InvalidInput for a page token that is none
        of ours.
        """
        ...

    async def renew(self, task_ids: Collection[str]) -> None:
        """Keep hold of tasks for another lease."""
        ...

    async def orphans(self) -> tuple[str, ...]:
        """Return active tasks whose process is dead, or has been silent for longer than its lease.

        They are held by this process from now on, so that only one process gets each.
        """
        ...

    async def ended(self, *, before: float, limit: int, skip: int = 0) -> tuple[ExpiredTask, ...]:
        """Return tasks that ended before a time, without the first `skip`, in an order that stays.

        They are the last of a context if, with the others that are returned, there are no more.
        """
        ...

    async def forget(self, task_ids: Collection[str]) -> int:
        """Drop those of some tasks that are over, with all that is theirs; return how many."""
        ...

    async def save_push(self, config: PushConfig, *, most: int | None = None) -> None:
        """Keep a configuration; one with the same task and id is replaced.

        LimitExceeded if the task has `most` others already, also if many come at once.
        """
        ...

    async def pushes(self, task_id: str) -> tuple[PushConfig, ...]:
        """Return the configurations of a task, the oldest first."""
        ...

    async def delete_push(self, task_id: str, config_id: str) -> None:
        """Drop a configuration and what is still to be delivered to it; harmless if it is gone."""
        ...

    async def due(
        self,
        *,
        limit: int,
        lease: float,
        of_one: int | None = None,
        under_way: Mapping[Owner, int] = NOTHING,
    ) -> tuple[Delivery, ...]:
        """Take deliveries whose time has come, at most one for each configuration, the oldest.

        Every status and every finished artifact of a task with configurations is to be delivered,
        to each in order, from the moment it was appended. What is taken comes up again after
        `lease` seconds unless it is settled before. An owner gets at most `of_one`, counting what
        is `under_way`; passing over who has as many costs the same however much waits for them.
        """
        ...

    async def delivered(self, delivery_id: int) -> None:
        """Settle a delivery: it arrived, or is given up."""
        ...

    async def postpone(self, delivery_id: int, *, seconds: float) -> None:
        """Try a delivery again later, counting the attempt."""
        ...

    async def aclose(self) -> None:
        """Let go of files and threads."""
        ...
