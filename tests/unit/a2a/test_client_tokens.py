"""A2AClient: where tokens are sent, and which addresses are refused."""

import asyncio
import json
import logging
from traceback import format_exception

import pytest
from remote_server import (
    Call,
    artifact,
    close_connection,
    message,
    raw,
    remote_server,
    stream,
    task,
)

from acc.adapters.a2a.client.client import A2AClient
from acc.adapters.auth.credentials import BearerCredentials
from acc.domain.errors import (
    AddressRefused,
    InvalidInput,
    PermissionDenied,
    RemoteFailed,
    Unauthenticated,
)
from acc.domain.value_objects.endpoint import RemoteEndpoint


async def test_token_is_read_from_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret")
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        await server.client(token="env:SHOP_TOKEN").send(message())
        assert server.calls[-1].headers["authorization"] == "Bearer s3cret"
        with pytest.raises(InvalidInput, match="OTHER"):
            server.client(token="env:OTHER")


@pytest.mark.parametrize("value", ["s3cret\nb", "s3cret b", "s3cret\x07b", "s3cret-あ"])
async def test_invalid_token_is_rejected_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", value)
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        with pytest.raises(InvalidInput, match="SHOP_TOKEN") as caught:
            server.client(token="env:SHOP_TOKEN")
        assert "s3cret" not in str(caught.value)
        assert server.calls == []


@pytest.mark.parametrize("is_card", [True, False])
async def test_unsendable_header_fails_without_retry_and_is_not_shown(
    is_card: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with remote_server(stream({"task": task("COMPLETED", artifact("done"))})) as server:
        if is_card:
            server.card = raw(b"", status="401 Unauthorized")
        endpoint = RemoteEndpoint(url=server.url, allow=("127.0.0.1",))
        client = A2AClient(endpoint, credentials=BearerCredentials("s3cret\nb"))
        with pytest.raises(RemoteFailed, match="has a header that cannot be sent") as caught:
            await client.send(message())
        shown = "".join(format_exception(caught.value)) + caplog.text
        assert "s3cret" not in shown
        assert not caught.value.retryable


async def test_protected_card_is_requested_with_token() -> None:
    async with remote_server(close_connection) as server:
        card = server.card

        async def closed(call: Call, writer: asyncio.StreamWriter) -> None:
            if "authorization" in call.headers:
                await raw(json.dumps(card).encode())(call, writer)
            else:
                await raw(b"", status="401 Unauthorized")(call, writer)

        server.card = closed
        assert (await server.client(token="s3cret").card()).name == "remote"
        with pytest.raises(Unauthenticated):
            await server.client().card()
        server.card = raw(b"", status="403 Forbidden")
        with pytest.raises(PermissionDenied):
            await server.client().card()


async def test_token_is_sent_to_own_origin_and_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with remote_server(raw(b"{}", status="401 Unauthorized")) as server:
        with pytest.raises(Unauthenticated) as caught:
            await server.client(token="s3cret").send(message())
    assert "authorization" not in server.calls[0].headers
    assert server.calls[-1].headers["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(caught.value) + caplog.text


async def test_token_is_not_sent_to_other_origin_unless_trusted() -> None:
    async with remote_server(close_connection) as theirs, remote_server(close_connection) as server:
        elsewhere = {"url": theirs.url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        server.card = server.own_card(elsewhere)
        with pytest.raises(RemoteFailed, match="only sent to"):
            await server.client(token="s3cret").send(message())
        assert theirs.calls == []
        theirs.handlers[:] = [stream({"task": task("COMPLETED", artifact("done"))})]
        trusting = server.client(token="s3cret", trust=(theirs.url,))
        await trusting.send(message())
        assert theirs.calls[-1].headers["authorization"] == "Bearer s3cret"
        await server.client().send(message())
        assert "authorization" not in theirs.calls[-1].headers


async def test_private_addresses_are_refused_in_urls_and_cards() -> None:
    async with remote_server(close_connection) as server:
        with pytest.raises(AddressRefused):
            await server.client(allow=()).card()
        inside = {
            "url": "http://169.254.169.254/",
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
        }
        server.card = server.own_card(inside)
        with pytest.raises(AddressRefused):
            await server.client().send(message())
