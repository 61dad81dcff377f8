"""What a paused run leaves on record so that another process can take it up as it was."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from acc.application.runtime.run import Branch, Run
from acc.application.runtime.state import ABSENT, State
from acc.domain.errors import InvalidInput, ReplayMismatch
from acc.domain.value_objects.approval import InputAnswer, InputRequest
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.run import CallContext, RunConfig

#: Stands with an answer of which it will be on record, too, when the call that it allows is begun.
BEGINNINGS_TOLD: Mapping[str, Any] = {"beginnings": True}


def tells_beginnings(run: Run, answer: InputAnswer) -> bool:
    """Tell whether the call that an answer allowed would be on record had it been begun."""
    told = (event.detail for event in run.earlier if event.answer == answer)
    return any(detail.get("beginnings") for detail in told)


def settle(run: Run, state: State) -> None:
    """Leave in a run's state what is on record, all of that and nothing else."""
    state.take_back()
    if run.journal:
        run.catch_up(Branch(state))


def as_answers(given: InputAnswer | Iterable[InputAnswer]) -> tuple[InputAnswer, ...]:
    """Return the answers that are given, one or several."""
    if isinstance(given, InputAnswer):
        return (given,)
    if not isinstance(given, Iterable):
        raise InvalidInput("answers are a list of what approve(...) or deny(...) returns")
    return tuple(given)


def open_requests(events: Sequence[Event]) -> tuple[InputRequest, ...]:
    """Return what the events of a run ask and none of them answers."""
    answered = {event.answer.request_id for event in events if event.answer is not None}
    asked = [event.request for event in events if event.request is not None]
    return tuple(request for request in asked if request.id not in answered)


def last_pause(events: Sequence[Event]) -> Event:
    """Return how a run that waits came to do so."""
    return next(event for event in reversed(events) if event.kind is EventKind.ENDED)


def requests_waiting(events: Sequence[Event]) -> tuple[InputRequest, ...]:
    """Return what a run that waits must hear: why it paused, and what was asked since.

    Others may be open: what asked them was cut off, and asks again if it is come to again. Earlier
    versions did not put down which.
    """
    paused = last_pause(events)
    asked = {event.request.id for event in events if event.request and event.seq < paused.seq}
    cut_off = asked.difference(paused.detail.get("waiting", asked))
    return tuple(request for request in open_requests(events) if request.id not in cut_off)


def check_begun_by(run: Run, name: str) -> None:
    """Refuse to resume a run with another agent than the one that began it."""
    first = next(iter(run.journal), f"/{name}#0")
    if not first.startswith((f"/{name}#", f"/{name}/")):
        begun_by = first[1:].partition("#")[0].partition("/")[0]
        raise ReplayMismatch(
            f"session {run.key.session_id!r} waits for {begun_by!r} to go on, and {name!r} would "
            "run: resume it with the agents that it was begun with. Nothing was done, and the run "
            "still waits"
        )


def check_heard(run: Run) -> None:
    """Refuse the end of a run that went another way, where what a person said was not heard."""
    for event in _unheard(run):
        if event.request is not None and not event.step.startswith(run.given_up):
            raise ReplayMismatch(
                f"{event.step}: {event.request.id!r} was answered, and the run went another way "
                "than the one on record, where nobody heard the answer; an agent that is resumed "
                "must do again what it did, so take time and chance from the state"
            )


def _unheard(run: Run) -> list[Event]:
    """Return what the run waited for when it paused, was answered, and was not come to again."""
    waited = set(_waited_for(run)) & run.answers.keys()
    return [
        event
        for event in run.journal.values()
        if event.request is not None
        and event.request.id in waited
        and event.seq not in run.replayed
    ]


def _waited_for(run: Run) -> Sequence[str]:
    """Return the ids of the requests because of which a run that is being resumed paused.

    Others may be open: what asked them was cut off. Earlier versions did not put down which.
    """
    paused = run.paused
    if paused is None:
        return ()
    if "waiting" in paused.detail:
        return list(paused.detail["waiting"])
    waiting = open_requests([event for event in run.earlier if event.seq < paused.seq])
    return [request.id for request in waiting] if len(waiting) == 1 else ()


