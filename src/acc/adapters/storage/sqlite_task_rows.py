"""The rows of tasks: how they are found, filed, moved, put together and dropped."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from acc.adapters.storage.invariants import Advance, advanced, encoded, page_token
from acc.adapters.storage.sqlite import added
from acc.adapters.storage.sqlite_deliveries import add_deliveries, drop_pushes
from acc.domain.errors import ContextNotFound, InvalidInput, InvalidTransition
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    INTERRUPTED,
    TERMINAL,
    Message,
    Task,
    TaskEvent,
    TaskPage,
    TaskQuery,
    TaskState,
    Update,
    apply_events,
)

TASKS = msgspec.json.Decoder(Task)
UPDATES: "msgspec.json.Decoder[Update]" = msgspec.json.Decoder(Update)
REPLIED = "replied"  # answered directly: over, and listed nowhere
ACTIVE_ONES = "state IN ('submitted', 'working')"
_RESTING = TERMINAL | INTERRUPTED
_COLUMNS = {state: f"n_{state.value.replace('-', '_')}" for state in TaskState}
#: However long a task works, no reader has to go through more events than this.
_SNAPSHOT_EVERY = 256
#: So many are put together faster than a snapshot is written.
_FEW = 16
_FIND = (
    "SELECT t.id, t.owner, t.state, t.seq, t.moved_at, t.pushes, o.moves, o.tenant, o.caller"
    " FROM tasks t JOIN task_owners o ON o.id = t.owner WHERE t.app_name = ? AND t.task_id = ?"
)
_FIND_OWNER = (
    "SELECT id, n_submitted + n_working, moves FROM task_owners"
    " WHERE app_name = ? AND tenant = ? AND caller = ?"
)
_ADD_OWNER = "INSERT INTO task_owners (app_name, tenant, caller) VALUES (?, ?, ?)"
_USE_CONTEXT = "UPDATE task_contexts SET tasks = tasks + ? WHERE app_name = ? AND context_id = ?"
_ADD_CONTEXT = (
    "INSERT INTO task_contexts (app_name, context_id, owner, tasks) VALUES (?, ?, ?, 1)"
    " ON CONFLICT DO UPDATE SET tasks = tasks + 1 WHERE owner = excluded.owner"
)
_FIND_MESSAGE = "SELECT task FROM task_messages WHERE owner = ? AND digest = ?"
_ADD_MESSAGE = "INSERT INTO task_messages (owner, digest, task) VALUES (?, ?, ?)"
_ADD_TASK = (
    "INSERT INTO tasks (app_name, task_id, owner, context_id, state, seq, moved_at, move, pushes,"
    " holder_host, holder_pid, holder_started, lease_until)"
    " VALUES (?, ?, ?, ?, ?, 1, ?, ?, 0, ?, ?, ?, ?)"
)
_ADD_EVENT = "INSERT INTO task_events (task, seq, body) VALUES (?, ?, ?)"
_ADD_SNAPSHOT = "INSERT OR REPLACE INTO task_events (task, seq, body) VALUES (?, 0, ?)"
_SNAPSHOT = "SELECT body FROM task_events WHERE task = ? AND seq = 0"
_EVENTS = "SELECT seq, body FROM task_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
# The fence: a task that anyone has moved since, or whose moves are to be told, stays as it is.
_STEP = "UPDATE tasks SET seq = ? WHERE id = ? AND task_id = ? AND seq = ? AND pushes = 0"
_STEP_ON = (
    "UPDATE tasks SET seq = ?, state = ?, moved_at = ?,"
    " move = (SELECT moves + 1 FROM task_owners WHERE id = tasks.owner)"
    " WHERE id = ? AND task_id = ? AND seq = ? AND pushes = 0"
)
_OVER = (*sorted(state.value for state in TERMINAL), REPLIED)
_OWNERS = (
    "SELECT id, tenant, caller FROM task_owners NOT INDEXED"
    " WHERE app_name = ? AND id > ? ORDER BY id LIMIT ?"
)
_ENDED = (
    "SELECT task_id, context_id FROM tasks INDEXED BY tasks_by_state"  # noqa: S608 - constants
    f" WHERE owner = ? AND state IN {_OVER!r} AND moved_at < ? LIMIT ?"
)
_DOOMED = (
    "SELECT id, owner, context_id, state FROM tasks"  # noqa: S608 - constants
    f" WHERE app_name = ? AND task_id IN ({{}}) AND state IN {_OVER!r}"
)
_USED = "SELECT tasks FROM task_contexts WHERE app_name = ? AND context_id = ?"


class Row(NamedTuple):
    """A task as it stands, and whose it is."""

    id: int
    owner: int
    state: str
    seq: int
    moved_at: float
    pushes: int
    moves: int
    tenant: str
    caller: str

    @property
    def task_state(self) -> TaskState:
        """Return where the task stands; one that was answered directly is completed."""
        return TaskState.COMPLETED if self.state == REPLIED else TaskState(self.state)

    def is_of(self, owner: Owner) -> bool:
        """Tell whether the task is an owner's."""
        return (self.tenant, self.caller) == owner


