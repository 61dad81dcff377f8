"""How an owner's tasks are listed: which index serves, and what is counted where."""

import sqlite3
from collections.abc import Iterable
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any

from acc.adapters.stores.sqlite_tasks import column, find_owner, read_task
from acc.adapters.stores.task_bookkeeping import page_token
from acc.domain.value_objects.remote import Owner
from acc.domain.value_objects.task import TaskPage, TaskQuery, TaskState

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
        total = sum(_count(connection, which) for which in lists)
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


def _count(connection: sqlite3.Connection, which: _Which) -> int:
    where, values = which
    count: int
    (count,) = connection.execute(f"SELECT count(*) FROM tasks {where}", values).fetchone()  # noqa: S608 - placeholders only
    return count
