"""Rows of push configurations and their pending deliveries in PostgreSQL."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from acc.adapters.storage.task_records import CONFIG_DECODER, UPDATE_DECODER
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import PushConfig, TaskEvent
from acc.ports.outbound.storage_ports import Delivery

if TYPE_CHECKING:
    from asyncpg import Connection

_SAVE = (
    "INSERT INTO acc_push_configs (app_name, tenant, caller, task, config_id, body)"
    " SELECT app_name, tenant, caller, id, $2, $3 FROM acc_tasks WHERE id = $1"
    " ON CONFLICT (task, config_id) DO UPDATE SET body = excluded.body"
)
_COUNT = (
    "UPDATE acc_tasks SET push_configs = (SELECT count(*) FROM acc_push_configs WHERE task = $1)"
    " WHERE id = $1"
)
_LIST = (
    "SELECT p.body FROM acc_tasks t JOIN acc_push_configs p ON p.task = t.id"
    " WHERE t.app_name = $1 AND t.task_id = $2 ORDER BY p.id"
)
_FIND = "SELECT id FROM acc_push_configs WHERE task = $1 AND config_id = $2"
_DUE = (
    "SELECT due_at, id, tenant, caller FROM acc_push_configs"
    " WHERE app_name = $1 AND due_at <= $2 ORDER BY due_at, id LIMIT $3"
)
_DUE_OF_OWNER = (
    "SELECT due_at, id FROM acc_push_configs WHERE app_name = $1 AND tenant = $2 AND caller = $3"
    " AND due_at <= $4 ORDER BY due_at, id LIMIT $5"
)
_NEXT_OWNER = (
    "SELECT tenant, caller FROM acc_push_configs WHERE app_name = $1 AND due_at IS NOT NULL{}"
    " ORDER BY tenant, caller LIMIT 1"
)
_LOCK_DUE = (
    "SELECT id FROM acc_push_configs WHERE id = ANY($1) AND due_at <= $2"
    " ORDER BY due_at, id FOR UPDATE SKIP LOCKED"
)
_FIRST = (
    "SELECT p.id, d.id, p.body, p.tenant, p.caller, d.seq, e.body, d.attempts"
    " FROM acc_push_configs p CROSS JOIN LATERAL (SELECT * FROM acc_deliveries"
    " WHERE push_config = p.id ORDER BY id LIMIT 1) d"
    " JOIN acc_task_events e ON e.task = p.task AND e.seq = d.seq WHERE p.id = ANY($1)"
)
_COUNT_PENDING = (
    "SELECT count(*) FROM acc_push_configs p JOIN acc_deliveries d ON d.push_config = p.id"
    " WHERE p.app_name = $1 AND p.due_at IS NOT NULL"
)
_LOCK_CONFIG = (
    "SELECT id FROM acc_push_configs WHERE id ="
    " (SELECT push_config FROM acc_deliveries WHERE id = $1) FOR UPDATE"
)
_SET_NEXT_DUE = (
    "UPDATE acc_push_configs SET due_at = CASE WHEN EXISTS"
    " (SELECT 1 FROM acc_deliveries WHERE push_config = $1) THEN $2::double precision END"
    " WHERE id = $1"
)
_DELAY = (
    "WITH d AS (UPDATE acc_deliveries SET attempts = attempts + 1 WHERE id = $1"
    " RETURNING push_config)"
    " UPDATE acc_push_configs SET due_at = $2 FROM d WHERE id = d.push_config"
)


async def save_config(
    connection: "Connection[Any]", task: int, config_id: str, body: bytes
) -> None:
    """Store a configuration; it inherits the pending deliveries of the one it replaces."""
    await connection.execute(_SAVE, task, config_id, body)
    await connection.execute(_COUNT, task)


async def has_config(connection: "Connection[Any]", task: int, config_id: str) -> bool:
    """Return True if a task has a configuration with that id."""
    return await connection.fetchval(_FIND, task, config_id) is not None


async def read_configs(
    connection: "Connection[Any]", app_name: str, task_id: str
) -> tuple[PushConfig, ...]:
    """Return the configurations of a task, oldest first."""
    rows = await connection.fetch(_LIST, app_name, task_id)
    return tuple([CONFIG_DECODER.decode(body) for (body,) in rows])


async def delete_config(connection: "Connection[Any]", task: int, config_id: str) -> None:
    """Delete a configuration and its pending deliveries; does nothing if it is gone."""
    config = await connection.fetchval(_FIND, task, config_id)
    if config is not None:
        await connection.execute("DELETE FROM acc_deliveries WHERE push_config = $1", config)
        await connection.execute("DELETE FROM acc_push_configs WHERE id = $1", config)
        await connection.execute(_COUNT, task)


class Claim(NamedTuple):
    """A request for due deliveries, with a limit in total and one per owner."""

    app_name: str
    now: float
    limit: int
    max_per_owner: int
    in_flight: Mapping[Owner, int]


async def find_due(connection: "Connection[Any]", claim: Claim) -> list[int]:
    """Return the configurations with a due delivery, longest due first."""
    first = await connection.fetch(_DUE, claim.app_name, claim.now, claim.limit)
    counts = Counter(Owner(*owner) for _, _, *owner in first)
    if all(
        count + claim.in_flight.get(owner, 0) <= claim.max_per_owner
        for owner, count in counts.items()
    ):
        return [config for _, config, _, _ in first]
    due: list[tuple[float, int]] = []
    async for owner in _owners_with_deliveries(connection, claim.app_name):
        limit = min(claim.max_per_owner - claim.in_flight.get(owner, 0), claim.limit)
        if limit > 0:
            due += await connection.fetch(_DUE_OF_OWNER, claim.app_name, *owner, claim.now, limit)
    return [config for _, config in sorted(due)[: claim.limit]]


async def _owners_with_deliveries(
    connection: "Connection[Any]", app_name: str
) -> AsyncIterator[Owner]:
    """Yield the owners with pending deliveries, with one index lookup for each."""
    row = await connection.fetchrow(_NEXT_OWNER.format(""), app_name)
    after = _NEXT_OWNER.format(" AND (tenant, caller) > ($2, $3)")
    while row is not None:
        yield Owner(*row)
        row = await connection.fetchrow(after, app_name, *row)


async def claim_due(
    connection: "Connection[Any]", claim: Claim, until: float
) -> tuple[Delivery, ...]:
    """Lease the first due delivery of each configuration until a time."""
    due = await find_due(connection, claim)
    locked = [row["id"] for row in await connection.fetch(_LOCK_DUE, due, claim.now)]
    rows = {config: row for config, *row in await connection.fetch(_FIRST, locked)}
    await connection.execute(
        "UPDATE acc_push_configs SET due_at = $2 WHERE id = ANY($1)", locked, until
    )
    claimed: list[Delivery] = []
    for config in locked:
        row_id, body, tenant, caller, seq, update, attempts = rows[config]
        event = TaskEvent(seq, UPDATE_DECODER.decode(update))
        owner = Owner(tenant, caller)
        claimed.append(Delivery(row_id, CONFIG_DECODER.decode(body), owner, event, attempts))
    return tuple(claimed)


async def complete(connection: "Connection[Any]", delivery: int, now: float) -> None:
    """Delete a delivery, so that the next one is due; does nothing if it is gone."""
    config = await connection.fetchval(_LOCK_CONFIG, delivery)
    if config is not None:
        await connection.execute("DELETE FROM acc_deliveries WHERE id = $1", delivery)
        await connection.execute(_SET_NEXT_DUE, config, now)


async def reschedule(connection: "Connection[Any]", delivery: int, until: float) -> None:
    """Delay a delivery and count the attempt; does nothing if it is gone."""
    await connection.execute(_DELAY, delivery, until)


async def count(connection: "Connection[Any]", app_name: str) -> int:
    """Return how many deliveries of an app are pending."""
    return int(await connection.fetchval(_COUNT_PENDING, app_name))
