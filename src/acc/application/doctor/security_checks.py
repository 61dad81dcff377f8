"""Checks of who may see and do what."""

import json
import re

from acc.application.doctor.findings import (
    CheckSkipped,
    Finding,
    fail,
    ok,
    skipped,
    verdict_from,
    warn,
)
from acc.application.doctor.protocol_checks import refusal
from acc.application.doctor.server import ServerUnderTest, is_loopback
from acc.application.doctor.wire import (
    HTTP_JSON,
    JSONRPC,
    OLD,
    Ask,
    Interface,
    Op,
    Reply,
    read_json,
)
from acc.domain.errors import RemoteFailed
from acc.ports.outbound.remote_ports import ProbeRequest

_NOBODYS = "acc-doctor-no-such-task"
_WRONG = "acc-doctor-no-such-token"
_EXTENDED_PATH = "/agent/authenticatedExtendedCard"
_BAD_TARGETS = (
    ("the address where clouds hand out credentials", "http://169.254.169.254/latest/"),
    ("the same address in other words", "http://[::ffff:169.254.169.254]/latest/"),
    ("a private address", "http://10.0.0.1/acc-doctor"),
    ("a file", "file:///acc-doctor"),
)
_OWN_TARGET = ("the server's own machine", "http://localhost:9/acc-doctor")


async def https(visit: ServerUnderTest) -> Finding:
    """See whether everything is encrypted."""
    card = visit.card
    urls = [visit.target.url, *(each.url for each in (card.interfaces if card else ()))]
    plain = sorted({url for url in urls if not url.startswith("https://")})
    fix = "serve over HTTPS (TLS 1.2 or later) and name https URLs on the card"
    if not plain:
        return ok("https throughout")
    if all(is_loopback(url) for url in plain):
        return warn("http, which is fine on this machine alone", fix)
    away = next(url for url in plain if not is_loopback(url))
    return fail(f"{away} is not encrypted", fix)


async def hsts(visit: ServerUnderTest) -> Finding:
    """See whether browsers are told to use HTTPS alone."""
    if not visit.target.url.startswith("https://"):
        return skipped("the server is asked over http")
    if any("strict-transport-security" in answer.headers for answer in visit.cards.values()):
        return ok("Strict-Transport-Security is sent")
    return warn("no Strict-Transport-Security", "send the header Strict-Transport-Security")


async def auth_declared(visit: ServerUnderTest) -> Finding:
    """See whether the card says how callers prove who they are."""
    card = visit.known_card
    schemes = card.schemes
    fix = "declare OAuth2, OpenID Connect or bearer tokens in securitySchemes, and require them"
    reply = await visit.ask(Ask(op=Op.GET, task=_NOBODYS), token="")
    if not schemes and reply.is_unauthenticated:
        return fail("credentials are wanted, and the card does not say which", fix)
    if not schemes:
        seen = "no security scheme: whoever reaches the server may use it"
        return warn(seen, fix) if visit.target.is_loopback else fail(seen, fix)
    told = ", ".join(f"{name} ({kind or 'of no known kind'})" for name, kind in schemes.items())
    hints = [] if card.needs_credentials else ["schemes are declared, and none is required"]
    if all(kind in ("apiKey", "http basic", "") for kind in schemes.values()):
        hints.append(f"only {told}, which cannot expire or be limited")
    return verdict_from([], seen=told, fix=fix, hints=hints)


def _refused(reply: Reply) -> bool:
    """Tell whether a request was stopped before anything was looked up."""
    return reply.is_unauthenticated or (reply.is_refusal and reply.code not in (-32001, -32603))


async def auth_enforced(visit: ServerUnderTest) -> Finding:
    """Ask without credentials, and with wrong ones."""
    card = visit.known_card
    ask = Ask(op=Op.GET, task=_NOBODYS)
    bare = await visit.ask(ask, token="")
    if not card.needs_credentials and not visit.target.token and not bare.is_unauthenticated:
        return skipped("the server is open to everyone; see auth-declared")
    wrong = await visit.ask(ask, token=_WRONG)
    faults = [
        f"{what} are answered: {reply.told}"
        for what, reply in (("requests without credentials", bare), ("wrong credentials", wrong))
        if not _refused(reply)
    ]
    hints = []
    if bare.status == 401 and "www-authenticate" not in bare.headers:
        hints.append("401 comes without WWW-Authenticate")
    elif not faults and not bare.is_unauthenticated:
        hints.append(f"refused with {bare.told} instead of 401")
    return verdict_from(
        faults,
        seen=f"refused without credentials ({bare.told}) and with wrong ones ({wrong.told})",
        fix="check credentials before anything else; answer 401 with WWW-Authenticate",
        hints=hints,
    )


