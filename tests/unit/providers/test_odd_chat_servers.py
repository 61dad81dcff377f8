"""Servers that answer a chat completion with something else, and what is said about it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from acc import ProviderModel
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import ModelAnswer, Prompt

PROMPT = Prompt(query="q")
JSON, EVENTS, HTML = "application/json", "text/event-stream", "text/html"
NO_COMPLETION = "its answer cannot be read: it is no chat completion; check the URL"


@asynccontextmanager
async def answering(head: str, body: bytes, *, endless: bool = False) -> AsyncIterator[str]:
    """Answer every request with the same bytes, or with them again and again."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
            while endless:
                writer.write(body)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def asked(url: str, *, streams: bool, provider: str = "openai-compatible") -> ModelAnswer:
    model = ProviderModel(f"{provider}:m", base_url=url, attempts=1)
    try:
        if not streams:
            return await model.complete(PROMPT)
        last = [piece async for piece in model.stream(PROMPT)][-1]
        assert isinstance(last, ModelAnswer)
        return last
    finally:
        await model.aclose()


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("kind", "body", "reason", "told"),
    [
        (HTML, b"<html>Welcome</html>", "unreadable", NO_COMPLETION),
        (JSON, b'{"choices": []}', "unreadable", NO_COMPLETION),
        (JSON, b'{"ok": true}', "unreadable", NO_COMPLETION),
        (JSON, b"[" * 100_000, "unreadable", NO_COMPLETION),
        (JSON, b'{"object": "error", "message": "no room"}', "server", "no room"),
        (JSON, b'{"error": {"message": "no room", "code": "\xc2\xb2"}}', "server", "no room"),
    ],
)
async def test_what_is_no_answer_is_not_called_a_cut(
    kind: str, body: bytes, reason: str, told: str, streams: bool
) -> None:
    async with answering(f"200 OK\r\nContent-Type: {kind}", body) as url:
        with pytest.raises(ModelFailed) as found:
            await asked(url, streams=streams)
    assert found.value.reason == reason
    assert told in str(found.value)


async def test_an_error_among_the_events_is_told() -> None:
    body = b'event: error\ndata: {"message": "no room"}\n\n'
    async with answering(f"200 OK\r\nContent-Type: {EVENTS}", body) as url:
        with pytest.raises(ModelFailed, match="its server failed: no room"):
            await asked(url, streams=True)


async def test_a_server_that_does_not_stream_is_understood() -> None:
    message = '{"message": {"content": "<think>a</think>やあ"}, "finish_reason": "stop"}'
    body = f'{{"choices": [{message}]}}'.encode()
    async with answering(f"200 OK\r\nContent-Type: {JSON}; charset=utf-8", body) as url:
        assert (await asked(url, streams=True)).text == "やあ"


PROVIDERS = ["openai", "openai-chat", "anthropic", "google", "openai-compatible"]


@pytest.fixture
def every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "canary")


@pytest.mark.usefixtures("every_key")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
async def test_a_server_that_sends_without_end_is_given_up(streams: bool, provider: str) -> None:
    body = b"data: " + b"x" * 2**20
    async with answering("200 OK", body, endless=True) as url:
        with pytest.raises(ModelFailed, match="has more than 16777216 bytes") as found:
            await asked(url, streams=streams, provider=provider)
    assert found.value.reason == "unreadable"
    async with answering("400 Bad Request", body, endless=True) as url:
        with pytest.raises(ModelFailed, match=r"it rejected the request \(400\)$"):
            await asked(url, streams=streams, provider=provider)


@pytest.mark.usefixtures("every_key")
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("kind", "body"), [(HTML, b"<html>Hi</html>"), (JSON, b'{"ok": true}'), (JSON, b"[1]")]
)
async def test_what_is_no_answer_of_a_provider_says_to_check_the_url(
    kind: str, body: bytes, streams: bool, provider: str
) -> None:
    async with answering(f"200 OK\r\nContent-Type: {kind}", body) as url:
        with pytest.raises(ModelFailed, match="; check the URL") as found:
            await asked(url, streams=streams, provider=provider)
    assert found.value.reason == "unreadable"


@pytest.mark.parametrize("streams", [False, True])
async def test_a_redirect_says_where_to(streams: bool) -> None:
    head = "307 Temporary Redirect\r\nLocation: /api/v1/chat/completions?token=t0p"
    async with answering(head, b"") as url:
        with pytest.raises(ModelFailed) as found:
            await asked(url, streams=streams)
    target = url.replace("/v1", "/api/v1/chat/completions")
    assert f"it sends us on to {target} (307): name the URL that answers" in str(found.value)
    assert "t0p" not in str(found.value)


async def test_a_server_that_is_not_there_is_named() -> None:
    async with answering("200 OK", b"") as url:
        pass
    with pytest.raises(ModelFailed, match=f"cannot be reached at {url[:-3]}: check the URL"):
        await asked(url, streams=False)
