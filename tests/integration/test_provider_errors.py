"""Errors of providers through the real client libraries: reasons, retries, secrets."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from provider_models import (
    EVERY_PROVIDER,
    KEY,
    MODELS,
    STREAMED_OR_NOT,
    environment,
    model_of,
    response_of,
)

from acc import Agent, Runner
from acc.bootstrap.models import ProviderModel, make_model
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ModelSettings
from acc.testing.providers import ProviderRequest, ProviderServer, Reply, fail, say

PROMPT = ModelRequest.of("q")


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ProviderServer]:
    async with ProviderServer() as running:
        with environment(running, monkeypatch):
            yield running


async def error_of(model: ProviderModel, *, stream: bool = False) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        await response_of(model, PROMPT, stream=stream)
    await model.aclose()
    return caught.value


STATUSES = {
    400: ("rejected", False),
    401: ("key_refused", False),
    403: ("key_refused", False),
    404: ("unknown_model", False),
    408: ("timeout", True),
    413: ("context_length", False),
    429: ("rate_limit", True),
    500: ("server", True),
    502: ("server", True),
    503: ("unavailable", True),
}


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_status_decides_reason_and_retryable(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    for status, expected in STATUSES.items():
        after = 3 if status == 429 else None
        server.script = [fail(status, f"no {KEY} here", retry_after=after)]
        error = await error_of(model_of(provider, server), stream=stream)
        assert (error.reason, error.retryable) == expected, status
        assert error.retry_after == after
        assert (error.model, error.provider) == (model_of(provider, server).name, provider)
        assert str(error).startswith(MODELS[provider])
        assert KEY not in f"{error!r} {error}"
    assert server.count == len(STATUSES)


async def test_error_shows_the_message_of_the_provider(server: ProviderServer) -> None:
    server.script = [fail(400, "no such field")]
    assert "no such field" in str(await error_of(model_of("openai", server)))
    server.script = [fail(400, "x" * 1000)]
    assert len(str(await error_of(model_of("anthropic", server)))) < 450


async def test_rejected_key_error_names_the_variable(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.script = [fail(401, "your key abc is bad"), fail(401)]
    error = await error_of(model_of("openai-compatible", server))
    assert error.reason == "key_refused"
    assert "OPENAI_COMPATIBLE_API_KEY" in str(error)
    assert "abc" not in str(error)
    monkeypatch.delenv("OPENAI_COMPATIBLE_API_KEY")
    error = await error_of(model_of("openai-compatible", server))
    assert "a key is required: set OPENAI_COMPATIBLE_API_KEY" in str(error)


@STREAMED_OR_NOT
@pytest.mark.parametrize("message", ["API key not valid. Please pass one.", "API key expired."])
async def test_google_key_error_with_status_400_is_key_refused(
    message: str, stream: bool, server: ProviderServer
) -> None:
    server.script = [fail(400, message)]
    error = await error_of(model_of("google", server), stream=stream)
    assert error.reason == "key_refused"
    assert message not in str(error)


@pytest.mark.parametrize(
    ("provider", "reply", "reason"),
    [
        ("openai-chat", fail(400, "too long", code="context_length_exceeded"), "context_length"),
        ("openai", fail(400, "too long", code="context_length_exceeded"), "context_length"),
        ("anthropic", fail(400, "prompt is too long: 3 tokens > 2 maximum"), "context_length"),
        ("openai-compatible", fail(400, code="exceed_context_size_error"), "context_length"),
        ("openai-chat", fail(429, "no credit", code="insufficient_quota"), "quota"),
        ("openai", fail(429, "no credit", code="billing_hard_limit_reached"), "quota"),
        ("anthropic", fail(400, "Your credit balance is too low"), "quota"),
        ("openai", fail(400, code="cyber_policy_violation"), "refused"),
        ("openai-chat", fail(400, code="content_filter"), "refused"),
        ("openai", fail(400, code="model_not_found"), "unknown_model"),
        ("anthropic", fail(529), "overloaded"),
        ("openai", fail(503, code="server_is_overloaded"), "overloaded"),
    ],
)
async def test_error_code_decides_reason(
    provider: str, reply: Reply, reason: str, server: ProviderServer
) -> None:
    server.script = [reply]
    error = await error_of(model_of(provider, server))
    assert error.reason == reason
    assert error.retryable is (reason == "overloaded")


async def test_google_daily_quota_is_not_retried_and_retry_delay_is_read(
    server: ProviderServer,
) -> None:
    daily = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProject"}]}
    server.script = [Reply(status=429, error_details=(daily,))]
    error = await error_of(model_of("google", server))
    assert (error.reason, error.retryable) == ("quota", False)
    server.script = [Reply(status=429, error_details=({"retryDelay": "17.5s"},))]
    error = await error_of(model_of("google", server))
    assert (error.reason, error.retry_after) == ("rate_limit", 17.5)


async def test_redirect_error_names_the_target(server: ProviderServer) -> None:
    server.script = [Reply(status=307, headers={"Location": "/other/path?secret=1"})]
    error = await error_of(model_of("openai-compatible", server))
    assert (error.reason, error.retryable) == ("rejected", False)
    assert f"{server.root}/other/path" in str(error)
    assert "secret" not in str(error)


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_refusal_is_an_error(provider: str, stream: bool, server: ProviderServer) -> None:
    server.script = [Reply(refusal="I will not do that")]
    error = await error_of(model_of(provider, server), stream=stream)
    assert (error.reason, error.retryable) == ("refused", False)


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_used_up_max_tokens_is_an_error_only_without_text(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    server.script = [Reply(finish="length"), Reply(text="as far as it", finish="length")]
    error = await error_of(model_of(provider, server, max_tokens=5), stream=stream)
    assert error.reason == "length"
    model = model_of(provider, server, max_tokens=5)
    assert (await response_of(model, PROMPT, stream=stream)).text == "as far as it"
    await model.aclose()


@EVERY_PROVIDER
@pytest.mark.parametrize("how", ["cut_after", "end_after"])
async def test_incomplete_stream_is_an_error_and_is_not_retried(
    provider: str, how: str, server: ProviderServer
) -> None:
    options: dict[str, Any] = {how: 2 if provider == "google" else 6}
    server.script = [Reply(text="one two three four five six", **options)]
    model = model_of(provider, server, attempts=4)
    pieces: list[str | ModelResponse] = []
    with pytest.raises(ModelFailed) as caught:
        async for piece in model.stream(PROMPT):
            pieces.append(piece)
    await model.aclose()
    assert pieces[:2] == ["one ", "two "]
    assert all(isinstance(piece, str) for piece in pieces)
    assert (caught.value.reason, caught.value.retryable) == ("cut_off", True)
    assert server.count == 1


@EVERY_PROVIDER
async def test_incomplete_response_is_retried(provider: str, server: ProviderServer) -> None:
    server.script = [Reply(text="one two three", cut_after=2), say("whole")]
    model = model_of(provider, server, attempts=2, max_wait=0.01)
    assert (await model.complete(PROMPT)).text == "whole"
    await model.aclose()
    assert server.count == 2


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_invalid_json_is_an_error(
    provider: str, stream: bool, server: ProviderServer
) -> None:
    server.script = [Reply(text="a b c d e", invalid_json=True)]
    error = await error_of(model_of(provider, server), stream=stream)
    assert (error.reason, error.retryable) == ("unreadable", True)


@asynccontextmanager
async def server_of_another_api() -> AsyncIterator[str]:
    """Serve a JSON object that is a response of no API, and return the URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(head + b"content-length: 2\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


@pytest.mark.parametrize("provider", ["openai", "openai-chat", "anthropic"])
async def test_response_of_another_api_is_an_error_that_names_the_fix(
    provider: str, server: ProviderServer
) -> None:
    async with server_of_another_api() as url:
        error = await error_of(model_of(provider, server, base_url=url))
    assert error.reason == "unreadable"
    assert "check the URL" in str(error)
    assert ("needs openai-compatible:" in str(error)) is (provider == "openai")
    server.script = [fail(404)]
    missing = await error_of(model_of(provider, server, base_url=server.url))
    assert ("needs openai-compatible:" in str(missing)) is (provider == "openai")


@pytest.mark.parametrize(
    ("provider", "code", "reason", "retryable"),
    [
        *((provider, "", "server", True) for provider in MODELS),
        ("openai", "rate_limit_exceeded", "rate_limit", True),
        ("openai-chat", "insufficient_quota", "quota", False),
        ("anthropic", "overloaded_error", "overloaded", True),
        ("anthropic", "invalid_request_error", "rejected", False),
        ("anthropic", "authentication_error", "key_refused", False),
        ("openai-compatible", "context_length_exceeded", "context_length", False),
    ],
)
async def test_error_event_in_a_stream_decides_reason(
    provider: str, code: str, reason: str, retryable: bool, server: ProviderServer
) -> None:
    text = "one two three four five six"
    server.script = [Reply(text=text, error_after=4, error_code=code, message=f"no room, {KEY}")]
    error = await error_of(model_of(provider, server), stream=True)
    assert (error.reason, error.retryable) == (reason, retryable)
    assert KEY not in f"{error!r}"


@EVERY_PROVIDER
@STREAMED_OR_NOT
async def test_slow_provider_times_out(provider: str, stream: bool, server: ProviderServer) -> None:
    server.script = [Reply(text="late", delay=5)]
    started = time.monotonic()
    error = await error_of(model_of(provider, server, timeout=0.2), stream=stream)
    assert (error.reason, error.retryable) == ("timeout", True)
    assert time.monotonic() - started < 4


async def test_silent_stream_times_out(server: ProviderServer) -> None:
    server.script = [Reply(text="one two three", event_delay=1.0)]
    error = await error_of(model_of("openai-chat", server, timeout=0.2), stream=True)
    assert error.reason == "timeout"


@EVERY_PROVIDER
async def test_unreachable_server_is_a_connection_error(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = ProviderServer()
    async with stopped:
        pass
    with environment(stopped, monkeypatch):
        error = await error_of(model_of(provider, stopped))
    assert (error.reason, error.retryable) == ("connection", True)


@STREAMED_OR_NOT
async def test_oversized_response_is_an_error(
    stream: bool, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acc.adapters.models.provider.MAX_JSON_BYTES", 10_000)
    monkeypatch.setattr("acc.adapters.models.provider.MAX_STREAM_BYTES", 10_000)
    for provider in ("openai", "anthropic", "google"):
        server.script = [say("word " * 5_000)]
        error = await error_of(model_of(provider, server), stream=stream)
        assert error.reason == "unreadable"
        assert "10000 bytes" in str(error)


async def test_busy_provider_is_retried_after_requested_delay(
    server: ProviderServer,
) -> None:
    server.script = [fail(429, retry_after=0.3), fail(503), say("now")]
    model = ProviderModel("openai:gpt-5.2")
    started = time.monotonic()
    assert (await model.complete(PROMPT)).text == "now"
    await model.aclose()
    assert time.monotonic() - started >= 0.3
    assert server.count == 3


async def test_next_provider_answers_when_the_first_fails(server: ProviderServer) -> None:
    def reply(request: ProviderRequest) -> Reply:
        return fail(500) if request.api == "openai" else say("from Anthropic")

    server.script = [reply, reply]
    model = make_model("openai:gpt-5.2?attempts=1|anthropic:claude-opus-4-8|embedded")
    assert (await model.complete(PROMPT)).text == "from Anthropic"
    await model.aclose()  # type: ignore[attr-defined]
    assert [request.api for request in server.requests] == ["openai", "anthropic"]


async def test_missing_client_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    with pytest.raises(ModelFailed) as caught:
        await make_model("groq:llama").complete(PROMPT)
    assert caught.value.reason == "not_installed"
    assert "pip install 'pydantic-ai-slim[groq]'" in str(caught.value)


async def test_missing_configuration_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OLLAMA_BASE_URL", raising=False)
    with pytest.raises(ModelFailed) as caught:
        await make_model("ollama:llama3").complete(PROMPT)
    assert caught.value.reason == "not_possible"
    assert "OLLAMA_BASE_URL" in str(caught.value)


# Settings that a model does not support

#: Error messages of the providers for a rejected setting.
REJECTIONS: dict[str, Callable[[str], Reply]] = {
    "openai": lambda name: fail(
        400, f"Unsupported parameter: '{name}'.", code="unsupported_parameter", param=name
    ),
    "openai-chat": lambda name: fail(
        400, "Only the default (1) value is supported.", code="unsupported_value", param=name
    ),
    "anthropic": lambda name: fail(400, f"`{name}` is deprecated for this model."),
    "google": lambda name: fail(400, f"{name} is not supported by this model."),
    "openai-compatible": lambda name: fail(422, f"unknown field: {name}"),
    "ollama": lambda name: fail(400, f"unknown field: {name}"),
}
SPELLINGS = {
    "openai": ("temperature", "reasoning.effort"),
    "openai-chat": ("temperature", "reasoning_effort"),
    "anthropic": ("temperature", "thinking"),
    "google": ("temperature", "Thinking level"),
    "openai-compatible": ("temperature", "reasoning_effort"),
    "ollama": ("temperature", "reasoning_effort"),
}
#: Models whose library sends both settings, so that the provider can reject them.
ACCEPTING = {
    "openai": "openai:o-unknown",
    "openai-chat": "openai-chat:o-unknown",
    "anthropic": "anthropic:claude-sonnet-4-6",
    "google": "google:gemini-3-pro-preview",
    "openai-compatible": "openai-compatible:qwen3",
    "ollama": "ollama:qwen3",
}
TEMPERATURE = ('"temperature"',)
THINKING = ('"reasoning"', '"reasoning_effort"', '"thinking"', '"thinkingConfig"', '"effort"')


@pytest.mark.parametrize("provider", ["google", "openai-compatible"])
@STREAMED_OR_NOT
async def test_rejected_setting_is_dropped_and_not_sent_again(
    provider: str, stream: bool, server: ProviderServer, caplog: pytest.LogCaptureFixture
) -> None:
    temperature, thinking = SPELLINGS[provider]

    def reply(request: ProviderRequest) -> Reply:
        if any(name in request.text for name in TEMPERATURE):
            return REJECTIONS[provider](temperature)
        if any(name in request.text for name in THINKING):
            return REJECTIONS[provider](thinking)
        return say("ok")

    model = model_of(provider, server, temperature=0.5, top_p=0.9, thinking="high", max_tokens=77)
    server.script = [reply] * 4
    assert (await response_of(model, PROMPT, stream=stream)).text == "ok"
    assert server.count == 3
    assert (await model.complete(PROMPT)).text == "ok"
    await model.aclose()
    assert server.count == 4
    for name in (*TEMPERATURE, *THINKING):
        assert name not in server.requests[3].text
    assert "0.9" in server.requests[3].text and "77" in server.requests[3].text
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    dropped = [message.partition(" does not support ")[2] for message in warnings]
    assert dropped == [f"{name}; the setting is not sent" for name in ("temperature", "thinking")]
    assert KEY not in caplog.text


async def test_rejected_setting_of_a_request_is_dropped_for_that_value_only(
    server: ProviderServer,
) -> None:
    def reply(request: ProviderRequest) -> Reply:
        if request.body.get("temperature") == 0.5:
            return REJECTIONS["openai-compatible"]("temperature")
        return say("ok")

    server.script = [reply] * 4
    model = model_of("openai-compatible", server)
    for temperature in (0.5, 0.5, 1.0):
        settings = ModelSettings(temperature=temperature)
        assert (await model.complete(ModelRequest.of("q", settings=settings))).text == "ok"
    await model.aclose()
    sent = [request.body.get("temperature") for request in server.requests]
    assert sent == [0.5, None, None, 1.0]


@EVERY_PROVIDER
async def test_temperature_is_dropped_once_and_then_the_error_is_raised(
    provider: str, server: ProviderServer
) -> None:
    server.script = [REJECTIONS[provider]("temperature")] * 10
    model = ProviderModel(
        ACCEPTING[provider],
        attempts=1,
        temperature=0.5,
        base_url=server.url if provider == "openai-compatible" else "",
    )
    error = await error_of(model)
    assert (error.reason, server.count) == ("rejected", 2)


@EVERY_PROVIDER
@pytest.mark.parametrize(
    "message",
    [
        "temperature: 9.0 is greater than the maximum of 2.0",
        "the model stopped: unsupported content",
        "max_tokens is not supported",
    ],
)
async def test_invalid_setting_is_an_error_and_nothing_is_dropped(
    provider: str, message: str, server: ProviderServer
) -> None:
    server.script = [fail(400, message)] * 3
    error = await error_of(model_of(provider, server, temperature=9, top_p=0.9, max_tokens=5))
    assert (error.reason, server.count) == ("rejected", 1)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_seed_that_a_provider_does_not_have_is_dropped_with_a_warning(
    provider: str, server: ProviderServer, caplog: pytest.LogCaptureFixture
) -> None:
    model = model_of(provider, server, seed=7)
    assert (await model.complete(PROMPT)).text
    await model.aclose()
    assert "seed" not in server.requests[0].body
    assert "does not support seed; the setting is not sent" in caplog.text


# Secrets


def contents_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


@EVERY_PROVIDER
async def test_key_appears_in_no_error_log_event_or_file(
    provider: str,
    server: ProviderServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ACC_MODEL_CACHE", str(tmp_path / "cache"))
    url = f"@{server.url}" if provider == "openai-compatible" else ""
    name = f"{MODELS[provider]}{url}?attempts=1"
    runner = Runner(Agent(name="a", model=name), store=tmp_path / "store.db")
    texts: list[str] = []
    for status in (401, 400, 500, 429):
        server.script = [fail(status, f"your key {KEY} with Authorization: Bearer {KEY}")]
        with pytest.raises(ModelFailed) as caught:
            await runner.run(user_id="u", session_id=f"s{status}", message="hello")
        texts.append(f"{caught.value!r} {caught.value.__cause__!r}")
    server.script = [say("hello to you")]
    result = await runner.run(user_id="u", session_id="s", message="hello")
    await runner.aclose()
    assert server.requests[-1].key == KEY
    texts += [repr(result), caplog.text]
    texts += [str(vars(record)) for record in caplog.records if record.name != "asyncio"]
    assert not [text for text in texts if KEY in text]
    files = contents_of(tmp_path)
    assert len(files) >= 2
    assert not [content for content in files if KEY.encode() in content]
