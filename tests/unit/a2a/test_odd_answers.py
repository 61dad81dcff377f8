"""Answers that say nothing, and cards that lead nowhere: told as what they are."""

from typing import Any

import pytest
from foreign_server import Foreign, foreign, message, raw, result, stream

from acc.domain.errors import PermissionDenied, RemoteFailed, Unauthenticated


def spoken_as(server: Foreign, version: str) -> None:
    """Let the server speak one generation alone."""
    interface = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": version}
    server.card = server.own_card(interface)


@pytest.mark.parametrize("is_stream", [True, False])
@pytest.mark.parametrize(
    ("version", "answer"),
    [
        ("0.3", {}),
        ("0.3", {"kind": "message", "messageId": "m", "role": "agent", "parts": []}),
        ("1.0", {"message": {}}),
        ("1.0", {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": []}}),
    ],
)
async def test_an_answer_without_anything_in_it_is_a_failure(
    version: str, answer: Any, is_stream: bool
) -> None:
    handler = stream(answer) if is_stream else result(answer)
    async with foreign(handler, streaming=is_stream) as server:
        spoken_as(server, version)
        with pytest.raises(RemoteFailed, match="answered what cannot be read") as failed:
            await server.client().send(message())
    assert failed.value.remote_code == "invalid_agent_response"
    assert len(server.methods) == 1


async def test_an_answer_of_an_empty_text_is_one() -> None:
    answer = {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": ""}]}}
    async with foreign(result(answer), streaming=False) as server:
        found = await server.client().send(message())
    assert [part.text for part in found.parts] == [""]  # type: ignore[union-attr]


async def test_an_answer_of_another_kind_is_told_as_that() -> None:
    async with foreign(result({"kind": "banana"}), streaming=False) as server:
        spoken_as(server, "0.3")
        with pytest.raises(RemoteFailed, match="kind: must be task or message"):
            await server.client().send(message())


@pytest.mark.parametrize(
    "url", ["/a2a", "", "127.0.0.1:80", "http://127.0.0.1:port", "http://[::1", "ftp://a.example"]
)
async def test_a_card_whose_address_is_no_url_is_told_as_that(url: str) -> None:
    async with foreign(result({})) as server:
        server.card = server.own_card(
            {"url": url or " ", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        )
        with pytest.raises(RemoteFailed, match="which is no absolute URL of http or https"):
            await server.client().send(message())
        good = {"url": server.url, "protocolBinding": "JSONRPC", "protocolVersion": "0.3"}
        server.card["supportedInterfaces"].append(good)
        server.handlers[:] = [stream({"kind": "message", "parts": [{"kind": "text", "text": "x"}]})]
        assert await server.client().send(message())


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        ("401 Unauthorized", Unauthenticated, "requires a valid token .HTTP status 401"),
        ("403 Forbidden", PermissionDenied, "denied permission to this caller .HTTP status 403"),
    ],
)
async def test_a_refusal_without_words_is_told_in_some(
    status: str, error: type[Exception], told: str
) -> None:
    async with foreign(raw(b"", status=status)) as server:
        with pytest.raises(error, match=told):
            await server.client().send(message())
