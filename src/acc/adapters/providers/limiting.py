"""No more at once, and no more in a minute, than a provider allows: within one process."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from acc.adapters.providers.trying import close, streamed
from acc.domain.value_objects.event import Usage
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

_MINUTE = 60.0
#: About how many bytes of a prompt make a token; what was spent is told with the answer.
_BYTES_A_TOKEN = 4


class Allowance:
    """So much a minute, refilled evenly; who asks for more than there is waits in line."""

    def __init__(self, per_minute: float, now: Callable[[], float]) -> None:
        self._rate = per_minute / _MINUTE
        #: More in one piece could never be had: it is to be taken for this much.
        self.most = per_minute
        self._left = per_minute
        self._now = now
        self._at = now()

    def take(self, amount: float) -> float:
        """Take an amount, and return how many seconds to wait until it is there."""
        now = self._now()
        self._left = min(self.most, self._left + (now - self._at) * self._rate)
        self._at = now
        self._left -= amount
        return max(0.0, -self._left / self._rate)

    def give(self, amount: float) -> None:
        """Give back what was not spent, or take what was spent beyond; nobody waits for that."""
        self._left = min(self.most, self._left + amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much may be asked of a model; None is as much as one likes."""

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None

    @property
    def are_none(self) -> bool:
        """Tell whether there is nothing to hold back."""
        return self == Limits()


class Limiter:
    """Holds calls back until the limits allow them; all that ask one model share one."""

    def __init__(
        self,
        limits: Limits,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._most = limits.concurrency
        self._seats: asyncio.Semaphore | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._requests = _allowance(limits.requests_per_minute, now)
        self._tokens = _allowance(limits.tokens_per_minute, now)
        self._sleep = sleep

    @asynccontextmanager
    async def turn(self, prompt: Prompt) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait for one's turn; what was spent in it is to be told to the function given."""
        seats = self._seats_here()
        if seats is not None:
            await seats.acquire()
        try:
            guess = 0.0 if self._tokens is None else min(_guess(prompt), self._tokens.most)
            wait = 0.0 if self._requests is None else self._requests.take(1)
            if self._tokens is not None:
                wait = max(wait, self._tokens.take(guess))
            if wait:
                await self._sleep(wait)

            def spent(usage: Usage) -> None:
                told = usage.input_tokens + usage.output_tokens
                if self._tokens is not None and told:
                    self._tokens.give(guess - told)

            yield spent
        finally:
            if seats is not None:
                seats.release()

    def _seats_here(self) -> asyncio.Semaphore | None:
        """Return the seats of the running loop, to which a semaphore belongs."""
        if self._most is None:
            return None
        loop = asyncio.get_running_loop()
        if self._seats is None or self._loop is not loop:
            self._seats, self._loop = asyncio.Semaphore(self._most), loop
        return self._seats


class LimitedModel:
    """Asks a model when its limiter says so."""

    def __init__(self, model: LanguageModelPort, limiter: Limiter) -> None:
        self._model = model
        self._limiter = limiter

    async def complete(self, prompt: Prompt) -> ModelAnswer:
        """Return the answer to a prompt, once it may be asked."""
        async with self._limiter.turn(prompt) as spent:
            answer = await self._model.complete(prompt)
            spent(answer.usage)
        return answer

    async def stream(self, prompt: Prompt) -> AsyncIterator[str | ModelAnswer]:
        """Give the text as it comes, and at the end the whole answer."""
        async with self._limiter.turn(prompt) as spent:
            async for piece in streamed(self._model, prompt):
                if isinstance(piece, ModelAnswer):
                    spent(piece.usage)
                yield piece

    async def aclose(self) -> None:
        """Close the model's connections."""
        await close(self._model)


def _allowance(per_minute: float | None, now: Callable[[], float]) -> Allowance | None:
    return None if per_minute is None else Allowance(per_minute, now)


def _guess(prompt: Prompt) -> int:
    """Return about how many tokens a prompt has."""
    said = (prompt.instruction, prompt.memory, prompt.query)
    length = sum(len(text.encode("utf-8", "replace")) for text in said)
    for message in prompt.messages:
        length += len(msgspec.json.encode(message.parts, enc_hook=str))
    return length // _BYTES_A_TOKEN + 1
