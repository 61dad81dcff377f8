"""Models around a model: fallback, rate limits, metering and prices."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from acc.adapters.models.request_json import to_json
from acc.application.runtime.pausable_timeout import pause_deadlines as pause_deadlines
from acc.domain.cost import FREE, ModelCall, Price
from acc.domain.errors import ModelFailed
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import Usage
from acc.ports.outbound.model_ports import (
    LanguageModelPort,
    ModelRequest,
    ModelResponse,
    StreamingModelPort,
    input_types,
)

log = logging.getLogger("acc.run")

Sleep = Callable[[float], Awaitable[None]]
#: Failures of one model that another one may not have.
_WORTH_FALLBACK = frozenset({"quota", "context_length", "refused", "length", "not_possible"})


async def stream_model(
    model: LanguageModelPort, prompt: ModelRequest
) -> AsyncIterator[str | ModelResponse]:
    """Yield a model's response in pieces, or whole if the model cannot stream."""
    if not isinstance(model, StreamingModelPort):
        yield await model.complete(prompt)
        return
    pieces = model.stream(prompt)
    try:
        async for piece in pieces:
            yield piece
    finally:
        await close_model(pieces)


async def close_model(model: object) -> None:
    """Call `aclose` if the object has it."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


# Fallback


def with_message(error: ModelFailed, message: str) -> ModelFailed:
    """Return a copy of an error with another message."""
    return ModelFailed(
        message,
        reason=error.reason,
        model=error.model,
        provider=error.provider,
        retryable=error.retryable,
        retry_after=error.retry_after,
    )


class FallbackModel:
    """Asks the next model if the one before it cannot answer.

    Configuration errors, such as a rejected key or an unknown model, are raised at once. A stream
    that has shown something is not continued by another model. The first fallback of each model is
    logged.
    """

    def __init__(self, models: Sequence[LanguageModelPort]) -> None:
        self._models = tuple(models)
        self._logged: set[int] = set()

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that all models accept."""
        known = [types for model in self._models if (types := input_types(model)) is not None]
        return tuple(t for t in known[0] if all(t in types for types in known)) if known else None

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response of the first model that has one."""
        errors: list[ModelFailed] = []
        for model in self._models:
            try:
                return await model.complete(prompt)
            except ModelFailed as error:
                errors.append(self._check(error, model))
        raise _combined(errors)

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the response of the first model that has one."""
        errors: list[ModelFailed] = []
        for model in self._models:
            shown = False
            try:
                async for piece in stream_model(model, prompt):
                    shown = True
                    yield piece
            except ModelFailed as error:
                if shown:
                    raise
                errors.append(self._check(error, model))
            else:
                return
        raise _combined(errors)

    async def aclose(self) -> None:
        """Close the models' connections."""
        for model in self._models:
            await close_model(model)

    def _check(self, error: ModelFailed, model: LanguageModelPort) -> ModelFailed:
        """Return an error after which the next model is asked, or raise it."""
        if model is self._models[-1]:
            return error
        if not error.retryable and error.reason not in _WORTH_FALLBACK:
            raise error
        if id(model) not in self._logged:
            self._logged.add(id(model))
            log.warning("%s; the next model is called instead", error)
        return error


def _combined(errors: Sequence[ModelFailed]) -> ModelFailed:
    return with_message(errors[-1], "no model answered: " + "; ".join(map(str, errors)))


# Rate limits

_MINUTE = 60.0
BYTES_PER_TOKEN = 4
#: Waits below this are not worth a sleep, and below the resolution of clocks.
_MIN_WAIT_SECONDS = 0.001
LOG_WAITS_FROM_SECONDS = 10.0
LOG_INTERVAL_SECONDS = 60.0


