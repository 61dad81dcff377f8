"""The local model, asked over the OpenAI-compatible HTTP API of its llama.cpp server."""

import logging
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx2

from acc.adapters.models.local_server import ServerAddress, ServerLease
from acc.adapters.models.messages import inline_root
from acc.adapters.models.provider import PydanticAiModel
from acc.adapters.models.wrappers import close_model
from acc.application.models.names import LocalModelName, ModelName
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse
from acc.ports.outbound.system_ports import ThreadsPort

log = logging.getLogger("acc.run")

REQUEST_TIMEOUT_SECONDS = 600.0
#: Reasons after which the server may have ended, so that it is looked up or started again.
_SERVER_GONE = frozenset({"connection", "cut_off"})
_CONTEXT_SIZES = re.compile(r"\((\d+) tokens\).*\((\d+) tokens\)")


class LocalModel:
    """Asks a model on this machine; its server is found or started with the first request.

    Tools are offered to models whose template supports them; for others they are left out, which
    is logged once. A consumer that stops reading stops the server's work on the answer.
    """

    def __init__(
        self, name: LocalModelName, *, threads: ThreadsPort, runtime_base: str = ""
    ) -> None:
        self.model_name = name
        self._threads = threads
        self._lease = ServerLease(name, runtime_base=runtime_base)
        self._supports_tools: bool | None = None

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self.model_name.name

    #: Local models get texts only.
    input_types: tuple[str, ...] = ()

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        # Streamed too, so that the server notices at once when the caller is cancelled.
        pieces = self.stream(prompt)
        try:
            async for piece in pieces:
                if isinstance(piece, ModelResponse):
                    return piece
        finally:
            await close_model(pieces)
        raise ModelFailed(f"{self.name}: the local server sent no response; try again")

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response.

        If the server has just ended, it is started again, once.
        """
        for is_retry in (False, True):
            address: ServerAddress = await self._threads.call(self._lease.address)
            model = self._connect(address)
            shown = False
            try:
                request = await self._prepare(prompt, address)
                async for piece in model.stream(request):
                    shown = True
                    yield piece
            except ModelFailed as error:
                if shown or is_retry or error.reason not in _SERVER_GONE:
                    raise self._explained(error) from None
                log.info("the local server of %s has ended; it is started again", self.name)
            else:
                return
            finally:
                await model.aclose()

    def release(self) -> None:
        """Let the server end if nobody else uses it; the next request starts it again."""
        self._lease.release()

    def _connect(self, address: ServerAddress) -> PydanticAiModel:
        """Return a client for one request: the server's address and key may change."""
        local = self.model_name
        name = ModelName(
            provider="openai-compatible",
            model="local",
            base_url=f"{address.url}/v1",
            temperature=local.temperature,
            max_tokens=local.max_tokens,
            seed=local.seed,
            timeout=REQUEST_TIMEOUT_SECONDS,
            output="native",
        )
        # Reusing an earlier prompt changes results in their last digits, and so the answer.
        settings = {"extra_body": {"cache_prompt": False}}
        return PydanticAiModel(name, key=address.key, label=self.name, settings=settings)

    async def _prepare(self, prompt: ModelRequest, address: ServerAddress) -> ModelRequest:
        if prompt.tools and not await self._can_use_tools(address):
            prompt = replace(prompt, tools=())
        if prompt.output_schema is not None:
            schema = bound_schema(inline_root(prompt.output_schema))
            prompt = replace(prompt, output_schema=schema)
        return prompt

    async def _can_use_tools(self, address: ServerAddress) -> bool:
        if self._supports_tools is None:
            headers = {"Authorization": f"Bearer {address.key}"}
            try:
                async with httpx2.AsyncClient(trust_env=False) as client:
                    response = await client.get(f"{address.url}/props", headers=headers)
            except httpx2.TransportError as error:
                raise ModelFailed(
                    f"{self.name}: the local server cannot be reached ({type(error).__name__})",
                    reason="connection",
                ) from None
            template: dict[str, Any] = response.json().get("chat_template_caps", {})
            self._supports_tools = bool(template.get("supports_tools"))
            if not self._supports_tools:
                log.warning("%s cannot call tools, so tools are not sent to it", self.name)
        return self._supports_tools

    def _explained(self, error: ModelFailed) -> ModelFailed:
        """Return an error with advice for a local model."""
        if error.reason == "context_length":
            sizes = _CONTEXT_SIZES.search(str(error))
            tokens = f"{sizes[1]} tokens, the context {sizes[2]}" if sizes else "too many tokens"
            message = (
                f"{self.name}: the prompt has {tokens}: shorten memory, instruction or tools, or "
                "enlarge the context with ?context="
            )
        elif error.reason == "cut_off":
            message = (
                f"{self.name}: the local server ended before the end of the answer; the next "
                "request starts it again"
            )
        else:
            return error
        return ModelFailed(message, reason=error.reason, model=self.name)


# Schemas

MAX_STRING_LENGTH = 240
MAX_ARRAY_ITEMS = 8
_MAPS_OF_SCHEMAS = ("properties", "$defs", "definitions")
_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "allOf", "prefixItems")
_LIMITS_STRINGS = ("enum", "const", "pattern", "format", "maxLength")


def bound_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that limits texts and lists, which small models do not end by themselves.

    What matches the result matches the given schema.
    """
    found: dict[str, Any] = dict(schema)
    for key in _MAPS_OF_SCHEMAS:
        if isinstance(found.get(key), Mapping):
            found[key] = {name: _bound(inner) for name, inner in found[key].items()}
    for key in _LISTS_OF_SCHEMAS:
        if isinstance(found.get(key), list):
            found[key] = [_bound(inner) for inner in found[key]]
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = _bound(found[key])
    if found.get("type") == "string" and not any(key in found for key in _LIMITS_STRINGS):
        found["maxLength"] = max(MAX_STRING_LENGTH, found.get("minLength", 0))
    if found.get("type") == "array" and "maxItems" not in found:
        found["maxItems"] = max(MAX_ARRAY_ITEMS, found.get("minItems", 0))
    return found


def _bound(inner: Any) -> Any:
    return bound_schema(inner) if isinstance(inner, Mapping) else inner
