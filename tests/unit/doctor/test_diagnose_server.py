"""DiagnoseServerUseCase: cards, tokens, cleanup and the report."""

import json
from typing import Any

import pytest
from scripted_server import TOKENS, URL, Refusal, ScriptedServer, card, lost

from acc.application.doctor.checklist import CHECKS, MANUAL_CHECKS, Check
from acc.application.doctor.findings import Area, CheckStatus
from acc.application.doctor.server import MARKER, Target
from acc.application.use_cases.diagnose_server import DiagnoseServerUseCase, Diagnosis
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse, RemoteFailed
from acc.ports.outbound.remote_ports import ProbeResponse
from acc.testing import SequentialIds

ANN, BOB = TOKENS
BOTH = Target(url=URL, token=ANN, second_token=BOB)


async def no_pause(seconds: float) -> None:
    assert seconds <= 1


async def diagnose(server: ScriptedServer, *only: str, target: Target = BOTH) -> Diagnosis:
    use_case = DiagnoseServerUseCase(server, ids=SequentialIds(), pause=no_pause)
    return await use_case.run(target, only=only)


def statuses(diagnosis: Diagnosis) -> dict[str, CheckStatus]:
    return {line.id: line.status for line in diagnosis.results}


def only_interface(binding: str, version: str) -> dict[str, Any]:
    each = {"url": f"{URL}/", "protocolBinding": binding, "protocolVersion": version}
    if version == "1.0":
        return card(supportedInterfaces=[each], url=None, protocolVersion=None)
    return card(
        supportedInterfaces=None, url=f"{URL}/", preferredTransport=binding, additionalInterfaces=[]
    )


async def test_correct_server_passes_all_checks() -> None:
    diagnosis = await diagnose(ScriptedServer())
    odd = {name: v for name, v in statuses(diagnosis).items() if v is not CheckStatus.OK}
    not_seen = ("schemas", "trace-context", "token-kind", "webhook-keys", "rate-limit", "circuits")
    assert odd == {
        "card-signature": CheckStatus.SKIPPED,
        "push-undeclared": CheckStatus.SKIPPED,
        **dict.fromkeys(not_seen, CheckStatus.NOTE),
    }
    assert diagnosis.manual_checks == MANUAL_CHECKS
    assert (diagnosis.agent, diagnosis.interface, diagnosis.has_failed) == (
        "greeter",
        "JSONRPC 1.0",
        False,
    )


async def test_server_without_supported_interface_is_not_tested() -> None:
    server = ScriptedServer(only_interface("GRPC", "1.0"))
    diagnosis = await diagnose(server)
    assert diagnosis.not_tested.startswith("the card lists GRPC 1.0; supported are JSONRPC and")
    assert statuses(diagnosis)["send"] is CheckStatus.SKIPPED
    assert (await diagnose(server, "card-skills")).not_tested == ""
    nowhere = ScriptedServer(card(supportedInterfaces=[], url=None))
    assert (await diagnose(nowhere, "send")).not_tested.startswith("the card lists no interface; ")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_every_version_and_binding_is_supported(binding: str, version: str) -> None:
    diagnosis = await diagnose(ScriptedServer(only_interface(binding, version)))
    assert diagnosis.interface == f"{binding} {version}"
    assert [line for line in diagnosis.results if line.status is CheckStatus.FAIL] == []
    assert statuses(diagnosis)["send"] is CheckStatus.OK
    assert statuses(diagnosis)["idempotent"] is CheckStatus.OK


async def test_tenant_of_card_is_sent() -> None:
    for binding in ("JSONRPC", "HTTP+JSON"):
        document = only_interface(binding, "1.0")
        document["supportedInterfaces"][0]["tenant"] = "acme"
        server = ScriptedServer(document)
        await diagnose(server, "unknown-task")
        asked = server.requests[-1]
        assert b'"tenant": "acme"' in asked.body or "/acme/tasks/" in asked.url