async def extended_card(visit: ServerUnderTest) -> Finding:
    """Ask for the extended card as a stranger."""
    card = visit.known_card
    reply = await visit.ask(Ask(op=Op.EXTENDED), token="")
    fix = "return the extended card only to callers who have proved who they are"
    if not reply.is_refusal and isinstance(reply.result, dict):
        return fail("it is returned to anyone", fix)
    seed = await visit.fetch(visit.target.origin + _EXTENDED_PATH)
    document = read_json(seed.body)
    if seed.status == 200 and isinstance(document, dict) and "skills" in document:
        return fail(f"{_EXTENDED_PATH} returns it to anyone", fix)
    known = await visit.ask(Ask(op=Op.EXTENDED)) if visit.target.token else reply
    if not card.has_extended:
        return refusal(
            known,
            -32004,
            -32007,
            interface=visit.main,
            fix="answer UnsupportedOperationError (-32004), or declare the extended card",
            instead="the card does not declare it, and it is there",
        )
    if known is reply:
        return ok(f"refused to strangers: {reply.told}")
    if known.is_refusal:
        return fail(f"declared, and a known caller gets {known.told}", "configure the card")
    return ok(f"refused to strangers ({reply.told}), returned to a known caller")


def _need_second(visit: ServerUnderTest) -> str:
    token = visit.target.second_token
    if not token:
        raise CheckSkipped("needs another caller: give a second token with --second-token-env")
    return token


async def foreign_task(visit: ServerUnderTest) -> Finding:
    """Ask for a task of one caller as another one."""
    token = _need_second(visit)
    task = await visit.task()
    theirs = await visit.ask(Ask(op=Op.GET, task=task["id"]), token=token)
    nobodys = await visit.ask(Ask(op=Op.GET, task=_NOBODYS), token=token)
    fix = "file tasks under their caller; for anyone else answer exactly as for a task that does "
    fix += "not exist"
    if not theirs.is_refusal:
        return fail("another caller may read the task", fix)
    if visit.main.generation != OLD:
        listed = await visit.ask(Ask(op=Op.LIST), token=token)
        if not listed.is_refusal and task["id"] in listed.text:
            return fail("another caller finds the task in a listing", fix)
    same = theirs.text.replace(task["id"], "") == nobodys.text.replace(_NOBODYS, "")
    if theirs.told != nobodys.told or not same:
        return warn(
            f"another caller's task ({theirs.told}) and none at all ({nobodys.told}) "
            "can be told apart",
            fix,
        )
    return ok(f"for another caller the task does not exist: {theirs.told}")


async def foreign_context(visit: ServerUnderTest) -> Finding:
    """Send a message into a context of one caller as another one."""
    token = _need_second(visit)
    task = await visit.task()
    context = task.get("contextId")
    if not isinstance(context, str) or not context:
        raise CheckSkipped("the task has no contextId")
    message = visit.message(context=context)
    reply = await visit.ask(Ask(op=Op.SEND, message=message), token=token)
    fix = "let a context belong to whoever began it, and refuse it to others as one unknown"
    if reply.is_refusal and reply.status < 500:
        return ok(f"refused: {reply.told}")
    return fail(f"another caller may go on in the context ({reply.told})", fix)


async def push_targets(visit: ServerUnderTest) -> Finding:
    """Ask for notifications to addresses that a server must not call; the task is over."""
    task_fix = "resolve the address once, refuse all that is not public unless the operator allows "
    task_fix += "it, and connect to exactly what was checked"
    if not visit.known_card.can("pushNotifications"):
        raise CheckSkipped("the card does not declare push notifications")
    task = await visit.ended_task()
    faults: list[str] = []
    hints: list[str] = []
    for what, url in (*_BAD_TARGETS, _OWN_TARGET):
        if await _takes(visit, task["id"], url):
            is_mild = (what, url) == _OWN_TARGET and visit.target.is_loopback
            (hints if is_mild else faults).append(f"{what} is accepted: {url}")
    return verdict_from(
        faults, seen=f"{len(_BAD_TARGETS) + 1} such addresses refused", fix=task_fix, hints=hints
    )