def paused_detail(run: Run, state: State, requests: Sequence[InputRequest]) -> dict[str, Any]:
    """Return how to get back to where the run began, on which terms it runs, and why it waits."""
    undo, removed = state.undo()
    call, config = run.call, run.config
    held = call.permissions
    return {
        "undo": undo,
        "undo_removed": list(removed),
        "beside": _beside(run, state),
        "foreign": dict(state.foreign),
        "edges": not run.is_old,
        "waiting": [
            *(request.id for request in requests),
            *(event.request.id for event in _unheard(run) if event.request is not None),
        ],
        "call": {
            "request_id": call.request_id,
            "trace_id": call.trace_id,
            "caller": call.caller,
            "permissions": None if held is None else sorted(held),
            "message_id": call.message_id,
            "metadata": call.metadata,
        },
        "config": {
            item.name: getattr(config, item.name) for item in fields(config) if item.name != "stubs"
        }
        | {"stubs": {n: s for n, s in config.stubs.items() if isinstance(s, str)}},
        "stub_functions": _functions(config),
    }


def _beside(run: Run, state: State) -> dict[str, list[Any]]:
    """Return the keys that branches wrote, each with the value it has outside of them, or nothing.

    What branches wrote is not in the session's state until they have joined, so that only this
    tells whether others have written there since.
    """
    keys: dict[str, None] = {}
    for event in (*run.earlier, *run.events):
        keys |= dict.fromkeys((*event.actions.branch_delta, *event.actions.branch_removed))
    return {key: [state[key]] if key in state else [] for key in keys}


def _functions(config: RunConfig) -> list[str]:
    """Return for whom functions stand in, of which a record can hold the names alone."""
    return [name for name, found in config.stubs.items() if not isinstance(found, str)]


def resumed_terms(
    detail: Mapping[str, Any],
    ours: RunConfig,
    config: RunConfig | None,
    context: CallContext | None,
) -> tuple[RunConfig, CallContext]:
    """Return the terms of a resumed run: those it began with, unless others are given.

    Whoever resumes a run may bring fewer permissions to it and never more. `ours` are the terms of
    whoever runs it now.
    """
    call = CallContext(**detail["call"])
    if context is not None:
        held = call.permissions
        if held is not None and context.permissions is not None:
            held = frozenset(held) & frozenset(context.permissions)
        call = CallContext(
            request_id=context.request_id,
            trace_id=context.trace_id,
            caller=context.caller,
            permissions=context.permissions if held is None else held,
            message_id=call.message_id,
            metadata=call.metadata,
        )
    return config or _as_it_began(detail, ours), call


def _as_it_began(detail: Mapping[str, Any], ours: RunConfig) -> RunConfig:
    """Return the limits that a run began with; the functions that stand in are ours.

    Earlier versions did not put down for whom they did: all of ours stand in then, for an agent
    that runs by mistake cannot be taken back.
    """
    names = detail.get("stub_functions", _functions(ours))
    lost = [name for name in names if name not in ours.stubs]
    if lost:
        raise InvalidInput(
            f"the run began with functions that stand in for {', '.join(lost)}, and no record can "
            "hold a function: give them again, to the runner or with resume(config=...). Nothing "
            "was done, and the run still waits"
        )
    texts = detail["config"]["stubs"]
    functions = {name: ours.stubs[name] for name in names}
    return RunConfig(**{**detail["config"], "stubs": {**functions, **texts}})


def state_before(values: Mapping[str, Any], events: Sequence[Event], paused: Event) -> State:
    """Return the state as the run found it; what others have written since stays as it is."""
    detail = paused.detail
    known = detail.get("foreign", {})
    left = _left(events, paused)
    changed = [
        key
        for key, value in left.items()
        if not key.startswith("temp:") and values.get(key, ABSENT) != value
    ]
    before = dict(values)
    before |= {key: value for key, value in detail["undo"].items() if key not in changed}
    for key in detail["undo_removed"]:
        if key not in changed:
            before.pop(key, None)
    return State(before, {**known, **dict.fromkeys(changed, paused.seq)})


def _left(events: Sequence[Event], paused: Event) -> dict[str, Any]:
    """Return what a run left where it wrote, ABSENT for nothing, unless others had written there.

    Earlier versions did not put down what there was beside their branches.
    """
    known = paused.detail.get("foreign", {})
    left: dict[str, Any] = {}
    for event in events:
        wrote = dict(event.actions.state_delta)
        wrote |= dict.fromkeys(event.actions.state_removed, ABSENT)
        left |= {key: value for key, value in wrote.items() if event.seq > known.get(key, 0)}
        if event is paused:
            found = paused.detail.get("beside", {})
            left |= {key: values[0] if values else ABSENT for key, values in found.items()}
    return left
