"""Rows of tasks: find, insert, update, list and delete them on a connection."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from acc.adapters.storage.invariants import Advance, advance, encode, page_token
from acc.adapters.storage.sqlite import insert
from acc.adapters.storage.sqlite_deliveries import add_deliveries, delete_configs
from acc.adapters.storage.task_records import (
    REPLIED,
    TASK_DECODER,
    TERMINAL_NAMES,
    UPDATE_DECODER,
    needs_snapshot,
    state_of,
)
from acc.domain.errors import ContextNotFound, InvalidInput, InvalidTransition
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import (
    Task,
    TaskEvent,
    TaskPage,
    TaskQuery,
    TaskState,
    Update,
    apply_events,
)

IS_ACTIVE = "state IN ('submitted', 'working')"
_STATES = tuple(TaskState)
_COLUMNS = {state: f"n_{state.value.replace('-', '_')}" for state in _STATES}
_MAX_PLACEHOLDERS = 500
_FIND = (
    "SELECT t.id, t.owner, t.state, t.seq, t.updated_at, t.push_configs, o.revision, o.tenant,"
    " o.caller FROM tasks t JOIN task_owners o ON o.id = t.owner"
    " WHERE t.app_name = ? AND t.task_id = ?"
)
_FIND_OWNER = (
    "SELECT id, n_submitted + n_working, revision, stored_tasks, stored_bytes FROM task_owners"
    " WHERE app_name = ? AND tenant = ? AND caller = ?"
)
_ADD_OWNER = "INSERT INTO task_owners (app_name, tenant, caller) VALUES (?, ?, ?)"
_ADD_CONTEXT = (
    "INSERT INTO task_contexts (app_name, context_id, owner, tasks) VALUES (?, ?, ?, 1)"
    " ON CONFLICT DO UPDATE SET tasks = tasks + 1 WHERE owner = excluded.owner"
)
_COUNT_CONTEXT = "UPDATE task_contexts SET tasks = tasks + ? WHERE app_name = ? AND context_id = ?"
_FIND_MESSAGE = "SELECT task FROM task_messages WHERE owner = ? AND digest = ?"
_ADD_MESSAGE = "INSERT INTO task_messages (owner, digest, task) VALUES (?, ?, ?)"
_ADD_TASK = (
    "INSERT INTO tasks (app_name, task_id, owner, account, stored_bytes, context_id, state, seq,"
    " updated_at, revision, push_configs, holder_host, holder_pid, holder_started, lease_until)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, 0, ?, ?, ?, ?)"
)
_COUNT_CONTENT = (
    "UPDATE task_owners SET stored_tasks = stored_tasks + ?, stored_bytes = stored_bytes + ?"
    " WHERE id = ?"
)
_ADD_BYTES = "UPDATE tasks SET stored_bytes = stored_bytes + ? WHERE id = ? RETURNING account"
_STORED_BYTES = "SELECT stored_bytes FROM task_owners WHERE id = ?"
_ADD_EVENT = "INSERT INTO task_events (task, seq, body) VALUES (?, ?, ?)"
_ADD_SNAPSHOT = "INSERT OR REPLACE INTO task_events (task, seq, body) VALUES (?, 0, ?)"
_SNAPSHOT = "SELECT body FROM task_events WHERE task = ? AND seq = 0"
_EVENTS = "SELECT seq, body FROM task_events WHERE task = ? AND seq > ? ORDER BY seq LIMIT ?"
# The conditions are the fence: a task that changed meanwhile, or has push configurations, is not
# updated by these statements.
_ADVANCE_AT = (
    "UPDATE tasks SET seq = ? WHERE id = ? AND task_id = ? AND seq = ? AND push_configs = 0"
)
_MOVE_AT = (
    "UPDATE tasks SET seq = ?, state = ?, updated_at = ?,"
    " revision = (SELECT revision + 1 FROM task_owners WHERE id = tasks.owner)"
    " WHERE id = ? AND task_id = ? AND seq = ? AND push_configs = 0"
)
_OWNERS = (
    "SELECT id, tenant, caller FROM task_owners NOT INDEXED"
    " WHERE app_name = ? AND id > ? ORDER BY id LIMIT ?"
)
_TERMINAL_BEFORE = (
    "SELECT task_id, context_id FROM tasks INDEXED BY tasks_by_state"  # noqa: S608 - constants
    f" WHERE owner = ? AND state IN {TERMINAL_NAMES!r} AND updated_at < ? LIMIT ?"
)
_TERMINAL_TASKS = (
    "SELECT id, owner, context_id, state, account, stored_bytes FROM tasks"  # noqa: S608 - constants
    f" WHERE app_name = ? AND task_id IN ({{}}) AND state IN {TERMINAL_NAMES!r}"
)
_TASKS_IN_CONTEXT = "SELECT tasks FROM task_contexts WHERE app_name = ? AND context_id = ?"
_COUNTS = f"SELECT {', '.join(_COLUMNS.values())} FROM task_owners WHERE id = ?"  # noqa: S608 - our columns
_BY_STATE = "INDEXED BY tasks_by_state WHERE owner = ? AND state = ?"
_BY_CONTEXT = (
    "INDEXED BY tasks_by_context WHERE owner = ? AND context_id = ? AND state <> 'replied'"
)
#: A condition after the name of the table, and its values.
Selection = tuple[str, tuple[Any, ...]]


class TaskRow(NamedTuple):
    """The row of a task, with its owner."""

    id: int
    owner: int
    state: str
    seq: int
    updated_at: float
    push_configs: int
    revision: int
    tenant: str
    caller: str

    @property
    def task_state(self) -> TaskState:
        """Return the state of the task; one with a direct reply is completed."""
        return state_of(self.state)

    def belongs_to(self, owner: Owner) -> bool:
        """Return True if the task belongs to an owner."""
        return (self.tenant, self.caller) == owner


class TaskPosition(NamedTuple):
    """The last known position of a task: row ids of task and owner, state and last event."""

    id: int
    owner: int
    state: TaskState
    seq: int


class OwnerRow(NamedTuple):
    """The row of an owner: number of active tasks, last revision, stored content."""

    id: int
    active: int = 0
    revision: int = 0
    stored_tasks: int = 0
    stored_bytes: int = 0

    @property
    def stored(self) -> tuple[int, int]:
        """Return the number of tasks with this account, and the bytes of their messages."""
        return self.stored_tasks, self.stored_bytes


class NewTask(NamedTuple):
    """A task to insert, with its encoded rows and its lease."""

    task: Task
    owner: Owner
    digest: bytes
    snapshot: bytes
    event: bytes
    lease: tuple[str, int, str, float]
    account: Owner
    size: int


class NumberedOwner(NamedTuple):
    """An owner with its row id."""

    id: int
    tenant: str
    caller: str


class TerminalTask(NamedTuple):
    """A terminal task, and how many tasks its context has."""

    task_id: str
    context_id: str
    owner: Owner
    tasks_in_context: int


def find(connection: sqlite3.Connection, app_name: str, task_id: str) -> TaskRow | None:
    """Return the row of a task."""
    row = connection.execute(_FIND, (app_name, task_id)).fetchone()
    return None if row is None else TaskRow._make(row)


def find_owner(connection: sqlite3.Connection, app_name: str, owner: Owner) -> OwnerRow | None:
    """Return the row of an owner, None for an owner without tasks."""
    row = connection.execute(_FIND_OWNER, (app_name, *owner)).fetchone()
    return None if row is None else OwnerRow._make(row)


def task_of_message(
    connection: sqlite3.Connection, owner: OwnerRow | None, digest: bytes
) -> Task | None:
    """Return the task that a message of an owner led to before."""
    if owner is None:
        return None
    row = connection.execute(_FIND_MESSAGE, (owner.id, digest)).fetchone()
    return None if row is None else read_task(connection, row[0])


def add_message(connection: sqlite3.Connection, owner: int, task: int, digest: bytes) -> None:
    """Store the digest of a message, to recognise it when it is repeated."""
    connection.execute(_ADD_MESSAGE, (owner, digest, task))


def add_task(
    connection: sqlite3.Connection,
    app_name: str,
    owner: OwnerRow | None,
    account: OwnerRow | None,
    new: NewTask,
) -> TaskPosition:
    """Insert a task; ContextNotFound if its context belongs to another owner."""
    task = new.task
    if owner is None:
        owner = OwnerRow(insert(connection, _ADD_OWNER, (app_name, *new.owner)))
    if new.account == new.owner:
        account = owner
    elif account is None:
        account = OwnerRow(insert(connection, _ADD_OWNER, (app_name, *new.account)))
    context = (app_name, task.context_id, owner.id)
    if connection.execute(_ADD_CONTEXT, context).rowcount != 1:
        raise ContextNotFound(task.context_id)
    if account is owner:
        _count_move(connection, owner.id, None, task.state, size=new.size)
    else:
        _count_move(connection, owner.id, None, task.state)
        connection.execute(_COUNT_CONTENT, (1, new.size, account.id))
    ownership = (owner.id, account.id, new.size)
    values = (*ownership, task.context_id, task.state.value, task.status.at, owner.revision + 1)
    try:
        row_id = insert(connection, _ADD_TASK, (app_name, task.id, *values, *new.lease))
    except sqlite3.IntegrityError as error:
        raise InvalidInput(f"task {task.id!r} exists already") from error
    connection.executemany(_ADD_EVENT, ((row_id, 0, new.snapshot), (row_id, 1, new.event)))
    add_message(connection, owner.id, row_id, new.digest)
    return TaskPosition(row_id, owner.id, task.state, 1)


def add_content(connection: sqlite3.Connection, task: int, size: int) -> int:
    """Add to the bytes of a task; return how many its account has stored now."""
    (account,) = connection.execute(_ADD_BYTES, (size, task)).fetchone()
    connection.execute(_COUNT_CONTENT, (0, size, account))
    stored: int
    (stored,) = connection.execute(_STORED_BYTES, (account,)).fetchone()
    return stored


def append_at(
    connection: sqlite3.Connection,
    task_id: str,
    position: TaskPosition,
    updates: Sequence[tuple[Update, bytes]],
) -> Advance | None:
    """Append updates to a task that is still at a position; None, and no change, otherwise.

    Also None if a snapshot is due, or if the updates are not allowed at that position.
    """
    try:
        result = advance(task_id, position.state, position.seq, [update for update, _ in updates])
    except InvalidTransition:
        return None
    if not result.events or needs_snapshot(position.seq, result):
        return None
    seq = result.events[-1].seq
    fence = (position.id, task_id, position.seq)
    if result.updated_at is None:
        cursor = connection.execute(_ADVANCE_AT, (seq, *fence))
    else:
        values = (seq, result.state.value, result.updated_at, *fence)
        cursor = connection.execute(_MOVE_AT, values)
    if cursor.rowcount != 1:
        return None
    _add_events(connection, position.id, result, updates)
    if result.updated_at is not None:
        _count_move(connection, position.owner, position.state, result.state)
    return result


def append_updates(
    connection: sqlite3.Connection,
    task_id: str,
    row: TaskRow,
    updates: Sequence[tuple[Update, bytes]],
    now: float,
) -> tuple[TaskEvent, ...]:
    """Append updates and return them with numbers; InvalidTransition if one is not allowed."""
    result = advance(task_id, row.task_state, row.seq, [update for update, _ in updates])
    if not result.events:
        return ()
    if needs_snapshot(row.seq, result):
        task = apply_events(read_task(connection, row.id), result.events)
        connection.execute(_ADD_SNAPSHOT, (row.id, encode(task, f"task {task_id!r}")))
    _add_events(connection, row.id, result, updates)
    seq, revision = result.events[-1].seq, row.revision + 1
    moved: tuple[str, float, int] | None = None
    if result.is_reply:
        _count_move(connection, row.owner, row.task_state, None)
        moved = (REPLIED, row.updated_at, revision)
    elif result.updated_at is not None:
        _count_move(connection, row.owner, row.task_state, result.state)
        moved = (result.state.value, result.updated_at, revision)
    if moved is None:
        connection.execute("UPDATE tasks SET seq = ? WHERE id = ?", (seq, row.id))
    else:
        connection.execute(
            "UPDATE tasks SET seq = ?, state = ?, updated_at = ?, revision = ? WHERE id = ?",
            (seq, *moved, row.id),
        )
    if row.push_configs:
        add_deliveries(connection, row.id, result.events, now)
    return result.events


def read_task(connection: sqlite3.Connection, row_id: int) -> Task:
    """Return a task as it is now."""
    (body,) = connection.execute(_SNAPSHOT, (row_id,)).fetchone()
    task = TASK_DECODER.decode(body)
    return apply_events(task, read_events(connection, row_id, task.seq))


def read_events(
    connection: sqlite3.Connection, row_id: int, after: int, limit: int = -1
) -> tuple[TaskEvent, ...]:
    """Return the events of a task with numbers above `after`."""
    rows = connection.execute(_EVENTS, (row_id, max(after, 0), limit))
    return tuple(TaskEvent(seq, UPDATE_DECODER.decode(body)) for seq, body in rows)


def next_owners(
    connection: sqlite3.Connection, app_name: str, after: int, limit: int
) -> list[NumberedOwner]:
    """Return owners with row ids above `after`."""
    rows = connection.execute(_OWNERS, (app_name, after, limit))
    return [NumberedOwner._make(row) for row in rows]


def terminal_before(
    connection: sqlite3.Connection,
    app_name: str,
    owners: Sequence[NumberedOwner],
    before: float,
    limit: int,
) -> list[TerminalTask]:
    """Return tasks of owners that ended before a time."""
    tasks: list[TerminalTask] = []
    counts: dict[str, int] = {}
    for row_id, *owner in owners:
        values = (row_id, before, limit - len(tasks))
        for task_id, context_id in connection.execute(_TERMINAL_BEFORE, values).fetchall():
            if context_id not in counts:
                context = (app_name, context_id)
                (counts[context_id],) = connection.execute(_TASKS_IN_CONTEXT, context).fetchone()
            tasks.append(TerminalTask(task_id, context_id, Owner(*owner), counts[context_id]))
    return tasks


def delete_terminal(connection: sqlite3.Connection, app_name: str, task_ids: Sequence[str]) -> int:
    """Delete those of the tasks that are terminal, with their data; return how many."""
    found: list[tuple[int, int, str, str, int, int]] = []
    for marks, batch in in_batches(task_ids):
        found += connection.execute(_TERMINAL_TASKS.format(marks), (app_name, *batch))
    row_ids = [(row[0],) for row in found]
    connection.executemany("DELETE FROM task_messages WHERE task = ?", row_ids)
    connection.executemany("DELETE FROM task_events WHERE task = ?", row_ids)
    delete_configs(connection, row_ids)
    connection.executemany("DELETE FROM tasks WHERE id = ?", row_ids)
    connection.executemany(_COUNT_CONTENT, [(-1, -size, account) for *_, account, size in found])
    for (owner, state), count in Counter((row[1], row[3]) for row in found).items():
        if state != REPLIED:
            column = _COLUMNS[TaskState(state)]
            query = f"UPDATE task_owners SET {column} = {column} - ? WHERE id = ?"  # noqa: S608 - our columns
            connection.execute(query, (count, owner))
    contexts = Counter(row[2] for row in found)
    connection.executemany(
        _COUNT_CONTEXT, [(-count, app_name, context_id) for context_id, count in contexts.items()]
    )
    connection.executemany(
        "DELETE FROM task_contexts WHERE app_name = ? AND context_id = ? AND tasks = 0",
        [(app_name, context_id) for context_id in contexts],
    )
    connection.executemany(
        "DELETE FROM task_owners WHERE id = ?1 AND stored_tasks = 0"
        " AND NOT EXISTS (SELECT 1 FROM tasks WHERE owner = ?1)",
        [(owner,) for owner in {owner for row in found for owner in (row[1], row[4])}],
    )
    return len(found)


def in_batches(
    values: Sequence[Any], size: int = _MAX_PLACEHOLDERS
) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield values in batches, each with its placeholders; SQLite limits their number."""
    for first in range(0, len(values), size):
        batch = values[first : first + size]
        yield ", ".join("?" * len(batch)), batch


