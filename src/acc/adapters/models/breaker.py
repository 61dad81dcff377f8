"""Circuit breaker of a model."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from acc.adapters.models.wrappers import close_model, stream_model
from acc.application.runtime.circuits import circuit_call
from acc.domain.circuit_breaker import CircuitBreaker
from acc.domain.errors import CircuitOpen, ModelFailed
from acc.ports.outbound.limit_ports import CircuitStorePort
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    input_types,
)

#: Failures that show that a provider responds; they do not open the circuit.
_RESPONSES = frozenset({"rate_limit", "quota"})


class _ProviderFailed(Exception):
    """Carries a failure that counts through the circuit breaker."""

    def __init__(self, error: ModelFailed) -> None:
        super().__init__(str(error))
        self.error = error


class BreakerModel:
    """Does not call a model that failed repeatedly, until a probe succeeds.

    Only failures that may pass count, such as timeouts and server errors. The error of a call that
    is not made states the time of the next attempt; a fallback model is used meanwhile.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        breaker: CircuitBreaker,
        *,
        circuits: CircuitStorePort | None = None,
    ) -> None:
        self._model = model
        self._breaker = breaker
        self._circuits = circuits

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        async with self._guard():
            return await self._model.complete(prompt)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""
        pieces = stream_model(self._model, prompt)
        try:
            async with self._guard():
                first = await anext(pieces, None)
            if first is not None:
                yield first
            async for piece in pieces:
                yield piece
        finally:
            await close_model(pieces)

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)

    @asynccontextmanager
    async def _guard(self) -> AsyncIterator[None]:
        try:
            async with circuit_call(self._breaker, (_ProviderFailed,), self._circuits):
                try:
                    yield
                except ModelFailed as error:
                    if error.retryable and error.reason not in _RESPONSES:
                        raise _ProviderFailed(error) from None
                    raise
        except _ProviderFailed as failure:
            raise failure.error from None
        except CircuitOpen as error:
            raise ModelFailed(
                str(error),
                reason="circuit_open",
                model=self._breaker.name,
                retryable=True,
                retry_after=max(0.0, error.next_attempt - time.time()),
            ) from None