class Place(NamedTuple):
    """Where a task was when one last looked: its number and owner's, its state and last event."""

    id: int
    owner: int
    state: TaskState
    seq: int


class OwnerRow(NamedTuple):
    """An owner's number, how many tasks are submitted or working, and how many moves there were."""

    id: int
    active: int
    moves: int


class Filing(NamedTuple):
    """A task that is to be filed, as it is written down."""

    task: Task
    owner: Owner
    message: Message
    digest: bytes
    snapshot: bytes
    event: bytes
    holder: tuple[str, int, str, float]


def column(state: TaskState) -> str:
    """Return where the tasks of a state are counted."""
    return _COLUMNS[state]


def find(connection: sqlite3.Connection, app_name: str, task_id: str) -> Row | None:
    """Return the row of a task."""
    row = connection.execute(_FIND, (app_name, task_id)).fetchone()
    return None if row is None else Row._make(row)


def find_owner(connection: sqlite3.Connection, app_name: str, owner: Owner) -> OwnerRow | None:
    """Return the row of an owner who has had a task."""
    row = connection.execute(_FIND_OWNER, (app_name, *owner)).fetchone()
    return None if row is None else OwnerRow._make(row)


def task_of_message(
    connection: sqlite3.Connection, owner: OwnerRow | None, digest: bytes
) -> Task | None:
    """Return the task that a message of an owner has led to before."""
    if owner is None:
        return None
    found = connection.execute(_FIND_MESSAGE, (owner.id, digest)).fetchone()
    return None if found is None else read_task(connection, found[0])


def add_message(connection: sqlite3.Connection, owner: int, task: int, digest: bytes) -> None:
    """Remember what a message led to: the owner's number and the task's."""
    connection.execute(_ADD_MESSAGE, (owner, digest, task))


def add_task(
    connection: sqlite3.Connection, app_name: str, owner: OwnerRow | None, filing: Filing
) -> Place:
    """File a task and return where it is; ContextNotFound if its context is another's."""
    task = filing.task
    if owner is None:
        owner = OwnerRow(added(connection, _ADD_OWNER, (app_name, *filing.owner)), 0, 0)
    context = (app_name, task.context_id, owner.id)
    if connection.execute(_ADD_CONTEXT, context).rowcount != 1:
        raise ContextNotFound(task.context_id)
    _count(connection, owner.id, None, task.state)
    place = (owner.id, task.context_id, task.state.value, task.status.at, owner.moves + 1)
    try:
        number = added(connection, _ADD_TASK, (app_name, task.id, *place, *filing.holder))
    except sqlite3.IntegrityError as error:
        raise InvalidInput(f"there is a task {task.id!r} already") from error
    connection.executemany(_ADD_EVENT, ((number, 0, filing.snapshot), (number, 1, filing.event)))
    add_message(connection, owner.id, number, filing.digest)
    return Place(number, owner.id, task.state, 1)


def step(
    connection: sqlite3.Connection,
    task_id: str,
    place: Place,
    updates: Sequence[tuple[Update, bytes]],
) -> Advance | None:
    """Store updates of a task that still is where it was; None, and nothing, where it is not.

    Also where more is to be done than to store them, or they seem forbidden.
    """
    try:
        made = advanced(task_id, place.state, place.seq, [update for update, _ in updates])
    except InvalidTransition:
        return None
    if not made.events or _wants_snapshot(place.seq, made):
        return None
    seq = made.events[-1].seq
    fence = (place.id, task_id, place.seq)
    if made.moved_at is None:
        moved = connection.execute(_STEP, (seq, *fence))
    else:
        moved = connection.execute(_STEP_ON, (seq, made.state.value, made.moved_at, *fence))
    if moved.rowcount != 1:
        return None
    _add_events(connection, place.id, made, updates)
    if made.moved_at is not None:
        _count(connection, place.owner, place.state, made.state)
    return made


def advance(
    connection: sqlite3.Connection,
    task_id: str,
    row: Row,
    updates: Sequence[tuple[Update, bytes]],
    now: float,
) -> tuple[TaskEvent, ...]:
    """Store updates and return them with their numbers; MoveForbidden, if one cannot happen."""
    given = [update for update, _ in updates]
    made = advanced(task_id, row.task_state, row.seq, given)
    if not made.events:
        return ()
    if _wants_snapshot(row.seq, made):
        task = apply_events(read_task(connection, row.id), made.events)
        connection.execute(_ADD_SNAPSHOT, (row.id, encoded(task, f"task {task_id!r}")))
    _add_events(connection, row.id, made, updates)
    _move(connection, row, made)
    if row.pushes:
        add_deliveries(connection, row.id, made.events, now)
    return made.events


