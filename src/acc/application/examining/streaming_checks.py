"""Checks of streams."""

from collections.abc import Mapping, Sequence
from typing import Any

from acc.application.examining.dialect import OLD, Ask, Op
from acc.application.examining.findings import CannotTell, Finding, fail, judged, ok, skipped
from acc.application.examining.protocol_checks import refusal
from acc.application.examining.replies import ENDED, WAITING, state_of
from acc.application.examining.visit import MOST_EVENTS, Told, Visit


def _must_stream(visit: Visit) -> None:
    if not visit.known_card.can("streaming"):
        raise CannotTell("the card does not declare streaming")


async def _task_stream(visit: Visit) -> Told:
    """Return the stream that was read to its end, if it tells of a task."""
    _must_stream(visit)
    await visit.task()
    told = await visit.told()
    if not told.is_stream:
        raise CannotTell("no stream came; see the check stream")
    if not told.task_id:
        raise CannotTell("the stream tells of no task")
    return told


async def stream(visit: Visit) -> Finding:
    """Stream the answer to a message, or see that streaming is refused if it is not declared."""
    if not visit.known_card.can("streaming"):
        await visit.first()
        told = await visit.stream(Ask(op=Op.STREAM, message=visit.message()))
        return refusal(
            told.reply,
            -32004,
            interface=visit.main,
            fix="refuse with UnsupportedOperationError (-32004), or declare streaming on the card",
            instead="a stream came that the card does not declare",
        )
    told = await visit.told()
    reply = told.reply
    fix = "answer with text/event-stream: first the task (or one message), then what happens to "
    fix += "it, and end once it is over or waits"
    if reply.is_unauthenticated and not visit.target.token:
        return skipped("the server wants credentials; give them with --token-env")
    if not told.is_stream:
        kind = reply.headers.get("content-type", "nothing")
        return fail(f"{reply.told}, sent as {kind}, instead of a stream", fix)
    return judged(_faults(told), seen=_outline(told.items), fix=fix)


def _faults(told: Told) -> list[str]:
    items = told.items
    if not items:
        return ["a stream without events"]
    faults: list[str] = []
    if unread := sum(not item for item in items):
        faults.append(f"{unread} events hold nothing that the protocol knows")
    errors = [item["error"] for item in items if "error" in item]
    if errors:
        faults.append(f"an error in the stream: {str(errors[0])[:100]}")
    if "task" not in items[0] and "message" not in items[0] and not errors:
        faults.append("the first event is neither a task nor a message")
    if not told.ended:
        faults.append(f"no end after {MOST_EVENTS} events")
    elif "message" not in items[0] and _last_state(items) not in ENDED | WAITING:
        faults.append(f"it ends while the task is {_last_state(items) or 'in no known state'}")
    return faults


def _last_state(items: Sequence[Mapping[str, Any]]) -> str:
    states = [state_of(item.get("statusUpdate") or item.get("task")) for item in items]
    return next((state for state in reversed(states) if state), "")


def _outline(items: Sequence[Mapping[str, Any]]) -> str:
    kinds = [next(iter(item), "?") for item in items]
    return f"{len(kinds)} events, {', '.join(dict.fromkeys(kinds))}"


async def resume(visit: Visit) -> Finding:
    """Take the stream up again after its first event, as a client does that lost it."""
    told = await _task_stream(visit)
    fix = "number the events of a task, send the number as the event's id, keep them, and send "
    fix += "what came after Last-Event-ID to a client that subscribes again"
    if not told.events[0].id:
        return fail("events have no id, so what a client missed is lost to it", fix)
    if len(told.events) < 2:
        raise CannotTell("the stream had one event only")
    again = await visit.stream(
        Ask(op=Op.SUBSCRIBE, task=told.task_id), headers={"Last-Event-ID": told.events[0].id}
    )
    if not again.is_stream:
        return fail(f"subscribing again after the first event gave {again.reply.told}", fix)
    missed = [event.id for event in told.events[1:]]
    got = [event.id for event in again.events]
    # A server may begin with the task as it stands, which is told under a number of its own.
    if got[-len(missed) :] == missed and len(got) - len(missed) <= 1:
        return ok(f"the {len(missed)} events that were missed came once each, in order")
    return fail(f"missed were the events {_some(missed)}, and {_some(got)} came", fix)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6]) or "none"
    return shown + (", …" if len(names) > 6 else "")


async def subscribe(visit: Visit) -> Finding:
    """Leave a stream after its first event; the task goes on and can be subscribed to."""
    _must_stream(visit)
    await visit.task()
    first = await visit.stream(Ask(op=Op.STREAM, message=visit.message()), most=1)
    task_id = first.task_id
    if not task_id:
        raise CannotTell("the stream tells of no task")
    fix = "let a task go on when a client leaves, send the task as it stands first to one that "
    fix += "subscribes, and refuse with UnsupportedOperationError (-32004) for one that is over"
    again = await visit.stream(Ask(op=Op.SUBSCRIBE, task=task_id))
    is_late = again.is_stream and again.items and "task" not in again.items[0]
    if is_late and visit.main.generation != OLD:
        return fail("subscribing does not begin with the task as it stands", fix)
    state = await visit.settled(task_id)
    if state in ("canceled", "failed", "rejected", ""):
        return fail(f"the task is {state or 'gone'} after its client left", fix)
    if again.is_stream:
        return ok(f"subscribed again after leaving; the task is {state}")
    found = refusal(again.reply, -32004, interface=visit.main, fix=fix, instead="no stream came")
    if found.fix or state not in ENDED:
        return found if found.fix else fail(f"not subscribed: {again.reply.told}", fix)
    return ok(f"the task went on alone and is {state}; subscribing to it then is refused")
