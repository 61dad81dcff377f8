"""Checks of messages, tasks and streams."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from acc.application.doctor.findings import (
    CheckSkipped,
    Finding,
    InterfaceMissing,
    fail,
    note,
    ok,
    skipped,
    verdict_from,
    warn,
)
from acc.application.doctor.server import MAX_EVENTS, ServerUnderTest, StreamTranscript
from acc.application.doctor.wire import (
    ERROR_NAMES,
    INTERRUPTED_STATES,
    TERMINAL_STATES,
    V03,
    V1,
    Interface,
    Op,
    ProbeCall,
    Reply,
    read_payload,
    task_state,
    v1_state,
)

_UNKNOWN_TASK = "acc-doctor-no-such-task"
_UTC_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]00:00)")
_PAGE_FIELDS = ("tasks", "nextPageToken", "pageSize", "totalSize")


def check_rejection(
    reply: Reply, *codes: int, interface: Interface, fix: str, instead: str
) -> Finding:
    """Check the error code of a rejection; `instead` describes a result in its place.

    Version 0.3 defines fewer error codes, so that any rejection is accepted there.
    """
    expected = " or ".join(f"{code} {ERROR_NAMES[code]}" for code in codes)
    if not reply.is_error:
        return fail(f"{instead} ({reply.summary})", fix)
    # Servers of 0.3 reject unsupported operations with 501.
    if (reply.status >= 500 and reply.status != 501) or reply.code == -32603:
        return fail(f"an internal error: {reply.summary}", fix)
    if reply.code in codes:
        return ok(reply.summary)
    if reply.is_unauthenticated:
        return skipped(f"the server requires other credentials: {reply.summary}")
    if interface.protocol_version == V03:
        return ok(f"rejected with {reply.summary}")
    return warn(f"rejected, but with {reply.summary} instead of {expected}", fix)


async def send(server: ServerUnderTest) -> Finding:
    """Send a short message and wait for the reply."""
    fix = "reply with a task or a message in the form of the binding"
    try:
        reply = await server.first_reply()
    except InterfaceMissing as error:
        return fail(str(error), fix)
    if reply.is_unauthenticated and not server.target.has_credentials:
        return skipped("the server requires credentials; pass them with --token-env")
    server.check_accepts_text(reply.code)
    if reply.is_error:
        return fail(f"the message was rejected: {reply.summary}", fix)
    payload = read_payload(reply.result)
    if "message" in payload:
        problems = [
            f"the message has no {n}" for n in ("messageId", "role") if n not in payload["message"]
        ]
        return verdict_from(problems, observation="a message without a task", fix=fix)
    if "task" not in payload:
        return fail("neither a task nor a message", fix)
    return _check_task(server.main, payload["task"])


def _check_task(interface: Interface, task: Mapping[str, Any]) -> Finding:
    problems = [f"the task has no {name}" for name in ("id", "contextId") if not task.get(name)]
    warnings: list[str] = []
    status = task.get("status")
    status = status if isinstance(status, dict) else {}
    state = task_state(task)
    if not state:
        problems.append(f"unknown state: {status.get('state')!r}")
    elif interface.protocol_version == V1 and status["state"] != v1_state(state):
        problems.append(f"1.0 requires {v1_state(state)}, got {status['state']!r}")
    elif state not in ("completed", "input-required", "auth-required"):
        warnings.append(f"the task of a short greeting is {state}")
    timestamp = status.get("timestamp")
    is_utc = isinstance(timestamp, str) and _UTC_TIMESTAMP.fullmatch(timestamp)
    if timestamp is not None and not is_utc:
        warnings.append(f"the timestamp {timestamp!r} is not UTC such as 2026-01-01T00:00:00.000Z")
    return verdict_from(
        problems,
        observation=f"a task, {state}",
        fix="send id, contextId and status in the form of the protocol version, and times in UTC",
        warnings=warnings,
    )


async def get(server: ServerUnderTest) -> Finding:
    """Get the task without its history."""
    task = await server.task()
    reply = await server.call(ProbeCall(op=Op.GET, task=task["id"], history=0))
    stored = read_payload(reply.result).get("task", {})
    fix = "store tasks and return them by id; a historyLength of 0 requests no history"
    if stored.get("id") != task["id"]:
        return fail(f"the new task cannot be read: {reply.summary}", fix)
    if stored.get("history") and server.main.protocol_version == V1:
        return warn(f"{len(stored['history'])} messages although historyLength is 0", fix)
    return ok(f"the same task, {task_state(stored)}")


async def unknown_task(server: ServerUnderTest) -> Finding:
    """Get a task that does not exist."""
    return check_rejection(
        await server.call(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK)),
        -32001,
        interface=server.main,
        fix="respond with TaskNotFoundError (-32001, HTTP 404) for an unknown task",
        instead="an unknown task was returned",
    )


async def list_tasks(server: ServerUnderTest) -> Finding:
    """List tasks."""
    interface = server.main
    if interface.protocol_version == V03:
        return skipped("0.3 cannot list tasks")
    await server.first_reply()
    reply = await server.call(ProbeCall(op=Op.LIST))
    fix = "return tasks, nextPageToken, pageSize and totalSize to authenticated callers"
    if reply.is_unauthenticated and not server.target.has_credentials:
        return ok(f"rejected for anonymous callers: {reply.summary}")
    if reply.is_error:
        return fail(f"rejected: {reply.summary}", fix)
    page = reply.result if isinstance(reply.result, dict) else {}
    missing = [f"the page has no {name}" for name in _PAGE_FIELDS if name not in page]
    warnings = []
    if not server.target.has_credentials and page.get("tasks"):
        warnings.append("anonymous callers can list the tasks of all callers")
    return verdict_from(
        missing, observation=f"{len(page.get('tasks', ()))} tasks", fix=fix, warnings=warnings
    )


async def message_to_unknown(server: ServerUnderTest) -> Finding:
    """Send a message to an unknown task."""
    message = server.message(task=_UNKNOWN_TASK)
    return check_rejection(
        await server.call(ProbeCall(op=Op.SEND, message=message)),
        -32001,
        interface=server.main,
        fix="respond with TaskNotFoundError (-32001); clients cannot choose task ids",
        instead="the message was accepted although its task does not exist",
    )


async def message_to_ended(server: ServerUnderTest) -> Finding:
    """Send a message to a task that has ended."""
    task = await server.ended_task()
    message = server.message(context=str(task.get("contextId") or ""), task=task["id"])
    return check_rejection(
        await server.call(ProbeCall(op=Op.SEND, message=message)),
        -32004,
        interface=server.main,
        fix="reject it with UnsupportedOperationError (-32004); a new task in the same context can "
        "continue",
        instead="the task continued although it had ended",
    )


async def cancel_ended(server: ServerUnderTest) -> Finding:
    """Cancel a task that has ended."""
    task = await server.ended_task()
    return check_rejection(
        await server.call(ProbeCall(op=Op.CANCEL, task=task["id"])),
        -32002,
        interface=server.main,
        fix="reject it with TaskNotCancelableError (-32002)",
        instead="a task that had ended was canceled",
    )


async def cancel(server: ServerUnderTest) -> Finding:
    """Cancel a new task and check that it stays canceled."""
    await server.task()
    reply = await server.call(ProbeCall(op=Op.SEND, message=server.message(), wait=False))
    task = read_payload(reply.result).get("task", {})
    if not isinstance(task.get("id"), str):
        raise CheckSkipped(f"no task to cancel: {reply.summary}")
    canceled = await server.call(ProbeCall(op=Op.CANCEL, task=task["id"]))
    if canceled.code == -32002 or canceled.status == 409:
        return skipped("the task ended before it could be canceled")
    after = read_payload(canceled.result).get("task", {})
    fix = "end the task as canceled, and ignore later updates of its agent"
    if canceled.is_error or not after:
        return fail(f"cancel gave {canceled.summary}", fix)
    state = await server.wait_for_state(task["id"], attempts=5)
    if state == "canceled":
        await server.pause(0.5)
        state = await server.wait_for_state(task["id"], attempts=1)
    if state == "canceled":
        return ok("canceled, and it stays canceled")
    if task_state(after) == "canceled":
        return fail(f"first canceled, then {state or 'unknown'}", fix)
    return warn(f"the task is {state or 'unknown'} after it was canceled", fix)


async def idempotent(server: ServerUnderTest) -> Finding:
    """Send the first message again, as a client that got no response."""
    task = await server.task()
    reply = await server.call(ProbeCall(op=Op.SEND, message=server.first_message))
    repeated = read_payload(reply.result).get("task", {})
    fix = "store the messageId per caller, and return the existing task for a duplicate"
    if repeated.get("id") == task["id"]:
        return ok("a duplicate messageId returns the same task")
    if reply.is_error:
        return note(f"the duplicate message is rejected: {reply.summary}", fix)
    return note("a duplicate messageId was processed twice, which the specification allows", fix)


async def versions(server: ServerUnderTest) -> Finding:
    """Send requests with an unknown version and without a version."""
    interface = server.main
    if interface.protocol_version == V03:
        return skipped("0.3 requests have no version")
    call = ProbeCall(op=Op.GET, task=_UNKNOWN_TASK)
    fix = "respond with VersionNotSupportedError (-32009) to an unsupported version, and treat a "
    fix += "request without A2A-Version as 0.3"
    finding = check_rejection(
        await server.call(call, headers={"A2A-Version": "99.0"}),
        -32009,
        interface=interface,
        fix=fix,
        instead="a request of version 99.0 was accepted",
    )
    if finding.fix or finding.status == "skipped":
        return finding
    bare = await server.call(call, headers={"A2A-Version": ""})
    if interface.binding == "JSONRPC" and bare.code == -32001:
        return warn("a 1.0 method without A2A-Version is accepted as 1.0", fix)
    return finding


def _require_streaming(server: ServerUnderTest) -> None:
    if not server.require_card.can("streaming"):
        raise CheckSkipped("the card does not declare streaming")


async def _task_stream(server: ServerUnderTest) -> StreamTranscript:
    """Return the complete stream if it contains a task, or raise CheckSkipped."""
    _require_streaming(server)
    await server.task()
    transcript = await server.transcript()
    if not transcript.is_stream:
        raise CheckSkipped("there was no stream; see the check stream")
    if not transcript.task_id:
        raise CheckSkipped("the stream contains no task")
    return transcript


async def stream(server: ServerUnderTest) -> Finding:
    """Stream a reply, or check that undeclared streaming is rejected."""
    if not server.require_card.can("streaming"):
        await server.first_reply()
        transcript = await server.stream(ProbeCall(op=Op.STREAM, message=server.message()))
        return check_rejection(
            transcript.reply,
            -32004,
            interface=server.main,
            fix="reject it with UnsupportedOperationError (-32004), or declare streaming",
            instead="the server streams although the card does not declare it",
        )
    transcript = await server.transcript()
    reply = transcript.reply
    fix = "respond with text/event-stream: first the task (or one message), then its updates, and "
    fix += "end the stream when the task ends or needs input"
    if reply.is_unauthenticated and not server.target.has_credentials:
        return skipped("the server requires credentials; pass them with --token-env")
    server.check_accepts_text(transcript.error_code)
    if not transcript.is_stream:
        content_type = reply.headers.get("content-type", "(none)")
        return fail(f"{reply.summary} with content type {content_type} instead of a stream", fix)
    return verdict_from(
        _stream_problems(transcript), observation=_outline(transcript.items), fix=fix
    )


def _stream_problems(transcript: StreamTranscript) -> list[str]:
    items = transcript.items
    if not items:
        return ["the stream has no events"]
    problems: list[str] = []
    if unknown := sum(not item for item in items):
        problems.append(f"{unknown} events have no known content")
    errors = [item["error"] for item in items if "error" in item]
    if errors:
        problems.append(f"an error in the stream: {str(errors[0])[:100]}")
    if "task" not in items[0] and "message" not in items[0] and not errors:
        problems.append("the first event is neither a task nor a message")
    if transcript.stayed_open:
        problems.append("the stream did not end when the task did")
    elif not transcript.ended:
        problems.append(f"the stream did not end after {MAX_EVENTS} events")
    elif (
        "message" not in items[0] and _last_state(items) not in TERMINAL_STATES | INTERRUPTED_STATES
    ):
        problems.append(
            f"it ended while the task was {_last_state(items) or 'in an unknown state'}"
        )
    return problems


def _last_state(items: Sequence[Mapping[str, Any]]) -> str:
    states = [task_state(item.get("statusUpdate") or item.get("task")) for item in items]
    return next((state for state in reversed(states) if state), "")


def _outline(items: Sequence[Mapping[str, Any]]) -> str:
    kinds = [next(iter(item), "?") for item in items]
    return f"{len(kinds)} events, {', '.join(dict.fromkeys(kinds))}"


async def resume(server: ServerUnderTest) -> Finding:
    """Resume the stream after its first event, as a client that lost the connection."""
    transcript = await _task_stream(server)
    fix = "number the events of a task, send the number as event id, store the events, and send "
    fix += "those after Last-Event-ID to a client that subscribes again"
    if not transcript.events[0].id:
        return note("events have no id, so clients cannot recover missed events", fix)
    if len(transcript.events) < 2:
        raise CheckSkipped("the stream had only one event")
    again = await server.stream(
        ProbeCall(op=Op.SUBSCRIBE, task=transcript.task_id),
        headers={"Last-Event-ID": transcript.events[0].id},
    )
    if not again.is_stream:
        return note(f"subscribing after the first event gave {again.reply.summary}", fix)
    missed = [event.id for event in transcript.events[1:]]
    received = [event.id for event in again.events]
    # A server may start with a snapshot of the task, which has its own id.
    if received[-len(missed) :] == missed and len(received) - len(missed) <= 1:
        return ok(f"the {len(missed)} missed events were sent once and in order")
    return note(f"missed events: {_shorten(missed)}; received: {_shorten(received)}", fix)


def _shorten(names: Sequence[str]) -> str:
    text = ", ".join(names[:6]) or "none"
    return text + (", …" if len(names) > 6 else "")


async def subscribe(server: ServerUnderTest) -> Finding:
    """Close a stream after its first event and check that the task continues."""
    _require_streaming(server)
    await server.task()
    first = await server.stream(ProbeCall(op=Op.STREAM, message=server.message()), max_events=1)
    task_id = first.task_id
    if not task_id:
        raise CheckSkipped("the stream contains no task")
    fix = (
        "continue the task when a client disconnects, start a subscription with the current task, "
    )
    fix += "and reject it with UnsupportedOperationError (-32004) if the task has ended"
    again = await server.stream(ProbeCall(op=Op.SUBSCRIBE, task=task_id))
    lacks_snapshot = again.is_stream and again.items and "task" not in again.items[0]
    if lacks_snapshot and server.main.protocol_version != V03:
        return fail("the subscription does not start with the current task", fix)
    state = await server.wait_for_state(task_id)
    if state in ("canceled", "failed", "rejected", ""):
        return fail(f"the task is {state or 'gone'} after its client disconnected", fix)
    if again.is_stream:
        return ok(f"subscribed again after disconnecting; the task is {state}")
    finding = check_rejection(
        again.reply, -32004, interface=server.main, fix=fix, instead="there was no stream"
    )
    if finding.fix or state not in TERMINAL_STATES:
        return finding if finding.fix else fail(f"not subscribed: {again.reply.summary}", fix)
    return ok(f"the task continued and is {state}; subscribing to it is then rejected")
