"""Checks of access control, push targets, hostile input and limits."""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from acc.application.doctor.findings import (
    CheckSkipped,
    Finding,
    fail,
    note,
    ok,
    skipped,
    verdict_from,
    warn,
)
from acc.application.doctor.protocol_checks import check_rejection
from acc.application.doctor.server import ServerUnderTest
from acc.application.doctor.wire import (
    HTTP_JSON,
    JSONRPC,
    V03,
    Interface,
    Op,
    ProbeCall,
    Reply,
    read_json,
)
from acc.domain.errors import RemoteFailed
from acc.domain.value_objects.endpoint import is_loopback_url
from acc.ports.outbound.remote_ports import ProbeRequest

_UNKNOWN_TASK = "acc-doctor-no-such-task"
_UNKNOWN_TOKEN = "acc-doctor-no-such-token"  # noqa: S105 - not a credential
_KEYS_PATH = "/.well-known/jwks.json"
_STATUS_PATH = "/status"
_MAX_OBSERVATION_LENGTH = 300
_RATE_LIMIT_HEADER = re.compile(r"(x-)?ratelimit(-.*)?|x-rate-limit-.*|retry-after")
_EXTENDED_PATH = "/agent/authenticatedExtendedCard"
_FORBIDDEN_TARGETS = (
    ("the metadata address of cloud providers", "http://169.254.169.254/latest/"),
    ("the same address in another notation", "http://[::ffff:169.254.169.254]/latest/"),
    ("a private address", "http://10.0.0.1/acc-doctor"),
    ("a file", "file:///acc-doctor"),
)
_LOCAL_TARGET = ("the server's own machine", "http://localhost:9/acc-doctor")


async def https(server: ServerUnderTest) -> Finding:
    """Check that all URLs use HTTPS."""
    card = server.card
    urls = [server.target.url, *(each.url for each in (card.interfaces if card else ()))]
    plain = sorted({url for url in urls if not url.startswith("https://")})
    fix = "use HTTPS (TLS 1.2 or later), and https URLs in the card"
    if not plain:
        return ok("all URLs use https")
    if all(is_loopback_url(url) for url in plain):
        return warn("http, which is acceptable on a local machine only", fix)
    remote = next(url for url in plain if not is_loopback_url(url))
    return fail(f"{remote} is not encrypted", fix)


async def hsts(server: ServerUnderTest) -> Finding:
    """Check the Strict-Transport-Security header."""
    if not server.target.url.startswith("https://"):
        return skipped("the URL uses http")
    if any("strict-transport-security" in response.headers for response in server.cards.values()):
        return ok("Strict-Transport-Security is sent")
    return warn("no Strict-Transport-Security", "send the header Strict-Transport-Security")


async def auth_declared(server: ServerUnderTest) -> Finding:
    """Check that the card declares how callers authenticate."""
    card = server.require_card
    schemes = card.schemes
    fix = "declare OAuth2, OpenID Connect or bearer tokens in securitySchemes, and require them"
    reply = await server.call(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK), token="")
    if not schemes and reply.is_unauthenticated:
        return fail("the server requires credentials, but the card does not declare a scheme", fix)
    if not schemes:
        problem = "no security scheme: everyone who reaches the server can use it"
        return warn(problem, fix) if server.target.is_loopback else fail(problem, fix)
    declared = ", ".join(f"{name} ({kind or 'unknown kind'})" for name, kind in schemes.items())
    warnings = [] if card.needs_credentials else ["schemes are declared, but none is required"]
    if all(kind in ("apiKey", "http basic", "") for kind in schemes.values()):
        warnings.append(f"only {declared}, which cannot expire or be limited")
    return verdict_from([], observation=declared, fix=fix, warnings=warnings)


async def token_kind(server: ServerUnderTest) -> Finding:
    """Check whether the card or the given token shows OAuth2, OpenID Connect or JWT."""
    card = server.require_card
    seen = [kind for kind in card.schemes.values() if kind in ("oauth2", "openIdConnect")]
    if card.has_jwt_format:
        seen.append("bearer tokens with the format JWT")
    if _is_jwt(server.target.token):
        seen.append("the given token is a JWT")
    if seen:
        return ok(", ".join(dict.fromkeys(seen)))
    declared = ", ".join(kind or "unknown kind" for kind in card.schemes.values())
    return note(
        f"not seen: the card declares {declared or 'no scheme'}",
        "use tokens that expire and have scopes, from an OAuth2 or OpenID Connect provider",
    )


