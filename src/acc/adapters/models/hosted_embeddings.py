"""Embeddings of a provider or a server of your own, over the HTTP that OpenAI's have."""

import asyncio
import math
from array import array
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from acc.adapters.chat.keys import held_key, is_clear, is_variable
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.language import one_line
from acc.domain.text import replace_surrogates
from acc.domain.value_objects.endpoint import redact_secrets

#: Where a provider's embeddings are, and which variables may hold its key.
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
#: The key of a server of your own, if it wants one; that of a provider is never sent to it.
COMPATIBLE_KEY = "OPENAI_COMPATIBLE_API_KEY"
_MOVABLE = ("ollama", "openai-compatible")
_WORTH_RETRYING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_MOST_BATCH = 96
_MOST_CHARACTERS = 8_000
_MOST_KEPT = 4_096
_MOST_BYTES = 64_000_000
_FIRST_WAIT = 0.5
#: Characters of what a server says: that are read, and that are told, once they hold no key.
_MOST_READ = 4_000
_MOST_TOLD = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingChoice:
    """Which embeddings are meant. The key is looked up when it is needed, and kept nowhere."""

    name: str
    model: str
    base_url: str
    key_variables: tuple[str, ...]
    key_required: bool

    def key(self) -> str:
        """Return the key, or say which variable should hold it."""
        held = held_key(self.name, self.key_variables)
        if not held and self.key_required:
            raise InvalidInput(f"{self.name} needs a key: set {' or '.join(self.key_variables)}")
        return held


def parse_embeddings(name: str) -> EmbeddingChoice:
    """Return what `PROVIDER:MODEL`, or `openai-compatible:MODEL@URL[?key=VARIABLE]`, names.

    In the clear, to other machines, only a key is sent whose variable is named.
    """
    name, asks, variable = name.partition("?key=")
    if asks and not is_variable(variable):
        raise InvalidInput(
            f"{name}: key takes the name of the environment variable that holds the key, such as "
            "TEAM_KEY, and not the key itself"
        )
    provider, colon, rest = name.partition(":")
    if provider not in PROVIDERS or not colon:
        known = ", ".join(f"{one}:MODEL" for one in PROVIDERS if one != "openai-compatible")
        raise InvalidInput(
            f"no embeddings {name!r}: choose none, static, {known} or openai-compatible:MODEL@URL"
        )
    base_url, variables = PROVIDERS[provider]
    model, at, url = rest.partition("@http")
    if at and provider not in _MOVABLE:
        raise InvalidInput(f"{provider}: say openai-compatible:{model}@URL for another address")
    base_url = f"http{url}" if at else base_url
    if not model.strip() or not model.isprintable():
        raise InvalidInput(
            f"{name}: the model's name is missing, as in openai:text-embedding-3-small"
        )
    parts = urlsplit(base_url)
    if not parts.hostname or parts.username or parts.query or parts.fragment:
        raise InvalidInput(
            f"{provider}:{model} needs an address, as in {provider}:{model}@http://…/v1"
        )
    if asks:
        variables = (variable,)
    elif provider in _MOVABLE:
        variables = () if is_clear(base_url) else (COMPATIBLE_KEY,)
    return EmbeddingChoice(
        name=f"{provider}:{model}",
        model=model,
        base_url=base_url.rstrip("/"),
        key_variables=variables,
        key_required=bool(asks) or provider not in _MOVABLE,
    )


