"""Leases of sessions: one run of a session at a time, across processes."""

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Protocol

from acc.application.tracing import conventions as names
from acc.domain.errors import AccError, SessionBusy
from acc.domain.value_objects.session import Session, SessionKey
from acc.ports.outbound.storage_ports import RENEWAL_SHARE, SessionStorePort
from acc.ports.outbound.tracing_ports import TracerPort

BUSY_POLL_SECONDS = 0.05


class SessionLeases:
    """Serialises the runs of each session."""

    def __init__(
        self,
        sessions: SessionStorePort,
        *,
        busy_timeout: float = 300.0,
        tracer: TracerPort | None = None,
    ) -> None:
        self.sessions = sessions
        self.tracer = tracer
        #: How many runs of this process wait for a session that another run has.
        self.waiting = 0
        self.busy_timeout = busy_timeout
        self.renewals = _Renewals(sessions, seconds=sessions.lease * RENEWAL_SHARE)
        #: Runs of this process that wait for a session, None if there are none.
        self._queues: dict[SessionKey, deque[asyncio.Future[None]] | None] = {}
        if tracer is not None:
            tracer.watch(names.METRIC_SESSION_LEASES, self, lambda own: own.renewals.count)
            tracer.watch(names.METRIC_SESSION_WAITING, self, lambda own: own.waiting)

    def acquire(
        self, key: SessionKey, holder: str, recorder: "ReleasesSession", *, replaces: str = ""
    ) -> "SessionLease":
        """Return a context manager that waits for the session and releases it at the end.

        A holder whose name begins with `replaces` loses the lease.
        """
        return SessionLease(self, key, holder, recorder, replaces=replaces)

    def try_turn(self, key: SessionKey) -> bool:
        """Return True if no other run of this process has the session; `pass_turn` must follow."""
        if key in self._queues:
            return False
        self._queues[key] = None
        return True

    async def wait_turn(self, key: SessionKey) -> None:
        """Wait until no other run of this process has the session; `pass_turn` must follow."""
        turn = asyncio.get_running_loop().create_future()
        queue = self._queues[key] = self._queues[key] or deque()
        queue.append(turn)
        try:
            async with asyncio.timeout(self.busy_timeout):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if not turn.cancelled():
                self.pass_turn(key)  # it was our turn already
            if isinstance(error, asyncio.CancelledError):
                raise
            raise SessionBusy(
                f"session {key.session_id!r} was busy for {self.busy_timeout:g} seconds with "
                "another run of this process; wait until it ends"
            ) from None

    def pass_turn(self, key: SessionKey) -> None:
        """Let the next waiting run of this process have the session."""
        queue = self._queues[key]
        while queue:
            turn = queue.popleft()
            if not turn.cancelled():
                turn.set_result(None)
                return
        del self._queues[key]


class ReleasesSession(Protocol):
    """May release the session together with the last event of a run."""

    @property
    def is_released(self) -> bool:
        """Return True if the session was released."""
        ...


class SessionLease:
    """The lease of one session for one run.

    Inside the block, the run calls `open`, or opens the session in the store with its first write
    and calls `start_renewal`.
    """

    __slots__ = (
        "_deadline",
        "_is_renewed",
        "_leases",
        "_recorder",
        "_replaces",
        "_waits_since",
        "holder",
        "key",
    )

    def __init__(
        self,
        leases: SessionLeases,
        key: SessionKey,
        holder: str,
        recorder: ReleasesSession,
        *,
        replaces: str = "",
    ) -> None:
        self._replaces = replaces
        self._leases = leases
        self._recorder = recorder
        self._deadline: float | None = None
        self._is_renewed = False
        self._waits_since = 0.0
        self.key = key
        self.holder = holder

    async def __aenter__(self) -> "SessionLease":
        if not self._leases.try_turn(self.key):
            self._start_waiting(asyncio.get_running_loop().time())
            try:
                await self._leases.wait_turn(self.key)
            except BaseException:
                self._stop_waiting()
                raise
        return self

    async def open(self) -> Session:
        """Open the session in the store as soon as it is free, and renew the lease."""
        while True:
            try:
                session = await self._leases.sessions.open(
                    self.key, holder=self.holder, replaces=self._replaces
                )
                break
            except SessionBusy as error:
                await self.wait_until_free(error)
        self.start_renewal()
        return session

    async def wait_until_free(self, error: SessionBusy) -> None:
        """Wait before the session is opened again; raise the error after the timeout."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._leases.busy_timeout
        if now >= self._deadline:
            raise error
        if not self._waits_since:
            self._start_waiting(now)
        await asyncio.sleep(BUSY_POLL_SECONDS)

    def start_renewal(self) -> None:
        """Renew the lease until the end of the block."""
        self._is_renewed = True
        self._leases.renewals.start(self.key, self.holder)
        if self._waits_since:
            self._stop_waiting()

    def _start_waiting(self, now: float) -> None:
        self._waits_since = now
        self._leases.waiting += 1

    def _stop_waiting(self) -> None:
        self._leases.waiting -= 1
        seconds = asyncio.get_running_loop().time() - self._waits_since
        self._waits_since = 0.0
        if self._leases.tracer is not None:
            self._leases.tracer.observe(names.METRIC_SESSION_WAIT, seconds, {})

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leases = self._leases
        if self._waits_since:
            self._stop_waiting()
        try:
            if self._is_renewed:
                await leases.renewals.stop(self.key)
        finally:
            try:
                # Also if it was not opened: a cancelled call may have opened it in the store.
                if not self._recorder.is_released:
                    await leases.sessions.release(self.key, holder=self.holder)
            finally:
                leases.pass_turn(self.key)


class _Renewals:
    """Renews leases at an interval for as long as their runs last."""

    def __init__(self, sessions: SessionStorePort, *, seconds: float) -> None:
        self._sessions = sessions
        self._seconds = seconds
        self._holders: dict[SessionKey, str] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: dict[SessionKey, asyncio.Task[None]] = {}

    @property
    def count(self) -> int:
        """Return how many leases are being renewed."""
        return len(self._holders)

    def start(self, key: SessionKey, holder: str) -> None:
        """Renew the lease of a session from now on."""
        self._holders[key] = holder
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(self._seconds, self._tick)

    async def stop(self, key: SessionKey) -> None:
        """Stop for one session, and wait for a renewal in progress."""
        del self._holders[key]
        if self._tasks and (task := self._tasks.pop(key, None)) is not None:
            await asyncio.wait([task])

    def _tick(self) -> None:
        self._timer = None
        if not self._holders:
            return
        # No task group can own these tasks, which start and end with the runs; `stop` awaits them.
        loop = asyncio.get_running_loop()
        for key, holder in self._holders.items():
            self._tasks[key] = loop.create_task(self._renew(key, holder))
        self._timer = loop.call_later(self._seconds, self._tick)

    async def _renew(self, key: SessionKey, holder: str) -> None:
        with suppress(AccError):  # the next write fails if the lease is lost
            await self._sessions.renew(key, holder=holder)