def _is_jwt(token: str) -> bool:
    segments = token.split(".")
    if len(segments) != 3:
        return False
    try:
        header = read_json(base64.urlsafe_b64decode(segments[0] + "=" * (-len(segments[0]) % 4)))
    except (binascii.Error, ValueError):
        return False
    return isinstance(header, dict) and "alg" in header


async def trace_context(server: ServerUnderTest) -> Finding:
    """Send a traceparent header and look for its trace id in the response."""
    trace_id = hashlib.sha256(server.ids.new().encode()).hexdigest()[:32]
    headers = {"traceparent": f"00-{trace_id}-{trace_id[:16]}-01"}
    reply = await server.call(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK), headers=headers)
    names = [name for name, value in reply.headers.items() if trace_id in value]
    if names:
        return ok(f"the response header {', '.join(names)} contains the trace id")
    return note(
        "not seen: no response header contains the trace id",
        "continue the trace of the traceparent header in logs and outgoing calls, and return it in "
        "the header traceresponse",
    )


async def webhook_keys(server: ServerUnderTest) -> Finding:
    """Look for the public keys that verify push notifications."""
    if not server.require_card.can("pushNotifications"):
        raise CheckSkipped("the card does not declare push notifications")
    response = await server.fetch(server.target.origin + _KEYS_PATH)
    document = read_json(response.body) if response.status == 200 else None
    if isinstance(document, dict) and document.get("keys"):
        return ok(f"{_KEYS_PATH} has the public keys")
    return note(
        f"not seen: {_KEYS_PATH} gave {response.status}; signatures with a shared secret cannot be "
        "seen from outside",
        "sign notifications; receivers compare in constant time, reject old notifications, and "
        "accept each one once",
    )


async def rate_limit(server: ServerUnderTest) -> Finding:
    """Look for rate limits in headers and in the status; the limits are not exhausted."""
    await server.first_reply()
    seen = sorted(name for name in server.header_names if _RATE_LIMIT_HEADER.fullmatch(name))
    if seen:
        return ok(f"the headers {', '.join(seen)}")
    status = await _read_status(server)
    if status is not None and (limits := status.get("rateLimits")) and isinstance(limits, list):
        return ok(f"{_STATUS_PATH} lists: {', '.join(map(str, limits))}"[:_MAX_OBSERVATION_LENGTH])
    return note(
        f"not seen: no response has headers of a rate limit{_status_hint(server, status)}",
        "limit requests, tasks and streams per caller; respond with 429 and Retry-After",
    )


async def circuits(server: ServerUnderTest) -> Finding:
    """Look for the circuit breakers that a server reports to its callers."""
    status = await _read_status(server)
    listed = None if status is None else status.get("circuits")
    if not isinstance(listed, list):
        return note(
            f"not seen: {_STATUS_PATH} does not report circuits{_status_hint(server, status)}",
            "stop calling a remote agent or model that keeps failing, and try it again later",
        )
    unhealthy = [
        f"{one.get('name')} is {one.get('state')}, next attempt {one.get('nextAttempt')}"
        for one in listed
        if isinstance(one, dict) and one.get("state") != "closed"
    ]
    if unhealthy:
        return warn(
            f"{_STATUS_PATH}: {'; '.join(unhealthy)}"[:_MAX_OBSERVATION_LENGTH],
            "restore the service that fails; the circuit closes after the next successful call",
        )
    return ok(f"{_STATUS_PATH} reports circuits, and none is open")


async def _read_status(server: ServerUnderTest) -> Mapping[str, Any] | None:
    """Return what the server reports about its limits, None if it reports nothing."""
    response = await server.fetch(server.target.origin + _STATUS_PATH, anonymous=False)
    document = read_json(response.body) if response.status == 200 else None
    return document if isinstance(document, dict) else None


def _status_hint(server: ServerUnderTest, status: Mapping[str, Any] | None) -> str:
    return (
        "" if status or server.target.has_credentials else "; with --token-env it may report more"
    )


def _is_rejected_early(reply: Reply) -> bool:
    """Return True if a request was rejected before the task lookup."""
    is_looked_up = reply.code in (-32001, -32603) or reply.status == 404
    return reply.is_unauthenticated or (reply.is_error and not is_looked_up)