async def test_running_tasks_are_canceled() -> None:
    server = ScriptedServer()
    server.state = "working"
    diagnosis = await diagnose(server, "send")
    assert diagnosis.results[0].status is CheckStatus.WARN
    assert server.tasks["t1"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_failed_cancellation_is_ignored() -> None:
    server = ScriptedServer(cancel=lost())
    server.state = "working"
    assert (await diagnose(server, "send")).results[0].status is CheckStatus.WARN


async def test_few_harmless_messages_are_sent() -> None:
    server = ScriptedServer()
    await diagnose(server)
    sent = [json.loads(r.body) for r in server.requests if b"SendMessage" in r.body]
    texts = {p["text"] for call in sent for p in _parts(call["params"]["message"])}
    assert texts == {MARKER}
    assert len(server.requests) < 70


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = message["parts"]
    return parts if isinstance(parts, list) else []


async def test_tokens_are_sent_to_target_host_only() -> None:
    elsewhere = "https://other.example"
    document = card(
        url=None,
        supportedInterfaces=[
            {"url": f"{elsewhere}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    )
    server = ScriptedServer(document)
    diagnosis = await diagnose(server, "card-interfaces", "send", "get")
    assert statuses(diagnosis)["send"] is CheckStatus.OK
    assert statuses(diagnosis)["card-interfaces"] is CheckStatus.WARN
    assert {request.url.startswith(URL) for request in server.requests} == {True}


async def test_other_checks_are_skipped_without_card() -> None:
    server = ScriptedServer(document=[])
    diagnosis = await diagnose(server)
    assert statuses(diagnosis)["card-path"] is CheckStatus.FAIL
    assert "no card" in diagnosis.results[0].observation
    assert statuses(diagnosis)["send"] is CheckStatus.SKIPPED
    assert (diagnosis.agent, diagnosis.interface) == ("", "")


async def test_url_may_be_card_or_have_path() -> None:
    diagnosis = await diagnose(
        ScriptedServer(),
        "card-path",
        target=Target(url=f"{URL}/.well-known/agent-card.json"),
    )
    assert diagnosis.results[0].status is CheckStatus.OK
    diagnosis = await diagnose(
        ScriptedServer(), "card-path", target=Target(url=f"{URL}/agents/one")
    )
    assert diagnosis.results[0].observation == f"{URL}/.well-known/agent-card.json"


NAMED = f"{URL}/agents/one"
HTML = ProbeResponse(status=200, headers={"content-type": "text/html"}, body=b"<html>hi</html>")


@pytest.mark.parametrize(
    ("path", "broken", "observation"),
    [
        ("/.well-known/agent-card.json", HTML, "is not a JSON object (content type text/html)"),
        ("/.well-known/agent-card.json", ProbeResponse(status=200), "content type (none)"),
        ("/.well-known/agent-card.json", ProbeResponse(status=500), "gave 500"),
        ("/.well-known/agent-card.json", ProbeResponse(status=401), "gave 401"),
        ("/.well-known/agent.json", HTML, "agents/one/.well-known/agent.json is not a JSON object"),
    ],
)
async def test_invalid_card_fails_without_fallback_to_root(
    path: str, broken: ProbeResponse, observation: str
) -> None:
    server = ScriptedServer(**{f"/agents/one{path}": broken})
    for url in (NAMED, f"{NAMED}/", f"{NAMED}{path}"):
        diagnosis = await diagnose(server, "card-path", "send", target=Target(url=url))
        assert [line.status for line in diagnosis.results] == [
            CheckStatus.FAIL,
            CheckStatus.SKIPPED,
        ]
        assert observation in diagnosis.results[0].observation
        assert (diagnosis.agent, diagnosis.fallback_url) == ("", "")
    assert {request.url.startswith(NAMED) for request in server.requests} == {True}


async def test_invalid_card_at_its_own_url_fails() -> None:
    server = ScriptedServer(**{"/cards/one.json": HTML})
    diagnosis = await diagnose(server, "card-path", target=Target(url=f"{URL}/cards/one.json"))
    assert diagnosis.results[0].status is CheckStatus.FAIL
    assert f"{URL}/cards/one.json is not a JSON object" in diagnosis.results[0].observation


async def test_card_of_root_is_used_for_path_without_card() -> None:
    for path in ("/agents/one", "/cards/one.json"):
        diagnosis = await diagnose(ScriptedServer(), "card-path", target=Target(url=f"{URL}{path}"))
        assert diagnosis.results[0].status is CheckStatus.OK
        assert (diagnosis.agent, diagnosis.fallback_url) == ("greeter", URL)
    for path in ("", "/", "/.well-known/agent-card.json", "/.well-known/agent.json"):
        diagnosis = await diagnose(ScriptedServer(), "card-path", target=Target(url=f"{URL}{path}"))
        assert (diagnosis.agent, diagnosis.fallback_url) == ("greeter", "")


async def test_card_at_legacy_path_is_used_if_other_is_invalid() -> None:
    server = ScriptedServer(**{"/.well-known/agent-card.json": HTML})
    diagnosis = await diagnose(server, "card-path", "send")
    assert [line.status for line in diagnosis.results] == [CheckStatus.FAIL, CheckStatus.OK]
    assert "only at /.well-known/agent.json: " in diagnosis.results[0].observation
    assert "agent-card.json is not a JSON object" in diagnosis.results[0].observation


async def test_legacy_card_of_path_precedes_card_of_root() -> None:
    own = ProbeResponse(status=200, body=json.dumps(card(name="one")).encode())
    server = ScriptedServer(**{"/agents/one/.well-known/agent.json": own})
    diagnosis = await diagnose(server, "card-path", target=Target(url=NAMED))
    assert (diagnosis.agent, diagnosis.fallback_url) == ("one", "")
    assert diagnosis.results[0].observation == (
        f"the card is only at /.well-known/agent.json: {NAMED}/.well-known/agent-card.json gave 404"
    )


PACKED = InvalidResponse("it answered with Content-Encoding br")


async def test_unreadable_responses_are_reported() -> None:
    paths = ("/.well-known/agent-card.json", "/.well-known/agent.json")
    server = ScriptedServer(**dict.fromkeys(paths, PACKED))
    diagnosis = await diagnose(server, "card-path", "card-old-path", "send")
    assert [line.status for line in diagnosis.results] == [
        CheckStatus.FAIL,
        CheckStatus.NOTE,
        CheckStatus.SKIPPED,
    ]
    assert diagnosis.results[0].observation == "no card: " + "; ".join(
        f"{URL}{path} cannot be read: {PACKED}" for path in paths
    )
    assert diagnosis.results[1].observation == "an unreadable response at /.well-known/agent.json"


@pytest.mark.parametrize(("op", "after"), [("send", "get"), ("stream", "resume")])
async def test_unreadable_response_fails_its_check(op: str, after: str) -> None:
    diagnosis = await diagnose(ScriptedServer(**{op: PACKED}), op, after)
    assert [line.status for line in diagnosis.results] == [CheckStatus.FAIL, CheckStatus.SKIPPED]
    assert diagnosis.results[0].observation == str(PACKED)
    assert f"see the check {op}" in diagnosis.results[1].observation


async def test_unreadable_card_has_no_fallback() -> None:
    server = ScriptedServer(**{"/agents/one/.well-known/agent-card.json": PACKED})
    diagnosis = await diagnose(server, "card-path", target=Target(url=NAMED))
    assert diagnosis.results[0].status is CheckStatus.FAIL
    assert (diagnosis.agent, diagnosis.fallback_url) == ("", "")


async def test_protected_card_is_read_with_token() -> None:
    def guarded(server: ScriptedServer, params: Any, request: Any) -> ProbeResponse:
        if "Authorization" not in request.headers:
            return ProbeResponse(status=401)
        return server._document("/.well-known/agent-card.json", request)

    server = ScriptedServer(**{"/.well-known/agent-card.json": guarded})
    assert (await diagnose(server, "card-path")).results[0].status is CheckStatus.OK


async def test_unreachable_server_raises() -> None:
    with pytest.raises(RemoteFailed):
        await diagnose(ScriptedServer(**{"/.well-known/agent-card.json": lost()}))


@pytest.mark.parametrize(
    "url", ["agents", "ftp://a", "http://", "http://a:99999", "http://a/?x=1", "http://a/#x"]
)
def test_invalid_target_url_is_rejected(url: str) -> None:
    with pytest.raises(InvalidInput, match="is not the URL of a server"):
        Target(url=url)


async def test_unknown_check_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="unknown check 'nope'; choose from card-path"):
        await diagnose(ScriptedServer(), "nope")


async def test_timeout_fails_check() -> None:
    line = (await diagnose(ScriptedServer(get=lost()), "unknown-task")).results[0]
    assert (line.status, line.observation) == (
        CheckStatus.FAIL,
        "no response: it did not answer in time",
    )


async def test_refused_address_skips_check() -> None:
    server = ScriptedServer(get=AddressRefused("not public"))
    assert (await diagnose(server, "unknown-task")).results[0].status is CheckStatus.SKIPPED


async def test_progress_is_reported() -> None:
    begun: list[str] = []
    diagnosis = await DiagnoseServerUseCase(ScriptedServer(), ids=SequentialIds()).run(
        BOTH,
        only=["https", "hsts"],
        on_check=lambda check: begun.append(check.id),
    )
    assert begun == [result.id for result in diagnosis.results] == ["https", "hsts"]


async def test_unsupported_interface_is_not_called() -> None:
    document = card(
        url=None,
        supportedInterfaces=[{"url": URL, "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
    )
    diagnosis = await diagnose(ScriptedServer(document), "send", "card-interfaces")
    assert (diagnosis.interface, statuses(diagnosis)["send"]) == ("", CheckStatus.SKIPPED)


def test_every_check_has_title_and_section() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    for check in CHECKS:
        assert check.title and check.title_ja and check.section and check.description
    areas = [check.area for check in CHECKS]
    assert sorted(areas, key=list(Area).index) == areas, "an area's checks stand together"
    for unseen in MANUAL_CHECKS:
        assert unseen.title_ja and unseen.look_at and unseen.section


def test_check_without_docstring_has_empty_description() -> None:
    async def silent(server: Any) -> Any:
        raise Refusal(0)

    assert Check("x", Area.CARD, "", "", "", silent).description == ""
