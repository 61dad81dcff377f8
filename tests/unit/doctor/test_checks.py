"""Each status of each check, caused by one deviation of the server."""

import json
from typing import Any

import pytest
from scripted_server import URL, Refusal, ScriptedServer, card, lost
from test_diagnose_server import ANN, BOTH, diagnose, only_interface

from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.server import Target
from acc.application.use_cases.diagnose_server import CheckResult
from acc.ports.outbound.remote_ports import ProbeResponse

OK, NOTE, WARN, FAIL, SKIPPED = CheckStatus
ANONYMOUS = Target(url=URL)
LOCAL = Target(url="http://127.0.0.1:8000")
CARD = "/.well-known/agent-card.json"
NEW = only_interface("JSONRPC", "1.0")
HTTP = only_interface("HTTP+JSON", "1.0")
V03 = only_interface("JSONRPC", "0.3")
HTTP_V03 = only_interface("HTTP+JSON", "0.3")
NOTHING_DECLARED = card(capabilities={})


async def run_check(check: str, server: ScriptedServer, target: Target = BOTH) -> CheckResult:
    return (await diagnose(server, check, target=target)).results[0]


def answer(status: int = 200, body: Any = None, **headers: str) -> ProbeResponse:
    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ProbeResponse(status=status, headers=lower, body=content)


def open_server(document: Any = None, **overrides: Any) -> ScriptedServer:
    """Return a server without authentication."""
    base = card(securitySchemes=None, securityRequirements=None) if document is None else document
    server = ScriptedServer(base, **overrides)
    server.is_open = True
    return server


def loopback_server(document: dict[str, Any], **overrides: Any) -> ScriptedServer:
    """Return a server on the loopback interface."""
    text = json.dumps(document).replace(URL, LOCAL.url)
    return open_server(json.loads(text), **overrides)


def signed(protected: Any, value: str = "c2ln") -> dict[str, Any]:
    return card(signatures=[{"protected": protected, "signature": value}])


def skill(**changes: Any) -> dict[str, Any]:
    base = {"id": "greet", "name": "Greet", "description": "Greets politely.", "tags": ["hello"]}
    return base | changes


