"""Trying again, and trying someone else: only what may help, and only while nothing was shown."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from acc.application.runtime.deadlines import pause_deadlines
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelAnswer,
    Prompt,
    StreamingModelPort,
)

log = logging.getLogger("acc.run")

_FIRST_WAIT = 0.5
_LONGEST_BACKOFF = 30.0
#: Failures that another model may be spared: the request is sound, and this model cannot take it.
_ELSEWHERE = frozenset({"quota", "context_length", "refused", "length", "not_possible"})


async def streamed(model: LanguageModelPort, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
    """Give a model's answer piece by piece, or whole where it cannot stream."""
    if not isinstance(model, StreamingModelPort):
        yield await model.complete(prompt)
        return
    pieces = model.stream(prompt)
    try:
        async for piece in pieces:
            yield piece
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:
            await close()


class RetryingModel:
    """Asks again after failures that may pass, each time later.

    A provider that says how long to wait is obeyed, unless that is more than `max_wait` seconds:
    then the failure is told at once. The clocks of those who wait for an answer stand still between
    two attempts. A stream is begun again only while nothing of it was shown.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        *,
        attempts: int = 4,
        max_wait: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._model = model
        self._attempts = attempts
        self._max_wait = max_wait
        self._sleep = sleep

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt."""
        attempt = 1
        while True:
            try:
                return await self._model.complete(prompt)
            except ModelFailed as error:
                await self._wait(error, attempt)
            attempt += 1

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        attempt = 1
        while True:
            shown = False
            try:
                async for piece in streamed(self._model, prompt):
                    shown = True
                    yield piece
            except ModelFailed as error:
                if shown:
                    raise
                await self._wait(error, attempt)
            else:
                return
            attempt += 1

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close(self._model)

    async def _wait(self, error: ModelFailed, attempt: int) -> None:
        """Wait before the next attempt, or raise the failure."""
        if not error.retryable:
            raise error
        wanted = error.retry_after
        if wanted is not None and wanted > self._max_wait:
            raise _worded(error, f"it asks to be left alone for {wanted:g} s") from None
        if attempt >= self._attempts:
            tried = f"tried {attempt} times" if attempt > 1 else "tried once"
            raise _worded(error, tried) from None
        backoff = min(_LONGEST_BACKOFF, self._max_wait, _FIRST_WAIT * 2 ** (attempt - 1))
        # Clients that failed together must not come back together.
        backoff *= random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, protects nothing
        with pause_deadlines():
            await self._sleep(max(backoff, wanted or 0.0))


class FallbackModel:
    """Asks the next model where the one before it cannot answer.

    A mistake of who asks, such as a wrong key or model name, is not covered up but told. A stream
    that was begun is not begun again by another. The log warns of each model when another first
    answers in its place.
    """

    def __init__(self, models: Sequence[LanguageModelPort]) -> None:
        self._models = tuple(models)
        self._told: set[int] = set()

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer of the first model that has one."""
        *others, last = self._models
        failed: list[ModelFailed] = []
        for model in others:
            try:
                return await model.complete(prompt)
            except ModelFailed as error:
                failed.append(self._passed_on(error, model))
        try:
            return await last.complete(prompt)
        except ModelFailed as error:
            raise _together([*failed, error]) from None

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the answer of the first model that has one as it comes."""
        failed: list[ModelFailed] = []
        for model in self._models:
            shown = False
            try:
                async for piece in streamed(model, prompt):
                    shown = True
                    yield piece
            except ModelFailed as error:
                if shown:
                    raise
                is_last = model is self._models[-1]
                failed.append(error if is_last else self._passed_on(error, model))
            else:
                return
        raise _together(failed)

    async def aclose(self) -> None:
        """Close the models' connections."""
        for model in self._models:
            await close(model)

    def _passed_on(self, error: ModelFailed, model: LanguageModelPort) -> ModelFailed:
        """Return a failure that the next model may make good, or raise it."""
        if not error.retryable and error.reason not in _ELSEWHERE:
            raise error
        if id(model) not in self._told:
            self._told.add(id(model))
            log.warning("%s; the next model answers in its place", error)
        return error


async def close(model: object) -> None:
    """Close a model's connections, if it has any."""
    ending = getattr(model, "aclose", None)
    if ending is not None:
        await ending()


def _worded(error: ModelFailed, addition: str) -> ModelFailed:
    return ModelFailed(
        f"{error} ({addition})",
        reason=error.reason,
        model=error.model,
        provider=error.provider,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


def _together(failed: Sequence[ModelFailed]) -> ModelFailed:
    """Return the last failure, in whose words are those of all before it."""
    last = failed[-1]
    return ModelFailed(
        "no model answered: " + "; ".join(str(error) for error in failed),
        reason=last.reason,
        model=last.model,
        provider=last.provider,
        retryable=last.retryable,
        retry_after=last.retry_after,
    )
