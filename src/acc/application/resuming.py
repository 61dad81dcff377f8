"""What a paused run leaves on record so that another process can take it up as it was."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from acc.application.run import Line, Run
from acc.application.state import ABSENT, State
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import Event, InputAnswer, InputRequest
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
        run.catch_up(Line(state))


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


def paused_detail(run: Run, state: State) -> dict[str, Any]:
    """Return how to get back to where the run began, and on which terms it runs."""
    undo, removed = state.undo()
    call, config = run.call, run.config
    held = call.permissions
    return {
        "undo": undo,
        "undo_removed": list(removed),
        "call": {
            "request_id": call.request_id,
            "trace_id": call.trace_id,
            "caller": call.caller,
            "permissions": None if held is None else sorted(held),
            "message_id": call.message_id,
            "metadata": call.metadata,
        },
        "config": {
            item.name: getattr(config, item.name)
            for item in fields(config)
            if item.name != "stand_ins"
        }
        | {"stand_ins": {n: s for n, s in config.stand_ins.items() if isinstance(s, str)}},
    }


def resumed_terms(
    detail: Mapping[str, Any], config: RunConfig | None, context: CallContext | None
) -> tuple[RunConfig, CallContext]:
    """Return the terms of a resumed run: those it began with, unless others are given.

    Whoever resumes a run may bring fewer permissions to it and never more.
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
    return config or RunConfig(**detail["config"]), call


def state_before(
    values: Mapping[str, Any], events: Sequence[Event], detail: Mapping[str, Any]
) -> State:
    """Return the state as the run found it; what others have written since stays as it is."""
    wrote: dict[str, Any] = {}
    for event in events:
        wrote |= event.actions.state_delta
        wrote |= dict.fromkeys(event.actions.state_removed, ABSENT)
    foreign = frozenset(
        key
        for key, value in wrote.items()
        if not key.startswith("temp:") and values.get(key, ABSENT) != value
    )
    before = dict(values)
    before |= {key: value for key, value in detail["undo"].items() if key not in foreign}
    for key in detail["undo_removed"]:
        if key not in foreign:
            before.pop(key, None)
    return State(before, foreign)
