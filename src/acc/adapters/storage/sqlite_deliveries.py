"""Rows of push configurations and their pending deliveries."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from acc.adapters.storage.invariants import is_notified
from acc.adapters.storage.task_records import CONFIG_DECODER, UPDATE_DECODER
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, TaskEvent
from acc.ports.outbound.storage_ports import Delivery

_SAVE = (
    "INSERT INTO push_configs (app_name, task, owner, config_id, body)"
    " SELECT app_name, id, owner, ?, ? FROM tasks WHERE id = ?"
    " ON CONFLICT (task, config_id) DO UPDATE SET body = excluded.body"
)
_COUNT = (
    "UPDATE tasks SET push_configs = (SELECT count(*) FROM push_configs WHERE task = ?1)"
    " WHERE id = ?1"
)
_LIST = "SELECT body FROM push_configs WHERE task = ? ORDER BY id"
_FIND = "SELECT id FROM push_configs WHERE task = ? AND config_id = ?"
_DELETE_PENDING = (
    "DELETE FROM deliveries WHERE push_config IN (SELECT id FROM push_configs WHERE task = ?)"
)
_ADD = (
    "INSERT INTO deliveries (push_config, seq, attempts)"
    " SELECT id, ?, 0 FROM push_configs WHERE task = ? ORDER BY id"
)
_SET_FIRST_DUE = "UPDATE push_configs SET due_at = ? WHERE task = ? AND due_at IS NULL"
_DUE = (
    "SELECT due_at, id, owner FROM push_configs INDEXED BY push_configs_due"
    " WHERE app_name = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?"
)
_DUE_OF_OWNER = (
    "SELECT due_at, id, owner FROM push_configs INDEXED BY push_configs_by_owner"
    " WHERE app_name = ? AND owner = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?"
)
_NEXT_OWNER = (
    "SELECT owner FROM push_configs INDEXED BY push_configs_by_owner"
    " WHERE app_name = ? AND owner > ? AND due_at IS NOT NULL ORDER BY owner LIMIT 1"
)
_OWNER = "SELECT id FROM task_owners WHERE app_name = ? AND tenant = ? AND caller = ?"
_READ = (
    "SELECT p.task, p.body, o.tenant, o.caller FROM push_configs p"
    " JOIN tasks t ON t.id = p.task JOIN task_owners o ON o.id = t.owner WHERE p.id = ?"
)
_FIRST = (
    "SELECT d.id, d.attempts, d.seq, e.body FROM deliveries d"
    " JOIN task_events e ON e.task = ? AND e.seq = d.seq"
    " WHERE d.push_config = ? ORDER BY d.id LIMIT 1"
)
_COUNT_PENDING = (
    "SELECT count(*) FROM push_configs p JOIN deliveries d ON d.push_config = p.id"
    " WHERE p.app_name = ? AND p.due_at IS NOT NULL"
)
_CONFIG_OF = "SELECT push_config FROM deliveries WHERE id = ?"
_SET_NEXT_DUE = (
    "UPDATE push_configs SET due_at ="
    " CASE WHEN EXISTS (SELECT 1 FROM deliveries WHERE push_config = ?1) THEN ?2 END WHERE id = ?1"
)


def save_config(connection: sqlite3.Connection, task: int, config_id: str, body: bytes) -> None:
    """Store a configuration; it inherits the pending deliveries of the one it replaces."""
    connection.execute(_SAVE, (config_id, body, task))
    connection.execute(_COUNT, (task,))


def has_config(connection: sqlite3.Connection, task: int, config_id: str) -> bool:
    """Return True if a task has a configuration with that id."""
    return connection.execute(_FIND, (task, config_id)).fetchone() is not None


def read_configs(connection: sqlite3.Connection, task: int) -> tuple[PushConfig, ...]:
    """Return the configurations of a task, oldest first."""
    return tuple(CONFIG_DECODER.decode(body) for (body,) in connection.execute(_LIST, (task,)))


def delete_config(connection: sqlite3.Connection, task: int, config_id: str) -> None:
    """Delete a configuration and its pending deliveries; does nothing if it is gone."""
    row = connection.execute(_FIND, (task, config_id)).fetchone()
    if row is not None:
        connection.execute("DELETE FROM deliveries WHERE push_config = ?", row)
        connection.execute("DELETE FROM push_configs WHERE id = ?", row)
        connection.execute(_COUNT, (task,))


def delete_configs(connection: sqlite3.Connection, tasks: Sequence[tuple[int]]) -> None:
    """Delete all configurations of tasks and their pending deliveries."""
    connection.executemany(_DELETE_PENDING, tasks)
    connection.executemany("DELETE FROM push_configs WHERE task = ?", tasks)


def add_deliveries(
    connection: sqlite3.Connection, task: int, events: Sequence[TaskEvent], now: float
) -> None:
    """Queue the events that are notified for every configuration of a task."""
    notified = [(event.seq, task) for event in events if is_notified(event.update)]
    if notified:
        connection.executemany(_ADD, notified)
        connection.execute(_SET_FIRST_DUE, (now, task))


class Claim(NamedTuple):
    """A request for due deliveries, with a limit in total and one per owner."""

    app_name: str
    now: float
    limit: int
    max_per_owner: int
    in_flight: Mapping[Owner, int]


def find_due(connection: sqlite3.Connection, claim: Claim) -> list[int]:
    """Return the configurations with a due delivery, longest due first."""
    capacity: dict[int, int] = {}
    for owner, count in claim.in_flight.items():
        row = connection.execute(_OWNER, (claim.app_name, *owner)).fetchone()
        if row is not None:
            capacity[row[0]] = claim.max_per_owner - count
    first = connection.execute(_DUE, (claim.app_name, claim.now, claim.limit)).fetchall()
    counts = Counter(owner for _, _, owner in first)
    if all(count <= capacity.get(owner, claim.max_per_owner) for owner, count in counts.items()):
        return [config for _, config, _ in first]
    due: list[tuple[float, int, int]] = []
    for owner_id in _owners_with_deliveries(connection, claim.app_name):
        limit = min(capacity.get(owner_id, claim.max_per_owner), claim.limit)
        if limit > 0:
            due += connection.execute(_DUE_OF_OWNER, (claim.app_name, owner_id, claim.now, limit))
    return [config for _, config, _ in sorted(due)[: claim.limit]]


def _owners_with_deliveries(connection: sqlite3.Connection, app_name: str) -> Iterator[int]:
    """Yield the owners with pending deliveries, with one index lookup for each."""
    row = (-1,)
    while (row := connection.execute(_NEXT_OWNER, (app_name, *row)).fetchone()) is not None:
        yield row[0]


def claim_due(connection: sqlite3.Connection, claim: Claim, until: float) -> tuple[Delivery, ...]:
    """Lease the first due delivery of each configuration until a time."""
    claimed: list[Delivery] = []
    for config in find_due(connection, claim):
        task, body, *owner = connection.execute(_READ, (config,)).fetchone()
        row_id, attempts, seq, update = connection.execute(_FIRST, (task, config)).fetchone()
        event = TaskEvent(seq, UPDATE_DECODER.decode(update))
        claimed.append(
            Delivery(row_id, CONFIG_DECODER.decode(body), Owner(*owner), event, attempts)
        )
        connection.execute("UPDATE push_configs SET due_at = ? WHERE id = ?", (until, config))
    return tuple(claimed)


def complete(connection: sqlite3.Connection, delivery: int, now: float) -> None:
    """Delete a delivery, so that the next one is due; does nothing if it is gone."""
    row = connection.execute(_CONFIG_OF, (delivery,)).fetchone()
    if row is not None:
        connection.execute("DELETE FROM deliveries WHERE id = ?", (delivery,))
        connection.execute(_SET_NEXT_DUE, (*row, now))


def reschedule(connection: sqlite3.Connection, delivery: int, until: float) -> None:
    """Delay a delivery and count the attempt; does nothing if it is gone."""
    row = connection.execute(_CONFIG_OF, (delivery,)).fetchone()
    if row is not None:
        connection.execute(
            "UPDATE deliveries SET attempts = attempts + 1 WHERE id = ?", (delivery,)
        )
        connection.execute("UPDATE push_configs SET due_at = ? WHERE id = ?", (until, *row))


def count(connection: sqlite3.Connection, app_name: str) -> int:
    """Return how many deliveries of an app are pending."""
    (total,) = connection.execute(_COUNT_PENDING, (app_name,)).fetchone()
    return int(total)
