"""The rows of those who are to be told of tasks, and of what is still to be told them."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from acc.adapters.storage.invariants import is_told
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, TaskEvent, Update
from acc.ports.outbound.storage_ports import Delivery

CONFIGS = msgspec.json.Decoder(PushConfig)
_UPDATES: "msgspec.json.Decoder[Update]" = msgspec.json.Decoder(Update)
_SAVE = (
    "INSERT INTO task_pushes (app_name, task, owner, config_id, body)"
    " SELECT app_name, id, owner, ?, ? FROM tasks WHERE id = ?"
    " ON CONFLICT (task, config_id) DO UPDATE SET body = excluded.body"
)
_COUNT = (
    "UPDATE tasks SET pushes = (SELECT count(*) FROM task_pushes WHERE task = ?1) WHERE id = ?1"
)
_LIST = "SELECT body FROM task_pushes WHERE task = ? ORDER BY id"
_FIND = "SELECT id FROM task_pushes WHERE task = ? AND config_id = ?"
_DROP_WAITING = (
    "DELETE FROM task_deliveries WHERE push IN (SELECT id FROM task_pushes WHERE task = ?)"
)
_ADD = (
    "INSERT INTO task_deliveries (push, seq, attempts)"
    " SELECT id, ?, 0 FROM task_pushes WHERE task = ? ORDER BY id"
)
_BEGIN = "UPDATE task_pushes SET due_at = ? WHERE task = ? AND due_at IS NULL"
_DUE = (
    "SELECT due_at, id, owner FROM task_pushes INDEXED BY task_pushes_due"
    " WHERE app_name = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?"
)
_DUE_OF = (
    "SELECT due_at, id, owner FROM task_pushes INDEXED BY task_pushes_by_owner"
    " WHERE app_name = ? AND owner = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?"
)
_NEXT_OWNER = (
    "SELECT owner FROM task_pushes INDEXED BY task_pushes_by_owner"
    " WHERE app_name = ? AND owner > ? AND due_at IS NOT NULL ORDER BY owner LIMIT 1"
)
_OWNER = "SELECT id FROM task_owners WHERE app_name = ? AND tenant = ? AND caller = ?"
_READ = (
    "SELECT p.task, p.body, o.tenant, o.caller FROM task_pushes p"
    " JOIN tasks t ON t.id = p.task JOIN task_owners o ON o.id = t.owner WHERE p.id = ?"
)
_FIRST = (
    "SELECT d.id, d.attempts, d.seq, e.body FROM task_deliveries d"
    " JOIN task_events e ON e.task = ? AND e.seq = d.seq WHERE d.push = ? ORDER BY d.id LIMIT 1"
)
_PUSH_OF = "SELECT push FROM task_deliveries WHERE id = ?"
_NEXT = (
    "UPDATE task_pushes SET due_at ="
    " CASE WHEN EXISTS (SELECT 1 FROM task_deliveries WHERE push = ?1) THEN ?2 END WHERE id = ?1"
)


def save_push(connection: sqlite3.Connection, task: int, config_id: str, body: bytes) -> None:
    """Keep a configuration; what waits for one with the same task and id goes to it."""
    connection.execute(_SAVE, (config_id, body, task))
    connection.execute(_COUNT, (task,))


def has_push(connection: sqlite3.Connection, task: int, config_id: str) -> bool:
    """Tell whether a task has a configuration of that id."""
    return connection.execute(_FIND, (task, config_id)).fetchone() is not None


def read_pushes(connection: sqlite3.Connection, task: int) -> tuple[PushConfig, ...]:
    """Return the configurations of a task, the oldest first."""
    return tuple(CONFIGS.decode(body) for (body,) in connection.execute(_LIST, (task,)))


def delete_push(connection: sqlite3.Connection, task: int, config_id: str) -> None:
    """Drop a configuration and what waits for it; harmless if it is gone."""
    found = connection.execute(_FIND, (task, config_id)).fetchone()
    if found is not None:
        connection.execute("DELETE FROM task_deliveries WHERE push = ?", found)
        connection.execute("DELETE FROM task_pushes WHERE id = ?", found)
        connection.execute(_COUNT, (task,))


def drop_pushes(connection: sqlite3.Connection, tasks: Sequence[tuple[int]]) -> None:
    """Drop the configurations of tasks and what waits for them."""
    connection.executemany(_DROP_WAITING, tasks)
    connection.executemany("DELETE FROM task_pushes WHERE task = ?", tasks)


def add_deliveries(
    connection: sqlite3.Connection, task: int, events: Sequence[TaskEvent], now: float
) -> None:
    """Queue what of some events is to be told, for everyone who wants to be told."""
    told = [(event.seq, task) for event in events if is_told(event.update)]
    if told:
        connection.executemany(_ADD, told)
        connection.execute(_BEGIN, (now, task))


class Asked(NamedTuple):
    """What is asked for: how many deliveries that are due by now, and of one owner how many."""

    app_name: str
    now: float
    limit: int
    of_one: int
    under_way: Mapping[Owner, int]


def find_due(connection: sqlite3.Connection, asked: Asked) -> list[int]:
    """Return the configurations that may be told something now, the longest due first."""
    app_name, now, limit, *_ = asked
    places = _places(connection, asked)
    first = connection.execute(_DUE, (app_name, now, limit)).fetchall()
    wanted = Counter(owner for _, _, owner in first)
    if all(count <= places.get(owner, asked.of_one) for owner, count in wanted.items()):
        return [push for _, push, _ in first]
    found: list[tuple[float, int, int]] = []
    for owner in _owners(connection, app_name):
        most = min(places.get(owner, asked.of_one), limit)
        if most > 0:
            found += connection.execute(_DUE_OF, (app_name, owner, now, most))
    return [push for _, push, _ in sorted(found)[:limit]]


def _places(connection: sqlite3.Connection, asked: Asked) -> dict[int, int]:
    """Return how many more the owners may get who have some under way."""
    places: dict[int, int] = {}
    for owner, count in asked.under_way.items():
        row = connection.execute(_OWNER, (asked.app_name, *owner)).fetchone()
        if row is not None:
            places[row[0]] = asked.of_one - count
    return places


def _owners(connection: sqlite3.Connection, app_name: str) -> Iterator[int]:
    """Yield those for whom anything waits, from one to the next and past all that waits."""
    row = (-1,)
    while (row := connection.execute(_NEXT_OWNER, (app_name, *row)).fetchone()) is not None:
        yield row[0]


def take_due(connection: sqlite3.Connection, asked: Asked, until: float) -> tuple[Delivery, ...]:
    """Take the first of each queue whose time has come, and nobody else does before `until`."""
    taken: list[Delivery] = []
    for push in find_due(connection, asked):
        task, body, *owner = connection.execute(_READ, (push,)).fetchone()
        number, attempts, seq, update = connection.execute(_FIRST, (task, push)).fetchone()
        event = TaskEvent(seq, _UPDATES.decode(update))
        taken.append(Delivery(number, CONFIGS.decode(body), Owner(*owner), event, attempts))
        connection.execute("UPDATE task_pushes SET due_at = ? WHERE id = ?", (until, push))
    return tuple(taken)


def settle(connection: sqlite3.Connection, delivery: int, now: float) -> None:
    """Drop a delivery, so that the next one's time has come; harmless if it is gone."""
    found = connection.execute(_PUSH_OF, (delivery,)).fetchone()
    if found is not None:
        connection.execute("DELETE FROM task_deliveries WHERE id = ?", (delivery,))
        connection.execute(_NEXT, (*found, now))


def postpone(connection: sqlite3.Connection, delivery: int, until: float) -> None:
    """Let a delivery wait, counting the attempt; harmless if it is gone."""
    found = connection.execute(_PUSH_OF, (delivery,)).fetchone()
    if found is not None:
        connection.execute(
            "UPDATE task_deliveries SET attempts = attempts + 1 WHERE id = ?", (delivery,)
        )
        connection.execute("UPDATE task_pushes SET due_at = ? WHERE id = ?", (until, *found))
