"""No more at once, and no more in a minute, than a provider allows: within one process."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass

from acc.adapters.chat.writing import as_json
from acc.adapters.providers.trying import close, streamed
from acc.application.waiting.patience import held
from acc.domain.value_objects.event import Usage
from acc.ports.outbound.model_ports import LanguageModelPort, ModelAnswer, Prompt

_MINUTE = 60.0
#: About how many bytes of a prompt make a token; what was spent is told with the answer.
_BYTES_A_TOKEN = 4
#: Seconds that are not worth waiting for, nor could a clock be relied on to tell them.
_AT_ONCE = 0.001
#: Seconds that a call stands in line before anybody is told, and between two times of telling.
_LONG = 10.0
_TELL_EVERY = 60.0
log = logging.getLogger("acc.run")


class Allowance:
    """So much a minute, refilled evenly."""

    def __init__(self, per_minute: float, now: Callable[[], float]) -> None:
        self._rate = per_minute / _MINUTE
        #: More in one piece could never be had: it is to be taken for this much. One can be had,
        #: however few there are in a minute.
        self.most = max(1.0, per_minute)
        self._left = self.most
        self._now = now
        self._at = now()

    def wait_for(self, amount: float) -> float:
        """Return how many seconds it takes until an amount is there; nothing is taken yet."""
        now = self._now()
        self._left = min(self.most, self._left + (now - self._at) * self._rate)
        self._at = now
        wait = (amount - self._left) / self._rate
        return wait if wait > _AT_ONCE else 0.0

    def take(self, amount: float) -> None:
        """Take an amount."""
        self._left -= amount

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


class _Room:
    """Where the calls of one event loop wait: for a seat, and in line for the allowances."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seats: int | None) -> None:
        self.loop = loop
        self.seats = nullcontext() if seats is None else asyncio.Semaphore(seats)
        self.line = asyncio.Lock()


class Limiter:
    """Holds calls back until the limits allow them; all that ask one model share one.

    Who stands in line has taken nothing yet, so that one who gives up makes room for those behind.
    The clocks of those who wait for an answer stand still meanwhile.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        name: str = "a model",
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._name = name
        self._most = limits.concurrency
        self._room: _Room | None = None
        self._requests = _allowance(limits.requests_per_minute, now)
        self._tokens = _allowance(limits.tokens_per_minute, now)
        self._now = now
        self._sleep = sleep
        self._told = -math.inf

    @asynccontextmanager
    async def turn(self, prompt: Prompt) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait for one's turn; what was spent in it is to be told to the function given."""
        room = self._room_here()
        guess = 0.0 if self._tokens is None else min(_guess(prompt), self._tokens.most)

        def spent(usage: Usage) -> None:
            told = usage.input_tokens + usage.output_tokens
            if self._tokens is not None and told:
                self._tokens.give(guess - told)

        with ExitStack() as clocks:
            clocks.enter_context(held())
            async with room.seats:
                await self._admitted(guess, room.line)
                clocks.close()
                yield spent

    async def _admitted(self, guess: float, line: asyncio.Lock) -> None:
        """Stand in line until there is enough of everything, and take it."""
        wanted = [(self._requests, 1.0), (self._tokens, guess)]
        taken = [(allowance, amount) for allowance, amount in wanted if allowance is not None]
        since = self._now()
        async with line:
            while wait := max((one.wait_for(amount) for one, amount in taken), default=0.0):
                self._tell(self._now() - since + wait)
                await self._sleep(wait)
            for one, amount in taken:
                one.take(amount)

    def _tell(self, seconds: float) -> None:
        """Log how long the first in line has to stand there, if that is long."""
        if seconds < _LONG or self._now() - self._told < _TELL_EVERY:
            return
        self._told = self._now()
        log.warning(
            "%s is held back by its limits: a call waits %.0f s for its turn", self._name, seconds
        )

    def _room_here(self) -> _Room:
        """Return the room of the running loop, to which all that waits belongs."""
        loop = asyncio.get_running_loop()
        if self._room is None or self._room.loop is not loop:
            self._room = _Room(loop, self._most)
        return self._room


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
        length += len(as_json(message.parts))
    return length // _BYTES_A_TOKEN + 1
