"""Agent cards over HTTP: caching, signatures and the extended card."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_process import (
    ALICE,
    WIRE_FORMATS,
    Server,
    WireFormat,
    check_error,
    head,
    read_reply,
    tokens_file,
)

from acc.adapters.auth.bearer_tokens import TokenEntry, append_entry, token_hash
from acc.adapters.auth.card_signatures import verify_card
from acc.adapters.auth.keys import generate_key
from acc.domain.errors import Unauthenticated

PATHS = ["/.well-known/agent-card.json", "/.well-known/agent.json"]
HOST = {"Host": "127.0.0.1"}
REST, OLD_REST = WIRE_FORMATS[2:]
KEY = generate_key("ES256")
CAROL = "acc_carol-token"
KEYS = {str(KEY.kid): KEY}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("cards")
    key = folder / "key.pem"
    key.write_bytes(KEY.as_pem(private=True))
    tokens = tokens_file(folder)
    append_entry(tokens, TokenEntry(sha256=token_hash(CAROL), caller="carol", tenant="t2"))
    options = ["--tokens", str(tokens), "--sign-card", str(key)]
    with Server(folder, *options, agent="sample_agents:payment") as started:
        yield started
        assert "Traceback" not in started.log


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("version", ["", "1.0", "0.3", "9.9"])
def test_card_is_public(server: Server, path: str, version: str) -> None:
    headers = HOST | ({"A2A-Version": version} if version else {})
    reply = server.send(head("GET", path, headers))
    assert reply.status == 200
    assert reply.headers["content-type"] == "application/json"
    card = reply.json
    assert card["name"] == "payment"
    assert {interface["protocolVersion"] for interface in card["supportedInterfaces"]} == {
        "1.0",
        "0.3",
    }
    assert card["url"] == f"{server.url}/"
    assert card["capabilities"]["extendedAgentCard"] is True
    assert card["securitySchemes"]["bearer"]["type"] == "http"
    assert card["securityRequirements"] == [{"schemes": {"bearer": {}}}]


@pytest.mark.parametrize("path", [*PATHS, "/openapi.json"])
def test_matching_etag_returns_not_modified(server: Server, path: str) -> None:
    first = server.send(head("GET", path, HOST))
    etag = first.headers["etag"]
    assert "max-age" in first.headers["cache-control"]
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        with server.connect() as connection:
            connection.sendall(head("GET", path, HOST | {"If-None-Match": known}))
            reply = read_reply(connection, "GET")
            assert (reply.status, reply.body) == (304, b"")
            assert reply.headers["etag"] == etag
            # The connection stays open.
            connection.sendall(head("GET", path, HOST | {"If-None-Match": '"other"'}))
            assert read_reply(connection, "GET").body == first.body


@pytest.mark.parametrize("path", [*PATHS, "/openapi.json", "/health"])
def test_head_request_returns_content_length(server: Server, path: str) -> None:
    full_reply = server.send(head("GET", path, HOST))
    with server.connect() as connection:
        connection.sendall(head("HEAD", path, HOST))
        reply = read_reply(connection, "HEAD")
        assert (reply.status, reply.body) == (200, b"")
        assert reply.headers["content-length"] == str(len(full_reply.body))


EXTENDED = [("/extendedAgentCard", REST), ("/agent/authenticatedExtendedCard", OLD_REST)]


@pytest.mark.parametrize(("path", "side"), EXTENDED, ids=["1.0", "0.3"])
def test_extended_card_requires_token(server: Server, path: str, side: WireFormat) -> None:
    for token in ("", "acc_unknown"):
        reply = server.send(head("GET", path, side.headers(token)))
        check_error(reply, side, status=401)
        assert reply.headers["www-authenticate"] == "Bearer"
    card = server.send(head("GET", path, side.headers(ALICE))).json
    public = server.send(head("GET", PATHS[0], HOST)).json
    assert "Arguments" not in json.dumps(public)
    assert "payee (string)" in json.dumps(card)


def test_extended_card_of_tenant_rejects_other_tenants(server: Server) -> None:
    card = server.send(head("GET", "/t2/extendedAgentCard", REST.headers(CAROL)))
    assert (card.status, card.json["name"]) == (200, "payment")
    check_error(
        server.send(head("GET", "/zz/extendedAgentCard", REST.headers(CAROL))), REST, status=403
    )
    check_error(
        server.send(head("GET", "/v1/zz/card", OLD_REST.headers(CAROL))), OLD_REST, status=403
    )
    rpc = WIRE_FORMATS[0]
    for tenant, has_card in (("zz", False), ("t2", True), ("", True)):
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"}
        body = json.dumps(call | {"params": {"tenant": tenant}}).encode()
        reply = server.send(rpc.post(body, token=CAROL))
        assert ("result" in reply.json) is has_card
    # A token without a tenant is valid for all tenants.
    assert server.send(head("GET", "/zz/extendedAgentCard", REST.headers())).status == 200


def test_server_without_tokens_has_no_extended_card(tmp_path: Path) -> None:
    with Server(tmp_path, "--protocol-version", "1.0") as server:
        reply = server.send(head("GET", "/extendedAgentCard", REST.headers("")))
        check_error(reply, REST, status=400)
        card = server.send(head("GET", PATHS[0], HOST)).json
        assert card["capabilities"]["extendedAgentCard"] is False
        assert {interface["protocolVersion"] for interface in card["supportedInterfaces"]} == {
            "1.0"
        }
        assert "url" not in card
        old = WIRE_FORMATS[1]
        assert check_error(server.send(old.send("hi", "old")), WIRE_FORMATS[0])["code"] == -32009


def signed_card(server: Server, path: str) -> dict[str, Any]:
    headers = REST.headers() if "extended" in path else HOST
    card: dict[str, Any] = server.send(head("GET", path, headers)).json
    return card


@pytest.mark.parametrize("path", [PATHS[0], "/extendedAgentCard"])
def test_card_signature_covers_sent_card(server: Server, path: str) -> None:
    card = signed_card(server, path)
    assert verify_card(card, card["signatures"], keys=KEYS) == KEY.kid
    with pytest.raises(Unauthenticated):
        verify_card({**card, "name": "x"}, card["signatures"], keys=KEYS)


@pytest.mark.parametrize("path", [PATHS[0], "/extendedAgentCard"])
def test_official_client_verifies_signed_card(server: Server, path: str) -> None:
    pytest.importorskip("jwt", reason="the SDK verifies with PyJWT: pip install a2a-sdk[signing]")
    from a2a.types import AgentCard
    from a2a.utils.signing import InvalidSignaturesError, create_signature_verifier
    from google.protobuf.json_format import ParseDict

    check = create_signature_verifier(lambda kid, jku: KEY.as_pem(private=False), ["ES256"])
    card = ParseDict(signed_card(server, path), AgentCard(), ignore_unknown_fields=True)
    check(card)
    card.description = "another"
    with pytest.raises(InvalidSignaturesError):
        check(card)
