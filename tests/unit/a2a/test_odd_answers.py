"""Answers that say nothing, and cards that lead nowhere: told as what they are."""

from typing import Any

import pytest
from foreign_server import Foreign, foreign, message, result, stream

from acc.domain.errors import RemoteFailed


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
