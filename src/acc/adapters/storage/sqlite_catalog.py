"""The catalog of a SQLite file: sessions and tasks of all apps and callers."""

import sqlite3

import msgspec

from acc.adapters.storage.sqlite import SqliteDatabase
from acc.adapters.storage.task_records import pending_delivery
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import PendingDelivery, SessionList, TaskSummary

_MATCHES = (
    "(:status = '' OR status = :status) AND (:text = ''"
    " OR instr(lower(session_id), :text) OR instr(lower(user_id), :text)"
    " OR instr(lower(app_name), :text) OR EXISTS (SELECT 1 FROM events WHERE session = sessions.id"
    " AND kind = 'message' AND instr(lower(CAST(body AS TEXT)), :json)))"
)
_SESSIONS = (
    "SELECT app_name, user_id, session_id, seq, turns, run_id, status, updated_at"  # noqa: S608 - constants
    f" FROM sessions WHERE {_MATCHES} ORDER BY updated_at DESC, id DESC LIMIT :limit OFFSET :skip"
)
_COUNT = f"SELECT count(*) FROM sessions WHERE {_MATCHES}"  # noqa: S608 - constants
_TASKS = (
    "SELECT t.app_name, t.task_id, t.context_id, o.caller, o.tenant, t.state, t.updated_at"
    " FROM tasks t JOIN task_owners o ON o.id = t.owner WHERE t.state <> 'replied'"
    " AND (:caller = '' OR o.caller = :caller) AND (:state = '' OR t.state = :state)"
    " ORDER BY t.updated_at DESC, t.id DESC LIMIT :limit OFFSET :skip"
)
_DELIVERIES = (
    "SELECT t.app_name, t.task_id, o.caller, p.body, d.seq, d.attempts, p.due_at"
    " FROM deliveries d JOIN push_configs p ON p.id = d.push_config JOIN tasks t ON t.id = p.task"
    " JOIN task_owners o ON o.id = t.owner WHERE :task = '' OR t.task_id = :task"
    " ORDER BY d.id LIMIT :limit"
)


class SqliteCatalog:
    """Lists the sessions and tasks of a file; a search in messages reads all of them."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.database = database

    async def list_sessions(
        self, *, text: str = "", status: RunStatus | None = None, limit: int, skip: int = 0
    ) -> SessionList:
        """Return sessions without state, most recently used first."""
        # SQLite converts only ASCII letters to lower case.
        lowered = "".join(c.lower() if c.isascii() else c for c in text)
        values = {
            "status": "" if status is None else status.value,
            "text": lowered,
            "json": msgspec.json.encode(lowered).decode()[1:-1],
            "limit": limit,
            "skip": skip,
        }

        def read(connection: sqlite3.Connection) -> SessionList:
            (total,) = connection.execute(_COUNT, values).fetchone()
            return SessionList(tuple(map(_session, connection.execute(_SESSIONS, values))), total)

        return await self.database.read(read)

    async def list_tasks(
        self, *, caller: str = "", state: str = "", limit: int, skip: int = 0
    ) -> tuple[TaskSummary, ...]:
        """Return tasks of all callers or of one, most recently updated first."""
        values = {"caller": caller, "state": state, "limit": limit, "skip": skip}
        return await self.database.read(
            lambda c: tuple(TaskSummary(*row) for row in c.execute(_TASKS, values))
        )

    async def list_deliveries(
        self, *, task_id: str = "", limit: int
    ) -> tuple[PendingDelivery, ...]:
        """Return push notifications that are not delivered yet, oldest first."""
        values = {"task": task_id, "limit": limit}
        return await self.database.read(
            lambda c: tuple(map(pending_delivery, c.execute(_DELIVERIES, values)))
        )


def _session(row: tuple[str, str, str, int, int, str, str, float]) -> Session:
    app_name, user_id, session_id, seq, turns, run_id, status, updated_at = row
    return Session(
        key=SessionKey(app_name=app_name, user_id=user_id, session_id=session_id),
        seq=seq,
        turns=turns,
        run_id=run_id,
        status=RunStatus(status),
        updated_at=updated_at,
    )
