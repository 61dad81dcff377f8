"""Recorded sessions of a store, for the commands that show and replay them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.application.memory.baselines import DEFAULT_WINDOW_TOKENS
from acc.application.memory.registry import check_agent_memory
from acc.bootstrap.storage import store_catalog
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.event import Event

if TYPE_CHECKING:
    from acc.application.inspection.replay_run import TurnComparison
    from acc.application.inspection.stored_sessions import StoredSessions


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
    """Return the events of a session, given by its id or by that of one of its runs or tasks."""
    async with open_sessions(store) as sessions:
        return await sessions.events(reference, app_name=app_name, user_id=user_id)


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
    from acc.bootstrap.agents import make_services
    from acc.bootstrap.memory import make_memory
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
        window = DEFAULT_WINDOW_TOKENS
        services = replace(
            services, memories=lambda _: make_memory(memory, window=window, models=models)
        )
    try:
        return await replay_session(events, agent, services, run_id=run_id, live_model=bool(model))
    finally:
        await services.aclose()
