"""Responses on disk, so that a repeated evaluation makes no call."""

import asyncio
import hashlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from acc.adapters.models.request_json import to_json, to_sorted_json
from acc.adapters.models.wrappers import close_model, stream_model
from acc.application.runtime.pausable_timeout import pause_deadlines as pause_deadlines
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ToolCall, Usage
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    input_types,
)

#: Increased when the format of entries or of keys changes.
_FORMAT_VERSION = 1
log = logging.getLogger("acc.run")


def check_folder(folder: Path) -> None:
    """Raise InvalidInput if a folder cannot be written and has no entries to read."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if not any(folder.glob("??/*.json")):
            raise InvalidInput(
                f"the cache of model responses {folder} cannot be written: "
                f"{error.strerror or error}"
            ) from error


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage
    first_tokens: tuple[tuple[str, float], ...] = ()


class _Entry(msgspec.Struct, frozen=True):
    """The content of a file; `digest` covers the rest, so that damage is detected."""

    key: str
    model: str
    content: _Content
    digest: str


class _PendingRequest:
    """A request that is being answered, and then its result: neither if it was cancelled."""

    def __init__(self) -> None:
        self.finished = asyncio.Event()
        self.response: ModelResponse | None = None
        self.error: ModelFailed | None = None


class CachedModel:
    """Answers repeated requests from a folder.

    Two requests are equal if model, settings, request and `sample` are equal; `sample` separates
    draws that must be independent, such as episodes or votes. Concurrent equal requests share one
    call. If two responses to equal requests arrive all the same, the first one stored is used by
    everyone. A response from the cache costs 0. Failures and empty responses are not stored, and
    damaged files are ignored. If a response cannot be stored, the first time is logged.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        folder: Path,
        *,
        identity: Mapping[str, Any],
        name: str,
        sample: str = "",
    ) -> None:
        self._model = model
        self._folder = folder
        self._identity = identity
        self._name = name
        self._sample = sample
        self.hits = 0
        self.misses = 0
        self._has_warned = False
        #: By event loop too: only tasks of the same loop can wait for it.
        self._pending: dict[tuple[asyncio.AbstractEventLoop, str], _PendingRequest] = {}

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the cached response to a request, or a new one."""
        key = self._key(prompt)
        cached = await self._find(key)
        if cached is not None:
            return cached
        with self._pending_request(key) as pending:
            pending.response = self._store(key, await self._model.complete(prompt))
        return pending.response

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the cached response at once, or a new one as it arrives."""
        key = self._key(prompt)
        cached = await self._find(key)
        if cached is not None:
            if cached.text:
                yield cached.text
            yield cached
            return
        # Streams are not shared: the consumer may stop, or make the same request before the end.
        async for piece in stream_model(self._model, prompt):
            yield self._store(key, piece) if isinstance(piece, ModelResponse) else piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)

    async def _find(self, key: str) -> ModelResponse | None:
        """Return the stored response, or that of an equal request in progress."""
        place = (asyncio.get_running_loop(), key)
        waiting: AbstractContextManager[object] = pause_deadlines()
        while place in self._pending:
            pending = self._pending[place]
            with waiting:
                await pending.finished.wait()
            # It was cancelled. Deadlines are paused for one wait only.
            waiting = nullcontext()
            if pending.error is not None:
                raise pending.error
            if pending.response is not None:
                self.hits += 1
                return _without_cost(pending.response)
        found = self._read(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        return _without_cost(found)

    @contextmanager
    def _pending_request(self, key: str) -> Iterator[_PendingRequest]:
        """Share the result of the block with equal requests that wait for it."""
        place = (asyncio.get_running_loop(), key)
        pending = self._pending[place] = _PendingRequest()
        try:
            yield pending
        except ModelFailed as error:
            pending.error = error
            raise
        finally:
            del self._pending[place]
            pending.finished.set()

    def _key(self, prompt: ModelRequest) -> str:
        parts: tuple[object, ...] = (_FORMAT_VERSION, self._identity, self._sample, prompt)
        if prompt.output_schema is not None or prompt.tools:
            # The order of a schema's properties influences a model; all other keys are sorted.
            schemas = (prompt.output_schema, [spec.parameters for spec in prompt.tools])
            parts = (*parts, to_json(schemas))
        return hashlib.sha256(to_sorted_json(parts)).hexdigest()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> ModelResponse | None:
        try:
            entry = msgspec.json.decode(self._path(key).read_bytes(), type=_Entry)
            content = entry.content
            is_intact = entry.key == key and entry.digest == _digest(key, content)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not is_intact or _is_empty(content):
            return None
        return ModelResponse(
            text=content.text,
            calls=content.calls,
            usage=content.usage,
            first_tokens=content.first_tokens,
        )

    def _store(self, key: str, response: ModelResponse) -> ModelResponse:
        """Store a response unless there is one, and return the one that is stored.

        Readers in this and other processes see a complete file or none.
        """
        content = _Content(response.text, response.calls, response.usage, response.first_tokens)
        if _is_empty(content):
            return response
        try:
            entry = _Entry(key, self._name, content, _digest(key, content))
            encoded = msgspec.json.encode(entry)
        except (TypeError, ValueError, msgspec.MsgspecError):
            return response  # it cannot be encoded
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(encoded)
                return self._publish(key, Path(temporary), response)
            finally:
                Path(temporary).unlink(missing_ok=True)
        except OSError as error:
            if not self._has_warned:
                why = error.strerror or type(error).__name__
                log.warning(
                    "the cache of model responses %s cannot be written: %s", self._folder, why
                )
            self._has_warned = True
        return response

    def _publish(self, key: str, temporary: Path, response: ModelResponse) -> ModelResponse:
        """Move a file to its place, unless an intact one is there."""
        path = self._path(key)
        try:
            path.hardlink_to(temporary)
        except OSError:  # the file exists, or the file system has no hard links
            stored = self._read(key)
            if stored is not None:
                return replace(stored, usage=response.usage)  # this call was made and costs
            temporary.replace(path)
        return response


def _without_cost(response: ModelResponse) -> ModelResponse:
    """Return a response as one from the cache, for which no call was made."""
    return replace(
        response, usage=replace(response.usage, cost=0.0, priced_calls=1), from_cache=True
    )


def _is_empty(content: _Content) -> bool:
    return not content.calls and not content.text.strip()


def _digest(key: str, content: _Content) -> str:
    encoded = msgspec.json.encode((key, content), order="deterministic")
    return hashlib.sha256(encoded).hexdigest()[:16]
