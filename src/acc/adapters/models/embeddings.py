"""Embeddings of a provider, or of a compatible server, over HTTP."""

import asyncio
import math
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec

from acc.adapters.http.retry import RetryPolicy, retry_after_seconds
from acc.adapters.system.loop_cleanup import close_with_loop
from acc.application.models.names import (
    COMPATIBLE_KEY,
    KEY_EXPLANATION,
    ReadVariable,
    is_unencrypted,
    is_variable_name,
    no_variables,
    read_key,
)
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.language import one_line
from acc.domain.text import replace_surrogates as replace_surrogates
from acc.domain.value_objects.endpoint import redact_secrets

#: The base URL of a provider's embeddings, and the variables that may hold its key.
PROVIDERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "fireworks": ("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "google": (
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    ),
    "mistral": ("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",)),
    "ollama": ("http://127.0.0.1:11434/v1", ()),
    "openai": ("https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "openai-compatible": ("", ()),
    "together": ("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
}
_MOVABLE = ("ollama", "openai-compatible")
_RETRYABLE_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
BATCH_SIZE = 96
MAX_TEXT_LENGTH = 8_000
MAX_CACHED_VECTORS = 4_096
MAX_RESPONSE_BYTES = 64_000_000
#: Characters of a server's message that are read, and that are shown after secrets are removed.
_MAX_MESSAGE_READ = 4_000
_MAX_MESSAGE_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingsName:
    """The embeddings of a provider. The key is read when it is needed, and not stored."""

    name: str
    model: str
    base_url: str
    key_variables: tuple[str, ...]
    key_required: bool

    def key(self, read_variable: ReadVariable) -> str:
        """Return the key, or raise InvalidInput with the variable that should hold it."""
        key = read_key(self.name, self.key_variables, read_variable)
        if not key and self.key_required:
            raise InvalidInput(f"{self.name} needs a key: set {' or '.join(self.key_variables)}")
        return key


def parse_embeddings_name(
    name: str, *, read_variable: ReadVariable = no_variables
) -> EmbeddingsName:
    """Return what `PROVIDER:MODEL` or `openai-compatible:MODEL@URL[?key=VARIABLE]` names.

    Over unencrypted http, other machines receive only a key whose variable is named.
    """
    name, has_key, variable = name.partition("?key=")
    if has_key and not is_variable_name(variable, read_variable):
        raise InvalidInput(f"{name}: {KEY_EXPLANATION}")
    provider, colon, rest = name.partition(":")
    if provider not in PROVIDERS or not colon:
        known = ", ".join(f"{one}:MODEL" for one in PROVIDERS if one != "openai-compatible")
        raise InvalidInput(
            f"unknown embeddings {name!r}: choose none, multilingual, static, {known} or "
            "openai-compatible:MODEL@URL"
        )
    base_url, variables = PROVIDERS[provider]
    model, at, url = rest.partition("@http")
    if at and provider not in _MOVABLE:
        raise InvalidInput(
            f"{provider} takes no URL: write openai-compatible:{model}@URL for another server"
        )
    base_url = f"http{url}" if at else base_url
    if not model.strip() or not model.isprintable():
        raise InvalidInput(
            f"{name}: the model's name is missing, for example openai:text-embedding-3-small"
        )
    parts = urlsplit(base_url)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise InvalidInput(
            f"{provider}:{model} needs a URL without credentials or query: "
            f"{provider}:{model}@http://…/v1"
        )
    if has_key:
        variables = (variable,)
    elif provider in _MOVABLE:
        variables = () if is_unencrypted(base_url) else (COMPATIBLE_KEY,)
    return EmbeddingsName(
        name=f"{provider}:{model}",
        model=model,
        base_url=base_url.rstrip("/"),
        key_variables=variables,
        key_required=bool(has_key) or provider not in _MOVABLE,
    )


class HostedEmbedder:
    """Implements EmbedderPort over the HTTP API of OpenAI: batched, cached, retried.

    `attempts` includes the first one; a server may ask for a wait of at most `max_wait` seconds.
    """

    def __init__(
        self,
        name: EmbeddingsName,
        *,
        read_variable: ReadVariable,
        timeout: float = 30.0,
        attempts: int = 4,
        max_wait: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if attempts < 1:
            raise InvalidInput(f"{name.name}: attempts must be at least 1, got {attempts}")
        name.key(read_variable)
        self._name = name
        self._read_variable = read_variable
        self._timeout = timeout
        self._retry = RetryPolicy(attempts=attempts, max_wait=max_wait, sleep=sleep)
        self._cache: OrderedDict[str, array[float]] = OrderedDict()
        self._dimensions = 0
        self._client: httpx2.AsyncClient | None = None
        self._closing: AsyncGenerator[None, None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HostedEmbedder({self._name.name!r})"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector for each text."""
        sent = [_prepare(text) for text in texts]
        found = {text: self._cache[text] for text in sent if text in self._cache}
        missing = [text for text in dict.fromkeys(sent) if text not in found]
        for start in range(0, len(missing), BATCH_SIZE):
            batch = missing[start : start + BATCH_SIZE]
            vectors = await self._retry.call(partial(self._request, batch))
            found.update(zip(batch, vectors, strict=True))
        for text in sent:
            self._cache[text] = found[text]
            self._cache.move_to_end(text)
        while len(self._cache) > MAX_CACHED_VECTORS:
            self._cache.popitem(last=False)
        return [found[text] for text in sent]

    async def aclose(self) -> None:
        """Close the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()
            self._closing = None

    async def _request(self, texts: Sequence[str]) -> "list[array[float]]":
        name = self._name
        key = name.key(self._read_variable)
        headers = {"authorization": f"Bearer {key}"} if key else {}
        body = {"model": name.model, "input": list(texts), "encoding_format": "float"}
        url = f"{name.base_url}/embeddings"
        data = bytearray()
        try:
            async with self._opened().stream("POST", url, json=body, headers=headers) as response:
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > MAX_RESPONSE_BYTES:
                        raise self._error(
                            f"the response has more than {MAX_RESPONSE_BYTES} bytes", "unreadable"
                        )
        except httpx2.HTTPError as error:
            host = urlsplit(name.base_url).netloc
            raise self._error(
                f"{host} cannot be reached: {type(error).__name__}", "connection", retryable=True
            ) from None
        if response.status_code != httpx2.codes.OK:
            raise self._rejected(response, bytes(data), key)
        return self._read(bytes(data), len(texts))

    def _error(
        self,
        message: str,
        reason: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> ModelFailed:
        return ModelFailed(
            f"{self._name.name}: {message}",
            reason=reason,
            model=self._name.name,
            provider=self._name.name.partition(":")[0],
            retryable=retryable,
            retry_after=retry_after,
        )

    def _rejected(self, response: httpx2.Response, data: bytes, key: str) -> ModelFailed:
        name, status = self._name, response.status_code
        message = redact_secrets(_message(data), [key])[:_MAX_MESSAGE_SHOWN]
        if status in _RETRYABLE_STATUS:
            return self._error(
                f"HTTP {status}: {message}",
                "rate_limit" if status == 429 else "server",
                retryable=True,
                retry_after=retry_after_seconds(response.headers),
            )
        if status in (401, 403):
            if not key:
                return self._error(
                    f"HTTP {status}: a key is required: name its variable, ?key=VARIABLE",
                    "key_refused",
                )
            variables = " or ".join(name.key_variables)
            return self._error(
                f"HTTP {status}: the key was rejected: check {variables}", "key_refused"
            )
        if status == 404:
            return self._error(
                f"HTTP 404: the model does not exist at {name.base_url}: check both",
                "unknown_model",
            )
        return self._error(f"HTTP {status}: {message}", "rejected")

    def _read(self, data: bytes, count: int) -> "list[array[float]]":
        try:
            response = msgspec.json.decode(data, type=_Response)
        except msgspec.MsgspecError as error:
            raise self._error(
                f"the response cannot be read: {error}", "unreadable", retryable=True
            ) from None
        rows = sorted(response.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(count)):
            raise self._error(
                f"{len(rows)} vectors were returned for {count} texts", "unreadable", retryable=True
            )
        vectors = [self._normalize(row.embedding) for row in rows]
        dimensions = self._dimensions or len(vectors[0])
        for vector in vectors:
            if len(vector) != dimensions:
                raise self._error(
                    f"a vector has {len(vector)} dimensions instead of {dimensions}. Vectors of "
                    "two models cannot be compared: start a new memory",
                    "unreadable",
                )
        self._dimensions = dimensions
        return vectors

    def _normalize(self, numbers: Sequence[float]) -> "array[float]":
        length = math.sqrt(math.fsum(number * number for number in numbers))
        if not length or not math.isfinite(length):
            raise self._error("a vector consists of zeros only", "unreadable", retryable=True)
        return array("f", (number / length for number in numbers))

    def _opened(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        # Connections belong to the event loop that opened them.
        if self._client is None or self._loop is not loop:
            self._client = httpx2.AsyncClient(timeout=self._timeout)
            self._closing = close_with_loop(self._client.aclose)
            self._loop = loop
        return self._client


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Response(msgspec.Struct):
    data: list[_Row]


def _prepare(text: str) -> str:
    text = replace_surrogates(text[:MAX_TEXT_LENGTH])
    return text if text.strip() else "-"


def _message(data: bytes) -> str:
    """Return the message of an error body, on one line."""
    try:
        body: Any = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        body = data[:_MAX_MESSAGE_READ].decode("utf-8", "replace")
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message", error) if isinstance(error, dict) else error
    return one_line(str(message)[:_MAX_MESSAGE_READ])
