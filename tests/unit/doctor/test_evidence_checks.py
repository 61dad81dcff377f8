"""Checks that must not report what they have not seen, deadlines, and the checklist."""

import asyncio
import base64
import json
from typing import Any

import pytest
from scripted_server import TOKENS, URL, Refusal, ScriptedServer, card

from acc.application.doctor import server as server_module
from acc.application.doctor.checklist import CHECKLIST
from acc.application.doctor.findings import CheckStatus
from acc.application.doctor.server import Target
from acc.application.use_cases.diagnose_server import (
    CheckResult,
    DiagnoseServerUseCase,
    Diagnosis,
)
from acc.ports.outbound.remote_ports import ProbeRequest, ProbeResponse
from acc.testing import SequentialIds

ANN, BOB = TOKENS
REST_V03 = card(
    supportedInterfaces=None, url=URL, preferredTransport="HTTP+JSON", additionalInterfaces=[]
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_STREAM_END_SECONDS", 0.01)


async def no_pause(seconds: float) -> None:
    pass


async def diagnose(
    server: ScriptedServer, *only: str, token: str = ANN, check_timeout: float = 5.0
) -> Diagnosis:
    use_case = DiagnoseServerUseCase(
        server, ids=SequentialIds(), pause=no_pause, check_timeout=check_timeout
    )
    return await use_case.run(Target(url=URL, token=token, second_token=BOB), only=only)


async def run_check(name: str, server: ScriptedServer, **options: Any) -> CheckResult:
    return (await diagnose(server, name, **options)).results[0]


# Deadlines


async def test_stream_that_stays_open_while_the_task_waits_is_accepted() -> None:
    server = ScriptedServer()
    server.state, server.stays_open = "input_required", True
    server.overrides["subscribe"] = lambda server, params, request: [
        ("3", {"task": server.tasks[params["id"]]})
    ]
    results = {one.id: one.status for one in (await diagnose(server)).results}
    assert (results["stream"], results["subscribe"]) == (CheckStatus.OK, CheckStatus.OK)


async def test_stream_that_stays_open_after_the_task_fails() -> None:
    server = ScriptedServer()
    server.stays_open = True
    result = await run_check("stream", server)
    assert result.status is CheckStatus.FAIL
    assert "the stream did not end when the task did" in result.observation


async def test_check_without_an_end_is_stopped() -> None:
    class SilentServer(ScriptedServer):
        async def exchange(self, request: ProbeRequest) -> ProbeResponse:
            if b"GetTask" in request.body:
                await asyncio.Event().wait()
            return await super().exchange(request)

    async with asyncio.timeout(5):
        result = await run_check("unknown-task", SilentServer(), check_timeout=0.05)
    assert (result.status, "0.05 seconds" in result.observation) == (CheckStatus.WARN, True)


# False results


@pytest.mark.parametrize("timestamp", ["2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.1Z"])
async def test_every_notation_of_utc_is_accepted(timestamp: str) -> None:
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": timestamp}
    sent = {"task": {"id": "t", "contextId": "c", "status": status}}
    result = await run_check("send", ScriptedServer(send=lambda *_: sent))
    assert result.status is CheckStatus.OK


@pytest.mark.parametrize(
    ("check", "operation", "code", "status"),
    [("cancel-ended", "cancel", -32002, 409), ("message-to-ended", "send", -32004, 501)],
)
async def test_statuses_of_0_3_over_http_are_rejections(
    check: str, operation: str, code: int, status: int
) -> None:
    def refused(server: ScriptedServer, params: Any, request: ProbeRequest) -> Any:
        if operation == "send" and "taskId" not in params["message"]:
            return server.do_send(params, "ann", request)
        return ProbeResponse(status=status, body=b"{}")

    result = await run_check(check, ScriptedServer(REST_V03, **{operation: refused}))
    assert result.status is CheckStatus.OK, result.observation


async def test_task_that_ended_before_its_cancellation_is_no_failure_over_0_3_http() -> None:
    server = ScriptedServer(REST_V03, cancel=ProbeResponse(status=409, body=b"{}"))
    assert (await run_check("cancel", server)).status is CheckStatus.SKIPPED


async def test_404_without_a_code_is_no_rejection_of_credentials() -> None:
    server = ScriptedServer(REST_V03, get=ProbeResponse(status=404, body=b"{}"))
    server.is_open = True
    assert (await run_check("auth-enforced", server)).status is CheckStatus.FAIL


@pytest.mark.parametrize(
    ("url", "binding", "status"),
    [
        ("agents.example:50051", "GRPC", CheckStatus.OK),
        ("[::1]:50051", "GRPC", CheckStatus.OK),
        ("agents.example", "GRPC", CheckStatus.FAIL),
        ("agents.example:80", "JSONRPC", CheckStatus.FAIL),
    ],
)
async def test_grpc_interface_is_a_host_with_a_port(
    url: str, binding: str, status: CheckStatus
) -> None:
    document = card()
    document["supportedInterfaces"].append(
        {"url": url, "protocolBinding": binding, "protocolVersion": "1.0"}
    )
    assert (await run_check("card-interfaces", ScriptedServer(document))).status is status


# Evidence


def jwt() -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"RS256"}').decode().rstrip("=")
    return f"{header}.e30.c2ln"