def read_task(connection: sqlite3.Connection, number: int) -> Task:
    """Return a task as it is now."""
    (body,) = connection.execute(_SNAPSHOT, (number,)).fetchone()
    task = TASKS.decode(body)
    return apply_events(task, read_events(connection, number, task.seq))


def read_events(
    connection: sqlite3.Connection, number: int, after: int, limit: int = -1
) -> tuple[TaskEvent, ...]:
    """Return the events of a task with numbers above `after`."""
    rows = connection.execute(_EVENTS, (number, max(after, 0), limit))
    return tuple(TaskEvent(seq, UPDATES.decode(body)) for seq, body in rows)


class Doomed(NamedTuple):
    """A task that is to be forgotten."""

    id: int
    owner: int
    context_id: str
    state: str


class Over(NamedTuple):
    """A task that is over, and how many its context has."""

    task_id: str
    context_id: str
    owner: Owner
    of_context: int


class NumberedOwner(NamedTuple):
    """An owner and their number."""

    id: int
    tenant: str
    caller: str


def some_owners(
    connection: sqlite3.Connection, app_name: str, after: int, limit: int
) -> list[NumberedOwner]:
    """Return the owners that follow one."""
    rows = connection.execute(_OWNERS, (app_name, after, limit))
    return [NumberedOwner._make(row) for row in rows]


def over_before(
    connection: sqlite3.Connection,
    app_name: str,
    owners: Sequence[NumberedOwner],
    before: float,
    limit: int,
) -> list[Over]:
    """Return some tasks of owners that ended before a time."""
    found: list[Over] = []
    counts: dict[str, int] = {}
    for number, *owner in owners:
        some = connection.execute(_ENDED, (number, before, limit - len(found))).fetchall()
        for task_id, context_id in some:
            if context_id not in counts:
                (counts[context_id],) = connection.execute(_USED, (app_name, context_id)).fetchone()
            found.append(Over(task_id, context_id, Owner(*owner), counts[context_id]))
    return found


def forget(connection: sqlite3.Connection, app_name: str, task_ids: Sequence[str]) -> int:
    """Drop those of some tasks that are over, with all that is theirs; return how many."""
    doomed: list[Doomed] = []
    for marks, some in in_slices(task_ids):
        doomed += map(Doomed._make, connection.execute(_DOOMED.format(marks), (app_name, *some)))
    numbers = [(one.id,) for one in doomed]
    connection.executemany("DELETE FROM task_messages WHERE task = ?", numbers)
    connection.executemany("DELETE FROM task_events WHERE task = ?", numbers)
    drop_pushes(connection, numbers)
    connection.executemany("DELETE FROM tasks WHERE id = ?", numbers)
    for (owner, state), count in Counter((one.owner, one.state) for one in doomed).items():
        if state != REPLIED:
            name = column(TaskState(state))
            query = f"UPDATE task_owners SET {name} = {name} - ? WHERE id = ?"  # noqa: S608 - our columns
            connection.execute(query, (count, owner))
    contexts = Counter(one.context_id for one in doomed)
    connection.executemany(
        _USE_CONTEXT, [(-count, app_name, context_id) for context_id, count in contexts.items()]
    )
    connection.executemany(
        "DELETE FROM task_contexts WHERE app_name = ? AND context_id = ? AND tasks = 0",
        [(app_name, context_id) for context_id in contexts],
    )
    connection.executemany(
        "DELETE FROM task_owners WHERE id = ?1"
        " AND NOT EXISTS (SELECT 1 FROM tasks WHERE owner = ?1)",
        [(owner,) for owner in {one.owner for one in doomed}],
    )
    return len(doomed)


