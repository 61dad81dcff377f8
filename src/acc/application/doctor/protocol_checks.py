"""Checks of what every server must do with messages and tasks."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from acc.application.doctor.findings import (
    CheckSkipped,
    Finding,
    fail,
    ok,
    skipped,
    verdict_from,
    warn,
)
from acc.application.doctor.server import MOST_EVENTS, ServerUnderTest, StreamTranscript
from acc.application.doctor.wire import (
    ENDED,
    NAMES,
    OLD,
    ONE,
    WAITING,
    Ask,
    Interface,
    Op,
    Reply,
    held,
    spelled_state,
    state_of,
)

_NOBODYS = "acc-doctor-no-such-task"
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_PAGE = ("tasks", "nextPageToken", "pageSize", "totalSize")


def refusal(reply: Reply, *codes: int, interface: Interface, fix: str, instead: str) -> Finding:
    """Judge a refusal by its code; `instead` says what a result in its place means.

    Generation 0.3 has looser words for most errors, so there any refusal will do.
    """
    wanted = " or ".join(f"{code} {NAMES[code]}" for code in codes)
    if not reply.is_refusal:
        return fail(f"{instead} ({reply.told})", fix)
    if reply.status >= 500 or reply.code == -32603:
        return fail(f"an internal error: {reply.told}", fix)
    if reply.code in codes:
        return ok(reply.told)
    if reply.is_unauthenticated:
        return skipped(f"the server wants other credentials first: {reply.told}")
    if interface.generation == OLD:
        return ok(f"refused with {reply.told}")
    return warn(f"refused, but with {reply.told} instead of {wanted}", fix)


async def send(visit: ServerUnderTest) -> Finding:
    """Send a short message and wait for the answer."""
    reply = await visit.first()
    fix = "answer a message with a task or a message, as the binding writes them"
    if reply.is_unauthenticated and not visit.target.token:
        return skipped("the server wants credentials; give them with --token-env")
    if reply.is_refusal:
        return fail(f"the message was refused: {reply.told}", fix)
    found = held(reply.result)
    if "message" in found:
        faults = [
            f"the message has no {n}" for n in ("messageId", "role") if n not in found["message"]
        ]
        return verdict_from(faults, seen="a message at once, without a task", fix=fix)
    if "task" not in found:
        return fail("neither a task nor a message", fix)
    return _judged_task(visit.main, found["task"])


def _judged_task(interface: Interface, task: Mapping[str, Any]) -> Finding:
    faults = [f"the task has no {name}" for name in ("id", "contextId") if not task.get(name)]
    hints: list[str] = []
    status = task.get("status")
    status = status if isinstance(status, dict) else {}
    state = state_of(task)
    if not state:
        faults.append(f"no known state: {status.get('state')!r}")
    elif interface.generation == ONE and status["state"] != spelled_state(state):
        faults.append(f"1.0 writes {spelled_state(state)}, not {status['state']!r}")
    elif state not in ("completed", "input-required", "auth-required"):
        hints.append(f"the task of a short greeting is {state}")
    moment = status.get("timestamp")
    if moment is not None and not (isinstance(moment, str) and _MOMENT.fullmatch(moment)):
        hints.append(f"the time {moment!r} is not written in UTC as 2026-01-01T00:00:00.000Z")
    return verdict_from(
        faults,
        seen=f"a task, {state}",
        fix="write tasks with id, contextId and status as the generation does, and times in UTC",
        hints=hints,
    )


async def get(visit: ServerUnderTest) -> Finding:
    """Get the task again, without its history."""
    task = await visit.task()
    reply = await visit.ask(Ask(op=Op.GET, task=task["id"], history=0))
    found = held(reply.result).get("task", {})
    fix = "keep tasks and return them by their id; a historyLength of 0 asks for no history"
    if found.get("id") != task["id"]:
        return fail(f"the task just made cannot be got: {reply.told}", fix)
    if found.get("history") and visit.main.generation == ONE:
        return warn(f"{len(found['history'])} messages although historyLength is 0", fix)
    return ok(f"the same task, {state_of(found)}")


async def unknown_task(visit: ServerUnderTest) -> Finding:
    """Get a task that does not exist."""
    return refusal(
        await visit.ask(Ask(op=Op.GET, task=_NOBODYS)),
        -32001,
        interface=visit.main,
        fix="answer TaskNotFoundError (-32001, HTTP 404) for a task that is not there",
        instead="a task that does not exist was found",
    )


async def list_tasks(visit: ServerUnderTest) -> Finding:
    """List tasks."""
    interface = visit.main
    if interface.generation == OLD:
        return skipped("0.3 has no listing")
    await visit.first()
    reply = await visit.ask(Ask(op=Op.LIST))
    fix = "answer ListTasks with tasks, nextPageToken, pageSize and totalSize, to known callers"
    if reply.is_unauthenticated and not visit.target.token:
        return ok(f"refused to strangers: {reply.told}")
    if reply.is_refusal:
        return fail(f"refused: {reply.told}", fix)
    page = reply.result if isinstance(reply.result, dict) else {}
    missing = [f"the page has no {name}" for name in _PAGE if name not in page]
    hints = []
    if not visit.target.token and page.get("tasks"):
        hints.append("anyone may list what everyone asked")
    return verdict_from(missing, seen=f"{len(page.get('tasks', ()))} tasks", fix=fix, hints=hints)


async def message_to_unknown(visit: ServerUnderTest) -> Finding:
    """Send a message to a task that does not exist."""
    message = visit.message(task=_NOBODYS)
    return refusal(
        await visit.ask(Ask(op=Op.SEND, message=message)),
        -32001,
        interface=visit.main,
        fix="answer TaskNotFoundError (-32001); clients cannot choose the ids of new tasks",
        instead="the message was taken, although its task does not exist",
    )


async def message_to_ended(visit: ServerUnderTest) -> Finding:
    """Send a message to a task that is over."""
    task = await visit.ended_task()
    message = visit.message(context=str(task.get("contextId") or ""), task=task["id"])
    return refusal(
        await visit.ask(Ask(op=Op.SEND, message=message)),
        -32004,
        interface=visit.main,
        fix="refuse with UnsupportedOperationError (-32004): what is over stays over, and a new "
        "task in the same context goes on",
        instead="the task goes on although it was over",
    )


async def cancel_ended(visit: ServerUnderTest) -> Finding:
    """Cancel a task that is over."""
    task = await visit.ended_task()
    return refusal(
        await visit.ask(Ask(op=Op.CANCEL, task=task["id"])),
        -32002,
        interface=visit.main,
        fix="refuse with TaskNotCancelableError (-32002)",
        instead="a task that was over was canceled",
    )


async def cancel(visit: ServerUnderTest) -> Finding:
    """Start a task, cancel it at once, and see whether it stays canceled."""
    await visit.task()
    reply = await visit.ask(Ask(op=Op.SEND, message=visit.message(), wait=False))
    task = held(reply.result).get("task", {})
    if not isinstance(task.get("id"), str):
        raise CheckSkipped(f"no task to cancel: {reply.told}")
    canceled = await visit.ask(Ask(op=Op.CANCEL, task=task["id"]))
    if canceled.code == -32002:
        return skipped("the agent was done before it could be canceled")
    found = held(canceled.result).get("task", {})
    fix = "let cancel end the task as canceled, whatever its agent still says afterwards"
    if canceled.is_refusal or not found:
        return fail(f"cancel gave {canceled.told}", fix)
    state = await visit.settled(task["id"], tries=5)
    if state == "canceled":
        await visit.pause(0.5)
        state = await visit.settled(task["id"], tries=1)
    if state == "canceled":
        return ok("canceled, and still so a moment later")
    if state_of(found) == "canceled":
        return fail(f"canceled first, then {state or 'unknown'}", fix)
    return warn(f"the task is {state or 'unknown'} after it was canceled", fix)


async def idempotent(visit: ServerUnderTest) -> Finding:
    """Send the first message once more, as a client does that got no answer."""
    task = await visit.task()
    reply = await visit.ask(Ask(op=Op.SEND, message=visit.first_message))
    found = held(reply.result).get("task", {})
    fix = "remember the messageId of each caller, and answer a repeated one with the task it made"
    if found.get("id") == task["id"]:
        return ok("the same messageId gives the same task")
    if reply.is_refusal and reply.status < 500:
        return warn(f"the repeated message is refused: {reply.told}", fix)
    return fail("the same messageId was worked on twice", fix)


async def versions(visit: ServerUnderTest) -> Finding:
    """Ask in a version that does not exist, and in none."""
    interface = visit.main
    if interface.generation == OLD:
        return skipped("0.3 has no versions in its requests")
    ask = Ask(op=Op.GET, task=_NOBODYS)
    fix = "answer VersionNotSupportedError (-32009) for a version that is not spoken, and take a "
    fix += "request without A2A-Version as one of 0.3"
    found = refusal(
        await visit.ask(ask, headers={"A2A-Version": "99.0"}),
        -32009,
        interface=interface,
        fix=fix,
        instead="a request of version 99.0 was answered",
    )
    if found.fix or found.verdict == "skipped":
        return found
    bare = await visit.ask(ask, headers={"A2A-Version": ""})
    if interface.binding == "JSONRPC" and bare.code == -32001:
        return warn("a 1.0 method without A2A-Version is answered as 1.0", fix)
    return found


def _must_stream(visit: ServerUnderTest) -> None:
    if not visit.known_card.can("streaming"):
        raise CheckSkipped("the card does not declare streaming")


async def _task_stream(visit: ServerUnderTest) -> StreamTranscript:
    """Return the stream that was read to its end, if it tells of a task."""
    _must_stream(visit)
    await visit.task()
    told = await visit.told()
    if not told.is_stream:
        raise CheckSkipped("no stream came; see the check stream")
    if not told.task_id:
        raise CheckSkipped("the stream tells of no task")
    return told


async def stream(visit: ServerUnderTest) -> Finding:
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
    return verdict_from(_faults(told), seen=_outline(told.items), fix=fix)


def _faults(told: StreamTranscript) -> list[str]:
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


async def resume(visit: ServerUnderTest) -> Finding:
    """Take the stream up again after its first event, as a client does that lost it."""
    told = await _task_stream(visit)
    fix = "number the events of a task, send the number as the event's id, keep them, and send "
    fix += "what came after Last-Event-ID to a client that subscribes again"
    if not told.events[0].id:
        return fail("events have no id, so what a client missed is lost to it", fix)
    if len(told.events) < 2:
        raise CheckSkipped("the stream had one event only")
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


async def subscribe(visit: ServerUnderTest) -> Finding:
    """Leave a stream after its first event; the task goes on and can be subscribed to."""
    _must_stream(visit)
    await visit.task()
    first = await visit.stream(Ask(op=Op.STREAM, message=visit.message()), most=1)
    task_id = first.task_id
    if not task_id:
        raise CheckSkipped("the stream tells of no task")
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