async def auth_enforced(server: ServerUnderTest) -> Finding:
    """Send requests without credentials and with wrong ones."""
    card = server.require_card
    call = ProbeCall(op=Op.GET, task=_UNKNOWN_TASK)
    bare = await server.call(call, token="")
    if (
        not card.needs_credentials
        and not server.target.has_credentials
        and not bare.is_unauthenticated
    ):
        return skipped("the server requires no credentials; see auth-declared")
    wrong = await server.call(call, token=_UNKNOWN_TOKEN)
    problems = [
        f"{what} are accepted: {reply.summary}"
        for what, reply in (("requests without credentials", bare), ("wrong credentials", wrong))
        if not _is_rejected_early(reply)
    ]
    warnings = []
    if bare.status == 401 and "www-authenticate" not in bare.headers:
        warnings.append("401 without WWW-Authenticate")
    elif not problems and not bare.is_unauthenticated:
        warnings.append(f"rejected with {bare.summary} instead of 401")
    return verdict_from(
        problems,
        observation=f"rejected without credentials ({bare.summary}) and with wrong ones "
        f"({wrong.summary})",
        fix="verify credentials first; respond with 401 and WWW-Authenticate",
        warnings=warnings,
    )


async def extended_card(server: ServerUnderTest) -> Finding:
    """Request the extended card without credentials."""
    card = server.require_card
    reply = await server.call(ProbeCall(op=Op.EXTENDED), token="")
    fix = "return the extended card to authenticated callers only"
    if not reply.is_error and isinstance(reply.result, dict):
        return fail("it is returned to anonymous callers", fix)
    legacy = await server.fetch(server.target.origin + _EXTENDED_PATH)
    document = read_json(legacy.body)
    if legacy.status == 200 and isinstance(document, dict) and "skills" in document:
        return fail(f"{_EXTENDED_PATH} returns it to anonymous callers", fix)
    known = await server.call(ProbeCall(op=Op.EXTENDED)) if server.target.has_credentials else reply
    if not card.has_extended:
        return check_rejection(
            known,
            -32004,
            -32007,
            interface=server.main,
            fix="respond with UnsupportedOperationError (-32004), or declare the extended card",
            instead="it exists although the card does not declare it",
        )
    if known is reply:
        return ok(f"rejected for anonymous callers: {reply.summary}")
    if known.is_error:
        return fail(
            f"declared, but an authenticated caller gets {known.summary}", "configure the card"
        )
    return ok(
        f"rejected for anonymous callers ({reply.summary}), returned to an authenticated caller"
    )


def _second_token(server: ServerUnderTest) -> str:
    token = server.target.second_token
    if not token:
        raise CheckSkipped("requires a second caller; pass a token with --second-token-env")
    return token


async def foreign_task(server: ServerUnderTest) -> Finding:
    """Read a task of one caller as another caller."""
    token = _second_token(server)
    task = await server.task()
    theirs = await server.call(ProbeCall(op=Op.GET, task=task["id"]), token=token)
    unknown = await server.call(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK), token=token)
    fix = "store the owner of each task, and respond to other callers exactly as for an unknown "
    fix += "task"
    if not theirs.is_error:
        return fail("another caller can read the task", fix)
    if server.main.protocol_version != V03:
        listed = await server.call(ProbeCall(op=Op.LIST), token=token)
        if not listed.is_error and task["id"] in listed.text:
            return fail("another caller can list the task", fix)
    is_same = theirs.text.replace(task["id"], "") == unknown.text.replace(_UNKNOWN_TASK, "")
    if theirs.summary != unknown.summary or not is_same:
        return warn(
            f"the responses for a task of another caller ({theirs.summary}) and an unknown task "
            f"({unknown.summary}) differ",
            fix,
        )
    return ok(f"not found for another caller: {theirs.summary}")


async def foreign_context(server: ServerUnderTest) -> Finding:
    """Send a message to a context of another caller."""
    token = _second_token(server)
    task = await server.task()
    context = task.get("contextId")
    if not isinstance(context, str) or not context:
        raise CheckSkipped("the task has no contextId")
    message = server.message(context=context)
    reply = await server.call(ProbeCall(op=Op.SEND, message=message), token=token)
    fix = "store the owner of each context, and reject it for other callers"
    if reply.is_error and reply.status < 500:
        return ok(f"rejected: {reply.summary}")
    return fail(f"another caller can continue the context ({reply.summary})", fix)


