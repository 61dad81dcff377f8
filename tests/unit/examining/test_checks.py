"""Every verdict of every check, each from the one fault that leads to it."""

import json
from typing import Any

import pytest
from scripted_server import URL, Refusal, ScriptedServer, card, lost
from test_examine_server import ANN, BOTH, examine, only_interface

from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.server import Target
from acc.application.use_cases.diagnose_server import Line
from acc.ports.outbound.remote_ports import ProbeAnswer

OK, WARN, FAIL, SKIPPED = CheckStatus.OK, CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.SKIPPED
STRANGER = Target(url=URL)
LOCAL = Target(url="http://127.0.0.1:8000")
CARD = "/.well-known/agent-card.json"
NEW = only_interface("JSONRPC", "1.0")
HTTP = only_interface("HTTP+JSON", "1.0")
OLD = only_interface("JSONRPC", "0.3")
OLD_HTTP = only_interface("HTTP+JSON", "0.3")
NOTHING_DECLARED = card(capabilities={})


async def line(check: str, server: ScriptedServer, target: Target = BOTH) -> Line:
    return (await examine(server, check, target=target)).lines[0]


def answer(status: int = 200, body: Any = None, **headers: str) -> ProbeAnswer:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ProbeAnswer(status=status, headers=told, body=content)


def opened(document: Any = None, **overrides: Any) -> ScriptedServer:
    """Return a server that asks nobody who they are."""
    base = card(securitySchemes=None, securityRequirements=None) if document is None else document
    server = ScriptedServer(base, **overrides)
    server.is_open = True
    return server


def at_home(document: dict[str, Any], **overrides: Any) -> ScriptedServer:
    """Return a server of this machine."""
    text = json.dumps(document).replace(URL, LOCAL.url)
    return opened(json.loads(text), **overrides)


def signed(protected: Any, value: str = "c2ln") -> dict[str, Any]:
    return card(signatures=[{"protected": protected, "signature": value}])


def skill(**changes: Any) -> dict[str, Any]:
    base = {"id": "greet", "name": "Greet", "description": "Greets politely.", "tags": ["hello"]}
    return base | changes


