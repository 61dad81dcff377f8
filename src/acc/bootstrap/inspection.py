"""Recorded sessions of a store, for the commands that show and replay them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.application.memory.registry import check_agent_memory
from acc.bootstrap.storage import store_catalog
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.session import DEFAULT_USER_ID, SessionKey
from acc.ports.outbound.storage_ports import StoreCatalogPort

if TYPE_CHECKING:
    from acc.application.inspection.replay_run import TurnComparison
    from acc.application.inspection.stored_sessions import StoredSessions


DEFAULT_APP_NAME = "app"
_MAX_LISTED = 500


def check_folder(store: str) -> None:
    """Raise NotFound if the file of a store cannot be created, because its folder is missing."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if location is None or isinstance(location, PostgresLocation):
        return
    folder = Path(location).absolute().parent
    if not folder.is_dir():
        raise NotFound(f"{location}: the folder {folder} does not exist; create it first")


def check_store(store: str) -> None:
    """Raise NotFound if there is no file of sessions; opening it would create it."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if isinstance(location, PostgresLocation):
        return
    if location is None or not Path(location).exists():
        raise NotFound(
            f"the store {store!r} does not exist; name the file that acc run, chat or serve wrote "
            "with --store"
        )


@asynccontextmanager
async def open_sessions(store: str) -> "AsyncIterator[StoredSessions]":
    """Open the sessions of a store that exists; the context closes it."""
    from acc.adapters.system.clock import RandomIds, SystemClock
    from acc.application.inspection.stored_sessions import StoredSessions
    from acc.bootstrap.agents import make_stores

    check_store(store)
    sessions, artifacts = make_stores(store, SystemClock())
    try:
        yield StoredSessions(
            sessions=sessions,
            artifacts=artifacts,
            catalog=store_catalog(sessions),
            ids=RandomIds(),
        )
    finally:
        await sessions.aclose()


async def recorded_events(
    store: str, reference: str, *, app_name: str = "", user_id: str = ""
) -> Sequence[Event]:
    """Return the events of a session, given by its id or by that of one of its runs or tasks.

    Without an app or user, sessions and tasks of all apps and users are searched. NotFound if there
    is none, InvalidInput if several users have a session of this id.
    """
    from acc.adapters.system.clock import SystemClock
    from acc.bootstrap.agents import make_stores

    sessions, _ = make_stores(store, SystemClock())
    try:
        app, user = app_name or DEFAULT_APP_NAME, user_id or DEFAULT_USER_ID
        key = SessionKey(app_name=app, user_id=user, session_id=reference)
        if await sessions.read(key) is not None:
            return await sessions.events(key)
        for session in await sessions.sessions(app, user):
            events = await sessions.events(session.key)
            if any(reference in (event.run_id, event.request_id) for event in events):
                return events
        if not app_name or not user_id:
            found = await _find_key(store_catalog(sessions), reference, app_name, user_id)
            if found is not None:
                return await sessions.events(found)
    finally:
        await sessions.aclose()
    of_user = f" of user {user_id!r}" if user_id else ""
    in_app = f" in app {app_name!r}" if app_name else ""
    raise NotFound(
        f"the store has no session, run or task {reference!r}{of_user}{in_app}; the id of a run "
        "of another user or app requires --user and --app"
    )


async def _find_key(
    catalog: StoreCatalogPort, reference: str, app_name: str, user_id: str
) -> SessionKey | None:
    """Return the key of the session with an id, or of that of a task, of any app and user."""
    listed = await catalog.list_sessions(text=reference, limit=_MAX_LISTED)
    keys = [session.key for session in listed.sessions if session.key.session_id == reference]
    skip = 0
    while not keys and (tasks := await catalog.list_tasks(limit=_MAX_LISTED, skip=skip)):
        keys = [
            SessionKey(
                app_name=task.app_name,
                user_id=Owner(task.tenant, task.caller).user_id,
                session_id=task.context_id,
            )
            for task in tasks
            if task.task_id == reference
        ]
        skip += _MAX_LISTED
    keys = [key for key in keys if app_name in ("", key.app_name) and user_id in ("", key.user_id)]
    if len(keys) > 1:
        owners = ", ".join(f"--user {key.user_id} --app {key.app_name}" for key in keys)
        raise InvalidInput(f"several sessions have the id {reference!r}; choose one: {owners}")
    return keys[0] if keys else None


async def replay_recorded(
    events: "Sequence[Event]",
    agent: BaseAgent,
    *,
    run_id: str = "",
    model: str = "",
    memory: str = "",
) -> "Sequence[TurnComparison]":
    """Repeat recorded turns in memory with recorded answers, another model or another memory."""
    from acc.application.inspection.replay_run import replay_session
    from acc.bootstrap.agents import make_conversation_memory, make_services
    from acc.bootstrap.models import check_model_ready, make_model

    services = make_services()
    if model:
        check_model_ready(model)
        other = make_model(model)
        services = replace(services, models=lambda _: other, wrap_model=lambda _: other)
    if memory:
        check_agent_memory(memory)
        for item in agent.walk_all():
            if not isinstance(getattr(item, "memory", None), str | None):
                raise InvalidInput(
                    f"agent {item.name!r} has a memory object, which --memory cannot replace; name "
                    'a memory, such as memory="acc"'
                )
        models = services.model
        services = replace(
            services, memories=lambda _: make_conversation_memory(memory, models=models)
        )
    try:
        return await replay_session(events, agent, services, run_id=run_id, live_model=bool(model))
    finally:
        await services.aclose()
