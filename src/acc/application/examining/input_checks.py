"""Checks of what a server does with input that is wrong or too large."""

import json
import re

from acc.application.examining.dialect import HTTP_JSON, JSONRPC, Ask, Interface, Op
from acc.application.examining.findings import Finding, fail, ok, warn
from acc.application.examining.protocol_checks import refusal
from acc.application.examining.replies import Reply
from acc.application.examining.visit import Visit
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.probe_ports import ProbeRequest

LARGE = 32 * 1024 * 1024
_TRACES = re.compile(
    r'Traceback \(most recent|File "[^"]+", line \d|\bat [\w.$]+\([\w.]+\.(?:java|kt|scala):\d'
    r"|\bat .{1,200}\(?/.{1,200}\.(?:js|ts|mjs):\d+:\d+|goroutine \d+ \[|\.go:\d+ \+0x"
)
_SIZE = re.compile(r"\b(large|size|limit|big|long)\b", re.IGNORECASE)
_FIX = "answer what cannot be understood with the protocol's own error, and keep the rest in a log"


def _post(visit: Visit, body: bytes) -> ProbeRequest:
    interface = visit.main
    url = interface.url if interface.binding == JSONRPC else f"{interface.http_base}/message:send"
    return interface.post(url, body, visit.bearer())


async def broken_json(visit: Visit) -> Finding:
    """Send JSON that ends too early."""
    reply = await visit.exchange(_post(visit, b'{"jsonrpc": "2.0", "id": 1, "method": '))
    return _bad(visit, reply, -32700)


async def wrong_params(visit: Visit) -> Finding:
    """Send a message whose parts are a number."""
    message = {**visit.message(), "parts": 7, "content": 7}
    return _bad(visit, await visit.ask(Ask(op=Op.SEND, message=message)), -32602)


async def unknown_method(visit: Visit) -> Finding:
    """Call a method, or a path, that does not exist."""
    interface = visit.main
    if interface.binding == JSONRPC:
        reply = await visit.exchange(interface.call("acc/doctor", {}, visit.bearer()))
        return _bad(visit, reply, -32601)
    url = f"{interface.http_base}/acc-doctor/no/such/path"
    asked = ProbeRequest(method="GET", url=url, headers=interface.head(visit.bearer()))
    reply = await visit.exchange(asked)
    if reply.status == 404:
        return _without_trace(reply, ok(reply.told))
    return fail(f"a path that does not exist gave {reply.told}", "answer 404")


def _bad(visit: Visit, reply: Reply, code: int) -> Finding:
    interface = visit.main
    if interface.binding == HTTP_JSON and 400 <= reply.status < 500:
        return _without_trace(reply, ok(f"refused with {reply.told}"))
    found = refusal(
        reply, code, -32600, interface=interface, fix=_FIX, instead="it was taken as it was"
    )
    return _without_trace(reply, found)


def _without_trace(reply: Reply, found: Finding) -> Finding:
    if _TRACES.search(reply.text):
        return fail("the answer shows where in the server's code it went wrong", _FIX)
    return found


async def size_limit(visit: Visit) -> Finding:
    """Send a request of 32 MiB, nearly all of it spaces, that asks for nothing."""
    content = _harmless(visit.main)
    small = await visit.exchange(_post(visit, content))
    fix = "refuse bodies beyond a size that suits the agent (413), before they are read"
    try:
        reply = await visit.exchange(_post(visit, content[:1] + b" " * LARGE + content[1:]))
    except RemoteFailed as error:
        return await _still_there(visit, f"the connection was closed ({error})")
    if reply.status == 413:
        return ok("refused with 413")
    if reply.status >= 500:
        return fail(f"{LARGE // 2**20} MiB lead to {reply.told}", fix)
    if reply.is_unauthenticated:
        return ok(f"refused before it was read: {reply.told}")
    if not reply.is_refusal or (reply.told == small.told and not _SIZE.search(reply.text)):
        return fail(f"a request of {LARGE // 2**20} MiB is read and answered: {reply.told}", fix)
    return ok(f"refused with {reply.told}")


def _harmless(interface: Interface) -> bytes:
    """Return the body of a request that makes no agent work."""
    if interface.binding == JSONRPC:
        return interface.request(Ask(op=Op.GET, task="acc-doctor-no-such-task"), {}).body
    return json.dumps({"message": {}}).encode()


async def _still_there(visit: Visit, seen: str) -> Finding:
    try:
        await visit.ask(Ask(op=Op.GET, task="acc-doctor-no-such-task"))
    except RemoteFailed:
        return fail(f"{seen}, and the server answers no more", "bound the size of requests")
    return ok(seen)


async def header_limit(visit: Visit) -> Finding:
    """Send a header of 100 kB."""
    ask = Ask(op=Op.GET, task="acc-doctor-no-such-task")
    try:
        reply = await visit.ask(ask, headers={"X-Acc-Doctor": "x" * 100_000})
    except RemoteFailed as error:
        return await _still_there(visit, f"the connection was closed ({error})")
    if reply.status >= 500:
        return fail(f"a header of 100 kB leads to {reply.told}", "answer 431 to large headers")
    if reply.status in (400, 413, 431):
        return ok(f"refused with {reply.told}")
    return warn(f"a header of 100 kB is taken: {reply.told}", "bound headers to some 32 kB (431)")


async def deep_nesting(visit: Visit) -> Finding:
    """Send JSON that is nested a hundred thousand deep."""
    reply = await visit.exchange(_post(visit, b'{"params":' + b"[" * 100_000))
    if reply.status >= 500:
        return fail(f"it leads to {reply.told}", _FIX)
    if reply.code == -32603:
        return warn("a client's fault is told as the server's own: " + reply.told, _FIX)
    return _without_trace(reply, ok(f"refused with {reply.told}"))
