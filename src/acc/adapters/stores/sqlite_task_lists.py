"""How an owner's tasks are listed: which index serves, and what is counted where."""

import sqlite3
from typing import Any

from acc.adapters.stores.sqlite_tasks import TASKS, column, find_owner, read_events
from acc.adapters.stores.task_bookkeeping import folded, page_token
from acc.domain.value_objects.identity import Owner
from acc.domain.value_objects.task import TaskPage, TaskQuery, TaskState

_LISTED = "state <> 'replied'"
_FIND_CONTEXT = "SELECT id FROM task_contexts WHERE app_name = ? AND context_id = ? AND owner = ?"
_EMPTY = TaskPage(tasks=(), next_page_token="", total=0)


def list_tasks(
    connection: sqlite3.Connection,
    app_name: str,
    owner: Owner,
    query: TaskQuery,
    end: tuple[float, int] | None,
) -> TaskPage:
    """Return a page of an owner's tasks, from where the last one ended."""
    number = find_owner(connection, app_name, owner)
    context = None
    if number is not None and query.context_id:
        names = (app_name, query.context_id, number)
        context = connection.execute(_FIND_CONTEXT, names).fetchone()
    if number is None or (query.context_id and context is None):
        return _EMPTY
    where, values = narrowed(query, number, context[0] if context else None)
    total = _total(connection, query, number, (where, values))
    size = max(query.page_size, 1)
    found = connection.execute(*page_query(where, values, end, size + 1)).fetchall()
    tasks = []
    for task, seq, _, _, body in found[:size]:
        snapshot = TASKS.decode(body)
        events = read_events(connection, task, snapshot.seq) if snapshot.seq != seq else ()
        tasks.append(folded(snapshot, events))
    token = page_token(*found[size - 1][2:4]) if len(found) > size else ""
    return TaskPage(tasks=tuple(tasks), next_page_token=token, total=total)


def narrowed(query: TaskQuery, owner: int, context: int | None) -> tuple[str, list[Any]]:
    """Return which tasks a query is about, and the values for it."""
    # Which index serves best is known here and not to SQLite, which keeps no statistics.
    values: list[Any]
    if context is not None:
        where, values = f"INDEXED BY tasks_by_context WHERE context = ? AND {_LISTED}", [context]
    elif query.state is not None:
        where, values = "INDEXED BY tasks_by_state WHERE owner = ?", [owner]
    else:
        where, values = f"INDEXED BY tasks_by_move WHERE owner = ? AND {_LISTED}", [owner]
    if query.state is not None:
        where += " AND state = ?"
        values.append(query.state.value)
    if query.since is not None:
        where += " AND moved_at >= ?"
        values.append(query.since)
    return where, values


def page_query(
    where: str, values: list[Any], end: tuple[float, int] | None, limit: int
) -> tuple[str, list[Any]]:
    """Return the statement for a page of what `narrowed` tells, and its values."""
    if end is not None:
        where += " AND (moved_at, move) < (?, ?)"
        values = [*values, *end]
    statement = (
        "SELECT t.id, t.seq, t.moved_at, t.move, s.body FROM"  # noqa: S608 - placeholders only
        f" (SELECT id, seq, moved_at, move FROM tasks {where}"
        " ORDER BY moved_at DESC, move DESC LIMIT ?) t"
        " CROSS JOIN task_snapshots s ON s.task = t.id ORDER BY t.moved_at DESC, t.move DESC"
    )
    return statement, [*values, limit]


def _total(
    connection: sqlite3.Connection, query: TaskQuery, owner: int, about: tuple[str, list[Any]]
) -> int:
    total: int
    if query.context_id or query.since is not None:
        where, values = about
        (total,) = connection.execute(f"SELECT count(*) FROM tasks {where}", values).fetchone()  # noqa: S608 - placeholders only
        return total
    states = TaskState if query.state is None else (query.state,)
    counted = " + ".join(column(state) for state in states)
    (total,) = connection.execute(
        f"SELECT {counted} FROM task_owners WHERE id = ?",  # noqa: S608 - our columns
        (owner,),
    ).fetchone()
    return total
