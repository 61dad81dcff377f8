"""Models of providers that send their requests to a test server."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acc.bootstrap.models import ProviderModel
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.testing.providers import ProviderServer

KEY = "canary-6f1d2c9b8a7e5d4c3b2a1908"
#: Models by provider prefix. ollama represents the providers without their own settings here.
MODELS = {
    "openai": "openai:gpt-5.2",
    "openai-chat": "openai-chat:gpt-5.2",
    "anthropic": "anthropic:claude-opus-4-8",
    "google": "google:gemini-3-pro-preview",
    "openai-compatible": "openai-compatible:qwen3",
    "ollama": "ollama:qwen3",
}
#: The API of providers that use the API of another provider.
APIS = {"openai-compatible": "openai-chat", "ollama": "openai-chat"}
EVERY_PROVIDER = pytest.mark.parametrize("provider", MODELS)
STREAMED_OR_NOT = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@contextmanager
def environment(server: ProviderServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the environment so that every provider uses the server."""
    for name, value in server.environment(KEY).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    yield


def model_of(provider: str, server: ProviderServer, **settings: Any) -> ProviderModel:
    """Return a model of a provider without retries."""
    if provider == "openai-compatible":
        settings["base_url"] = server.url
    return ProviderModel(MODELS[provider], **{"attempts": 1, **settings})


async def stream_all(model: ProviderModel, prompt: ModelRequest) -> tuple[list[str], ModelResponse]:
    """Return the pieces of a stream and its final response."""
    *pieces, last = [piece async for piece in model.stream(prompt)]
    assert isinstance(last, ModelResponse)
    return [piece for piece in pieces if isinstance(piece, str)], last


async def response_of(model: ProviderModel, prompt: ModelRequest, *, stream: bool) -> ModelResponse:
    """Return the response, with or without streaming."""
    return (await stream_all(model, prompt))[1] if stream else await model.complete(prompt)
