"""Answers kept on disk, so that an evaluation that is run again asks nobody."""

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

from acc.adapters.chat.writing import as_json, sorted_json
from acc.adapters.providers.trying import close, streamed
from acc.application.runtime.deadlines import pause_deadlines
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ToolCall, Usage
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

#: Raised when what is kept, or what an answer depends on, changes its form.
_FORM = 1
log = logging.getLogger("acc.run")


def check_folder(folder: Path) -> None:
    """Refuse a folder where no answer can be kept, unless there are answers in it to read."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        if not any(folder.glob("??/*.json")):
            raise InvalidInput(
                f"the answer cache {folder} cannot be written: {error.strerror or error}"
            ) from error


class _Said(msgspec.Struct, frozen=True):
    text: str
    calls: tuple[ToolCall, ...]
    usage: Usage


class _Entry(msgspec.Struct, frozen=True):
    """What a file holds; `seal` is the digest of the rest, so that damage is noticed."""

    key: str
    model: str
    said: _Said
    seal: str


class _Question:
    """A question under way, and what came of it once it is over: nothing, if it was given up."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.answer: ModelAnswer | None = None
        self.fault: ModelFailed | None = None


class CachedModel:
    """Answers from a folder what it was asked before, and keeps there what is answered anew.

    The same question is one with the same model, settings, prompt and sample. `sample` tells apart
    draws that are meant to be independent: episodes, votes. Who asks what is being asked already
    waits for that answer; of two that come all the same, the one that was kept first stands, so
    that all who ask now hear what all who ask later will. What a kept answer once cost is not spent
    again: its `cost` is 0. Failures and empty answers are not kept, and a damaged file counts as
    none. An answer that cannot be kept is given all the same, and the log warns of the first.
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
        #: The questions under way; who waits for one has to be of its loop.
        self._questions: dict[tuple[asyncio.AbstractEventLoop, str], _Question] = {}

    def sampled(self, sample: str) -> "CachedModel":
        """Return the same model for draws of their own."""
        return CachedModel(
            self._model, self._folder, identity=self._identity, name=self._name, sample=sample
        )

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the kept answer to a prompt, or a new one."""
        key = self._key(prompt)
        kept = await self._known(key)
        if kept is not None:
            return kept
        with self._asking(key) as question:
            question.answer = self._write(key, await self._model.complete(prompt))
        return question.answer

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the kept answer at once, or a new one as it comes."""
        key = self._key(prompt)
        kept = await self._known(key)
        if kept is not None:
            if kept.text:
                yield kept.text
            yield kept
            return
        # Nobody waits for a stream: who listens to it may stop, or ask the same before its end.
        async for piece in streamed(self._model, prompt):
            yield self._write(key, piece) if isinstance(piece, ModelAnswer) else piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close(self._model)

    async def _known(self, key: str) -> ModelAnswer | None:
        """Return the answer that is kept, or that another gets who has asked already."""
        place = (asyncio.get_running_loop(), key)
        waiting: AbstractContextManager[object] = pause_deadlines()
        while place in self._questions:
            question = self._questions[place]
            with waiting:
                await question.over.wait()
            # It was given up; who waits on for the next one does so on their own time.
            waiting = nullcontext()
            if question.fault is not None:
                raise question.fault
            if question.answer is not None:
                self.hits += 1
                return _for_nothing(question.answer)
        found = self._read(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        return _for_nothing(found)

    @contextmanager
    def _asking(self, key: str) -> Iterator[_Question]:
        """Tell all who ask the same meanwhile what came of it."""
        place = (asyncio.get_running_loop(), key)
        question = self._questions[place] = _Question()
        try:
            yield question
        except ModelFailed as fault:
            question.fault = fault
            raise
        finally:
            del self._questions[place]
            question.over.set()

    def _key(self, prompt: Prompt) -> str:
        asked: tuple[object, ...] = (_FORM, self._identity, self._sample, prompt)
        if prompt.output_schema is not None or prompt.tools:
            # A model goes by the order in which fields are named; all else is sorted.
            schemas = (prompt.output_schema, [spec.parameters for spec in prompt.tools])
            asked = (*asked, as_json(schemas))
        return hashlib.sha256(sorted_json(asked)).hexdigest()

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> ModelAnswer | None:
        try:
            entry = msgspec.json.decode(self._path(key).read_bytes(), type=_Entry)
            said = entry.said
            is_sound = entry.key == key and entry.seal == _seal(key, said)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not is_sound or _is_empty(said):
            return None
        return ModelAnswer(text=said.text, calls=said.calls, usage=said.usage)

    def _write(self, key: str, answer: ModelAnswer) -> ModelAnswer:
        """Keep an answer, unless there is one by now; return the one that stands.

        A reader, here or in another process, finds all of it or nothing.
        """
        said = _Said(answer.text, answer.calls, answer.usage)
        if _is_empty(said):
            return answer
        try:
            entry = _Entry(key, self._name, said, _seal(key, said))
            written = msgspec.json.encode(entry)
        except (TypeError, ValueError, msgspec.MsgspecError):
            return answer  # what cannot be written is asked again
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            number, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            try:
                with os.fdopen(number, "wb") as file:
                    file.write(written)
                return self._placed(key, Path(temporary), answer)
            finally:
                Path(temporary).unlink(missing_ok=True)
        except OSError as error:
            if not self._has_warned:
                why = error.strerror or type(error).__name__
                log.warning("the answer cache %s cannot be written: %s", self._folder, why)
            self._has_warned = True
        return answer

    def _placed(self, key: str, written: Path, answer: ModelAnswer) -> ModelAnswer:
        """Put a written answer in its place; whoever was there before keeps it, if undamaged."""
        path = self._path(key)
        try:
            path.hardlink_to(written)
        except OSError:  # there is one, or links are not to be had here
            before = self._read(key)
            if before is not None:
                return replace(before, usage=answer.usage)  # it was asked for, and is paid for
            written.replace(path)
        return answer


def _for_nothing(answer: ModelAnswer) -> ModelAnswer:
    """Return an answer as one that nobody was asked for now."""
    return replace(answer, usage=replace(answer.usage, cost=0.0, priced_calls=1), kept=True)


def _is_empty(said: _Said) -> bool:
    return not said.calls and not said.text.strip()


def _seal(key: str, said: _Said) -> str:
    written = msgspec.json.encode((key, said), order="deterministic")
    return hashlib.sha256(written).hexdigest()[:16]
