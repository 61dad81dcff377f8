"""The catalog of a PostgreSQL database: sessions and tasks of all apps and callers."""

import msgspec

from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.session_records import session_of
from acc.adapters.storage.task_records import pending_delivery
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.storage_ports import PendingDelivery, SessionList, TaskSummary

# $1 is the status, $2 the text and $3 the text as it is written in JSON. The collation C converts
# only ASCII letters to lower case.
_MATCHES = """
    ($1 = '' OR status = $1) AND ($2 = ''
    OR strpos(lower(session_id), $2) > 0 OR strpos(lower(user_id), $2) > 0
    OR strpos(lower(app_name), $2) > 0 OR EXISTS (
        SELECT 1 FROM acc_events WHERE session = acc_sessions.id AND kind = 'message'
        AND strpos(lower(convert_from(body, 'UTF8') COLLATE "C"), $3) > 0
    ))
"""
_SESSIONS = (
    "SELECT app_name, user_id, session_id, seq, turns, run_id, status, updated_at"  # noqa: S608 - constants
    f" FROM acc_sessions WHERE {_MATCHES} ORDER BY updated_at DESC, id DESC LIMIT $4 OFFSET $5"
)
_COUNT = f"SELECT count(*) FROM acc_sessions WHERE {_MATCHES}"  # noqa: S608 - constants
_TASKS = (
    "SELECT app_name, task_id, context_id, caller, tenant, state, updated_at"
    " FROM acc_tasks WHERE state <> 'replied' AND ($1 = '' OR caller = $1)"
    " AND ($2 = '' OR state = $2) ORDER BY updated_at DESC, id DESC LIMIT $3 OFFSET $4"
)
_DELIVERIES = (
    "SELECT t.app_name, t.task_id, t.caller, p.body, d.seq, d.attempts, p.due_at"
    " FROM acc_deliveries d JOIN acc_push_configs p ON p.id = d.push_config"
    " JOIN acc_tasks t ON t.id = p.task WHERE $1 = '' OR t.task_id = $1 ORDER BY d.id LIMIT $2"
)


class PostgresCatalog:
    """Lists the sessions and tasks of a database; a search in messages reads all of them."""

    def __init__(self, database: PostgresDatabase) -> None:
        self.database = database

    async def list_sessions(
        self, *, text: str = "", status: RunStatus | None = None, limit: int, skip: int = 0
    ) -> SessionList:
        """Return sessions without state, most recently used first."""
        lowered = "".join(c.lower() if c.isascii() else c for c in text)
        in_json = msgspec.json.encode(lowered).decode()[1:-1]
        values = ("" if status is None else status.value, lowered, in_json)
        total = await self.database.read(lambda c: c.fetchval(_COUNT, *values))
        rows = await self.database.read(lambda c: c.fetch(_SESSIONS, *values, limit, skip))
        sessions = (
            session_of(SessionKey(app_name=app, user_id=user, session_id=name), row, {})
            for app, user, name, *row in rows
        )
        return SessionList(tuple(sessions), total)

    async def list_tasks(
        self, *, caller: str = "", state: str = "", limit: int, skip: int = 0
    ) -> tuple[TaskSummary, ...]:
        """Return tasks of all callers or of one, most recently updated first."""
        rows = await self.database.read(lambda c: c.fetch(_TASKS, caller, state, limit, skip))
        return tuple(TaskSummary(*row) for row in rows)

    async def list_deliveries(
        self, *, task_id: str = "", limit: int
    ) -> tuple[PendingDelivery, ...]:
        """Return push notifications that are not delivered yet, oldest first."""
        rows = await self.database.read(lambda c: c.fetch(_DELIVERIES, task_id, limit))
        return tuple(map(pending_delivery, rows))
