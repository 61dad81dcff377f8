"""Holding a session: one run at a time, in this process and among all that share the store."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from acc.domain.errors import AccError, SessionBusy
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import SessionStorePort

T = TypeVar("T")
_BUSY_POLL = 0.05
#: Well within the lease of a store, so that a model may think for as long as it likes.
_RENEW_EVERY = 10.0


class SessionLeases:
    """Lets runs take a session one after another."""

    def __init__(
        self,
        sessions: SessionStorePort,
        *,
        busy_timeout: float = 300.0,
        renew_every: float = _RENEW_EVERY,
    ) -> None:
        self._sessions = sessions
        self._busy_timeout = busy_timeout
        self._renewal = _Renewal(sessions, every=renew_every)
        #: Who waits for a session that another run of this process holds.
        self._lines: dict[SessionKey, deque[asyncio.Future[None]] | None] = {}

    async def take(self, key: SessionKey, holder: str) -> Session:
        """Wait for the session and take hold of it; `give_back` must follow."""
        return await self.take_by(key, holder, lambda: self._sessions.open(key, holder=holder))

    async def take_by(self, key: SessionKey, holder: str, opening: Callable[[], Awaitable[T]]) -> T:
        """Wait for the session and return what opening it gives; `give_back` must follow."""
        if key in self._lines:
            await self._wait_in_line(key)
        else:
            self._lines[key] = None
        try:
            opened = await self._open(opening)
        except BaseException:
            # Opening may have been cut off when the store had given us the session already.
            await self._let_go(key, holder)
            raise
        self._renewal.begin(key, holder)
        return opened

    async def give_back(self, key: SessionKey, holder: str, *, released: bool = False) -> None:
        """Let go of the session, unless it was `released` already, and call whoever waits next."""
        try:
            await self._renewal.end(key)
        finally:
            if released:
                self._call_next(key)
            else:
                await self._let_go(key, holder)

    async def _let_go(self, key: SessionKey, holder: str) -> None:
        try:
            await self._sessions.release(key, holder=holder)
        finally:
            self._call_next(key)

    async def _open(self, opening: Callable[[], Awaitable[T]]) -> T:
        """Take hold of the session; where another process has it, wait for a while."""
        deadline: float | None = None
        while True:
            try:
                return await opening()
            except SessionBusy:
                now = asyncio.get_running_loop().time()
                deadline = now + self._busy_timeout if deadline is None else deadline
                if now >= deadline:
                    raise
                await asyncio.sleep(_BUSY_POLL)

    async def _wait_in_line(self, key: SessionKey) -> None:
        turn = asyncio.get_running_loop().create_future()
        waiting = self._lines[key] = self._lines[key] or deque()
        waiting.append(turn)
        try:
            async with asyncio.timeout(self._busy_timeout):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if not turn.cancelled():
                self._call_next(key)  # it was our turn already
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SessionBusy(
                f"session {key.session_id!r} was busy for {self._busy_timeout:g} seconds: another "
                "run of this process holds it; let that end first"
            ) from None

    def _call_next(self, key: SessionKey) -> None:
        waiting = self._lines[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.cancelled():  # who was cancelled has left the line
                turn.set_result(None)
                return
        del self._lines[key]


class _Renewal:
    """Renews what is held, every so often, for as long as runs last, however silent they are."""

    def __init__(self, sessions: SessionStorePort, *, every: float) -> None:
        self._sessions = sessions
        self._every = every
        self._held: dict[SessionKey, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[SessionKey, asyncio.Task[None]] = {}

    def begin(self, key: SessionKey, holder: str) -> None:
        self._held[key] = holder
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(self._every, self._tick)

    async def end(self, key: SessionKey) -> None:
        """Stop for one session, and wait for a renewal that is under way."""
        del self._held[key]
        if self._tasks and (task := self._tasks.pop(key, None)) is not None:
            await asyncio.wait([task])

    def _tick(self) -> None:
        self._timer = None
        if not self._held:
            return
        # No group can own these, as they come and go with the runs: `end` waits for each.
        loop = asyncio.get_running_loop()
        for key, holder in self._held.items():
            self._tasks[key] = loop.create_task(self._renew(key, holder))
        self._timer = loop.call_later(self._every, self._tick)

    async def _renew(self, key: SessionKey, holder: str) -> None:
        with suppress(AccError):  # if it is lost, the next append will say so
            await self._sessions.renew(key, holder=holder)
