"""Checks of what every server must do with messages and tasks."""

import re
from collections.abc import Mapping
from typing import Any

from acc.application.examining.dialect import OLD, ONE, Ask, Interface, Op, spelled_state
from acc.application.examining.findings import CannotTell, Finding, fail, judged, ok, skipped, warn
from acc.application.examining.replies import NAMES, Reply, held, state_of
from acc.application.examining.visit import Visit

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


async def send(visit: Visit) -> Finding:
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
        return judged(faults, seen="a message at once, without a task", fix=fix)
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
    return judged(
        faults,
        seen=f"a task, {state}",
        fix="write tasks with id, contextId and status as the generation does, and times in UTC",
        hints=hints,
    )


async def get(visit: Visit) -> Finding:
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


async def unknown_task(visit: Visit) -> Finding:
    """Get a task that does not exist."""
    return refusal(
        await visit.ask(Ask(op=Op.GET, task=_NOBODYS)),
        -32001,
        interface=visit.main,
        fix="answer TaskNotFoundError (-32001, HTTP 404) for a task that is not there",
        instead="a task that does not exist was found",
    )


async def list_tasks(visit: Visit) -> Finding:
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
    return judged(missing, seen=f"{len(page.get('tasks', ()))} tasks", fix=fix, hints=hints)


async def message_to_unknown(visit: Visit) -> Finding:
    """Send a message to a task that does not exist."""
    message = visit.message(task=_NOBODYS)
    return refusal(
        await visit.ask(Ask(op=Op.SEND, message=message)),
        -32001,
        interface=visit.main,
        fix="answer TaskNotFoundError (-32001); clients cannot choose the ids of new tasks",
        instead="the message was taken, although its task does not exist",
    )


async def message_to_ended(visit: Visit) -> Finding:
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


async def cancel_ended(visit: Visit) -> Finding:
    """Cancel a task that is over."""
    task = await visit.ended_task()
    return refusal(
        await visit.ask(Ask(op=Op.CANCEL, task=task["id"])),
        -32002,
        interface=visit.main,
        fix="refuse with TaskNotCancelableError (-32002)",
        instead="a task that was over was canceled",
    )


async def cancel(visit: Visit) -> Finding:
    """Start a task, cancel it at once, and see whether it stays canceled."""
    await visit.task()
    reply = await visit.ask(Ask(op=Op.SEND, message=visit.message(), wait=False))
    task = held(reply.result).get("task", {})
    if not isinstance(task.get("id"), str):
        raise CannotTell(f"no task to cancel: {reply.told}")
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


async def idempotent(visit: Visit) -> Finding:
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


async def versions(visit: Visit) -> Finding:
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
