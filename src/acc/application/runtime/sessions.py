"""The sessions of a runner: read, list, delete, fork and rewind them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from acc.application.runtime.call_guards import (
    RUNNER_ATTRIBUTES,
    RUNNER_OPERATIONS,
    SESSIONS_ATTRIBUTES,
    explains_missing_await,
)
from acc.application.runtime.replay import pending_requests
from acc.application.runtime.run import EventRecorder, Services
from acc.domain.call_options import explain_attributes, explain_operations
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import (
    DEFAULT_SESSION_ID,
    DEFAULT_USER_ID,
    Session,
    SessionKey,
    StoredArtifact,
)

if TYPE_CHECKING:
    from acc.application.runtime.runner import SessionRunner


@explain_operations(RUNNER_OPERATIONS)
@explain_attributes(RUNNER_ATTRIBUTES)
class SessionReader:
    """Reads the sessions of one application."""

    def __init__(self, *, app_name: str, services: Services) -> None:
        self.app_name = app_name
        self.services = services

    @explains_missing_await
    async def pending(
        self, *, user_id: str = DEFAULT_USER_ID, session_id: str = DEFAULT_SESSION_ID
    ) -> tuple[InputRequest, ...]:
        """Return the requests that a session waits for, none if it does not wait."""
        key = self.session_key(user_id, session_id)
        session = await self.services.sessions.read(key)
        if session is None or session.status is not RunStatus.INPUT_REQUIRED:
            return ()
        return pending_requests(await self.services.sessions.events(key, run_id=session.run_id))

    @explains_missing_await
    async def state(
        self, *, user_id: str = DEFAULT_USER_ID, session_id: str = DEFAULT_SESSION_ID
    ) -> Mapping[str, JsonData]:
        """Return the state of a session, with that of its user and app.

        A session that has not begun has only the latter.
        """
        key = self.session_key(user_id, session_id)
        session = await self.services.sessions.read(key)
        if session is None:
            return await self.services.sessions.shared_state(key.app_name, key.user_id)
        return session.state

    @explains_missing_await
    async def load_artifact(
        self,
        name: str,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        version: int | None = None,
    ) -> StoredArtifact | None:
        """Return a version of a file of a session, the newest by default."""
        key = self.session_key(user_id, session_id)
        return await self.services.artifacts.load(key, name, version)

    @explains_missing_await
    async def events(
        self,
        *,
        user_id: str = DEFAULT_USER_ID,
        session_id: str = DEFAULT_SESSION_ID,
        after: int = 0,
        limit: int | None = None,
    ) -> tuple[Event, ...]:
        """Return the stored events of a session, in order."""
        for name, number in (("after", after), ("limit", 0 if limit is None else limit)):
            if not isinstance(number, int):
                raise InvalidInput(f"{name} must be an integer, got {number!r}")
        key = self.session_key(user_id, session_id)
        return await self.services.sessions.events(key, after=after, limit=limit)

    async def aclose(self) -> None:
        """Close models, embedders, MCP connections and stores."""
        await self.services.aclose()

    def session_key(self, user_id: str, session_id: str) -> SessionKey:
        """Return the key of a session in the store; InvalidInput if an id is not valid."""
        return SessionKey(app_name=self.app_name, user_id=user_id, session_id=session_id)


@explain_operations({"__getitem__": "have the methods `await .list()` and `await .get(...)`"})
@explain_attributes(SESSIONS_ATTRIBUTES)
class Sessions:
    """The sessions of the users of an application.

    Changes wait until a run of the session has ended. State of the user and the app (`user:` and
    `app:` keys) is shared by sessions and stays as it is.
    """

    def __init__(self, runner: "SessionRunner") -> None:
        self._runner = runner
        self._store = runner.services.sessions

    @explains_missing_await
    async def list(self, *, user_id: str = DEFAULT_USER_ID) -> tuple[Session, ...]:
        """Return the sessions of a user without their state, most recently used first."""
        return await self._store.sessions(self._runner.app_name, user_id)

    @explains_missing_await
    async def get(
        self, session_id: str = DEFAULT_SESSION_ID, *, user_id: str = DEFAULT_USER_ID
    ) -> Session | None:
        """Return a session with its state, or None if it does not exist."""
        return await self._store.read(self._runner.session_key(user_id, session_id))

    @explains_missing_await
    async def delete(
        self, session_id: str = DEFAULT_SESSION_ID, *, user_id: str = DEFAULT_USER_ID
    ) -> None:
        """Delete a session with its events and files; a run that waits for input is canceled."""
        session = await self._existing(user_id, session_id)
        await self._abandon(session)
        key, holder = session.key, self._runner.services.ids.new()
        recorder = EventRecorder(self._store)
        async with self._runner.leases.acquire(key, holder, recorder) as lease:
            await lease.open()
            self._runner.services.memory_cache.forget(key)
            await self._store.delete(key)

    @explains_missing_await
    async def fork(
        self,
        session_id: str = DEFAULT_SESSION_ID,
        *,
        turn: int | None = None,
        new_session_id: str | None = None,
        user_id: str = DEFAULT_USER_ID,
    ) -> Session:
        """Copy a session up to the end of a turn, by default the last one, to a new session.

        The new session gets a random id unless one is given. A turn that waits for input or still
        runs continues in the source only; in the copy it is canceled. So an approval counts once.
        """
        if new_session_id == "":
            raise InvalidInput(
                "new_session_id must not be empty; omit it for a session with a random id"
            )
        session = await self._existing(user_id, session_id)
        new_key = self._runner.session_key(
            user_id, new_session_id or self._runner.services.ids.new()
        )
        after = await self._end_of_turn(session, session.turns if turn is None else turn)
        return await self._store.fork(
            session.key, new_key, after=after, agent=self._runner.agent.name
        )

    @explains_missing_await
    async def rewind(
        self,
        session_id: str = DEFAULT_SESSION_ID,
        *,
        turn: int,
        user_id: str = DEFAULT_USER_ID,
    ) -> Session:
        """Delete all turns of a session after a turn, so that it continues from there.

        Turn 0 deletes all turns. State and files of the session become those at the end of the
        turn. A run that waits for input in a deleted turn is canceled.
        """
        runner = self._runner
        session = await self._existing(user_id, session_id)
        await self._end_of_turn(session, turn)  # an invalid number changes nothing
        if turn < session.turns:
            await self._abandon(session)
        holder, recorder = runner.services.ids.new(), EventRecorder(self._store)
        async with runner.leases.acquire(session.key, holder, recorder) as lease:
            session = await lease.open()
            after = await self._end_of_turn(session, turn)
            if turn == session.turns:
                return session
            runner.services.memory_cache.forget(session.key)
            marker = Event(
                kind=EventKind.REWOUND,
                run_id=holder,
                author=runner.agent.name,
                at=runner.services.clock.now(),
                request_id=holder,
                trace_id=holder,
                caller=f"user://{user_id}",
                parts=text_part(f"rewound to turn {turn}"),
                detail={"turn": turn, "after": after},
            )
            return await self._store.rewind(session.key, marker, after=after, holder=holder)

    async def _existing(self, user_id: str, session_id: str) -> Session:
        session = await self._store.read(self._runner.session_key(user_id, session_id))
        if session is None:
            known = [one.session_id for one in await self.list(user_id=user_id)]
            raise InvalidInput(
                f"user {user_id!r} has no session {session_id!r}; sessions: "
                f"{', '.join(map(repr, known)) or 'none'}"
            )
        return session

    async def _abandon(self, session: Session) -> None:
        """Cancel a run that waits for input, together with the remote tasks that it waits for."""
        if session.status is RunStatus.INPUT_REQUIRED:
            key = session.key
            await self._runner.abandon(user_id=key.user_id, session_id=key.session_id)

    async def _end_of_turn(self, session: Session, turn: int) -> int:
        """Return the number of the last event before the next turn."""
        is_number = isinstance(turn, int) and not isinstance(turn, bool)
        if not is_number or not 0 <= turn <= session.turns:
            raise InvalidInput(
                f"turn must be a number from 0 to {session.turns}, the turns of session "
                f"{session.session_id!r}, got {turn!r}"
            )
        messages = await self._store.events(session.key, kinds=(EventKind.MESSAGE,))
        following = (event for event in messages if event.detail.get("turn") == turn + 1)
        first = next(following, None)
        return session.seq if first is None else first.seq - 1
