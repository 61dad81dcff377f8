"""Rows of tasks in PostgreSQL: find, insert, update, list and delete them on a connection."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from acc.adapters.storage.invariants import Advance, advance, encode, is_notified, page_token
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

if TYPE_CHECKING:
    from asyncpg import Connection

#: Encoded updates of a task.
Updates = Sequence[tuple[Update, bytes]]
_IS_ACTIVE = "state IN ('submitted', 'working')"
_IS_TERMINAL = f"state IN {TERMINAL_NAMES!r}"
_OF_OWNER = "app_name = $1 AND tenant = $2 AND caller = $3"
_FIND = (
    "SELECT id, state, seq, updated_at, push_configs, tenant, caller, account FROM acc_tasks"
    " WHERE app_name = $1 AND task_id = $2"
)
# Everything that a new task depends on, in one round trip.
_PRECONDITIONS = (
    f"SELECT (SELECT task FROM acc_task_messages WHERE {_OF_OWNER} AND digest = $4),"  # noqa: S608 - constants
    f" (SELECT task FROM acc_task_messages WHERE {_OF_OWNER} AND digest = $5),"
    " (SELECT count(*) FROM (SELECT 1 FROM acc_tasks"
    f" WHERE {_OF_OWNER} AND {_IS_ACTIVE} LIMIT $6) a), s.tasks, s.bytes"
    " FROM (SELECT coalesce(sum(tasks), 0)::bigint tasks, coalesce(sum(bytes), 0)::bigint bytes"
    " FROM acc_stored_content WHERE app_name = $1 AND tenant = $7 AND caller = $3) s"
)
#: The row in which a task is counted, by its id.
_SLOT = "hashtext({}) & 15"
_LOCK_OWNER = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_ADD_TASK = (
    "WITH c AS (INSERT INTO acc_task_contexts AS o (app_name, context_id, tenant, caller, tasks)"  # noqa: S608 - constants
    " VALUES ($1, $5, $2, $3, 1) ON CONFLICT (app_name, context_id) DO UPDATE"
    " SET tasks = o.tasks + 1 WHERE o.tenant = $2 AND o.caller = $3 RETURNING tasks),"
    " t AS (INSERT INTO acc_tasks (app_name, task_id, tenant, caller, context_id, state, seq,"
    " updated_at, revision, snapshot_seq, push_configs, holder_host, holder_pid, holder_started,"
    " lease_until, account, stored_bytes)"
    " SELECT $1, $4, $2, $3, $5, $6, 1, $7, nextval('acc_task_revisions'), 1,"
    " CASE WHEN $15::text IS NULL THEN 0 ELSE 1 END, $8, $9, $10, $11, $17, $18"
    " FROM c RETURNING id),"
    " e AS (INSERT INTO acc_task_events (task, seq, body)"
    " SELECT t.id, r.* FROM t, (VALUES (0::bigint, $12::bytea), (1, $13)) r),"
    " m AS (INSERT INTO acc_task_messages (app_name, tenant, caller, digest, task)"
    " SELECT $1, $2, $3, $14, t.id FROM t),"
    " p AS (INSERT INTO acc_push_configs (app_name, tenant, caller, task, config_id, body)"
    " SELECT $1, $2, $3, t.id, $15, $16 FROM t WHERE $15 IS NOT NULL),"
    " s AS (INSERT INTO acc_stored_content AS o (app_name, tenant, caller, slot, tasks, bytes)"
    f" SELECT $1, $17, $3, {_SLOT.format('$4')}, 1, $18 FROM t"
    " ON CONFLICT (app_name, tenant, caller, slot) DO UPDATE"
    " SET tasks = o.tasks + 1, bytes = o.bytes + excluded.bytes)"
    " SELECT id FROM t"
)
_STORED_BYTES = (
    "SELECT coalesce(sum(bytes), 0)::bigint FROM acc_stored_content"
    " WHERE app_name = $1 AND tenant = $2 AND caller = $3"
)
_ADD_CONTENT = (
    "WITH t AS (UPDATE acc_tasks SET stored_bytes = stored_bytes + $2"  # noqa: S608 - constants
    " WHERE id = $1 AND account IS NOT NULL RETURNING *)"
    " UPDATE acc_stored_content s SET bytes = s.bytes + $2 FROM t WHERE s.app_name = t.app_name"
    " AND s.tenant = t.account AND s.caller = t.caller"
    f" AND s.slot = {_SLOT.format('t.task_id')}"
)
#: Counts the tasks of a store that was copied.
ADD_COPIED_CONTENT = (
    "INSERT INTO acc_stored_content (app_name, tenant, caller, slot, tasks, bytes)"  # noqa: S608 - constants
    f" SELECT app_name, account, caller, {_SLOT.format('task_id')}, count(*), sum(stored_bytes)"
    " FROM acc_tasks WHERE account IS NOT NULL GROUP BY 1, 2, 3, 4"
)
# The rows are locked in a fixed order, so that deletions do not deadlock.
_REMOVE_CONTENT = (
    "WITH r AS (SELECT app_name, account AS tenant, caller,"  # noqa: S608 - constants
    f" {_SLOT.format('task_id')} AS slot, count(*) AS tasks, sum(stored_bytes) AS bytes"
    " FROM acc_tasks WHERE id = ANY($1) AND account IS NOT NULL GROUP BY 1, 2, 3, 4),"
    " l AS (SELECT r.* FROM acc_stored_content s JOIN r USING (app_name, tenant, caller, slot)"
    " ORDER BY app_name, tenant, caller, slot FOR UPDATE OF s)"
    " UPDATE acc_stored_content s SET tasks = s.tasks - l.tasks, bytes = s.bytes - l.bytes FROM l"
    " WHERE (s.app_name, s.tenant, s.caller, s.slot) = (l.app_name, l.tenant, l.caller, l.slot)"
)
_ADD_MESSAGE = (
    "INSERT INTO acc_task_messages (app_name, tenant, caller, digest, task)"
    " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING task"
)
# The conditions are the fence: a task that changed meanwhile is not updated. The configurations are
# locked even if a delivery is pending, so that one that is completed now does not hide the new one.
_ADVANCE = (
    "WITH t AS (UPDATE acc_tasks SET seq = $4, state = coalesce($5, state),"
    " updated_at = coalesce($6, updated_at), snapshot_seq = coalesce($7, snapshot_seq),"
    " revision = CASE WHEN $5::text IS NULL THEN revision"
    " ELSE nextval('acc_task_revisions') END"
    " WHERE id = $1 AND seq = $2 AND push_configs = $3 RETURNING id),"
    " e AS (INSERT INTO acc_task_events (task, seq, body)"
    " SELECT t.id, r.* FROM t, unnest($8::bigint[], $9::bytea[]) r"
    " ON CONFLICT (task, seq) DO UPDATE SET body = excluded.body){}"
    " SELECT id FROM t"
)
_DELIVER = (
    ", d AS (UPDATE acc_push_configs p SET due_at = coalesce(p.due_at, $10) FROM t"
    " WHERE p.task = t.id RETURNING p.id),"
    " n AS (INSERT INTO acc_deliveries (push_config, seq, attempts)"
    " SELECT d.id, s.seq, 0 FROM d, unnest($11::bigint[]) s (seq) ORDER BY s.seq, d.id)"
)
# A snapshot and the events after it, in one statement.
_READ = (
    "SELECT t.id, e.seq, e.body FROM acc_tasks t JOIN acc_task_events e"
    " ON e.task = t.id AND (e.seq = 0 OR e.seq > t.snapshot_seq) WHERE {} ORDER BY t.id, e.seq"
)
_READ_ROWS = _READ.format("t.id = ANY($1)")
_READ_NAMED = _READ.format("t.app_name = $1 AND t.task_id = $2")
_READ_OWNED = _READ.format("t.app_name = $1 AND t.task_id = $2 AND t.tenant = $3 AND t.caller = $4")
_EVENTS = (
    "SELECT e.seq, e.body FROM acc_tasks t JOIN acc_task_events e ON e.task = t.id"
    " WHERE t.app_name = $1 AND t.task_id = $2 AND e.seq > $3 ORDER BY e.seq LIMIT $4"
)
_EXPIRED = (
    "SELECT t.task_id, t.context_id, t.tenant, t.caller, c.tasks FROM acc_tasks t"  # noqa: S608 - constants
    " JOIN acc_task_contexts c USING (app_name, context_id)"
    f" WHERE app_name = $1 AND t.{_IS_TERMINAL} AND t.updated_at < $2"
    " ORDER BY t.updated_at, t.id LIMIT $3 OFFSET $4"
)
_LOCK_TERMINAL = (
    "SELECT id, context_id FROM acc_tasks WHERE app_name = $1 AND task_id = ANY($2)"  # noqa: S608 - constants
    f" AND {_IS_TERMINAL} ORDER BY id FOR UPDATE SKIP LOCKED"
)
_DELETIONS = (
    _REMOVE_CONTENT,
    "DELETE FROM acc_stored_content s USING acc_tasks t WHERE t.id = ANY($1)"
    " AND s.app_name = t.app_name AND s.tenant = t.account AND s.caller = t.caller AND s.tasks = 0",
    "DELETE FROM acc_deliveries WHERE push_config IN"
    " (SELECT id FROM acc_push_configs WHERE task = ANY($1))",
    "DELETE FROM acc_push_configs WHERE task = ANY($1)",
    "DELETE FROM acc_task_messages WHERE task = ANY($1)",
    "DELETE FROM acc_task_events WHERE task = ANY($1)",
    "DELETE FROM acc_tasks WHERE id = ANY($1)",
)
_COUNT_CONTEXTS = (
    "UPDATE acc_task_contexts c SET tasks = c.tasks - r.count"
    " FROM unnest($2::text[], $3::bigint[]) r (context_id, count)"
    " WHERE c.app_name = $1 AND c.context_id = r.context_id"
)
_DELETE_CONTEXTS = (
    "DELETE FROM acc_task_contexts WHERE app_name = $1 AND context_id = ANY($2) AND tasks = 0"
)


class RepeatedMessage(Exception):
    """Another process stored the same message in this moment."""


class TaskRow(NamedTuple):
    """The row of a task, with its owner."""

    id: int
    state: str
    seq: int
    updated_at: float
    push_configs: int
    tenant: str
    caller: str
    account: str | None

    def belongs_to(self, owner: Owner) -> bool:
        """Return True if the task belongs to an owner."""
        return (self.tenant, self.caller) == owner


class TaskPosition(NamedTuple):
    """The last known position of a task: its row, state, last event and configurations."""

    id: int
    state: TaskState
    seq: int
    push_configs: int


class Preconditions(NamedTuple):
    """Earlier tasks of a message, the active tasks of its owner, and the stored content."""

    known: int | None
    known_in_context: int | None
    active: int
    stored_tasks: int
    stored_bytes: int


class NewTask(NamedTuple):
    """A task to insert, with its encoded rows, its lease and its push configuration."""

    task: Task
    owner: Owner
    digest: bytes
    snapshot: bytes
    event: bytes
    lease: tuple[str, int, str, float]
    config: tuple[str | None, bytes | None]
    account: Owner
    size: int


async def find(
    connection: "Connection[Any]", app_name: str, task_id: str, *, lock: bool = False
) -> TaskRow | None:
    """Return the row of a task."""
    row = await connection.fetchrow(f"{_FIND} FOR UPDATE" if lock else _FIND, app_name, task_id)
    return None if row is None else TaskRow(*row)


async def read_preconditions(
    connection: "Connection[Any]",
    app_name: str,
    owner: Owner,
    digests: tuple[bytes, bytes],
    limit: int,
    account: Owner,
) -> Preconditions:
    """Return what a new task depends on; active tasks are counted up to a limit."""
    row = await connection.fetchrow(
        _PRECONDITIONS, app_name, *owner, *digests, limit, account.tenant
    )
    return Preconditions(*row)


async def lock_owners(connection: "Connection[Any]", app_name: str, *owners: Owner) -> None:
    """Wait for other transactions that create tasks of owners near the limit."""
    for owner in dict.fromkeys(owners):
        await connection.execute(_LOCK_OWNER, repr((app_name, *owner)))


async def add_task(connection: "Connection[Any]", app_name: str, new: NewTask) -> TaskPosition:
    """Insert a task; ContextNotFound if its context belongs to another owner."""
    task = new.task
    try:
        row_id = await connection.fetchval(
            _ADD_TASK,
            app_name,
            *new.owner,
            task.id,
            task.context_id,
            task.state.value,
            task.status.at,
            *new.lease,
            new.snapshot,
            new.event,
            new.digest,
            *new.config,
            new.account.tenant,
            new.size,
        )
    except asyncpg.UniqueViolationError as error:
        if error.table_name == "acc_task_messages":
            raise RepeatedMessage from error
        raise InvalidInput(f"task {task.id!r} exists already") from error
    if row_id is None:
        raise ContextNotFound(task.context_id)
    return TaskPosition(row_id, task.state, 1, 0 if new.config[0] is None else 1)


async def add_message(
    connection: "Connection[Any]", app_name: str, owner: Owner, digest: bytes, task: int
) -> None:
    """Store the digest of a message, to recognise it when it is repeated."""
    if await connection.fetchval(_ADD_MESSAGE, app_name, *owner, digest, task) is None:
        raise RepeatedMessage


async def read_stored_bytes(connection: "Connection[Any]", app_name: str, account: Owner) -> int:
    """Return the bytes of the messages of an account."""
    size: int = await connection.fetchval(_STORED_BYTES, app_name, *account)
    return size


async def add_content(connection: "Connection[Any]", task: int, size: int) -> None:
    """Add to the bytes of a task and of its account."""
    await connection.execute(_ADD_CONTENT, task, size)


async def append_at(
    connection: "Connection[Any]",
    task_id: str,
    position: TaskPosition,
    updates: Updates,
    now: float,
) -> Advance | None:
    """Append updates to a task that is still at a position; None, and no change, otherwise.

    InvalidTransition if an update is not allowed at the position.
    """
    result = advance(task_id, position.state, position.seq, [update for update, _ in updates])
    if not result.events:
        return result
    seqs = [event.seq for event in result.events]
    bodies = [body for _, body in updates]
    snapshot_seq = None
    if needs_snapshot(position.seq, result):
        # The events up to the position never change, so a task that moved on only fails the fence.
        task = (await read_rows(connection, [position.id])).get(position.id)
        if task is None or task.seq != position.seq:
            return None
        task = apply_events(task, result.events)
        snapshot_seq = task.seq
        seqs.append(0)
        bodies.append(encode(task, f"task {task_id!r}"))
    state = None
    if result.is_reply:
        state = REPLIED
    elif result.updated_at is not None:
        state = result.state.value
    arguments: list[Any] = [
        *(position.id, position.seq, position.push_configs),
        *(result.events[-1].seq, state, None if result.is_reply else result.updated_at),
        *(snapshot_seq, seqs, bodies),
    ]
    notified = [event.seq for event in result.events if is_notified(event.update)]
    statement = _ADVANCE.format("")
    if position.push_configs and notified:
        statement = _ADVANCE.format(_DELIVER)
        arguments += [now, notified]
    return result if await connection.fetchval(statement, *arguments) is not None else None


async def append_updates(
    connection: "Connection[Any]", task_id: str, row: TaskRow, updates: Updates, now: float
) -> Advance | None:
    """Append updates to a task that is as its row was read; None, and no change, otherwise."""
    position = TaskPosition(row.id, state_of(row.state), row.seq, row.push_configs)
    return await append_at(connection, task_id, position, updates, now)


async def read_named(
    connection: "Connection[Any]", app_name: str, task_id: str, owner: Owner | None
) -> Task | None:
    """Return a task as it is now, None if the given owner has no such task."""
    if owner is None:
        rows = await connection.fetch(_READ_NAMED, app_name, task_id)
    else:
        rows = await connection.fetch(_READ_OWNED, app_name, task_id, *owner)
    return next(iter(_tasks(rows).values()), None)


async def read_rows(connection: "Connection[Any]", row_ids: Sequence[int]) -> dict[int, Task]:
    """Return tasks as they are now, by their row ids."""
    return _tasks(await connection.fetch(_READ_ROWS, row_ids))


def _tasks(rows: Sequence[Any]) -> dict[int, Task]:
    tasks: dict[int, Task] = {}
    events: dict[int, list[TaskEvent]] = {}
    for row_id, seq, body in rows:
        if seq == 0:
            tasks[row_id], events[row_id] = TASK_DECODER.decode(body), []
        else:
            events[row_id].append(TaskEvent(seq, UPDATE_DECODER.decode(body)))
    return {row_id: apply_events(task, events[row_id]) for row_id, task in tasks.items()}


async def read_events(
    connection: "Connection[Any]", app_name: str, task_id: str, after: int, limit: int | None
) -> tuple[TaskEvent, ...]:
    """Return the events of a task with numbers above `after`."""
    rows = await connection.fetch(_EVENTS, app_name, task_id, max(after, 0), limit)
    return tuple([TaskEvent(seq, UPDATE_DECODER.decode(body)) for seq, body in rows])


async def find_expired(
    connection: "Connection[Any]", app_name: str, before: float, limit: int, skip: int
) -> Sequence[Any]:
    """Return id, context, owner and the number of tasks of the context of ended tasks."""
    rows: Sequence[Any] = await connection.fetch(_EXPIRED, app_name, before, limit, skip)
    return rows


async def delete_terminal(
    connection: "Connection[Any]", app_name: str, task_ids: Sequence[str]
) -> int:
    """Delete those of the tasks that are terminal, with their data; return how many."""
    found = await connection.fetch(_LOCK_TERMINAL, app_name, task_ids)
    row_ids = [row_id for row_id, _ in found]
    for statement in _DELETIONS:
        await connection.execute(statement, row_ids)
    contexts = Counter(context_id for _, context_id in found)
    names = sorted(contexts)
    counts = [contexts[name] for name in names]
    await connection.execute(_COUNT_CONTEXTS, app_name, names, counts)
    await connection.execute(_DELETE_CONTEXTS, app_name, names)
    return len(found)


async def list_tasks(
    connection: "Connection[Any]",
    app_name: str,
    owner: Owner,
    query: TaskQuery,
    end: tuple[float, int] | None,
) -> TaskPage:
    """Return a page of an owner's tasks before a position."""
    where = f"{_OF_OWNER} AND state <> '{REPLIED}'"
    values: list[Any] = [app_name, *owner]
    for condition, value in (
        ("context_id = ${}", query.context_id or None),
        ("state = ${}", None if query.state is None else query.state.value),
        ("updated_at >= ${}", query.since),
    ):
        if value is not None:
            values.append(value)
            where += f" AND {condition.format(len(values))}"
    total = await connection.fetchval(f"SELECT count(*) FROM acc_tasks WHERE {where}", *values)  # noqa: S608 - placeholders only
    if end is not None:
        values += end
        where += f" AND (updated_at, revision) < (${len(values) - 1}, ${len(values)})"
    size = max(query.page_size, 1)
    page = await connection.fetch(
        f"SELECT updated_at, revision, id FROM acc_tasks WHERE {where}"  # noqa: S608 - placeholders only
        f" ORDER BY updated_at DESC, revision DESC LIMIT {size + 1}",
        *values,
    )
    row_ids = [row["id"] for row in page[:size]]
    tasks = await read_rows(connection, row_ids)
    return TaskPage(
        tasks=tuple(tasks[row_id] for row_id in row_ids),
        next_page_token=page_token(*page[size - 1][:2]) if len(page) > size else "",
        total=total,
    )


def refuse_change(task_id: str, row: TaskRow) -> InvalidTransition:
    """Return the error for a message to a task that has changed since it was read."""
    return InvalidTransition(task_id, state_of(row.state).value, "a message")