class TokenBucket:
    """An amount per minute, refilled continuously."""

    def __init__(self, per_minute: float, now: Callable[[], float]) -> None:
        self._rate = per_minute / _MINUTE
        #: Larger requests count as this much. One request is always possible.
        self.capacity = max(1.0, per_minute)
        self._level = self.capacity
        self._now = now
        self._updated_at = now()

    def wait_for(self, amount: float) -> float:
        """Return the seconds until an amount is available; nothing is taken."""
        now = self._now()
        self._level = min(self.capacity, self._level + (now - self._updated_at) * self._rate)
        self._updated_at = now
        wait = (amount - self._level) / self._rate
        return wait if wait > _MIN_WAIT_SECONDS else 0.0

    def take(self, amount: float) -> None:
        """Take an amount."""
        self._level -= amount

    def refund(self, amount: float) -> None:
        """Return what was not used; a negative amount is charged without waiting."""
        self._level = min(self.capacity, self._level + amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits of a model; None is unlimited."""

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def are_unlimited(self) -> bool:
        """Return True if there is no limit."""
        return self == RateLimits()


class _LoopState:
    """The limits within one event loop."""

    def __init__(self, limits: RateLimits, now: Callable[[], float]) -> None:
        self.semaphore = (
            None if limits.concurrency is None else asyncio.Semaphore(limits.concurrency)
        )
        per_minute = (limits.requests_per_minute, limits.tokens_per_minute)
        self.requests, self.tokens = (
            None if amount is None else TokenBucket(amount, now) for amount in per_minute
        )
        self.queue = asyncio.Lock()


class RateLimiter:
    """Delays calls until the limits allow them; shared by all calls of one model.

    Each event loop has limits of its own. A call that is cancelled while it waits has used
    nothing. Deadlines of callers are paused while a call waits.
    """

    def __init__(
        self,
        limits: RateLimits,
        *,
        name: str = "a model",
        now: Callable[[], float] = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._limits = limits
        self._name = name
        self._now = now
        self._sleep = sleep
        self._states: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopState]
        self._states = WeakKeyDictionary()
        self._logged_at = -math.inf

    @asynccontextmanager
    async def slot(self, prompt: ModelRequest) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait for permission to call; the yielded function takes the usage that was reported."""
        loop = asyncio.get_running_loop()
        state = self._states.get(loop)
        if state is None:
            state = self._states[loop] = _LoopState(self._limits, self._now)
        tokens = state.tokens
        estimate = 0.0 if tokens is None else min(_estimate_tokens(prompt), tokens.capacity)

        def report(usage: Usage) -> None:
            used = usage.input_tokens + usage.output_tokens
            if tokens is not None and used:
                tokens.refund(estimate - used)

        async with AsyncExitStack() as stack:
            with ExitStack() as paused:
                paused.enter_context(pause_deadlines())
                if state.semaphore is not None:
                    await stack.enter_async_context(state.semaphore)
                await self._acquire(state, estimate)
            yield report

    async def _acquire(self, state: _LoopState, estimate: float) -> None:
        """Wait until both buckets have enough, in order of arrival, and take it."""
        amounts = ((state.requests, 1.0), (state.tokens, estimate))
        needed = [(bucket, amount) for bucket, amount in amounts if bucket is not None]
        started = self._now()
        async with state.queue:
            while wait := max((b.wait_for(amount) for b, amount in needed), default=0.0):
                self._log_wait(self._now() - started + wait)
                await self._sleep(wait)
            for bucket, amount in needed:
                bucket.take(amount)

    def _log_wait(self, seconds: float) -> None:
        now = self._now()
        if seconds >= LOG_WAITS_FROM_SECONDS and now - self._logged_at >= LOG_INTERVAL_SECONDS:
            self._logged_at = now
            log.warning("rate limit of %s: a call waits %.0f s", self._name, seconds)


class LimitedModel:
    """Asks a model when its rate limiter allows it."""

    def __init__(self, model: LanguageModelPort, limiter: RateLimiter) -> None:
        self._model = model
        self._limiter = limiter

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        async with self._limiter.slot(prompt) as report:
            response = await self._model.complete(prompt)
            report(response.usage)
        return response

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""
        async with self._limiter.slot(prompt) as report:
            async for piece in stream_model(self._model, prompt):
                if isinstance(piece, ModelResponse):
                    report(piece.usage)
                yield piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)


def _estimate_tokens(prompt: ModelRequest) -> int:
    texts = (prompt.instruction, prompt.memory)
    length = sum(len(text.encode("utf-8", "replace")) for text in texts)
    length += sum(len(to_json(message.parts)) for message in prompt.messages)
    return length // BYTES_PER_TOKEN + 1


# Metering and prices

OnCall = Callable[[ModelCall], None]


class MeteredModel:
    """Reports every call to `on_call` when it ends, failed and cancelled ones too.

    `call` is a record without usage. `on_error` receives the exception of a failed call.
    """

    def __init__(
        self,
        model: LanguageModelPort,
        call: ModelCall,
        *,
        on_call: OnCall,
        on_error: Callable[[BaseException], None] = lambda error: None,
    ) -> None:
        self._model = model
        self._call = call
        self._on_call = on_call
        self._on_error = on_error

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        try:
            response = await self._model.complete(prompt)
        except BaseException as error:
            # A cancelled call may have been charged for too.
            self._report_failure()
            self._on_error(error)
            raise
        self._report(response)
        return response

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""
        answered = False
        try:
            async for piece in stream_model(self._model, prompt):
                if isinstance(piece, ModelResponse):
                    answered = True
                    self._report(piece)
                yield piece
        except BaseException as error:
            self._on_error(error)
            raise
        finally:
            if not answered:
                self._report_failure()

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)

    def _report_failure(self) -> None:
        self._on_call(replace(self._call, failed=True))

    def _report(self, response: ModelResponse) -> None:
        # A model may be the user's own code; its caller validates what it returns.
        usage = getattr(response, "usage", None)
        if not isinstance(usage, Usage):
            self._report_failure()
            return
        self._on_call(
            replace(
                self._call,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                cost=usage.cost,
                from_cache=response.from_cache,
            )
        )


class PricedModel:
    """Prices the responses of a model; without reported tokens the cost is unknown."""

    def __init__(self, model: LanguageModelPort, price: Price) -> None:
        self._model = model
        self._price = price

    @property
    def input_types(self) -> tuple[str, ...] | None:
        """Return the media types of files that the model accepts."""
        return input_types(self._model)

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        """Return the response to a request."""
        return self._with_cost(await self._model.complete(prompt))

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        """Yield the text as it arrives, and then the whole response."""
        async for piece in stream_model(self._model, prompt):
            yield self._with_cost(piece) if isinstance(piece, ModelResponse) else piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close_model(self._model)

    def _with_cost(self, response: ModelResponse) -> ModelResponse:
        usage, price = response.usage, self._price
        is_known = bool(usage.input_tokens or usage.output_tokens) or price == FREE
        cost = price.cost(usage.input_tokens, usage.output_tokens) if is_known else None
        priced = replace(usage, cost=cost, priced_calls=0 if cost is None else 1)
        return replace(response, usage=priced)
