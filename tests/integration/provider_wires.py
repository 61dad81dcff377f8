"""The providers that the stand-in speaks for, and how their models are named."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from acc.bootstrap.models import ProviderModel
from acc.ports.outbound.model_ports import ModelAnswer, Prompt
from acc.testing.stand_in import ProviderStandIn

KEY = "canary-6f1d2c9b8a7e5d4c3b2a1908"
#: By the wire that is expected; `library` stands for all that are asked through one.
NAMES = {
    "openai": "openai:gpt-5.2",
    "openai-chat": "openai-chat:gpt-5.2",
    "anthropic": "anthropic:claude-opus-4-8",
    "google": "google:gemini-3-pro-preview",
    "compatible": "openai-compatible:qwen3",
    "library": "ollama:qwen3",
}
#: Those that are asked without a library.
DIRECT = tuple(name for name in NAMES if name != "library")
#: What those speak that are not the provider which the wire is named after.
SPOKEN = {"compatible": "openai-chat", "library": "openai-chat"}


@contextmanager
def keys(server: ProviderStandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in server.environment(KEY).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_COMPATIBLE_API_KEY", KEY)
    monkeypatch.setenv("OLLAMA_BASE_URL", server.url)
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    yield


def model_for(wire: str, server: ProviderStandIn, **settings: Any) -> ProviderModel:
    """Return a provider's model that asks the stand-in, and does so once."""
    if wire == "compatible":
        settings["base_url"] = server.url
    return ProviderModel(NAMES[wire], **{"attempts": 1, **settings})


async def streamed(model: ProviderModel, prompt: Prompt) -> tuple[list[str], ModelAnswer]:
    """Return the pieces of a stream, and the answer at its end."""
    found = [piece async for piece in model.stream(prompt)]
    *pieces, last = found
    assert isinstance(last, ModelAnswer)
    return [piece for piece in pieces if isinstance(piece, str)], last