def interface(**changes: Any) -> dict[str, Any]:
    base = {"url": f"{URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {name: value for name, value in (base | changes).items() if value is not None}


CARDS: list[tuple[str, CheckStatus, str, Any]] = [
    ("card-fields", FAIL, "name is missing or empty", card(name="")),
    ("card-fields", FAIL, "capabilities is missing", card(capabilities=None)),
    ("card-fields", FAIL, "supportedInterfaces is", card(url=None, supportedInterfaces=None)),
    ("card-fields", FAIL, "protocolVersion is missing", card(protocolVersion=None)),
    ("card-generations", OK, "offers 0.3, 1.0", card()),
    ("card-generations", OK, "offers 1.0", NEW),
    ("card-generations", WARN, "offers 0.3", OLD),
    ("card-skills", FAIL, "greet has no tags", card(skills=[skill(tags=[])])),
    ("card-skills", FAIL, "skill 1 has no id", card(skills=[skill(id="")])),
    ("card-skills", FAIL, "greet comes twice", card(skills=[skill(), skill()])),
    ("card-skills", WARN, "says little: 'Greets.'", card(skills=[skill(description="Greets.")])),
    ("card-modes", FAIL, "defaultInputModes: none", card(defaultInputModes=[])),
    ("card-modes", FAIL, "defaultOutputModes: text, 7", card(defaultOutputModes=["text", 7])),
    (
        "card-interfaces",
        FAIL,
        "1 has no protocolVersion",
        card(supportedInterfaces=[interface(protocolVersion=None)]),
    ),
    (
        "card-interfaces",
        FAIL,
        "'/rpc' is no absolute URL",
        card(supportedInterfaces=[interface(url="/rpc")]),
    ),
    (
        "card-interfaces",
        FAIL,
        "'http://[x' is no absolute",
        card(supportedInterfaces=[interface(url="http://[x")]),
    ),
    ("card-interfaces", FAIL, "no interface at all", card(supportedInterfaces=[], url=None)),
    ("card-interfaces", FAIL, "no interface at all", card(supportedInterfaces=None, url=None)),
    (
        "card-interfaces",
        FAIL,
        "1 has no url",
        card(supportedInterfaces=[interface(url=None)], url=7),
    ),
    ("card-signature", OK, "1, well-formed", signed("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ")),
    ("card-signature", FAIL, "lacks alg, kid", signed("e30")),
    ("card-signature", FAIL, "lacks alg, kid", signed(7)),
    ("card-signature", FAIL, "lacks alg, kid", signed("a")),
    ("card-signature", FAIL, "lacks alg, kid", signed("W10")),
    ("card-signature", FAIL, "lacks its value", signed("eyJhbGciOiJFUzI1NiIsImtpZCI6ImsifQ", "")),
    ("card-signature", FAIL, "algorithm none", signed("eyJhbGciOiJub25lIiwia2lkIjoiayJ9")),
    ("list", SKIPPED, "0.3 has no listing", OLD),
    ("versions", SKIPPED, "0.3 has no versions", OLD),
    ("cancel-ended", OK, "TaskNotCancelable", OLD),
    ("unknown-task", OK, "-32001 TaskNotFoundError", OLD_HTTP),
    ("unknown-task", OK, "HTTP 400 -32001", HTTP),
    ("unknown-method", OK, "HTTP 404", HTTP),
    ("size-limit", OK, "refused with 413", HTTP),
    ("auth-declared", FAIL, "the card does not say which", card(securitySchemes=None)),
    ("auth-declared", WARN, "none is required", card(securityRequirements=None)),
    (
        "auth-declared",
        WARN,
        "k (apiKey), which cannot expire",
        card(securitySchemes={"k": {"apiKeySecurityScheme": {}}}),
    ),
    ("auth-declared", WARN, "k (of no known kind)", card(securitySchemes={"k": 7})),
    ("auth-declared", OK, "k (oauth2)", card(securitySchemes={"k": {"oauth2SecurityScheme": {}}})),
    ("push-targets", SKIPPED, "does not declare push", NOTHING_DECLARED),
    ("push-works", SKIPPED, "does not declare push", NOTHING_DECLARED),
    ("resume", SKIPPED, "does not declare streaming", NOTHING_DECLARED),
    ("subscribe", SKIPPED, "does not declare streaming", NOTHING_DECLARED),
    ("stream", FAIL, "a stream came that the card does not declare", NOTHING_DECLARED),
    ("push-undeclared", FAIL, "the configuration was taken", NOTHING_DECLARED),
    ("https", FAIL, "http://agents.example/ is not encrypted", card(url="http://agents.example/")),
]


@pytest.mark.parametrize(("check", "verdict", "seen", "document"), CARDS)
async def test_cards(check: str, verdict: CheckStatus, seen: str, document: Any) -> None:
    found = await line(check, ScriptedServer(document))
    assert (found.verdict, seen in found.seen) == (verdict, True), found.seen
    assert bool(found.fix) == (verdict in (WARN, FAIL))


def task(state: str = "TASK_STATE_COMPLETED", **changes: Any) -> dict[str, Any]:
    base = {"id": "t9", "contextId": "c", "status": {"state": state}}
    return {"task": base | changes}


def sees(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Answer as if nobody's task were somebody's."""
    return {"id": params["id"], "status": {"state": "TASK_STATE_COMPLETED"}}


def again(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Make a new task of whatever comes."""
    return {"task": server.make("ann")}


def slow(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Start a task that takes a while, unless the client waits."""
    if params["configuration"].get("returnImmediately"):
        return {"task": server.make("ann", state="working")}
    return {"task": server.make("ann")}


def direct(server: ScriptedServer, params: Any, request: Any) -> Any:
    return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}


def only_waiting(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Answer who waits with a task, and others with a message."""
    if params["configuration"].get("returnImmediately"):
        return direct(server, params, request)
    return {"task": server.make("ann")}


def late_words(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Cancel a task, which then completes after all."""
    found = server.tasks[params["id"]]
    found["status"]["state"] = "TASK_STATE_COMPLETED"
    return {**found, "status": {"state": "TASK_STATE_CANCELED"}}


def ignored(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Take note of a cancel and do nothing."""
    return server.tasks[params["id"]]


def refused_twice(server: ScriptedServer, params: Any, request: Any) -> Any:
    if server.tasks:
        raise Refusal(-32602)
    return again(server, params, request)


def versionless(server: ScriptedServer, params: Any, request: Any) -> Any:
    raise Refusal(-32001)


def taken_bare(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Look at no version at all but the one that cannot be."""
    version = request.headers.get("A2A-Version")
    return answer(200, {"error": {"code": -32009 if version == "99.0" else -32001}})


TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1'
ANSWERS: list[tuple[str, CheckStatus, str, dict[str, Any]]] = [
    (
        "card-path",
        WARN,
        "is sent as text/plain",
        {CARD: answer(200, card(), content_type="text/plain")},
    ),
    ("card-path", FAIL, "only at /.well-known/agent.json", {CARD: answer(404)}),
    ("card-old-path", WARN, "nothing at", {"/.well-known/agent.json": answer(404)}),
    ("card-cache", WARN, "no ETag; no Cache-Control with max-age", {CARD: answer(200, card())}),
    (
        "card-cache",
        WARN,
        "gave 200, not 304",
        {CARD: answer(200, card(), etag="x", cache_control="max-age=1")},
    ),
    (
        "hsts",
        WARN,
        "no Strict-Transport-Security",
        {CARD: answer(200, card()), "/.well-known/agent.json": answer(404)},
    ),
    ("interfaces-answer", FAIL, "it did not answer in time", {"get": lost()}),
    ("interfaces-answer", FAIL, "gave HTTP 200 -32001", {"get": Refusal(-32001)}),
    ("send", FAIL, "refused: HTTP 200 -32603 InternalError", {"send": Refusal(-32603)}),
    ("send", SKIPPED, "no answer to a message", {"send": lost()}),
    ("send", OK, "a message at once", {"send": direct}),
    ("send", FAIL, "the message has no role", {"send": {"msg": {"messageId": "m"}}}),
    ("send", FAIL, "neither a task nor a message", {"send": {"odd": 1}}),
    ("send", FAIL, "neither a task nor a message", {"send": 7}),
    ("send", FAIL, "the task has no contextId", {"send": task(contextId="")}),
    ("send", FAIL, "no known state: 'DONE'", {"send": task("DONE")}),
    ("send", FAIL, "no known state: None", {"send": task(status=7)}),
    ("send", FAIL, "1.0 writes TASK_STATE_COMPLETED, not 'completed'", {"send": task("completed")}),
    ("send", WARN, "the task of a short greeting is failed", {"send": task("TASK_STATE_FAILED")}),
    (
        "send",
        WARN,
        "is not written in UTC",
        {
            "send": task(
                status={"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00+09:00"}
            )
        },
    ),
    ("get", FAIL, "cannot be got", {"get": Refusal(-32001)}),
    ("get", WARN, "1 messages although", {"get": {"id": "t1", "status": {}, "history": [{}]}}),
    ("get", SKIPPED, "without making a task", {"send": direct}),
    ("get", SKIPPED, "the first message was refused", {"send": Refusal(-32602)}),
    ("get", SKIPPED, "no answer to a message", {"send": lost()}),
    ("unknown-task", FAIL, "does not exist was found", {"get": sees}),
    ("unknown-task", FAIL, "an internal error: HTTP 500", {"get": answer(500, b"<html>")}),
    ("unknown-task", FAIL, "an internal error", {"get": Refusal(-32603)}),
    ("unknown-task", WARN, "with HTTP 200 -32602", {"get": Refusal(-32602)}),
    ("unknown-task", WARN, "with HTTP 200 -31999", {"get": Refusal(-31999)}),
    ("unknown-task", SKIPPED, "wants other credentials", {"get": Refusal(-32040, 403)}),
    ("list", FAIL, "refused: HTTP 200 -32601", {"list": Refusal(-32601)}),
    ("list", FAIL, "the page has no tasks", {"list": {}}),
    ("list", FAIL, "the page has no tasks", {"list": 7}),
    ("message-to-unknown", FAIL, "the message was taken", {"send": again}),
    ("message-to-ended", FAIL, "goes on although it was over", {"send": again}),
    ("message-to-ended", SKIPPED, "the agent's task is in no known state", {"send": task("X")}),
    (
        "message-to-ended",
        SKIPPED,
        "the agent's task is working",
        {"send": task("TASK_STATE_WORKING")},
    ),
    ("cancel-ended", FAIL, "was canceled", {"cancel": ignored}),
    ("cancel", SKIPPED, "no task to cancel", {"send": only_waiting}),
    ("cancel", SKIPPED, "done before it could be canceled", {"send": again}),
    ("cancel", FAIL, "cancel gave HTTP 200 -32004", {"send": slow, "cancel": Refusal(-32004)}),
    ("cancel", FAIL, "canceled first, then completed", {"send": slow, "cancel": late_words}),
    ("cancel", WARN, "the task is working after", {"send": slow, "cancel": ignored}),
    ("cancel", OK, "still so a moment later", {"send": slow}),
    ("idempotent", FAIL, "worked on twice", {"send": again}),
    ("idempotent", WARN, "the repeated message is refused", {"send": refused_twice}),
    ("versions", FAIL, "version 99.0 was answered", {"/": answer(200, {"result": {}})}),
    ("versions", WARN, "instead of -32009", {"/": answer(200, {"error": {"code": -32602}})}),
    ("versions", SKIPPED, "credentials", {"/": answer(401, {"error": {}})}),
    ("versions", WARN, "without A2A-Version is answered as 1.0", {"/": taken_bare}),
    ("stream", FAIL, "instead of a stream", {"stream": {"task": {}}}),
    ("stream", SKIPPED, "no stream came", {"stream": lost()}),
    ("stream", FAIL, "the first event is neither", {"stream": [("", {"statusUpdate": {}})]}),
    (
        "stream",
        FAIL,
        "it ends while the task is working",
        {"stream": [("", task("TASK_STATE_WORKING"))]},
    ),
    ("stream", FAIL, "in no known state", {"stream": [("", task("X"))]}),
    ("stream", FAIL, "1 events hold nothing", {"stream": [("", task()), ("", {"odd": 1})]}),
    ("stream", FAIL, "1 events hold nothing", {"stream": [("", 7), ("", task())]}),
    ("stream", FAIL, "no end after 500 events", {"stream": [("", task())] * 501}),
    ("stream", OK, "1 events, message", {"stream": [("", {"message": {}})]}),
    ("resume", FAIL, "events have no id", {"stream": [("", task())]}),
    ("resume", SKIPPED, "one event only", {"stream": [("1", task())]}),
    ("resume", SKIPPED, "tells of no task", {"stream": [("1", {"message": {}})]}),
    ("resume", SKIPPED, "no stream came; see", {"stream": Refusal(-32004)}),
    ("resume", SKIPPED, "no stream came (", {"stream": lost()}),
    ("resume", FAIL, "gave HTTP 200 -32004", {"subscribe": Refusal(-32004)}),
    (
        "resume",
        FAIL,
        "missed were the events 2, and 1, 2, 3, 4, 5, 6, … came",
        {"subscribe": [(str(n), {}) for n in range(1, 8)]},
    ),
    ("resume", FAIL, "and none came", {"subscribe": answer(200, [], x_events="1")}),
    ("subscribe", SKIPPED, "tells of no task", {"stream": [("1", {"message": {}})]}),
    (
        "subscribe",
        FAIL,
        "does not begin with the task",
        {"subscribe": [("1", {"statusUpdate": {}})]},
    ),
    ("subscribe", FAIL, "the task is gone", {"get": Refusal(-32001)}),
    ("subscribe", OK, "subscribed again", {"subscribe": [("1", task())]}),
    ("subscribe", WARN, "refused, but with", {"subscribe": Refusal(-32602)}),
    (
        "extended-card",
        FAIL,
        "/agent/authenticatedExtendedCard returns it",
        {"/agent/authenticatedExtendedCard": answer(200, card())},
    ),
    ("extended-card", FAIL, "a known caller gets", {"extended_card": Refusal(-32007)}),
    ("foreign-task", FAIL, "may read the task", {"get": sees}),
    ("foreign-task", FAIL, "in a listing", {"list": {"tasks": [{"id": "t1"}]}}),
    ("foreign-context", FAIL, "may go on in the context", {"send": again}),
    ("foreign-context", SKIPPED, "has no contextId", {"send": task(contextId="")}),
    ("push-targets", FAIL, "a private address is accepted", {"push_create": {}}),
    ("push-works", WARN, "is refused", {"push_create": Refusal(-32602)}),
    ("push-works", FAIL, "cannot be deleted", {"push_delete": Refusal(-32602)}),
    ("broken-json", FAIL, "an internal error", {"/": answer(500, b"")}),
    (
        "broken-json",
        FAIL,
        "where in the server's code",
        {"/": answer(200, {"error": {"code": -32700, "message": TRACE}})},
    ),
    ("wrong-params", FAIL, "taken as it was", {"send": task()}),
    ("unknown-method", FAIL, "taken as it was", {"/": answer(200, {"result": 1})}),
    ("deep-nesting", FAIL, "leads to HTTP 500", {"/": answer(500, b"")}),
    ("deep-nesting", WARN, "as the server's own", {"/": answer(200, {"error": {"code": -32603}})}),
    (
        "size-limit",
        FAIL,
        "32 MiB is read and answered",
        {"/": answer(200, {"error": {"code": -32001}})},
    ),
    ("size-limit", FAIL, "32 MiB lead to HTTP 500", {"/": answer(500, b"")}),
    ("size-limit", OK, "before it was read", {"/": answer(401, b"")}),
    ("header-limit", FAIL, "answers no more", {"/": lost()}),
    ("header-limit", FAIL, "leads to HTTP 502", {"/": answer(502, b"")}),
    ("header-limit", WARN, "is taken", {"/": answer(200, {"error": {"code": -32001}})}),
]


@pytest.mark.parametrize(("check", "verdict", "seen", "overrides"), ANSWERS)
async def test_answers(
    check: str, verdict: CheckStatus, seen: str, overrides: dict[str, Any]
) -> None:
    found = await line(
        check, ScriptedServer(NEW | {"capabilities": card()["capabilities"]}, **overrides)
    )
    assert (found.verdict, seen in found.seen) == (verdict, True), found.seen
    assert bool(found.fix) == (verdict in (WARN, FAIL))


async def test_the_older_generation_need_not_delete_configurations() -> None:
    found = await line("push-works", ScriptedServer(OLD, push_delete=Refusal(-32601)))
    assert (found.verdict, "cannot be deleted" in found.seen) == (WARN, True)


async def test_the_older_generation_may_refuse_in_its_own_words() -> None:
    found = await line("unknown-task", ScriptedServer(OLD, get=Refusal(-32600)))
    assert (found.verdict, found.seen) == (OK, "refused with HTTP 200 -32600 InvalidRequestError")


STRANGERS = ["send", "get", "stream", "resume", "subscribe", "push-works", "idempotent"]


@pytest.mark.parametrize("check", STRANGERS)
async def test_without_a_token_a_closed_server_cannot_be_judged(check: str) -> None:
    found = await line(check, ScriptedServer(), STRANGER)
    assert (found.verdict, "give them with --token-env" in found.seen) == (SKIPPED, True)


@pytest.mark.parametrize("check", ["foreign-task", "foreign-context"])
async def test_without_a_second_token_callers_cannot_be_told_apart(check: str) -> None:
    found = await line(check, ScriptedServer(), Target(url=URL, token=ANN))
    assert (found.verdict, "--second-token-env" in found.seen) == (SKIPPED, True)


async def test_strangers_may_be_refused_a_listing_and_the_extended_card() -> None:
    assert (await line("list", ScriptedServer(), STRANGER)).verdict is OK
    assert (await line("extended-card", ScriptedServer(), STRANGER)).verdict is OK


async def test_an_open_server_is_warned_about_at_home_and_failed_elsewhere() -> None:
    assert (await line("auth-declared", opened(), STRANGER)).verdict is FAIL
    home = at_home(card(securitySchemes=None, securityRequirements=None))
    assert (await line("auth-declared", home, LOCAL)).verdict is WARN
    assert (await line("https", home, LOCAL)).verdict is WARN
    assert (await line("hsts", home, LOCAL)).verdict is SKIPPED
    assert (await line("auth-enforced", home, LOCAL)).verdict is SKIPPED
    assert (await line("extended-card", home, LOCAL)).verdict is FAIL
    listed = await line("list", home, LOCAL)
    assert (listed.verdict, listed.seen) == (WARN, "anyone may list what everyone asked")


async def test_a_server_at_home_may_notify_its_own_machine() -> None:
    def local_alone(server: ScriptedServer, params: Any, request: Any) -> Any:
        if b"localhost" in request.body:
            return {}
        raise Refusal(-32602)

    found = await line("push-targets", at_home(card(), push_create=local_alone), LOCAL)
    assert (found.verdict, "the server's own machine" in found.seen) == (WARN, True)


async def test_credentials_that_nobody_checks_are_found_out() -> None:
    found = await line("auth-enforced", opened(card()))
    assert found.verdict is FAIL
    assert "without credentials are answered" in found.seen
    assert "wrong credentials are answered" in found.seen


@pytest.mark.parametrize(
    ("refusal", "seen"),
    [
        (answer(401, {}), "401 comes without WWW-Authenticate"),
        (answer(200, {"error": {"code": -32600}}), "refused with HTTP 200 -32600"),
    ],
)
async def test_a_refusal_says_how_to_authenticate(refusal: ProbeAnswer, seen: str) -> None:
    found = await line("auth-enforced", ScriptedServer(**{"/": refusal}))
    assert (found.verdict, seen in found.seen) == (WARN, True)


async def test_capabilities_that_are_not_declared_are_refused() -> None:
    refuses = {
        "stream": Refusal(-32004),
        "push_create": Refusal(-32003),
        "extended_card": Refusal(-32004),
    }
    for check in ("stream", "push-undeclared", "extended-card"):
        assert (await line(check, ScriptedServer(NOTHING_DECLARED, **refuses))).verdict is OK


async def test_a_stream_without_events_or_with_an_error_fails() -> None:
    empty = ScriptedServer(stream=answer(200, [], x_events="1"))
    assert (await line("stream", empty)).seen == "a stream without events"
    event = {"id": "", "data": json.dumps({"error": {"code": -32603}})}
    broken = ScriptedServer(stream=answer(200, [event], x_events="1"))
    assert "an error in the stream" in (await line("stream", broken)).seen


async def test_a_task_that_goes_on_must_be_subscribable() -> None:
    server = ScriptedServer()
    server.state = "working"
    found = await line("subscribe", server)
    assert (found.verdict, "not subscribed" in found.seen) == (FAIL, True)


async def test_the_stream_of_an_update_names_its_task() -> None:
    update = {"taskId": "t9", "status": {"state": "TASK_STATE_COMPLETED"}}
    found = await line("resume", ScriptedServer(stream=[("", {"statusUpdate": update})]))
    assert found.verdict is FAIL


async def test_another_callers_task_must_look_like_none() -> None:
    def told(server: ScriptedServer, params: Any, request: Any) -> Any:
        raise Refusal(-32001 if params["id"] in server.tasks else -32602)

    found = await line("foreign-task", ScriptedServer(get=told))
    assert (found.verdict, "can be told apart" in found.seen) == (WARN, True)
    assert (await line("foreign-task", ScriptedServer(OLD))).verdict is OK


async def test_a_path_that_does_not_exist_must_not_be_there() -> None:
    path = "/acc-doctor/no/such/path"
    assert (
        await line("unknown-method", ScriptedServer(HTTP, **{path: answer(200)}))
    ).verdict is FAIL


@pytest.mark.parametrize("body", [b"[]", b'{"error": {"details": [7]}}', b'{"error": 7}'])
async def test_errors_of_any_shape_are_read(body: bytes) -> None:
    found = await line("unknown-task", ScriptedServer(HTTP, get=ProbeAnswer(status=404, body=body)))
    assert (found.verdict, "refused, but with HTTP 404" in found.seen) == (WARN, True)


async def test_http_says_no_to_broken_json_with_a_status() -> None:
    for check in ("broken-json", "wrong-params", "deep-nesting"):
        assert (await line(check, ScriptedServer(HTTP))).verdict is OK


async def test_an_interface_without_an_examiner_is_told_of() -> None:
    document = card()
    document["supportedInterfaces"].append(interface(protocolBinding="GRPC"))
    found = await line("interfaces-answer", ScriptedServer(document))
    assert (found.verdict, "not tried: GRPC" in found.seen) == (OK, True)


async def test_a_large_request_may_be_refused_in_words() -> None:
    def worded(server: ScriptedServer, params: Any, request: Any) -> Any:
        is_large = len(request.body) > 10_000
        return answer(400, {"error": {"message": "too large" if is_large else "no message"}})

    path = "/message:send"
    assert (await line("size-limit", ScriptedServer(HTTP, **{path: worded}))).verdict is OK
    silent = ScriptedServer(HTTP, **{path: answer(400, {"error": {"message": "no message"}})})
    assert (await line("size-limit", silent)).verdict is FAIL


async def test_a_server_that_large_requests_end_is_found_out() -> None:
    def fragile(server: ScriptedServer, params: Any, request: Any) -> Any:
        if len(server.requests) > 3:
            raise lost()
        return answer(200, {"error": {"code": -32001}})

    found = await line("size-limit", ScriptedServer(**{"/": fragile}))
    assert (found.verdict, "answers no more" in found.seen) == (FAIL, True)


async def test_a_closed_connection_is_a_refusal_too() -> None:
    def large(server: ScriptedServer, params: Any, request: Any) -> Any:
        if len(request.body) + len(str(request.headers)) > 50_000:
            raise lost("the connection broke")
        return answer(200, {"error": {"code": -32001}})

    for check in ("size-limit", "header-limit"):
        assert (await line(check, ScriptedServer(**{"/": large}))).verdict is OK
