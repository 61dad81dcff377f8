"""Tokens: whose they are, what they may hold, and what is told of them."""

import asyncio
import json
from traceback import format_exception

import httpx
import pytest
from foreign_server import Call, foreign, hang_up, message, raw, stream, task

from acc.adapters.a2a.client.client import A2AClient, Door
from acc.domain.errors import InvalidInput, PermissionDenied, RemoteFailed, Unauthenticated
from acc.domain.value_objects.endpoint import RemoteEndpoint


async def test_a_token_is_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cret")
    async with foreign(stream({"task": task()})) as server:
        await server.client(token="env:SHOP_TOKEN").send(message())
        assert server.calls[-1].headers["authorization"] == "Bearer s3cret"
        with pytest.raises(InvalidInput, match="holds no token 'OTHER'"):
            server.client(token="env:OTHER")


@pytest.mark.parametrize("value", ["s3cret\nb", "s3cret b", "s3cret\x07b", "s3cret-あ"])
async def test_what_can_be_no_token_is_refused_before_a_call_and_not_told(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", value)
    async with foreign(stream({"task": task()})) as server:
        with pytest.raises(InvalidInput, match="variable SHOP_TOKEN holds is no token") as refused:
            server.client(token="env:SHOP_TOKEN")
        assert "s3cret" not in str(refused.value)
        assert server.calls == []


@pytest.mark.parametrize("is_card", [True, False])
async def test_a_request_that_cannot_be_sent_is_not_repeated_and_its_content_not_told(
    is_card: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with foreign(stream({"task": task()})) as server:
        if is_card:
            server.card = raw(b"", status="401 Unauthorized")
        door = Door(open=httpx.AsyncClient, streaming={})
        client = A2AClient(RemoteEndpoint(url=server.url), door=door, token="s3cret\nb")
        with pytest.raises(RemoteFailed, match="has a header that cannot be sent") as failed:
            await client.send(message())
        told = "".join(format_exception(failed.value)) + caplog.text
        assert "s3cret" not in told
        assert not failed.value.retryable


async def test_a_card_that_only_the_known_may_see_is_asked_for_with_the_token() -> None:
    async with foreign(hang_up) as server:
        card = server.card

        async def closed(call: Call, writer: asyncio.StreamWriter) -> None:
            if "authorization" in call.headers:
                await raw(json.dumps(card).encode())(call, writer)
            else:
                await raw(b"", status="401 Unauthorized")(call, writer)

        server.card = closed
        assert (await server.client(token="s3cret").card()).name == "foreign"
        with pytest.raises(Unauthenticated):
            await server.client().card()
        server.card = raw(b"", status="403 Forbidden")
        with pytest.raises(PermissionDenied):
            await server.client().card()
