"""Pause a run so that another process can resume it, and resume it by replay."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from acc.application.memory.messages import unknown_outcome
from acc.application.runtime.caller_rules import check_same_rules
from acc.application.runtime.conversation import (
    TURN_EVENTS,
    interrupted_calls,
)
from acc.application.runtime.run import Branch, Run, RunRequest, Services
from acc.application.runtime.state import MISSING, State
from acc.domain.errors import InvalidInput, NothingPending, ReplayMismatch
from acc.domain.value_objects.approval import InputRequest
from acc.domain.value_objects.content import text_part
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig, RunStatus
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort

if TYPE_CHECKING:
    from acc.application.agents.base import BaseAgent


#: Detail of the events that start or continue a run of an engine: its caller and config.
OPTIONS = "options"
#: Key in the first event of a run in debug mode, so that it is resumed in debug mode.
DEBUG = "debug"


def reset_to_recorded(run: Run, state: State) -> None:
    """Reset the state to the recorded events."""
    state.rollback()
    if run.journal.steps:
        run.journal.catch_up(Branch(state))


def open_requests(events: Sequence[Event]) -> tuple[InputRequest, ...]:
    """Return the requests in the events of a run that none of them answers."""
    answered = {event.answer.request_id for event in events if event.answer is not None}
    requests = [event.request for event in events if event.request is not None]
    return tuple(request for request in requests if request.id not in answered)


def last_pause(events: Sequence[Event]) -> Event | None:
    """Return the event that records the last pause of a run, None if it never paused."""
    ends = (event for event in reversed(events) if event.kind is EventKind.ENDED)
    return next(ends, None)


def pending_requests(events: Sequence[Event]) -> tuple[InputRequest, ...]:
    """Return the requests that a paused run waits for.

    Other requests may be open: those of agents that were cancelled. They are made again if the
    agent runs again. A run that ended meanwhile, in another process, waits for nothing.
    """
    pause = last_pause(events)
    if pause is None or pause.status is not RunStatus.INPUT_REQUIRED:
        return ()
    before = {event.request.id for event in events if event.request and event.seq < pause.seq}
    cancelled = before.difference(pause.detail["waiting"])
    return tuple(request for request in open_requests(events) if request.id not in cancelled)


async def is_durable_run(sessions: SessionStorePort, key: SessionKey) -> bool:
    """Return True if an engine continues the last run of a session when its process dies."""
    session = await sessions.read(key)
    if session is None:
        return False
    events = await sessions.events(key, run_id=session.run_id, limit=1)
    return bool(events) and OPTIONS in events[0].detail


def has_new_answers(events: Sequence[Event]) -> bool:
    """Return True if a paused run has got an answer since it paused."""
    pause = last_pause(events)
    return pause is not None and any(
        event.answer is not None and event.seq > pause.seq for event in events
    )


def check_started_by(events: Sequence[Event], session_id: str, agent: str) -> None:
    """Raise ReplayMismatch if a run was started by another agent."""
    first = next((event.step for event in events if event.step), f"/{agent}#0")
    if not first.startswith((f"/{agent}#", f"/{agent}/")):
        started_by = first[1:].partition("#")[0].partition("/")[0]
        raise ReplayMismatch(
            f"the paused run of session {session_id!r} was started by {started_by!r}, not by "
            f"{agent!r}: resume it with the same agents. Nothing was changed; the run still waits"
        )


def check_answers_used(run: Run) -> None:
    """Raise ReplayMismatch if a resumed run ended without using an answer."""
    for event in _unused_answers(run):
        if not event.step.startswith(run.unreplayed_paths):
            assert event.request is not None  # noqa: S101 - _unused_answers selects requests
            raise ReplayMismatch(
                f"{event.step}: request {event.request.id!r} was answered, but the resumed run "
                "did not reach it again; agents must be deterministic: read the time and random "
                "numbers from the state"
            )


def _unused_answers(run: Run) -> list[Event]:
    """Return the answered requests of the last pause that were not replayed."""
    journal = run.journal
    waiting = set() if journal.pause is None else set(journal.pause.detail["waiting"])
    waiting &= journal.answers.keys()
    return [
        event
        for event in journal.steps.values()
        if event.request is not None
        and event.request.id in waiting
        and event.seq not in journal.replayed
    ]


def pause_detail(run: Run, state: State, requests: Sequence[InputRequest]) -> dict[str, Any]:
    """Return what a pause records: the state before the run, its options, and its requests."""
    undo, undo_removed = state.undo()
    return {
        "undo": undo,
        "undo_removed": list(undo_removed),
        "branch_keys": _branch_keys(run, state),
        "external_writes": dict(state.external_writes),
        "waiting": [
            *(request.id for request in requests),
            *(event.request.id for event in _unused_answers(run) if event.request is not None),
        ],
        **run_options(run.request),
    }


def run_options(request: RunRequest) -> dict[str, Any]:
    """Return caller and config of a run as they are recorded."""
    call, config = request.call, request.config
    return {
        "call": {
            "request_id": call.request_id,
            "trace_id": call.trace_id,
            "caller": call.caller,
            "permissions": None if call.permissions is None else sorted(call.permissions),
            "message_id": call.message_id,
            "metadata": call.metadata,
        },
        "config": {
            item.name: getattr(config, item.name) for item in fields(config) if item.name != "stubs"
        }
        | {"stubs": {name: stub for name, stub in config.stubs.items() if isinstance(stub, str)}},
        # Functions cannot be stored, only the names of the agents that they replace.
        "stub_functions": [
            name for name, stub in config.stubs.items() if not isinstance(stub, str)
        ],
    }


def _branch_keys(run: Run, state: State) -> dict[str, list[Any]]:
    """Return the keys that branches wrote, with their value outside of the branches, if any.

    The session's state does not contain writes of branches that have not joined. These values show
    whether another run has written the keys since.
    """
    keys: dict[str, None] = {}
    for event in (*run.journal.events, *run.recorder.events):
        keys |= dict.fromkeys((*event.actions.branch_delta, *event.actions.branch_removed))
    return {key: [state[key]] if key in state else [] for key in keys}


def resumed_config(detail: Mapping[str, Any], default: RunConfig) -> RunConfig:
    """Return the config that a paused run was started with; `default` has its stub functions."""
    names = detail["stub_functions"]
    missing = [name for name in names if name not in default.stubs]
    if missing:
        raise InvalidInput(
            f"the run was started with stub functions for {', '.join(missing)}, which cannot be "
            "stored: pass them to the runner or to resume(config=...). Nothing was changed; the "
            "run still waits"
        )
    functions = {name: default.stubs[name] for name in names}
    stubs = {**functions, **detail["config"]["stubs"]}
    return RunConfig(**{**detail["config"], "stubs": stubs})


async def resumed_request(
    sessions: SessionStorePort,
    session: Session,
    events: Sequence[Event],
    *,
    root: "BaseAgent",
    config: RunConfig | None,
    default: RunConfig,
    context: CallContext | None,
) -> tuple[RunRequest, State]:
    """Return the request of a run that is resumed, and the state that it began with.

    Without a `config` the run continues with the one that it was started with; `default` has the
    functions that could not be stored.
    """
    pause, first = last_pause(events), events[0]
    if context is not None:
        check_same_rules(root, first.caller, context.caller)
    if pause is None:  # the process died during the run
        state = await state_before_interruption(sessions, session, events)
        detail = dict(first.detail.get(OPTIONS) or interrupted_detail(first, default))
    else:
        state, detail = state_before(session.state, events, pause), dict(pause.detail)
        for event in events:
            if event.seq > pause.seq:  # options that an engine has stored with an answer
                detail |= event.detail.get(OPTIONS, {})
    request = RunRequest(
        run_id=session.run_id,
        key=session.key,
        root=root,
        config=config or resumed_config(detail, default),
        call=resumed_call(detail, context),
        message=first.parts,
        turn_id=first.detail["turn"],
        first_seq=first.seq,
    )
    return request, state


def first_event_detail(request: RunRequest, *, is_durable: bool) -> dict[str, Any]:
    """Return what the first event of a run records, so that another process can resume it."""
    permissions = request.call.permissions
    detail: dict[str, Any] = {OPTIONS: run_options(request)} if is_durable else {}
    if permissions is not None:
        detail["permissions"] = sorted(permissions)
    if request.config.debug:
        detail[DEBUG] = True
    return detail


def interrupted_detail(first: Event, config: RunConfig) -> dict[str, Any]:
    """Return, as `pause_detail` does, the options of a run whose process died."""
    return {
        "call": {
            "request_id": first.request_id,
            "trace_id": first.trace_id,
            "caller": first.caller,
            "permissions": first.detail.get("permissions"),
        },
        "config": {
            **{item.name: getattr(config, item.name) for item in fields(config)},
            "debug": config.debug or first.detail.get(DEBUG, False),
        },
        "stub_functions": (),
    }


async def state_before_interruption(
    sessions: SessionStorePort, session: Session, events: Sequence[Event]
) -> State:
    """Return the state at the start of a run whose process died.

    Keys of users and apps keep their current value, because other sessions may have written them.
    """
    written = {
        key
        for event in events
        for key in (*event.actions.state_delta, *event.actions.state_removed)
        if not key.startswith(("user:", "app:", "temp:"))
    }
    before = dict(session.state)
    if not written:
        return State(before)
    for key in written:
        before.pop(key, None)
    for event in await sessions.events(session.key):
        if event.seq >= events[0].seq:
            break
        actions = event.actions
        before |= {key: value for key, value in actions.state_delta.items() if key in written}
        for key in written.intersection(actions.state_removed):
            before.pop(key, None)
    return State(before)


async def add_interruption_notices(
    request: RunRequest, services: Services, opening: Sequence[Event]
) -> Sequence[Event]:
    """Add events that name the tool calls of an interrupted run whose outcome is unknown.

    `opening` are the first events of the new run. If the run before was interrupted, they begin
    with the event that closed it.
    """
    if len(opening) == 1:
        return opening
    run_id = opening[0].run_id
    events = await services.sessions.events(request.key, run_id=run_id, kinds=TURN_EVENTS)
    notices = [
        request.event(
            EventKind.PROGRESS,
            at=services.clock.now(),
            parts=text_part(unknown_outcome(call.name)),
            detail={"code": "interrupted", "tool": call.name, "call_id": call.id},
        )
        for call in interrupted_calls(events)
    ]
    return (*opening, *notices)


def resumed_call(detail: Mapping[str, Any], context: CallContext | None) -> CallContext:
    """Return the call context of a resumed run; a new one can only reduce its permissions."""
    call = CallContext(**detail["call"])
    if context is None:
        return call
    permissions = call.permissions
    if permissions is not None and context.permissions is not None:
        permissions = frozenset(permissions) & frozenset(context.permissions)
    return CallContext(
        request_id=context.request_id,
        trace_id=context.trace_id,
        caller=context.caller,
        permissions=context.permissions if permissions is None else permissions,
        message_id=call.message_id,
        metadata=call.metadata,
        account=context.account,
    )


def state_before(values: Mapping[str, Any], events: Sequence[Event], pause: Event) -> State:
    """Return the state at the start of a run; later writes of others are preserved."""
    detail = pause.detail
    changed = [
        key
        for key, value in _values_after(events, pause).items()
        if not key.startswith("temp:") and values.get(key, MISSING) != value
    ]
    before = dict(values)
    before |= {key: value for key, value in detail["undo"].items() if key not in changed}
    for key in detail["undo_removed"]:
        if key not in changed:
            before.pop(key, None)
    return State(before, {**detail["external_writes"], **dict.fromkeys(changed, pause.seq)})


def _values_after(events: Sequence[Event], pause: Event) -> dict[str, Any]:
    """Return the values that a run left in the keys it wrote, MISSING for removed ones."""
    external = pause.detail["external_writes"]
    values: dict[str, Any] = {}
    for event in events:
        changes = dict(event.actions.state_delta)
        changes |= dict.fromkeys(event.actions.state_removed, MISSING)
        values |= {key: value for key, value in changes.items() if event.seq > external.get(key, 0)}
        if event is pause:
            keys = pause.detail["branch_keys"]
            values |= {key: value[0] if value else MISSING for key, value in keys.items()}
    return values


def check_waiting(session: Session) -> None:
    """Raise NothingPending if a session does not wait for input."""
    if session.status is not RunStatus.INPUT_REQUIRED:
        last = f"its last run is {session.status.value}" if session.run_id else "it has no run"
        raise NothingPending(
            f"session {session.key.session_id!r} does not wait for input; {last}. A message starts "
            "a turn: run(message) or stream(message)"
        )