@pytest.mark.parametrize(
    ("scheme", "token", "status"),
    [
        ({"type": "http", "scheme": "bearer"}, ANN, CheckStatus.NOTE),
        ({"type": "http", "scheme": "bearer"}, jwt(), CheckStatus.OK),
        ({"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}, ANN, CheckStatus.OK),
        ({"httpAuthSecurityScheme": {"bearerFormat": "JWT"}}, ANN, CheckStatus.OK),
        ({"type": "oauth2", "flows": {}}, ANN, CheckStatus.OK),
        ({"type": "openIdConnect", "openIdConnectUrl": "x"}, ANN, CheckStatus.OK),
        ({"type": "apiKey", "in": "header", "name": "k"}, "a.b.c", CheckStatus.NOTE),
    ],
)
async def test_static_tokens_are_not_reported_as_oauth2_or_jwt(
    scheme: dict[str, Any], token: str, status: CheckStatus
) -> None:
    server = ScriptedServer(card(securitySchemes={"one": scheme}))
    assert (await run_check("token-kind", server, token=token)).status is status


async def test_schemas_are_found_in_extensions() -> None:
    params = {"skills": {"greet": {"inputSchema": {"type": "object"}}}}
    capabilities = {"extensions": [{"uri": "urn:x:contracts", "params": params}]}
    result = await run_check("schemas", ScriptedServer(card(capabilities=capabilities)))
    assert (result.status, "urn:x:contracts" in result.observation) == (CheckStatus.OK, True)


async def test_returned_trace_id_is_found() -> None:
    def traced(server: ScriptedServer, params: Any, request: ProbeRequest) -> Any:
        raise Refusal(-32001, 200, {"traceresponse": request.headers["traceparent"]})

    assert (await run_check("trace-context", ScriptedServer(get=traced))).status is CheckStatus.OK


async def test_public_keys_and_rate_limit_headers_are_found() -> None:
    keys = ProbeResponse(status=200, body=json.dumps({"keys": [{"kty": "EC"}]}).encode())
    server = ScriptedServer(**{"/.well-known/jwks.json": keys})
    assert (await run_check("webhook-keys", server)).status is CheckStatus.OK

    def limited(server: ScriptedServer, params: Any, request: ProbeRequest) -> Any:
        return ProbeResponse(status=200, headers={"ratelimit": "r=1"}, body=b'{"result": {}}')

    assert (await run_check("rate-limit", ScriptedServer(send=limited))).status is CheckStatus.OK


async def test_circuits_and_rate_limits_in_the_status_are_found() -> None:
    def server(**document: Any) -> ScriptedServer:
        body = json.dumps(document).encode()
        return ScriptedServer(**{"/status": ProbeResponse(status=200, body=body)})

    healthy = server(circuits=[], rateLimits=["100 per 1 minute"])
    assert (await run_check("circuits", healthy)).status is CheckStatus.OK
    limits = await run_check("rate-limit", healthy)
    assert (limits.status, "100 per 1 minute" in limits.observation) == (CheckStatus.OK, True)
    circuit = {"name": "https://w.example", "state": "open", "nextAttempt": "2026-11-18T09:00:00Z"}
    opened = await run_check("circuits", server(circuits=[circuit], rateLimits=[]))
    assert (opened.status, "https://w.example" in opened.observation) == (CheckStatus.WARN, True)
    for odd in (server(circuits={}), server(rateLimits=7), server(circuits=None)):
        assert (await run_check("circuits", odd)).status is CheckStatus.NOTE
        assert (await run_check("rate-limit", odd)).status is CheckStatus.NOTE


# The checklist


async def test_checklist_has_a_line_for_every_item_and_never_claims_unseen_ones() -> None:
    diagnosis = await diagnose(ScriptedServer())
    lines = {line.title_ja: line.status for line in diagnosis.checklist}
    assert list(lines.values()) == [
        *("ok", "not seen", "ok", "note", "not seen", "not seen", "not seen", "ok"),
        *("not seen", "not seen", "not seen"),
    ]
    assert len(lines) == len(CHECKLIST) == 11
    assert lines["サーキットブレーカーパターンを適用"] == "not seen"
    assert (await diagnose(ScriptedServer(), "send")).checklist == ()


async def test_checklist_shows_the_worst_result_of_a_line() -> None:
    server = ScriptedServer(**{"/.well-known/agent-card.json": ProbeResponse(status=404)})
    diagnosis = await diagnose(server)
    first = diagnosis.checklist[0]
    assert (first.status, "only at" in first.observation) == ("fail", True)


async def test_missing_path_of_the_interface_fails_one_check_and_skips_others() -> None:
    missing = ProbeResponse(status=404, headers={}, body=b'{"error": {"code": 404}}')
    interfaces = [{"url": f"{URL}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    server = ScriptedServer(card(supportedInterfaces=interfaces), **{"/": missing})
    names = ("send", "auth-enforced", "extended-card", "size-limit", "broken-json")
    results = {one.id: one for one in (await diagnose(server, *names)).results}
    assert all("404" in one.observation for one in results.values())
    failed = [one.id for one in results.values() if one.status is CheckStatus.FAIL]
    skipped = [one.id for one in results.values() if one.status is CheckStatus.SKIPPED]
    assert (failed, sorted(skipped)) == (["send"], sorted(set(names) - {"send"}))
