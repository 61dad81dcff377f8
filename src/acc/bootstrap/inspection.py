"""Recorded sessions of a store, for the commands that show and replay them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.agents.base import BaseAgent
from acc.application.memory.registry import check_agent_memory
from acc.domain.errors import InvalidInput, NotFound
from acc.domain.value_objects.event import Event
from acc.domain.value_objects.session import SessionKey

if TYPE_CHECKING:
    from acc.application.inspection.replay_run import TurnComparison


def check_store(store: str) -> None:
    """Raise NotFound if there is no file of sessions; opening it would create it."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if isinstance(location, PostgresLocation):
        return
    if location is None or not Path(location).exists():
        raise NotFound(f"the store {store!r} does not exist; give the file of --store")


async def recorded_events(
    store: str, reference: str, *, app_name: str, user_id: str
) -> Sequence[Event]:
    """Return the events of a session, given by its id or by that of one of its runs or tasks.

    NotFound if there is none.
    """
    from acc.adapters.system.clock import SystemClock
    from acc.bootstrap.agents import make_stores

    sessions, _ = make_stores(store, SystemClock())
    try:
        key = SessionKey(app_name=app_name, user_id=user_id, session_id=reference)
        if await sessions.read(key) is not None:
            return await sessions.events(key)
        for session in await sessions.sessions(app_name, user_id):
            events = await sessions.events(session.key)
            if any(reference in (event.run_id, event.request_id) for event in events):
                return events
    finally:
        await sessions.aclose()
    raise NotFound(
        f"there is no session, run or task {reference!r} of user {user_id!r} in app {app_name!r}; "
        "use --user and --app as in the command that stored it"
    )


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