def list_tasks(
    connection: sqlite3.Connection,
    app_name: str,
    owner: Owner,
    query: TaskQuery,
    end: tuple[float, int] | None,
) -> TaskPage:
    """Return a page of an owner's tasks before a position."""
    owner_row = find_owner(connection, app_name, owner)
    if owner_row is None:
        return TaskPage(tasks=(), next_page_token="", total=0)
    values = connection.execute(_COUNTS, (owner_row.id,)).fetchone()
    counts = dict(zip(_STATES, values, strict=True))
    selections = select(query, owner_row.id, {state for state in _STATES if counts[state]})
    if query.context_id or query.since is not None:
        total = 0
        for where, values in selections:
            (count,) = connection.execute(f"SELECT count(*) FROM tasks {where}", values).fetchone()  # noqa: S608 - placeholders only
            total += count
    else:
        total = sum(counts.values()) if query.state is None else counts[query.state]
    size = max(query.page_size, 1)
    # Each selection is sorted; merging reads only as many rows as the page needs.
    positions: Iterable[tuple[float, int, int]] = merge(
        *(connection.execute(*page_query(item, end, size + 1)) for item in selections),
        key=itemgetter(0, 1),
        reverse=True,
    )
    page = list(islice(positions, size + 1))
    return TaskPage(
        tasks=tuple(read_task(connection, row_id) for _, _, row_id in page[:size]),
        next_page_token=page_token(*page[size - 1][:2]) if len(page) > size else "",
        total=total,
    )