def in_slices(values: Sequence[Any], size: int = 500) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield values in slices, each with the placeholders for it; SQLite takes only so many."""
    for first in range(0, len(values), size):
        some = values[first : first + size]
        yield ", ".join("?" * len(some)), some


def _wants_snapshot(before: int, made: Advance) -> bool:
    """Tell whether the task is to be written down as a whole, so that few events are to be read."""
    seq = made.events[-1].seq
    is_at_rest = made.moved_at is not None and made.state in _RESTING
    is_far = seq // _SNAPSHOT_EVERY != before // _SNAPSHOT_EVERY
    return made.is_reply or is_far or (is_at_rest and seq % _SNAPSHOT_EVERY > _FEW)


def _add_events(
    connection: sqlite3.Connection,
    task: int,
    made: Advance,
    updates: Sequence[tuple[Update, bytes]],
) -> None:
    bodies = zip(made.events, updates, strict=True)
    connection.executemany(_ADD_EVENT, [(task, seq, body) for (seq, _), (_, body) in bodies])


def _move(connection: sqlite3.Connection, row: Row, step: Advance) -> None:
    seq = step.events[-1].seq
    if step.is_reply:
        _count(connection, row.owner, row.task_state, None)
        where = (REPLIED, row.moved_at, row.moves + 1)
    elif step.moved_at is not None:
        _count(connection, row.owner, row.task_state, step.state)
        where = (step.state.value, step.moved_at, row.moves + 1)
    else:
        connection.execute("UPDATE tasks SET seq = ? WHERE id = ?", (seq, row.id))
        return
    connection.execute(
        "UPDATE tasks SET seq = ?, state = ?, moved_at = ?, move = ? WHERE id = ?",
        (seq, *where, row.id),
    )


def _count(
    connection: sqlite3.Connection, owner: int, left: TaskState | None, come: TaskState | None
) -> None:
    """Number a move of one of an owner's tasks, and count from which state it led to which."""
    counts = "moves = moves + 1"
    if left is not come:
        counts += f", {column(left)} = {column(left)} - 1" if left else ""
        counts += f", {column(come)} = {column(come)} + 1" if come else ""
    connection.execute(f"UPDATE task_owners SET {counts} WHERE id = ?", (owner,))  # noqa: S608 - our columns


_STATES = tuple(TaskState)
_COUNTS = f"SELECT {', '.join(map(column, _STATES))} FROM task_owners WHERE id = ?"  # noqa: S608 - our columns
_BY_STATE = "INDEXED BY tasks_by_state WHERE owner = ? AND state = ?"
_BY_CONTEXT = (
    "INDEXED BY tasks_by_context WHERE owner = ? AND context_id = ? AND state <> 'replied'"
)
#: When a task moved, the number of the move, and the task's.
_Place = tuple[float, int, int]
#: Which tasks, as what follows the table's name, and the values for it.
_Which = tuple[str, tuple[Any, ...]]


def list_tasks(
    connection: sqlite3.Connection,
    app_name: str,
    owner: Owner,
    query: TaskQuery,
    end: tuple[float, int] | None,
) -> TaskPage:
    """Return a page of an owner's tasks, from where the last one ended."""
    found_owner = find_owner(connection, app_name, owner)
    if found_owner is None:
        return TaskPage(tasks=(), next_page_token="", total=0)
    number = found_owner.id
    counts = dict(zip(_STATES, connection.execute(_COUNTS, (number,)).fetchone(), strict=True))
    lists = narrowed(query, number, {state for state in _STATES if counts[state]})
    if query.context_id or query.since is not None:
        total = sum(_count_sqlite_task_lists(connection, which) for which in lists)
    else:
        total = sum(counts.values()) if query.state is None else counts[query.state]
    size = max(query.page_size, 1)
    # Each is sorted; merged they are read only as far as they are wanted.
    places: Iterable[_Place] = merge(
        *(connection.execute(*page_query(which, end, size + 1)) for which in lists),
        key=itemgetter(0, 1),
        reverse=True,
    )
    found = list(islice(places, size + 1))
    return TaskPage(
        tasks=tuple(read_task(connection, task) for _, _, task in found[:size]),
        next_page_token=page_token(*found[size - 1][:2]) if len(found) > size else "",
        total=total,
    )


def narrowed(query: TaskQuery, owner: int, states: Iterable[TaskState]) -> list[_Which]:
    """Return the lists that a query asks for: that of a context, or one for each state in use."""
    # Which index serves best is known here and not to SQLite, which keeps no statistics.
    lists: list[_Which]
    if query.context_id:
        lists = [(_BY_CONTEXT, (owner, query.context_id))]
        if query.state is not None:
            lists = [(f"{_BY_CONTEXT} AND state = ?", (*lists[0][1], query.state.value))]
    else:
        wanted = states if query.state is None else (query.state,)
        lists = [(_BY_STATE, (owner, state.value)) for state in wanted]
    if query.since is not None:
        lists = [(f"{where} AND moved_at >= ?", (*values, query.since)) for where, values in lists]
    return lists


def page_query(which: _Which, end: tuple[float, int] | None, limit: int) -> _Which:
    """Return the statement for the places of tasks before an end, the last first."""
    where, values = which
    if end is not None:
        where += " AND (moved_at, move) < (?, ?)"
        values += end
    query = (
        f"SELECT moved_at, move, id FROM tasks {where}"  # noqa: S608 - placeholders only
        " ORDER BY moved_at DESC, move DESC LIMIT ?"
    )
    return query, (*values, limit)


def _count_sqlite_task_lists(connection: sqlite3.Connection, which: _Which) -> int:
    where, values = which
    count: int
    (count,) = connection.execute(f"SELECT count(*) FROM tasks {where}", values).fetchone()  # noqa: S608 - placeholders only
    return count
