"""What a runner returns of its sessions without running anything."""

from collections.abc import Mapping

from acc.application.runtime.call_guards import RUNNER_ATTRIBUTES, explains_missing_await
from acc.application.runtime.replay import pending_requests
from acc.application.runtime.run import Services
from acc.domain.call_options import explain_attributes
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.base import JsonData
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.run import RunStatus
from acc.domain.value_objects.session import (
    DEFAULT_SESSION_ID,
    DEFAULT_USER_ID,
    SessionKey,
    StoredArtifact,
)


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
        key = self.session_key(user_id, session_id)
        return await self.services.sessions.events(key, after=after, limit=limit)

    async def aclose(self) -> None:
        """Close models, embedders, MCP connections and stores."""
        await self.services.aclose()

    def session_key(self, user_id: str, session_id: str) -> SessionKey:
        """Return the key of a session in the store; InvalidInput if an id is not valid."""
        return SessionKey(app_name=self.app_name, user_id=user_id, session_id=session_id)