async def push_targets(server: ServerUnderTest) -> Finding:
    """Register forbidden notification URLs for a task that has ended."""
    fix = (
        "resolve the address once, reject addresses that are not public unless the operator allows "
    )
    fix += "them, and connect to the checked address"
    if not server.require_card.can("pushNotifications"):
        raise CheckSkipped("the card does not declare push notifications")
    task = await server.ended_task()
    problems: list[str] = []
    warnings: list[str] = []
    for what, url in (*_FORBIDDEN_TARGETS, _LOCAL_TARGET):
        if await _accepts_target(server, task["id"], url):
            is_local = (what, url) == _LOCAL_TARGET and server.target.is_loopback
            (warnings if is_local else problems).append(f"{what} is accepted: {url}")
    return verdict_from(
        problems,
        observation=f"{len(_FORBIDDEN_TARGETS) + 1} forbidden addresses rejected",
        fix=fix,
        warnings=warnings,
    )


async def _accepts_target(server: ServerUnderTest, task: str, url: str) -> bool:
    config = f"acc-doctor-{server.ids.new()}"
    reply = await server.call(ProbeCall(op=Op.PUSH_CREATE, task=task, config=config, url=url))
    if reply.is_error:
        return False
    await server.call(ProbeCall(op=Op.PUSH_DELETE, task=task, config=config))
    return True


async def push_undeclared(server: ServerUnderTest) -> Finding:
    """Register a notification although the card declares none."""
    if server.require_card.can("pushNotifications"):
        return skipped("the card declares push notifications")
    task = await server.task()
    url = "https://example.com/acc-doctor"
    call = ProbeCall(op=Op.PUSH_CREATE, task=task["id"], config="acc-doctor", url=url)
    return check_rejection(
        await server.call(call),
        -32003,
        interface=server.main,
        fix="reject it with PushNotificationNotSupportedError (-32003), or declare the capability",
        instead="the configuration was accepted",
    )


async def push_works(server: ServerUnderTest) -> Finding:
    """Register and delete a notification for a task that has ended."""
    if not server.require_card.can("pushNotifications"):
        raise CheckSkipped("the card does not declare push notifications")
    task = await server.ended_task()
    config = f"acc-doctor-{server.ids.new()}"
    url = "https://example.com/acc-doctor"
    made = await server.call(ProbeCall(op=Op.PUSH_CREATE, task=task["id"], config=config, url=url))
    fix = "accept a configuration with a public https URL (the server must resolve its name), and "
    fix += "delete it on request"
    if made.is_error:
        return warn(f"a public https URL is rejected: {made.summary}", fix)
    gone = await server.call(ProbeCall(op=Op.PUSH_DELETE, task=task["id"], config=config))
    if gone.is_error:
        problem = f"the configuration cannot be deleted: {gone.summary}"
        is_v03 = server.main.protocol_version == V03
        return warn(problem, fix) if is_v03 else fail(problem, fix)
    return ok("a configuration was created and deleted")


LARGE_BODY_BYTES = 32 * 1024 * 1024
_STACK_TRACE = re.compile(
    r'Traceback \(most recent|File "[^"]+", line \d|\bat [\w.$]+\([\w.]+\.(?:java|kt|scala):\d'
    r"|\bat .{1,200}\(?/.{1,200}\.(?:js|ts|mjs):\d+:\d+|goroutine \d+ \[|\.go:\d+ \+0x"
)
_SIZE_WORD = re.compile(r"\b(large|size|limit|big|long)\b", re.IGNORECASE)
_FIX = "respond to invalid input with an error of the protocol, and log the details"


def _post(server: ServerUnderTest, body: bytes) -> ProbeRequest:
    interface = server.main
    url = interface.url if interface.binding == JSONRPC else f"{interface.http_base}/message:send"
    return interface.post(url, body, server.bearer())


async def broken_json(server: ServerUnderTest) -> Finding:
    """Send truncated JSON."""
    reply = await server.exchange(_post(server, b'{"jsonrpc": "2.0", "id": 1, "method": '))
    return _check_bad_input(server, reply, -32700)


async def wrong_params(server: ServerUnderTest) -> Finding:
    """Send a message with parts of the wrong type."""
    message = {**server.message(), "parts": 7, "content": 7}
    return _check_bad_input(
        server, await server.call(ProbeCall(op=Op.SEND, message=message)), -32602
    )