class HostedEmbedder:
    """Implements EmbedderPort over HTTP: batched, tried again, and each text asked for once.

    The newest few thousand vectors are kept. A server that is busy or broken is tried `attempts`
    times; it may ask for a wait of at most `max_wait` seconds.
    """

    def __init__(
        self,
        choice: EmbeddingChoice,
        *,
        timeout: float = 30.0,
        attempts: int = 4,
        max_wait: float = 30.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if attempts < 1:
            raise InvalidInput(f"{choice.name}: {attempts} attempts are none")
        choice.key()
        self._choice = choice
        self._timeout = timeout
        self._attempts = attempts
        self._max_wait = max_wait
        self._sleep = sleep
        self._kept: OrderedDict[str, array[float]] = OrderedDict()
        self._size = 0
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"HostedEmbedder({self._choice.name!r})"

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one unit vector for each text."""
        cut = [_sendable(text) for text in texts]
        found = {text: self._kept[text] for text in cut if text in self._kept}
        missing = [text for text in dict.fromkeys(cut) if text not in found]
        for start in range(0, len(missing), _MOST_BATCH):
            batch = missing[start : start + _MOST_BATCH]
            for text, vector in zip(batch, await self._asked(batch), strict=True):
                found[text] = self._kept[text] = vector
        for text in cut:
            # Another call may have pushed it out meanwhile.
            self._kept[text] = found[text]
            self._kept.move_to_end(text)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return [found[text] for text in cut]

    async def aclose(self) -> None:
        """Close the connections; asking again opens them."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _asked(self, texts: Sequence[str]) -> "list[array[float]]":
        attempt = 1
        while True:
            try:
                return self._read(await self._post(texts), len(texts))
            except _Passing as fault:
                if attempt == self._attempts or fault.wait > self._max_wait:
                    raise ModelFailed(f"{self._choice.name}: {fault}") from None
                await self._sleep(max(_FIRST_WAIT * 2 ** (attempt - 1), fault.wait))
                attempt += 1

    async def _post(self, texts: Sequence[str]) -> bytes:
        choice = self._choice
        key = choice.key()
        headers = {"authorization": f"Bearer {key}"} if key else {}
        body = {"model": choice.model, "input": list(texts), "encoding_format": "float"}
        url = f"{choice.base_url}/embeddings"
        data = bytearray()
        try:
            async with self._opened().stream("POST", url, json=body, headers=headers) as response:
                async for piece in response.aiter_bytes():
                    data += piece
                    if len(data) > _MOST_BYTES:
                        raise ModelFailed(
                            f"{choice.name}: an answer of more than {_MOST_BYTES} bytes"
                        )
        except httpx.HTTPError as error:
            host = urlsplit(choice.base_url).netloc
            raise _Passing(f"{host} could not be asked: {type(error).__name__}") from None
        if response.status_code != httpx.codes.OK:
            raise self._refused(response, bytes(data), key)
        return bytes(data)

    def _refused(self, response: httpx.Response, data: bytes, key: str) -> Exception:
        choice, status = self._choice, response.status_code
        told = redact_secrets(_told(data), [key])[:_MOST_TOLD]
        if status in _WORTH_RETRYING:
            return _Passing(f"HTTP {status}: {told}", _seconds(response.headers))
        if status in (401, 403):
            if not key:
                return ModelFailed(
                    f"{choice.name}: HTTP {status}, it wants a key: name it, ?key=VARIABLE"
                )
            variables = " or ".join(choice.key_variables)
            return ModelFailed(
                f"{choice.name}: HTTP {status}, the key is not accepted; check {variables}"
            )
        if status == 404:
            return ModelFailed(
                f"{choice.name}: HTTP 404, there is no such model at {choice.base_url}; check both"
            )
        return ModelFailed(f"{choice.name}: HTTP {status}: {told}")

    def _read(self, data: bytes, count: int) -> "list[array[float]]":
        try:
            answer = msgspec.json.decode(data, type=_Answer)
        except msgspec.MsgspecError as error:
            raise _Passing(f"the answer cannot be read: {error}") from None
        rows = sorted(answer.data, key=lambda row: row.index)
        if [row.index for row in rows] != list(range(count)):
            raise _Passing(f"{len(rows)} vectors came for {count} texts")
        vectors = [_unit(row.embedding) for row in rows]
        size = self._size or len(vectors[0])
        for vector in vectors:
            if len(vector) != size:
                raise ModelFailed(
                    f"{self._choice.name}: a vector of {len(vector)} numbers came where {size} were"
                    " expected; vectors of two models cannot be compared, so start a new memory"
                )
        self._size = size
        return vectors

    def _opened(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        # Connections belong to the loop that opened them.
        if self._client is None or self._loop is not loop:
            self._client = httpx.AsyncClient(timeout=self._timeout)
            self._loop = loop
        return self._client


class _Row(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Row]


class _Passing(Exception):
    """A fault that may be gone the next time, and how long to wait if the server says so."""

    def __init__(self, fault: str, wait: float = 0.0) -> None:
        super().__init__(fault)
        self.wait = wait


def _sendable(text: str) -> str:
    cut = replace_surrogates(text[:_MOST_CHARACTERS])
    return cut if cut.strip() else "-"


def _unit(numbers: Sequence[float]) -> "array[float]":
    length = math.sqrt(math.fsum(number * number for number in numbers))
    if not length or not math.isfinite(length):
        raise _Passing("a vector without a direction came")
    return array("f", (number / length for number in numbers))


def _seconds(headers: httpx.Headers) -> float:
    try:
        seconds = float(headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < math.inf else 0.0


def _told(data: bytes) -> str:
    """Return what a server says of its refusal, on one line."""
    try:
        body: Any = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        body = data[:_MOST_READ].decode("utf-8", "replace")
    error = body.get("error", body) if isinstance(body, dict) else body
    said = error.get("message", error) if isinstance(error, dict) else error
    return one_line(str(said)[:_MOST_READ])