def interface(**changes: Any) -> dict[str, Any]:
    base = {"url": f"{URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    return {name: value for name, value in (base | changes).items() if value is not None}


def task(state: str = "TASK_STATE_COMPLETED", **changes: Any) -> dict[str, Any]:
    base = {"id": "t9", "contextId": "c", "status": {"state": state}}
    return {"task": base | changes}


def finds_any_task(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Answer requests for unknown tasks as if they existed."""
    return {"id": params["id"], "status": {"state": "TASK_STATE_COMPLETED"}}


def always_new_task(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Create a new task for every message."""
    return {"task": server.make("ann")}


def slow(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Start a task that takes a while, unless the client waits."""
    if params["configuration"].get("returnImmediately"):
        return {"task": server.make("ann", state="working")}
    return {"task": server.make("ann")}


def direct(server: ScriptedServer, params: Any, request: Any) -> Any:
    return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "hello"}]}}


def only_waiting(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Answer blocking requests with a task and others with a message."""
    if params["configuration"].get("returnImmediately"):
        return direct(server, params, request)
    return {"task": server.make("ann")}


def completes_after_cancel(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Cancel a task, which then completes after all."""
    result = server.tasks[params["id"]]
    result["status"]["state"] = "TASK_STATE_COMPLETED"
    return {**result, "status": {"state": "TASK_STATE_CANCELED"}}


def ignores_cancel(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Accept a cancel request without effect."""
    return server.tasks[params["id"]]


def refused_twice(server: ScriptedServer, params: Any, request: Any) -> Any:
    if server.tasks:
        raise Refusal(-32602)
    return always_new_task(server, params, request)


def versionless(server: ScriptedServer, params: Any, request: Any) -> Any:
    raise Refusal(-32001)


def accepts_missing_version(server: ScriptedServer, params: Any, request: Any) -> Any:
    """Reject only version 99.0 and accept requests without a version."""
    version = request.headers.get("A2A-Version")
    return answer(200, {"error": {"code": -32009 if version == "99.0" else -32001}})


TRACE = 'Traceback (most recent call last):\n  File "x.py", line 1'
ANSWERS: list[tuple[str, CheckStatus, str, dict[str, Any]]] = [
    (
        "card-path",
        WARN,
        "https://agents.example/.well-known/agent-card.json has",
        {CARD: answer(200, card(), content_type="text/plain")},
    ),
    ("card-path", FAIL, "only at /.well-known/agent.json", {CARD: answer(404)}),
    (
        "card-old-path",
        NOTE,
        "no card at /.well-known/agent.json",
        {"/.well-known/agent.json": answer(404)},
    ),
    ("card-cache", WARN, "no ETag; no Cache-Control with max-age", {CARD: answer(200, card())}),
    (
        "card-cache",
        WARN,
        "If-None-Match with the ETag gave 200 instead of 304",
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
    (
        "send",
        FAIL,
        "the message was rejected: HTTP 200 -32603 InternalError",
        {"send": Refusal(-32603)},
    ),
    ("send", SKIPPED, "the first message got no reply (it did not answer in", {"send": lost()}),
    ("send", OK, "a message without a task", {"send": direct}),
    ("send", FAIL, "the message has no role", {"send": {"msg": {"messageId": "m"}}}),
    ("send", FAIL, "neither a task nor a message", {"send": {"odd": 1}}),
    ("send", FAIL, "neither a task nor a message", {"send": 7}),
    ("send", FAIL, "the task has no contextId", {"send": task(contextId="")}),
    ("send", FAIL, "unknown state: 'DONE'", {"send": task("DONE")}),
    ("send", FAIL, "unknown state: None", {"send": task(status=7)}),
    (
        "send",
        FAIL,
        "1.0 requires TASK_STATE_COMPLETED, got 'completed'",
        {"send": task("completed")},
    ),
    ("send", WARN, "the task of a short greeting is failed", {"send": task("TASK_STATE_FAILED")}),
    (
        "send",
        WARN,
        "the timestamp '2026-01-01T00:00:00+09:00' is not UTC such",
        {
            "send": task(
                status={"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00+09:00"}
            )
        },
    ),
    ("get", FAIL, "the new task cannot be read: HTTP 200 -32001", {"get": Refusal(-32001)}),
    ("get", WARN, "1 messages although", {"get": {"id": "t1", "status": {}, "history": [{}]}}),
    ("get", SKIPPED, "the agent replies without a task", {"send": direct}),
    ("get", SKIPPED, "the first message was rejected: HTTP 200 -32602", {"send": Refusal(-32602)}),
    ("get", SKIPPED, "the first message got no reply (it did not answer in", {"send": lost()}),
    (
        "unknown-task",
        FAIL,
        "an unknown task was returned (a result (HTTP 200))",
        {"get": finds_any_task},
    ),
    ("unknown-task", FAIL, "an internal error: HTTP 500", {"get": answer(500, b"<html>")}),
    ("unknown-task", FAIL, "an internal error", {"get": Refusal(-32603)}),
    ("unknown-task", WARN, "with HTTP 200 -32602", {"get": Refusal(-32602)}),
    ("unknown-task", WARN, "with HTTP 200 -31999", {"get": Refusal(-31999)}),
    (
        "unknown-task",
        SKIPPED,
        "the server requires other credentials: HTTP 403 -32040",
        {"get": Refusal(-32040, 403)},
    ),
    ("list", FAIL, "rejected: HTTP 200 -32601 MethodNotFoundError", {"list": Refusal(-32601)}),
    ("list", FAIL, "the page has no tasks", {"list": {}}),
    ("list", FAIL, "the page has no tasks", {"list": 7}),
    (
        "message-to-unknown",
        FAIL,
        "the message was accepted although its task does not exist",
        {"send": always_new_task},
    ),
    (
        "message-to-ended",
        FAIL,
        "the task continued although it had ended (a result (HTTP",
        {"send": always_new_task},
    ),
    ("message-to-ended", SKIPPED, "the task is in an unknown state", {"send": task("X")}),
    (
        "message-to-ended",
        SKIPPED,
        "the task is working",
        {"send": task("TASK_STATE_WORKING")},
    ),
    ("cancel-ended", FAIL, "was canceled", {"cancel": ignores_cancel}),
    ("cancel", SKIPPED, "no task to cancel", {"send": only_waiting}),
    ("cancel", SKIPPED, "the task ended before it could be canceled", {"send": always_new_task}),
    ("cancel", FAIL, "cancel gave HTTP 200 -32004", {"send": slow, "cancel": Refusal(-32004)}),
    (
        "cancel",
        FAIL,
        "first canceled, then completed",
        {"send": slow, "cancel": completes_after_cancel},
    ),
    ("cancel", WARN, "the task is working after", {"send": slow, "cancel": ignores_cancel}),
    ("cancel", OK, "canceled, and it stays canceled", {"send": slow}),
    ("idempotent", NOTE, "a duplicate messageId was processed twice", {"send": always_new_task}),
    (
        "idempotent",
        NOTE,
        "the duplicate message is rejected: HTTP 200 -32602",
        {"send": refused_twice},
    ),
    (
        "versions",
        FAIL,
        "a request of version 99.0 was accepted (a result (HTTP",
        {"/": answer(200, {"result": {}})},
    ),
    ("versions", WARN, "instead of -32009", {"/": answer(200, {"error": {"code": -32602}})}),
    ("versions", SKIPPED, "credentials", {"/": answer(401, {"error": {}})}),
    (
        "versions",
        WARN,
        "a 1.0 method without A2A-Version is accepted as 1.0",
        {"/": accepts_missing_version},
    ),
    ("stream", FAIL, "instead of a stream", {"stream": {"task": {}}}),
    (
        "stream",
        SKIPPED,
        "there was no stream (it did not answer in time); see the",
        {"stream": lost()},
    ),
    ("stream", FAIL, "the first event is neither", {"stream": [("", {"statusUpdate": {}})]}),
    (
        "stream",
        FAIL,
        "it ended while the task was working",
        {"stream": [("", task("TASK_STATE_WORKING"))]},
    ),
    (
        "stream",
        FAIL,
        "it ended while the task was in an unknown state",
        {"stream": [("", task("X"))]},
    ),
    (
        "stream",
        FAIL,
        "1 events have no known content",
        {"stream": [("", task()), ("", {"odd": 1})]},
    ),
    (
        "stream",
        FAIL,
        "1 events have no known content; the first event is",
        {"stream": [("", 7), ("", task())]},
    ),
    ("stream", FAIL, "the stream did not end after 500 events", {"stream": [("", task())] * 501}),
    ("stream", OK, "1 events, message", {"stream": [("", {"message": {}})]}),
    ("resume", NOTE, "events have no id", {"stream": [("", task())]}),
    ("resume", SKIPPED, "the stream had only one event", {"stream": [("1", task())]}),
    ("resume", SKIPPED, "the stream contains no task", {"stream": [("1", {"message": {}})]}),
    ("resume", SKIPPED, "there was no stream; see the check stream", {"stream": Refusal(-32004)}),
    (
        "resume",
        SKIPPED,
        "there was no stream (it did not answer in time); see the",
        {"stream": lost()},
    ),
    ("resume", NOTE, "gave HTTP 200 -32004", {"subscribe": Refusal(-32004)}),
    (
        "resume",
        NOTE,
        "missed events: 2; received: 1, 2, 3, 4, 5, 6, …",
        {"subscribe": [(str(n), {}) for n in range(1, 8)]},
    ),
    (
        "resume",
        NOTE,
        "missed events: 2; received: none",
        {"subscribe": answer(200, [], x_events="1")},
    ),
    ("subscribe", SKIPPED, "the stream contains no task", {"stream": [("1", {"message": {}})]}),
    (
        "subscribe",
        FAIL,
        "the subscription does not start with the current task",
        {"subscribe": [("1", {"statusUpdate": {}})]},
    ),
    ("subscribe", FAIL, "the task is gone", {"get": Refusal(-32001)}),
    ("subscribe", OK, "subscribed again", {"subscribe": [("1", task())]}),
    (
        "subscribe",
        WARN,
        "rejected, but with HTTP 200 -32602 InvalidParamsError",
        {"subscribe": Refusal(-32602)},
    ),
    (
        "extended-card",
        FAIL,
        "/agent/authenticatedExtendedCard returns it",
        {"/agent/authenticatedExtendedCard": answer(200, card())},
    ),
    (
        "extended-card",
        FAIL,
        "declared, but an authenticated caller gets HTTP 200",
        {"extended_card": Refusal(-32007)},
    ),
    ("foreign-task", FAIL, "another caller can read the task", {"get": finds_any_task}),
    ("foreign-task", FAIL, "another caller can list the task", {"list": {"tasks": [{"id": "t1"}]}}),
    (
        "foreign-context",
        FAIL,
        "another caller can continue the context (a result (HTTP",
        {"send": always_new_task},
    ),
    ("foreign-context", SKIPPED, "has no contextId", {"send": task(contextId="")}),
    ("push-targets", FAIL, "a private address is accepted", {"push_create": {}}),
    (
        "push-works",
        WARN,
        "a public https URL is rejected: HTTP 200 -32602",
        {"push_create": Refusal(-32602)},
    ),
    ("push-works", FAIL, "cannot be deleted", {"push_delete": Refusal(-32602)}),
    ("broken-json", FAIL, "an internal error", {"/": answer(500, b"")}),
    (
        "broken-json",
        FAIL,
        "the response contains a stack trace",
        {"/": answer(200, {"error": {"code": -32700, "message": TRACE}})},
    ),
    ("wrong-params", FAIL, "it was accepted (a result (HTTP 200))", {"send": task()}),
    (
        "unknown-method",
        FAIL,
        "it was accepted (a result (HTTP 200))",
        {"/": answer(200, {"result": 1})},
    ),
    ("deep-nesting", FAIL, "it results in HTTP 500", {"/": answer(500, b"")}),
    ("deep-nesting", FAIL, "it was accepted", {"/": answer(200, {"result": 1})}),
    ("deep-nesting", SKIPPED, "rejected the credentials (HTTP 401)", {"/": answer(401, b"")}),
    (
        "deep-nesting",
        WARN,
        "a client error is reported as an internal error: HTTP 200",
        {"/": answer(200, {"error": {"code": -32603}})},
    ),
    (
        "size-limit",
        FAIL,
        "a request of 32 MiB is accepted: HTTP 200 -32001",
        {"/": answer(200, {"error": {"code": -32001}})},
    ),
    ("size-limit", FAIL, "32 MiB result in HTTP 500", {"/": answer(500, b"")}),
    ("size-limit", OK, "before it was read", {"/": answer(401, b"")}),
    ("header-limit", FAIL, "the connection was closed (it did not answer in time),", {"/": lost()}),
    ("header-limit", FAIL, "a header of 100 kB results in HTTP 502", {"/": answer(502, b"")}),
    (
        "header-limit",
        WARN,
        "a header of 100 kB is accepted: HTTP 200 -32001",
        {"/": answer(200, {"error": {"code": -32001}})},
    ),
]


@pytest.mark.parametrize(("check", "status", "observation", "overrides"), ANSWERS)
async def test_response_is_checked(
    check: str, status: CheckStatus, observation: str, overrides: dict[str, Any]
) -> None:
    result = await run_check(
        check, ScriptedServer(NEW | {"capabilities": card()["capabilities"]}, **overrides)
    )
    assert (result.status, observation in result.observation) == (status, True), result.observation
    assert bool(result.fix) == (status in (NOTE, WARN, FAIL))


async def test_failed_delete_is_warning_in_0_3() -> None:
    result = await run_check("push-works", ScriptedServer(V03, push_delete=Refusal(-32601)))
    assert (result.status, "cannot be deleted" in result.observation) == (WARN, True)


async def test_any_rejection_is_accepted_in_0_3() -> None:
    result = await run_check("unknown-task", ScriptedServer(V03, get=Refusal(-32600)))
    assert (result.status, result.observation) == (
        OK,
        "rejected with HTTP 200 -32600 InvalidRequestError",
    )


ANONYMOUSS = ["send", "get", "stream", "resume", "subscribe", "push-works", "idempotent"]


@pytest.mark.parametrize("check", ANONYMOUSS)
async def test_check_is_skipped_without_token(check: str) -> None:
    result = await run_check(check, ScriptedServer(), ANONYMOUS)
    assert (result.status, "pass them with --token-env" in result.observation) == (SKIPPED, True)


@pytest.mark.parametrize("check", ["foreign-task", "foreign-context"])
async def test_check_is_skipped_without_second_token(check: str) -> None:
    result = await run_check(check, ScriptedServer(), Target(url=URL, token=ANN))
    assert (result.status, "--second-token-env" in result.observation) == (SKIPPED, True)


async def test_rejection_of_anonymous_callers_is_ok() -> None:
    assert (await run_check("list", ScriptedServer(), ANONYMOUS)).status is OK
    assert (await run_check("extended-card", ScriptedServer(), ANONYMOUS)).status is OK


async def test_open_server_is_warning_on_loopback_and_failure_elsewhere() -> None:
    assert (await run_check("auth-declared", open_server(), ANONYMOUS)).status is FAIL
    home = loopback_server(card(securitySchemes=None, securityRequirements=None))
    assert (await run_check("auth-declared", home, LOCAL)).status is WARN
    assert (await run_check("https", home, LOCAL)).status is WARN
    assert (await run_check("hsts", home, LOCAL)).status is SKIPPED
    assert (await run_check("auth-enforced", home, LOCAL)).status is SKIPPED
    assert (await run_check("extended-card", home, LOCAL)).status is FAIL
    listed = await run_check("list", home, LOCAL)
    assert (listed.status, listed.observation) == (
        WARN,
        "anonymous callers can list the tasks of all callers",
    )


async def test_loopback_server_may_notify_localhost() -> None:
    def local_alone(server: ScriptedServer, params: Any, request: Any) -> Any:
        if b"localhost" in request.body:
            return {}
        raise Refusal(-32602)

    result = await run_check(
        "push-targets", loopback_server(card(), push_create=local_alone), LOCAL
    )
    assert (result.status, "the server's own machine" in result.observation) == (WARN, True)


async def test_unverified_credentials_fail() -> None:
    result = await run_check("auth-enforced", open_server(card()))
    assert result.status is FAIL
    assert "without credentials are accepted" in result.observation
    assert "wrong credentials are accepted" in result.observation


@pytest.mark.parametrize(
    ("refusal", "observation"),
    [
        (answer(401, {}), "401 without WWW-Authenticate"),
        (
            answer(200, {"error": {"code": -32600}}),
            "rejected with HTTP 200 -32600 InvalidRequestError instead",
        ),
    ],
)
async def test_rejection_without_scheme_is_warning(
    refusal: ProbeResponse, observation: str
) -> None:
    result = await run_check("auth-enforced", ScriptedServer(**{"/": refusal}))
    assert (result.status, observation in result.observation) == (WARN, True)


async def test_undeclared_capabilities_must_be_rejected() -> None:
    refuses = {
        "stream": Refusal(-32004),
        "push_create": Refusal(-32003),
        "extended_card": Refusal(-32004),
    }
    for check in ("stream", "push-undeclared", "extended-card"):
        assert (await run_check(check, ScriptedServer(NOTHING_DECLARED, **refuses))).status is OK


async def test_stream_without_events_or_with_error_fails() -> None:
    empty = ScriptedServer(stream=answer(200, [], x_events="1"))
    assert (await run_check("stream", empty)).observation == "the stream has no events"
    event = {"id": "", "data": json.dumps({"error": {"code": -32603}})}
    broken = ScriptedServer(stream=answer(200, [event], x_events="1"))
    assert "an error in the stream" in (await run_check("stream", broken)).observation


async def test_running_task_must_be_subscribable() -> None:
    server = ScriptedServer()
    server.state = "working"
    result = await run_check("subscribe", server)
    assert (result.status, "not subscribed" in result.observation) == (FAIL, True)


async def test_task_id_is_read_from_status_update() -> None:
    update = {"taskId": "t9", "status": {"state": "TASK_STATE_COMPLETED"}}
    result = await run_check("resume", ScriptedServer(stream=[("", {"statusUpdate": update})]))
    assert result.status is NOTE


async def test_task_of_other_caller_must_look_unknown() -> None:
    def changed_error(server: ScriptedServer, params: Any, request: Any) -> Any:
        raise Refusal(-32001 if params["id"] in server.tasks else -32602)

    result = await run_check("foreign-task", ScriptedServer(get=changed_error))
    assert (result.status, "differ" in result.observation) == (WARN, True)
    assert (await run_check("foreign-task", ScriptedServer(V03))).status is OK


async def test_unknown_path_must_return_404() -> None:
    path = "/acc-doctor/no/such/path"
    assert (
        await run_check("unknown-method", ScriptedServer(HTTP, **{path: answer(200)}))
    ).status is FAIL


@pytest.mark.parametrize("body", [b"[]", b'{"error": {"details": [7]}}', b'{"error": 7}'])
async def test_malformed_errors_are_read(body: bytes) -> None:
    result = await run_check(
        "unknown-task", ScriptedServer(HTTP, get=ProbeResponse(status=404, body=body))
    )
    assert (result.status, "rejected, but with HTTP 404" in result.observation) == (WARN, True)


async def test_http_rejects_invalid_json_with_status() -> None:
    for check in ("broken-json", "wrong-params", "deep-nesting"):
        assert (await run_check(check, ScriptedServer(HTTP))).status is OK


async def test_http_rejection_of_credentials_is_no_rejection_of_input() -> None:
    server = ScriptedServer(HTTP, **{"/message:send": answer(403, b"")})
    assert (await run_check("broken-json", server)).status is SKIPPED


async def test_unsupported_interface_is_mentioned() -> None:
    document = card()
    document["supportedInterfaces"].append(interface(protocolBinding="GRPC"))
    result = await run_check("interfaces-answer", ScriptedServer(document))
    assert (result.status, "not tested: GRPC" in result.observation) == (OK, True)


async def test_large_request_may_be_rejected_by_message() -> None:
    def worded(server: ScriptedServer, params: Any, request: Any) -> Any:
        is_large = len(request.body) > 10_000
        return answer(400, {"error": {"message": "too large" if is_large else "no message"}})

    path = "/message:send"
    assert (await run_check("size-limit", ScriptedServer(HTTP, **{path: worded}))).status is OK
    silent = ScriptedServer(HTTP, **{path: answer(400, {"error": {"message": "no message"}})})
    assert (await run_check("size-limit", silent)).status is FAIL


async def test_server_that_stops_after_large_request_fails() -> None:
    def fragile(server: ScriptedServer, params: Any, request: Any) -> Any:
        if len(server.requests) > 3:
            raise lost()
        return answer(200, {"error": {"code": -32001}})

    result = await run_check("size-limit", ScriptedServer(**{"/": fragile}))
    assert (result.status, "stopped responding" in result.observation) == (FAIL, True)


async def test_closed_connection_is_rejection() -> None:
    def large(server: ScriptedServer, params: Any, request: Any) -> Any:
        if len(request.body) + len(str(request.headers)) > 50_000:
            raise lost("the connection broke")
        return answer(200, {"error": {"code": -32001}})

    for check in ("size-limit", "header-limit"):
        assert (await run_check(check, ScriptedServer(**{"/": large}))).status is OK