def select(query: TaskQuery, owner: int, states: Iterable[TaskState]) -> list[Selection]:
    """Return the selections of a query: one for a context, or one for each state in use."""
    # The index is chosen here because SQLite has no statistics about these tables.
    selections: list[Selection]
    if query.context_id:
        selections = [(_BY_CONTEXT, (owner, query.context_id))]
        if query.state is not None:
            values = (owner, query.context_id, query.state.value)
            selections = [(f"{_BY_CONTEXT} AND state = ?", values)]
    else:
        wanted = states if query.state is None else (query.state,)
        selections = [(_BY_STATE, (owner, state.value)) for state in wanted]
    if query.since is not None:
        selections = [
            (f"{where} AND updated_at >= ?", (*values, query.since)) for where, values in selections
        ]
    return selections


def page_query(selection: Selection, end: tuple[float, int] | None, limit: int) -> Selection:
    """Return the query for the last positions of a selection before an end."""
    where, values = selection
    if end is not None:
        where += " AND (updated_at, revision) < (?, ?)"
        values += end
    query = (
        f"SELECT updated_at, revision, id FROM tasks {where}"  # noqa: S608 - placeholders only
        " ORDER BY updated_at DESC, revision DESC LIMIT ?"
    )
    return query, (*values, limit)


def _add_events(
    connection: sqlite3.Connection,
    task: int,
    result: Advance,
    updates: Sequence[tuple[Update, bytes]],
) -> None:
    bodies = zip(result.events, updates, strict=True)
    connection.executemany(_ADD_EVENT, [(task, seq, body) for (seq, _), (_, body) in bodies])


def _count_move(
    connection: sqlite3.Connection,
    owner: int,
    left: TaskState | None,
    entered: TaskState | None,
    *,
    size: int | None = None,
) -> None:
    """Count a new revision of an owner's tasks, and the states that a task leaves and enters.

    `size` is that of the content of a new task.
    """
    changes, values = "revision = revision + 1", [owner]
    if size is not None:
        changes += ", stored_tasks = stored_tasks + 1, stored_bytes = stored_bytes + ?"
        values = [size, owner]
    if left is not entered:
        if left is not None:
            changes += f", {_COLUMNS[left]} = {_COLUMNS[left]} - 1"
        if entered is not None:
            changes += f", {_COLUMNS[entered]} = {_COLUMNS[entered]} + 1"
    connection.execute(f"UPDATE task_owners SET {changes} WHERE id = ?", values)  # noqa: S608 - our columns
