"""The sessions of a store across apps and users, without an agent."""

from collections.abc import Sequence
from dataclasses import dataclass

from acc.application.runtime.leases import SessionLeases
from acc.application.runtime.replay import pending_requests
from acc.application.runtime.run import EventRecorder
from acc.domain.errors import InvalidInput, NotFound, SessionWaiting
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import DEFAULT_USER_ID, Session, SessionKey
from acc.ports.outbound.storage_ports import (
    ArtifactStorePort,
    SessionList,
    SessionStorePort,
    StoreCatalogPort,
)
from acc.ports.outbound.system_ports import IdsPort

DEFAULT_APP_NAME = "app"
_PAGE_SIZE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session with its events, the names of its files, and what its run waits for."""

    session: Session
    events: tuple[Event, ...]
    files: tuple[str, ...]
    requests: tuple[InputRequest, ...]


class StoredSessions:
    """Lists, reads and deletes sessions of all apps and users. For operators, not for callers."""

    def __init__(
        self,
        *,
        sessions: SessionStorePort,
        artifacts: ArtifactStorePort,
        catalog: StoreCatalogPort,
        ids: IdsPort,
        busy_seconds: float = 5.0,
    ) -> None:
        self._sessions = sessions
        self._artifacts = artifacts
        self._catalog = catalog
        self._ids = ids
        self._leases = SessionLeases(sessions, busy_timeout=busy_seconds)

    async def list(
        self,
        *,
        app_name: str = "",
        user_id: str = "",
        text: str = "",
        status: RunStatus | None = None,
        limit: int,
    ) -> SessionList:
        """Return the most recently used sessions, and how many match in all."""
        found: list[Session] = []
        skip = 0
        while True:
            page = await self._catalog.list_sessions(
                text=text, status=status, limit=_PAGE_SIZE, skip=skip
            )
            found += (one for one in page.sessions if _matches(one.key, app_name, user_id))
            skip += len(page.sessions)
            if not (app_name or user_id) and len(found) >= limit:
                return SessionList(tuple(found[:limit]), page.total)
            if not page.sessions or skip >= page.total:
                return SessionList(tuple(found[:limit]), len(found))

    async def find(self, session_id: str, *, app_name: str = "", user_id: str = "") -> SessionKey:
        """Return the key of a session; InvalidInput if several apps or users have this id."""
        page = await self.list(app_name=app_name, user_id=user_id, text=session_id, limit=10**9)
        key = _only([one.key for one in page.sessions if one.session_id == session_id])
        if key is None:
            raise NotFound(
                f"the store has no session {session_id!r}{_place(app_name, user_id)}; "
                "`acc sessions list` shows the sessions of a store"
            )
        return key

    async def events(
        self, reference: str, *, app_name: str = "", user_id: str = ""
    ) -> Sequence[Event]:
        """Return the events of a session, given by its id or by that of one of its runs or tasks.

        Without an app or user, sessions and tasks of all apps and users are searched. NotFound if
        there is none, InvalidInput if several users have a session of this id.
        """
        app, user = app_name or DEFAULT_APP_NAME, user_id or DEFAULT_USER_ID
        key = SessionKey(app_name=app, user_id=user, session_id=reference)
        if await self._sessions.read(key) is not None:
            return await self._sessions.events(key)
        for session in await self._sessions.sessions(app, user):
            events = await self._sessions.events(session.key)
            if any(reference in (event.run_id, event.request_id) for event in events):
                return events
        if not app_name or not user_id:
            found = await self._find_session_or_task(reference, app_name, user_id)
            if found is not None:
                return await self._sessions.events(found)
        raise NotFound(
            f"the store has no session, run or task {reference!r}{_place(app_name, user_id)}; the "
            "id of a run of another user or app requires --user and --app"
        )

    async def _find_session_or_task(
        self, reference: str, app_name: str, user_id: str
    ) -> SessionKey | None:
        """Return the key of the session with an id, or of that of a task, of any app and user."""
        page = await self.list(app_name=app_name, user_id=user_id, text=reference, limit=_PAGE_SIZE)
        keys = [one.key for one in page.sessions if one.session_id == reference]
        skip = 0
        while not keys and (tasks := await self._catalog.list_tasks(limit=_PAGE_SIZE, skip=skip)):
            keys = [
                SessionKey(
                    app_name=task.app_name,
                    user_id=Owner(task.tenant, task.caller).user_id,
                    session_id=task.context_id,
                )
                for task in tasks
                if task.task_id == reference
            ]
            skip += _PAGE_SIZE
        return _only([key for key in keys if _matches(key, app_name, user_id)])

    async def read(self, key: SessionKey) -> SessionRecord:
        """Return a session with its events, files and pending requests."""
        session = await self._sessions.read(key)
        if session is None:
            raise NotFound(f"session {key.session_id!r} was deleted")
        events = tuple(await self._sessions.events(key))
        is_waiting = session.status is RunStatus.INPUT_REQUIRED
        of_run = [event for event in events if event.run_id == session.run_id]
        return SessionRecord(
            session=session,
            events=events,
            files=await self._artifacts.names(key),
            requests=pending_requests(of_run) if is_waiting else (),
        )

    async def delete(self, keys: Sequence[SessionKey], *, waiting: bool = False) -> None:
        """Delete sessions with their events and files.

        With `waiting`, also those whose run waits for input. SessionBusy if a run uses a session.
        """
        for key in keys:
            holder = self._ids.new()
            async with self._leases.acquire(key, holder, EventRecorder(self._sessions)) as lease:
                session = await lease.open()
                if session.status is RunStatus.INPUT_REQUIRED and not waiting:
                    raise SessionWaiting(
                        f"the run of session {key.session_id!r} waits for input; answer or abandon "
                        "it first, or delete the session with --force"
                    )
                await self._sessions.delete(key)


def _matches(key: SessionKey, app_name: str, user_id: str) -> bool:
    return app_name in ("", key.app_name) and user_id in ("", key.user_id)


def _place(app_name: str, user_id: str) -> str:
    of_user = f" of user {user_id!r}" if user_id else ""
    return of_user + (f" in app {app_name!r}" if app_name else "")


def _only(keys: Sequence[SessionKey]) -> SessionKey | None:
    """Return the only key, None without one; InvalidInput if there are several."""
    if len(keys) > 1:
        owners = ", ".join(f"--user {key.user_id} --app {key.app_name}" for key in keys)
        raise InvalidInput(
            f"several sessions have the id {keys[0].session_id!r}; choose one: {owners}"
        )
    return keys[0] if keys else None
