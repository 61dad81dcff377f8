"""Opening a provider's client: with the key of a choice, or with what the library finds."""

from contextlib import AsyncExitStack
from typing import Any

from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import infer_provider_class

from acc.adapters.providers.choice import ModelChoice
from acc.adapters.providers.faults import Faults


def open_model(choice: ModelChoice, key: str, faults: Faults, stack: AsyncExitStack) -> Model:
    """Return the model; `stack` closes its connections, and `faults` learns of its key."""
    given: dict[str, Any] = {"api_key": key} if choice.api_key_env else {}
    provider = infer_provider_class(choice.provider)(**given)
    own = getattr(provider, "_own_http_client", None)
    if own is not None:
        stack.push_async_callback(own.aclose)
    client = provider.client
    if hasattr(client, "max_retries"):
        client.max_retries = 0  # who asks decides what is tried again
    found = getattr(client, "api_key", None)
    if isinstance(found, str):
        faults.hide(found)
    return infer_model(f"{choice.provider}:{choice.model}", lambda _: provider)