async def _takes(visit: ServerUnderTest, task: str, url: str) -> bool:
    config = f"acc-doctor-{visit.ids.new()}"
    reply = await visit.ask(Ask(op=Op.PUSH_CREATE, task=task, config=config, url=url))
    if reply.is_refusal:
        return False
    await visit.ask(Ask(op=Op.PUSH_DELETE, task=task, config=config))
    return True


async def push_undeclared(visit: ServerUnderTest) -> Finding:
    """Ask for notifications of a server that declares none."""
    if visit.known_card.can("pushNotifications"):
        return skipped("the card declares push notifications")
    task = await visit.task()
    url = "https://example.com/acc-doctor"
    ask = Ask(op=Op.PUSH_CREATE, task=task["id"], config="acc-doctor", url=url)
    return refusal(
        await visit.ask(ask),
        -32003,
        interface=visit.main,
        fix="refuse with PushNotificationNotSupportedError (-32003), or declare pushNotifications",
        instead="the configuration was taken",
    )


async def push_works(visit: ServerUnderTest) -> Finding:
    """Configure a notification to a public address for a task that is over, and delete it."""
    if not visit.known_card.can("pushNotifications"):
        raise CheckSkipped("the card does not declare push notifications")
    task = await visit.ended_task()
    config = f"acc-doctor-{visit.ids.new()}"
    url = "https://example.com/acc-doctor"
    made = await visit.ask(Ask(op=Op.PUSH_CREATE, task=task["id"], config=config, url=url))
    fix = "take a configuration with a public https URL (the server must be able to resolve its "
    fix += "name), return it, and delete it on request"
    if made.is_refusal:
        return warn(f"a public https URL is refused: {made.told}", fix)
    gone = await visit.ask(Ask(op=Op.PUSH_DELETE, task=task["id"], config=config))
    if gone.is_refusal:
        seen = f"the configuration cannot be deleted: {gone.told}"
        return warn(seen, fix) if visit.main.generation == OLD else fail(seen, fix)
    return ok("a configuration was made and deleted")


LARGE = 32 * 1024 * 1024
_TRACES = re.compile(
    r'Traceback \(most recent|File "[^"]+", line \d|\bat [\w.$]+\([\w.]+\.(?:java|kt|scala):\d'
    r"|\bat .{1,200}\(?/.{1,200}\.(?:js|ts|mjs):\d+:\d+|goroutine \d+ \[|\.go:\d+ \+0x"
)
_SIZE = re.compile(r"\b(large|size|limit|big|long)\b", re.IGNORECASE)
_FIX = "answer what cannot be understood with the protocol's own error, and keep the rest in a log"


def _post(visit: ServerUnderTest, body: bytes) -> ProbeRequest:
    interface = visit.main
    url = interface.url if interface.binding == JSONRPC else f"{interface.http_base}/message:send"
    return interface.post(url, body, visit.bearer())


async def broken_json(visit: ServerUnderTest) -> Finding:
    """Send JSON that ends too early."""
    reply = await visit.exchange(_post(visit, b'{"jsonrpc": "2.0", "id": 1, "method": '))
    return _bad(visit, reply, -32700)


async def wrong_params(visit: ServerUnderTest) -> Finding:
    """Send a message whose parts are a number."""
    message = {**visit.message(), "parts": 7, "content": 7}
    return _bad(visit, await visit.ask(Ask(op=Op.SEND, message=message)), -32602)


async def unknown_method(visit: ServerUnderTest) -> Finding:
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


def _bad(visit: ServerUnderTest, reply: Reply, code: int) -> Finding:
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


async def size_limit(visit: ServerUnderTest) -> Finding:
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


async def _still_there(visit: ServerUnderTest, seen: str) -> Finding:
    try:
        await visit.ask(Ask(op=Op.GET, task="acc-doctor-no-such-task"))
    except RemoteFailed:
        return fail(f"{seen}, and the server answers no more", "bound the size of requests")
    return ok(seen)


async def header_limit(visit: ServerUnderTest) -> Finding:
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


async def deep_nesting(visit: ServerUnderTest) -> Finding:
    """Send JSON that is nested a hundred thousand deep."""
    reply = await visit.exchange(_post(visit, b'{"params":' + b"[" * 100_000))
    if reply.status >= 500:
        return fail(f"it leads to {reply.told}", _FIX)
    if reply.code == -32603:
        return warn("a client's fault is told as the server's own: " + reply.told, _FIX)
    return _without_trace(reply, ok(f"refused with {reply.told}"))
