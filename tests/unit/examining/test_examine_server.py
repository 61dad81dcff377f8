"""An examination as a whole: which servers it can visit, and what it leaves behind."""

import json
from typing import Any

import pytest
from scripted_server import TOKENS, URL, Refusal, ScriptedServer, card, lost

from acc.application.doctor.checklist import CHECKS, UNSEEN, Check
from acc.application.doctor.findings import Area, CheckStatus
from acc.application.doctor.server import MARKER, Target
from acc.application.use_cases.diagnose_server import DiagnoseServerUseCase, Diagnosis
from acc.domain.errors import AddressRefused, InvalidInput, InvalidResponse, RemoteFailed
from acc.ports.outbound.remote_ports import ProbeAnswer
from acc.testing import SequentialIds

ANN, BOB = TOKENS
BOTH = Target(url=URL, token=ANN, second_token=BOB)


async def no_pause(seconds: float) -> None:
    assert seconds <= 1


async def examine(server: ScriptedServer, *only: str, target: Target = BOTH) -> Diagnosis:
    use_case = DiagnoseServerUseCase(server, ids=SequentialIds(), pause=no_pause)
    return await use_case.run(target, only=only)


def verdicts(found: Diagnosis) -> dict[str, CheckStatus]:
    return {line.id: line.verdict for line in found.lines}


def only_interface(binding: str, version: str) -> dict[str, Any]:
    each = {"url": f"{URL}/", "protocolBinding": binding, "protocolVersion": version}
    if version == "1.0":
        return card(supportedInterfaces=[each], url=None, protocolVersion=None)
    return card(
        supportedInterfaces=None, url=f"{URL}/", preferredTransport=binding, additionalInterfaces=[]
    )


async def test_a_good_server_gets_nothing_but_ok() -> None:
    found = await examine(ScriptedServer())
    odd = {name: v for name, v in verdicts(found).items() if v is not CheckStatus.OK}
    assert odd == {"card-signature": CheckStatus.SKIPPED, "push-undeclared": CheckStatus.SKIPPED}
    assert found.unseen == UNSEEN
    assert (found.agent, found.over, found.has_failed) == ("greeter", "JSONRPC 1.0", False)


async def test_a_server_that_nobody_here_can_speak_to_is_told_as_not_examined() -> None:
    server = ScriptedServer(only_interface("GRPC", "1.0"))
    found = await examine(server)
    assert found.untried.startswith("the card names GRPC 1.0; spoken here are JSONRPC and")
    assert verdicts(found)["send"] is CheckStatus.SKIPPED
    assert (await examine(server, "card-skills")).untried == ""
    nowhere = ScriptedServer(card(supportedInterfaces=[], url=None))
    assert (await examine(nowhere, "send")).untried.startswith("the card names nothing; ")


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_every_generation_and_binding_can_be_examined(binding: str, version: str) -> None:
    found = await examine(ScriptedServer(only_interface(binding, version)))
    assert found.over == f"{binding} {version}"
    assert [line for line in found.lines if line.verdict is CheckStatus.FAIL] == []
    assert verdicts(found)["send"] is CheckStatus.OK
    assert verdicts(found)["idempotent"] is CheckStatus.OK


async def test_a_tenant_of_the_card_goes_along() -> None:
    for binding in ("JSONRPC", "HTTP+JSON"):
        document = only_interface(binding, "1.0")
        document["supportedInterfaces"][0]["tenant"] = "acme"
        server = ScriptedServer(document)
        await examine(server, "unknown-task")
        asked = server.requests[-1]
        assert b'"tenant": "acme"' in asked.body or "/acme/tasks/" in asked.url


async def test_what_still_runs_is_canceled_at_the_end() -> None:
    server = ScriptedServer()
    server.state = "working"
    found = await examine(server, "send")
    assert found.lines[0].verdict is CheckStatus.WARN
    assert server.tasks["t1"]["status"]["state"] == "TASK_STATE_CANCELED"


async def test_leaving_does_not_stumble_over_a_server_that_is_gone() -> None:
    server = ScriptedServer(cancel=lost())
    server.state = "working"
    assert (await examine(server, "send")).lines[0].verdict is CheckStatus.WARN


async def test_only_harmless_messages_are_sent_and_few() -> None:
    server = ScriptedServer()
    await examine(server)
    sent = [json.loads(r.body) for r in server.requests if b"SendMessage" in r.body]
    texts = {p["text"] for call in sent for p in _parts(call["params"]["message"])}
    assert texts == {MARKER}
    assert len(server.requests) < 70


def _parts(message: dict[str, Any]) -> list[dict[str, Any]]:
    parts = message["parts"]
    return parts if isinstance(parts, list) else []


