"""Opening a provider's client: with the key, the URL and the timeouts of a choice."""

from contextlib import AsyncExitStack
from typing import Any

import httpx2
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from acc.adapters.providers.choice import MOVABLE, ModelChoice

_CONNECT_WITHIN = 10.0
_CONNECTIONS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)


def open_model(choice: ModelChoice, key: str, stack: AsyncExitStack) -> Model:
    """Return the model; `stack` closes its connections."""
    provider = _provider(choice, key, stack)
    client = provider.client
    if hasattr(client, "max_retries"):
        client.max_retries = 0  # who asks decides what is tried again
    return infer_model(f"{choice.provider}:{choice.model}", lambda _: provider)


def _provider(choice: ModelChoice, key: str, stack: AsyncExitStack) -> Provider[Any]:
    given: dict[str, Any] = {}
    if choice.provider not in MOVABLE:
        if choice.api_key_env:
            given["api_key"] = key
        provider = infer_provider_class(choice.provider)(**given)
        own = getattr(provider, "_own_http_client", None)
        if own is not None:
            stack.push_async_callback(own.aclose)
        return provider
    timeout = httpx2.Timeout(choice.timeout, connect=min(choice.timeout, _CONNECT_WITHIN))
    client = httpx2.AsyncClient(timeout=timeout, limits=_CONNECTIONS)
    stack.push_async_callback(client.aclose)
    given = {"api_key": key or None, "http_client": client}
    if choice.base_url:
        given["base_url"] = choice.base_url
    return infer_provider_class(choice.provider)(**given)