async def unknown_method(server: ServerUnderTest) -> Finding:
    """Call an unknown method or path."""
    interface = server.main
    if interface.binding == JSONRPC:
        reply = await server.exchange(interface.call("acc/doctor", {}, server.bearer()))
        return _check_bad_input(server, reply, -32601)
    url = f"{interface.http_base}/acc-doctor/no/such/path"
    request = ProbeRequest(method="GET", url=url, headers=interface.head(server.bearer()))
    reply = await server.exchange(request)
    if reply.status == 404:
        return _reject_stack_trace(reply, ok(reply.summary))
    return fail(f"an unknown path gave {reply.summary}", "respond with 404")


def _check_bad_input(server: ServerUnderTest, reply: Reply, code: int) -> Finding:
    interface = server.main
    if reply.is_unauthenticated:
        return _not_read(reply)
    if interface.binding == HTTP_JSON and 400 <= reply.status < 500:
        return _reject_stack_trace(reply, ok(f"rejected with {reply.summary}"))
    finding = check_rejection(
        reply, code, -32600, interface=interface, fix=_FIX, instead="it was accepted"
    )
    return _reject_stack_trace(reply, finding)


def _not_read(reply: Reply) -> Finding:
    """Return a skipped check: the credentials were rejected before the body was read."""
    return skipped(
        f"the server rejected the credentials ({reply.summary}) and not the input; pass a token "
        "with --token-env"
    )


def _reject_stack_trace(reply: Reply, finding: Finding) -> Finding:
    if _STACK_TRACE.search(reply.text):
        return fail("the response contains a stack trace", _FIX)
    return finding


async def size_limit(server: ServerUnderTest) -> Finding:
    """Send a harmless request of 32 MiB, mostly spaces."""
    content = _harmless_body(server.main)
    small = await server.exchange(_post(server, content))
    fix = "reject bodies beyond a limit (413) before they are read"
    try:
        reply = await server.exchange(
            _post(server, content[:1] + b" " * LARGE_BODY_BYTES + content[1:])
        )
    except RemoteFailed as error:
        return await _check_still_running(server, f"the connection was closed ({error})")
    if reply.status == 413:
        return ok("rejected with 413")
    if reply.status >= 500:
        return fail(f"{LARGE_BODY_BYTES // 2**20} MiB result in {reply.summary}", fix)
    if reply.is_unauthenticated:
        return ok(f"rejected before it was read: {reply.summary}")
    if not reply.is_error or (reply.summary == small.summary and not _SIZE_WORD.search(reply.text)):
        return fail(
            f"a request of {LARGE_BODY_BYTES // 2**20} MiB is accepted: {reply.summary}", fix
        )
    return ok(f"rejected with {reply.summary}")


def _harmless_body(interface: Interface) -> bytes:
    """Return the body of a request that starts no agent."""
    if interface.binding == JSONRPC:
        return interface.request(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK), {}).body
    return json.dumps({"message": {}}).encode()


async def _check_still_running(server: ServerUnderTest, observation: str) -> Finding:
    try:
        await server.call(ProbeCall(op=Op.GET, task=_UNKNOWN_TASK))
    except RemoteFailed:
        return fail(f"{observation}, and the server stopped responding", "limit the request size")
    return ok(observation)


async def header_limit(server: ServerUnderTest) -> Finding:
    """Send a header of 100 kB."""
    call = ProbeCall(op=Op.GET, task=_UNKNOWN_TASK)
    try:
        reply = await server.call(call, headers={"X-Acc-Doctor": "x" * 100_000})
    except RemoteFailed as error:
        return await _check_still_running(server, f"the connection was closed ({error})")
    if reply.status >= 500:
        return fail(f"a header of 100 kB results in {reply.summary}", "respond with 431")
    if reply.status in (400, 413, 431):
        return ok(f"rejected with {reply.summary}")
    return warn(f"a header of 100 kB is accepted: {reply.summary}", "limit headers to 32 kB (431)")


async def deep_nesting(server: ServerUnderTest) -> Finding:
    """Send JSON with 100,000 levels of nesting."""
    reply = await server.exchange(_post(server, b'{"params":' + b"[" * 100_000))
    if reply.status >= 500:
        return fail(f"it results in {reply.summary}", _FIX)
    if reply.code == -32603:
        return warn(f"a client error is reported as an internal error: {reply.summary}", _FIX)
    if reply.is_unauthenticated:
        return _not_read(reply)
    if not reply.is_error:
        return fail(f"it was accepted ({reply.summary})", _FIX)
    return _reject_stack_trace(reply, ok(f"rejected with {reply.summary}"))
