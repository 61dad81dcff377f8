"""Notifications between the processes that share a PostgreSQL database."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import asyncpg

from acc.adapters.storage.postgres import LOST_CONNECTION, PostgresDatabase
from acc.domain.errors import AccError

if TYPE_CHECKING:
    from asyncpg import Connection

_CHANNEL = "acc_tasks"
_NOTIFY = "SELECT pg_notify($1, $2)"
_SEPARATOR = "\x1f"
#: A payload has less than 8,000 bytes.
_MAX_PAYLOAD_CHARACTERS = 1_900
#: Announcements of so many seconds are sent together: sending takes a lock of the whole database.
_BATCH_SECONDS = 0.01
#: Everything is checked this often, as a notification is lost if its sender dies.
_POLL_SECONDS = 1.0
#: The same without notifications, such as behind a pooler that shares connections.
_FALLBACK_POLL_SECONDS = 0.2
_RECONNECT_SECONDS = 5.0
_PROBE_SECONDS = 2.0


class TaskNotifications:
    """Announces tasks with new events, and waits for announcements of other processes.

    Notifications only make changes visible sooner: whoever waits checks the store at an interval
    too. They are sent after the transaction, because a transaction that notifies waits for all
    others that do.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._origin = uuid4().hex
        self._pending: set[str] = set()
        self._sender: asyncio.Task[None] | None = None
        self._listener: Connection[Any] | None = None
        self._is_confirmed = asyncio.Event()
        self._changed: set[str] = set()
        self._has_changed = asyncio.Event()
        self._retry_at = 0.0

    def announce(self, task_id: str) -> None:
        """Announce that a task has new events, together with others of this moment."""
        self._pending.add(task_id)
        if self._sender is None or self._sender.done():
            # The result is not awaited: polling finds a change whose announcement failed.
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def wait(self) -> Collection[str] | None:
        """Return tasks that others announced, or None when it is time to check all tasks."""
        is_listening = await self._ensure_listening()
        seconds = _POLL_SECONDS if is_listening else _FALLBACK_POLL_SECONDS
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._has_changed.wait()
        self._has_changed.clear()
        changed, self._changed = self._changed, set()
        return changed or None

    async def aclose(self) -> None:
        """Send what was announced, and stop listening."""
        if self._sender is not None:
            await asyncio.wait([self._sender])
        if self._listener is not None and not self._listener.is_closed():
            await self._listener.close()

    async def _send(self) -> None:
        while self._pending:
            await asyncio.sleep(_BATCH_SECONDS)
            names, self._pending = self._pending, set()
            with suppress(AccError):
                for payload in self._payloads(names):
                    await self._database.read(
                        lambda c, text=payload: c.fetchval(_NOTIFY, _CHANNEL, text)  # type: ignore[misc]
                    )

    def _payloads(self, names: Collection[str]) -> list[str]:
        """Return the names in payloads; too long a name is left to polling."""
        payloads: list[str] = []
        text = self._origin
        for name in names:
            if len(text) + len(name) >= _MAX_PAYLOAD_CHARACTERS:
                payloads.append(text)
                text = self._origin
            if len(name) < _MAX_PAYLOAD_CHARACTERS // 2:
                text += _SEPARATOR + name
        return [*payloads, text]

    async def _ensure_listening(self) -> bool:
        if self._listener is not None and not self._listener.is_closed():
            return self._is_confirmed.is_set()
        now = asyncio.get_running_loop().time()
        if now < self._retry_at:
            return False
        self._retry_at = now + _RECONNECT_SECONDS
        self._is_confirmed.clear()
        try:
            self._listener = await self._database.connect()
            await self._listener.add_listener(_CHANNEL, self._receive)
            # A pooler may accept LISTEN on a connection that it gives to others afterwards.
            await self._database.read(lambda c: c.fetchval(_NOTIFY, _CHANNEL, self._origin))
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._is_confirmed.wait()
        except (AccError, asyncpg.PostgresError, *LOST_CONNECTION, TimeoutError):
            return False
        return True

    def _receive(self, connection: object, pid: int, channel: str, payload: object) -> None:
        origin, *names = str(payload).split(_SEPARATOR)
        if origin == self._origin:
            self._is_confirmed.set()
        elif names:
            self._changed.update(names)
            self._has_changed.set()
