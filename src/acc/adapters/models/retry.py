"""Retries of a model."""

import asyncio
from collections.abc import AsyncIterator

from acc.adapters.http.retry import RetryPolicy
from acc.adapters.models.wrappers import Sleep, close_model, stream_model, with_message
from acc.domain.errors import ModelFailed
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    input_types,
)


class RetryingModel:
    """Retries failures that may pass, with backoff.

    A stream is retried only as long as nothing of it was shown.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        *,
        attempts: int = 4,
        max_wait: float = 60.0,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._model = model
        self._retry = RetryPolicy(attempts=attempts, max_wait=max_wait, sleep=sleep)

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        try:
            return await self._retry.call(lambda: self._model.complete(prompt))
        except ModelFailed as error:
            raise self._explained(error) from None

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""

        async def start() -> tuple[AsyncIterator[str | ModelResponse], str | ModelResponse | None]:
            pieces = stream_model(self._model, prompt)
            return pieces, await anext(pieces, None)

        try:
            pieces, first = await self._retry.call(start)
        except ModelFailed as error:
            raise self._explained(error) from None
        try:
            if first is not None:
                yield first
            async for piece in pieces:
                yield piece
        finally:
            await close_model(pieces)

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)

    def _explained(self, error: ModelFailed) -> ModelFailed:
        """Return the error with the reason why it was not retried any more."""
        if not error.retryable:
            return error
        if self._retry.asks_too_long(error):
            return with_message(
                error,
                f"{error} (the provider asks to wait {error.retry_after:g} s, max_wait is "
                f"{self._retry.max_wait:g} s)",
            )
        attempts = self._retry.attempts
        return with_message(error, f"{error} ({attempts} attempt{'s' if attempts > 1 else ''})")
