"""Holding a session: one run at a time, in this process and among all that share the store."""

import asyncio
from collections import deque
from contextlib import suppress

from acc.domain.errors import AccError, SessionBusy
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.store_ports import SessionStorePort

_BUSY_POLL = 0.05
#: Well within the lease of a store, so that a model may think for as long as it likes.
_RENEW_EVERY = 10.0


class Holding:
    """Lets runs take a session one after another."""

    def __init__(
        self,
        sessions: SessionStorePort,
        *,
        busy_timeout: float = 60.0,
        renew_every: float = _RENEW_EVERY,
    ) -> None:
        self._sessions = sessions
        self._busy_timeout = busy_timeout
        self._renew_every = renew_every
        #: Who waits for a session that another run of this process holds.
        self._lines: dict[SessionKey, deque[asyncio.Future[None]]] = {}

    async def take(self, key: SessionKey, holder: str) -> tuple[Session, "Renewal"]:
        """Wait for the session and take hold of it; `give_back` must follow."""
        await self._wait_in_line(key)
        try:
            session = await self._open(key, holder)
        except BaseException:
            # Opening may have been cut off when the store had given us the session already.
            await self._let_go(key, holder)
            raise
        return session, Renewal(self._sessions, key, holder, every=self._renew_every)

    async def give_back(self, key: SessionKey, holder: str, renewal: "Renewal") -> None:
        """Let go of the session and call whoever waits next."""
        try:
            await renewal.stop()
        finally:
            await self._let_go(key, holder)

    async def _let_go(self, key: SessionKey, holder: str) -> None:
        try:
            await self._sessions.release(key, holder=holder)
        finally:
            self._call_next(key)

    async def _open(self, key: SessionKey, holder: str) -> Session:
        """Take hold of the session; where another process has it, wait for a while."""
        deadline: float | None = None
        while True:
            try:
                return await self._sessions.open(key, holder=holder)
            except SessionBusy:
                now = asyncio.get_running_loop().time()
                deadline = now + self._busy_timeout if deadline is None else deadline
                if now >= deadline:
                    raise
                await asyncio.sleep(_BUSY_POLL)

    async def _wait_in_line(self, key: SessionKey) -> None:
        waiting = self._lines.get(key)
        if waiting is None:
            self._lines[key] = deque()
            return
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._call_next(key)  # it was our turn already
            raise

    def _call_next(self, key: SessionKey) -> None:
        waiting = self._lines[key]
        while waiting:
            turn = waiting.popleft()
            if not turn.cancelled():  # who was cancelled has left the line
                turn.set_result(None)
                return
        del self._lines[key]


class Renewal:
    """Renews the hold on a session for as long as a run lasts, however silent it is."""

    __slots__ = ("_every", "_handle", "_holder", "_key", "_sessions", "_task")

    def __init__(
        self, sessions: SessionStorePort, key: SessionKey, holder: str, *, every: float
    ) -> None:
        self._sessions = sessions
        self._key = key
        self._holder = holder
        self._every = every
        self._task: asyncio.Task[None] | None = None
        self._handle = asyncio.get_running_loop().call_later(every, self._begin)

    async def stop(self) -> None:
        """End it, and wait for a renewal that is under way."""
        self._handle.cancel()
        if self._task is not None:
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        # No group can own it, as it begins and ends with the run: `stop` waits for it.
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._renew())
        self._handle = loop.call_later(self._every, self._begin)

    async def _renew(self) -> None:
        with suppress(AccError):  # if it is lost, the next append will say so
            await self._sessions.renew(self._key, holder=self._holder)
