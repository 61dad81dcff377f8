"""No more at once, and no more in a minute, than a provider allows: within one process."""

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from acc.adapters.chat.writing import as_json
from acc.adapters.providers.trying import close, streamed
from acc.application.runtime.deadlines import pause_deadlines
from acc.domain.value_objects.content import Usage
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


#: So often who waits for a seat looks whether one was left behind.
_LOOK_EVERY = 1.0


class Seats:
    """So many at once, in all event loops of the process; who waits sits down in order of coming.

    A seat that was taken in a loop which does not run any more is free again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        # One who is cleared away in the midst of this gives up in the same thread.
        self._guard = threading.RLock()
        #: The loops in which those run who sit.
        self._taken: list[asyncio.AbstractEventLoop] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """Wait for a seat, and have it for a while."""
        loop = asyncio.get_running_loop()
        await self._sit(loop)
        try:
            yield
        finally:
            with self._guard:
                self._leave(loop)

    async def _sit(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._guard:
            self._look()
            if len(self._taken) < self._most:
                self._taken.append(loop)
                return
            seat = loop.create_future()
            self._waiting.append(seat)
        try:
            while not (await asyncio.wait({seat}, timeout=_LOOK_EVERY))[0]:
                with self._guard:
                    self._look()
        except BaseException:
            self._give_up(seat)
            raise

    def _look(self) -> None:
        """Take back what was taken in loops that stand still, for nobody gives it back there."""
        if len(self._taken) >= self._most:
            self._taken = [one for one in self._taken if one.is_running()]
        self._fill()

    def _give_up(self, seat: "asyncio.Future[None]") -> None:
        with self._guard:
            if seat in self._waiting:
                self._waiting.remove(seat)
            else:
                self._leave(seat.get_loop())

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop in self._taken:  # unless it stood still meanwhile
            self._taken.remove(loop)
        self._fill()

    def _fill(self) -> None:
        """Let sit down who waits, while there are seats."""
        while self._waiting and len(self._taken) < self._most:
            seat = self._waiting.popleft()
            with suppress(RuntimeError):  # its loop was closed, so that nobody waits there any more
                seat.get_loop().call_soon_threadsafe(_offer, seat)
                self._taken.append(seat.get_loop())


def _offer(seat: "asyncio.Future[None]") -> None:
    if not seat.done():
        seat.set_result(None)


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
        self._seats = None if limits.concurrency is None else Seats(limits.concurrency)
        self._guard = threading.Lock()
        #: Where the calls of a loop stand in line for the allowances, which all loops share.
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]
        self._lines = WeakKeyDictionary()
        self._requests = _allowance(limits.requests_per_minute, now)
        self._tokens = _allowance(limits.tokens_per_minute, now)
        self._now = now
        self._sleep = sleep
        self._told = -math.inf

    @asynccontextmanager
    async def turn(self, prompt: Prompt) -> AsyncIterator[Callable[[Usage], None]]:
        """Wait for one's turn; what was spent in it is to be told to the function given."""
        guess = 0.0 if self._tokens is None else min(_guess(prompt), self._tokens.most)

        def spent(usage: Usage) -> None:
            told = usage.input_tokens + usage.output_tokens
            if self._tokens is not None and told:
                with self._guard:
                    self._tokens.give(guess - told)

        with ExitStack() as clocks:
            clocks.enter_context(pause_deadlines())
            async with nullcontext() if self._seats is None else self._seats.one():
                await self._admitted(guess)
                clocks.close()
                yield spent

    async def _admitted(self, guess: float) -> None:
        """Stand in line until there is enough of everything, and take it."""
        wanted = [(self._requests, 1.0), (self._tokens, guess)]
        needed = [(allowance, amount) for allowance, amount in wanted if allowance is not None]
        since = self._now()
        async with self._line_here():
            while wait := self._wait_or_take(needed):
                self._tell(self._now() - since + wait)
                await self._sleep(wait)

    def _wait_or_take(self, needed: Sequence[tuple[Allowance, float]]) -> float:
        """Take what is needed and return 0, or return how long to wait for it."""
        with self._guard:
            wait = max((one.wait_for(amount) for one, amount in needed), default=0.0)
            if not wait:
                for one, amount in needed:
                    one.take(amount)
            return wait

    def _tell(self, seconds: float) -> None:
        """Log how long the first in line has to stand there, if that is long."""
        if seconds < _LONG or self._now() - self._told < _TELL_EVERY:
            return
        self._told = self._now()
        log.warning(
            "%s is held back by its limits: a call waits %.0f s for its turn", self._name, seconds
        )

    def _line_here(self) -> asyncio.Lock:
        """Return the line of the running loop, to which all that waits belongs."""
        loop = asyncio.get_running_loop()
        with self._guard:
            line = self._lines.get(loop)
            if line is None:
                line = self._lines[loop] = asyncio.Lock()
            return line


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