async def test_tokens_go_to_the_named_host_alone() -> None:
    elsewhere = "https://other.example"
    document = card(
        url=None,
        supportedInterfaces=[
            {"url": f"{elsewhere}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
    )
    server = ScriptedServer(document)
    found = await examine(server, "card-interfaces", "send", "get")
    assert verdicts(found)["send"] is CheckStatus.OK
    assert verdicts(found)["card-interfaces"] is CheckStatus.WARN
    assert {request.url.startswith(URL) for request in server.requests} == {True}


async def test_without_a_card_the_rest_is_skipped() -> None:
    server = ScriptedServer(document=[])
    found = await examine(server)
    assert verdicts(found)["card-path"] is CheckStatus.FAIL
    assert "no card" in found.lines[0].seen
    assert verdicts(found)["send"] is CheckStatus.SKIPPED
    assert (found.agent, found.over) == ("", "")


async def test_a_card_may_be_named_itself_or_lie_below_a_path() -> None:
    found = await examine(
        ScriptedServer(),
        "card-path",
        target=Target(url=f"{URL}/.well-known/agent-card.json"),
    )
    assert found.lines[0].verdict is CheckStatus.OK
    found = await examine(ScriptedServer(), "card-path", target=Target(url=f"{URL}/agents/one"))
    assert found.lines[0].seen == f"{URL}/.well-known/agent-card.json"


NAMED = f"{URL}/agents/one"
HTML = ProbeAnswer(status=200, headers={"content-type": "text/html"}, body=b"<html>hi</html>")


@pytest.mark.parametrize(
    ("path", "broken", "told"),
    [
        ("/.well-known/agent-card.json", HTML, "holds no JSON object (sent as text/html)"),
        ("/.well-known/agent-card.json", ProbeAnswer(status=200), "sent as no type at all"),
        ("/.well-known/agent-card.json", ProbeAnswer(status=500), "gave 500"),
        ("/.well-known/agent-card.json", ProbeAnswer(status=401), "gave 401"),
        ("/.well-known/agent.json", HTML, "agents/one/.well-known/agent.json holds no JSON object"),
    ],
)
async def test_a_broken_card_is_a_fault_and_not_replaced_by_that_of_the_root(
    path: str, broken: ProbeAnswer, told: str
) -> None:
    server = ScriptedServer(**{f"/agents/one{path}": broken})
    for url in (NAMED, f"{NAMED}/", f"{NAMED}{path}"):
        found = await examine(server, "card-path", "send", target=Target(url=url))
        assert [line.verdict for line in found.lines] == [CheckStatus.FAIL, CheckStatus.SKIPPED]
        assert told in found.lines[0].seen
        assert (found.agent, found.stand_in) == ("", "")
    assert {request.url.startswith(NAMED) for request in server.requests} == {True}


async def test_a_broken_card_with_a_name_of_its_own_is_a_fault() -> None:
    server = ScriptedServer(**{"/cards/one.json": HTML})
    found = await examine(server, "card-path", target=Target(url=f"{URL}/cards/one.json"))
    assert found.lines[0].verdict is CheckStatus.FAIL
    assert f"{URL}/cards/one.json holds no JSON object" in found.lines[0].seen


async def test_the_agent_of_the_root_stands_in_for_a_path_without_a_card_and_is_named() -> None:
    for path in ("/agents/one", "/cards/one.json"):
        found = await examine(ScriptedServer(), "card-path", target=Target(url=f"{URL}{path}"))
        assert found.lines[0].verdict is CheckStatus.OK
        assert (found.agent, found.stand_in) == ("greeter", URL)
    for path in ("", "/", "/.well-known/agent-card.json", "/.well-known/agent.json"):
        found = await examine(ScriptedServer(), "card-path", target=Target(url=f"{URL}{path}"))
        assert (found.agent, found.stand_in) == ("greeter", "")


async def test_a_card_at_its_old_address_counts_although_the_other_one_is_broken() -> None:
    server = ScriptedServer(**{"/.well-known/agent-card.json": HTML})
    found = await examine(server, "card-path", "send")
    assert [line.verdict for line in found.lines] == [CheckStatus.FAIL, CheckStatus.OK]
    assert "only at /.well-known/agent.json: " in found.lines[0].seen
    assert "agent-card.json holds no JSON object" in found.lines[0].seen


async def test_a_card_at_the_old_address_of_a_path_comes_before_that_of_the_root() -> None:
    own = ProbeAnswer(status=200, body=json.dumps(card(name="one")).encode())
    server = ScriptedServer(**{"/agents/one/.well-known/agent.json": own})
    found = await examine(server, "card-path", target=Target(url=NAMED))
    assert (found.agent, found.stand_in) == ("one", "")
    assert found.lines[0].seen == (
        f"the card is only at /.well-known/agent.json: {NAMED}/.well-known/agent-card.json gave 404"
    )


PACKED = InvalidResponse("it answered with Content-Encoding br")


async def test_answers_that_cannot_be_read_are_lines_of_the_report() -> None:
    paths = ("/.well-known/agent-card.json", "/.well-known/agent.json")
    server = ScriptedServer(**dict.fromkeys(paths, PACKED))
    found = await examine(server, "card-path", "card-old-path", "send")
    assert [line.verdict for line in found.lines] == [
        CheckStatus.FAIL,
        CheckStatus.WARN,
        CheckStatus.SKIPPED,
    ]
    assert found.lines[0].seen == "no card: " + "; ".join(
        f"{URL}{path} cannot be read: {PACKED}" for path in paths
    )
    assert found.lines[1].seen == "nothing that can be read at /.well-known/agent.json"


@pytest.mark.parametrize(("op", "after"), [("send", "get"), ("stream", "resume")])
async def test_an_answer_that_cannot_be_read_fails_the_check_that_asked(
    op: str, after: str
) -> None:
    found = await examine(ScriptedServer(**{op: PACKED}), op, after)
    assert [line.verdict for line in found.lines] == [CheckStatus.FAIL, CheckStatus.SKIPPED]
    assert found.lines[0].seen == str(PACKED)
    assert f"see the check {op}" in found.lines[1].seen


async def test_a_card_that_cannot_be_read_is_not_replaced_by_that_of_the_root() -> None:
    server = ScriptedServer(**{"/agents/one/.well-known/agent-card.json": PACKED})
    found = await examine(server, "card-path", target=Target(url=NAMED))
    assert found.lines[0].verdict is CheckStatus.FAIL
    assert (found.agent, found.stand_in) == ("", "")


async def test_a_card_behind_a_token_is_read_with_it() -> None:
    def guarded(server: ScriptedServer, params: Any, request: Any) -> ProbeAnswer:
        if "Authorization" not in request.headers:
            return ProbeAnswer(status=401)
        return server._document("/.well-known/agent-card.json", request)

    server = ScriptedServer(**{"/.well-known/agent-card.json": guarded})
    assert (await examine(server, "card-path")).lines[0].verdict is CheckStatus.OK


async def test_no_server_at_all_is_an_error() -> None:
    with pytest.raises(RemoteFailed):
        await examine(ScriptedServer(**{"/.well-known/agent-card.json": lost()}))


@pytest.mark.parametrize(
    "url", ["agents", "ftp://a", "http://", "http://a:99999", "http://a/?x=1", "http://a/#x"]
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="is no URL of a server"):
        Target(url=url)


async def test_a_check_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidInput, match="no check 'nope': choose of card-path"):
        await examine(ScriptedServer(), "nope")


async def test_a_server_that_does_not_answer_fails_the_check() -> None:
    line = (await examine(ScriptedServer(get=lost()), "unknown-task")).lines[0]
    assert (line.verdict, line.seen) == (CheckStatus.FAIL, "no answer: it did not answer in time")


async def test_an_address_that_must_not_be_called_is_skipped() -> None:
    server = ScriptedServer(get=AddressRefused("not public"))
    assert (await examine(server, "unknown-task")).lines[0].verdict is CheckStatus.SKIPPED


async def test_progress_is_told() -> None:
    begun: list[str] = []
    done: list[str] = []
    await DiagnoseServerUseCase(ScriptedServer(), ids=SequentialIds()).run(
        BOTH,
        only=["https", "hsts"],
        on_check=lambda check: begun.append(check.id),
        on_line=lambda line: done.append(line.id),
    )
    assert begun == done == ["https", "hsts"]


async def test_an_interface_that_nobody_speaks_is_left_alone() -> None:
    document = card(
        url=None,
        supportedInterfaces=[{"url": URL, "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
    )
    found = await examine(ScriptedServer(document), "send", "card-interfaces")
    assert (found.over, verdicts(found)["send"]) == ("", CheckStatus.SKIPPED)


def test_every_line_has_a_name_a_fix_and_both_languages() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    for check in CHECKS:
        assert check.title and check.title_ja and check.section and check.does
    areas = [check.area for check in CHECKS]
    assert sorted(areas, key=list(Area).index) == areas, "an area's checks stand together"
    for unseen in UNSEEN:
        assert unseen.title_ja and unseen.look_at and unseen.section


def test_a_check_without_words_does_nothing_it_could_tell() -> None:
    async def silent(visit: Any) -> Any:
        raise Refusal(0)

    assert Check("x", Area.CARD, "", "", "", silent).does == ""
