"""Outages of a PostgreSQL server: restarts, failovers, and servers that do not respond."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from postgres_server import PostgresServer, new_store_url, shared_server

import acc.adapters.storage.postgres as adapter
from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import PostgresDatabase
from acc.adapters.storage.postgres_sessions import PostgresSessionStore
from acc.adapters.system.clock import SystemClock
from acc.domain.errors import StorageFailed
from acc.domain.value_objects.event import Event, EventActions, EventKind
from acc.domain.value_objects.session import SessionKey

KEY = SessionKey(app_name="desk", user_id="ann", session_id="s1")


def event(number: int) -> Event:
    actions = EventActions(state_delta={"count": number})
    return Event(kind=EventKind.STATE, run_id="r", author="a", seq=0, actions=actions)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    own = PostgresServer()
    own.start()
    yield own
    own.stop()


async def test_writes_continue_after_a_restart_of_the_server(server: PostgresServer) -> None:
    store = PostgresSessionStore(server.url(), clock=SystemClock())
    await store.open(KEY, holder="a")
    await store.append(KEY, [event(1)], holder="a")
    await asyncio.to_thread(server.kill)
    async with asyncio.TaskGroup() as group:
        write = group.create_task(store.append(KEY, [event(2)], holder="a"))
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.start)
    assert write.result()[0].seq == 2
    assert [one.seq for one in await store.events(KEY)] == [1, 2]
    await store.aclose()


class Relay:
    """Forwards connections to a server, and can add what a server sends, or drop everything."""

    def __init__(self, port: int) -> None:
        #: The port of the server; a new one is used for new connections.
        self.target = port
        #: Drop what arrives, on open connections too, as a server that stands still does.
        self.is_silent = False
        self._clients: list[asyncio.StreamWriter] = []
        self._open = 0
        self._closed = asyncio.Event()

    async def __aenter__(self) -> "Relay":
        self._listener = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        for client in self._clients:
            client.transport.abort()
        async with asyncio.timeout(10):
            await self._closed.wait()

    async def announce_end(self) -> None:
        """Send the error of a server that is being killed, and leave the connections open."""
        fields = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0"
        for client in self._clients:
            client.write(b"E" + (len(fields) + 4).to_bytes(4, "big") + fields)
            await client.drain()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._clients.append(writer)
        self._open += 1
        try:
            incoming, outgoing = await asyncio.open_connection("127.0.0.1", self.target)
        except ConnectionRefusedError:
            writer.close()
        else:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._copy(reader, outgoing))
                group.create_task(self._copy(incoming, writer))
        self._open -= 1
        if not self._open:
            self._closed.set()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while piece := await reader.read(65536):
                if not self.is_silent:
                    writer.write(piece)
                    await writer.drain()
        writer.close()


async def test_connection_of_a_server_that_announced_its_end_is_replaced() -> None:
    server = shared_server()
    async with Relay(server.port) as relay:
        url = new_store_url().replace(f":{server.port}/", f":{relay.port}/")
        store = PostgresSessionStore(url, clock=SystemClock())
        await store.open(KEY, holder="a")
        await relay.announce_end()
        await asyncio.sleep(0.1)  # the announcement arrives
        await store.append(KEY, [event(1)], holder="a")
        assert [stored.seq for stored in await store.events(KEY)] == [1]
        await store.aclose()


async def test_writes_continue_after_a_failover_to_a_standby(server: PostgresServer) -> None:
    standby = await asyncio.to_thread(PostgresServer, primary=server)
    await asyncio.to_thread(standby.start)
    try:
        async with Relay(server.port) as relay:
            url = server.url().replace(f":{server.port}/", f":{relay.port}/")
            store = PostgresSessionStore(url, clock=SystemClock())
            await store.open(KEY, holder="a")
            await store.append(KEY, [event(1)], holder="a")
            await asyncio.to_thread(server.wait_for_standby)
            await asyncio.to_thread(server.kill)
            async with asyncio.TaskGroup() as group:
                write = group.create_task(store.append(KEY, [event(2)], holder="a"))
                await asyncio.to_thread(standby.promote)
                relay.target = standby.port
            assert write.result()[0].seq == 2
            await store.aclose()
        promoted = PostgresSessionStore(standby.url(), clock=SystemClock())
        assert [one.seq for one in await promoted.events(KEY)] == [1, 2]
        await promoted.aclose()
    finally:
        standby.stop()


async def test_host_that_does_not_respond_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_CONNECT_SECONDS", 0.5)
    async with Relay(shared_server().port) as relay:
        relay.is_silent = True
        own = f"127.0.0.1:{shared_server().port}"
        url = new_store_url().replace(own, f"127.0.0.1:{relay.port},{own}")
        store = PostgresSessionStore(url, clock=SystemClock())
        await store.open(KEY, holder="a")
        stored = await store.append(KEY, [event(1)], holder="a")
        assert [one.seq for one in stored] == [1]
        await store.aclose()


async def test_role_that_no_host_has_is_named() -> None:
    store = PostgresSessionStore(
        new_store_url() + "&target_session_attrs=standby", clock=SystemClock()
    )
    with pytest.raises(StorageFailed, match="no host has the role that target_session_attrs"):
        await store.open(KEY, holder="a")
    await store.aclose()


async def test_statement_that_waits_too_long_is_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "_STATEMENT_SECONDS", 0.5)
    database = PostgresDatabase(new_store_url())
    other = PostgresDatabase(database.location)
    async with other.exclusive(isolation="read_committed") as connection:
        await connection.execute("LOCK TABLE acc_counters")
        for method, effect in (
            (database.read, "without effect"),
            (database.transact, "without effect"),
            (database.write, "its writes may be stored or not"),
        ):
            start = time.monotonic()
            with pytest.raises(StorageFailed, match=f"longer than 0.5 seconds, {effect}"):
                await method(lambda c: c.execute("DELETE FROM acc_counters"))
            assert time.monotonic() - start < 5  # one statement, not six
    await database.write(lambda c: c.execute("DELETE FROM acc_counters"))
    await database.aclose()
    await other.aclose()


async def test_connections_to_a_server_that_does_not_respond_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adapter, "_STATEMENT_SECONDS", 1.0)
    async with Relay(shared_server().port) as relay:
        url = new_store_url().replace(f":{shared_server().port}/", f":{relay.port}/")
        database = PostgresDatabase(url)
        pause = "SELECT pg_sleep(0.1)"
        async with asyncio.TaskGroup() as group:
            for _ in range(5):
                group.create_task(database.read(lambda c: c.execute(pause)))
        relay.is_silent = True  # the five connections stay open
        with pytest.raises(StorageFailed, match="took longer"):
            await database.read(lambda c: c.execute(pause))
        relay.is_silent = False
        start = time.monotonic()
        await database.read(lambda c: c.execute(pause))
        assert time.monotonic() - start < 1.0
        await database.aclose()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://a@h/db", ["postgresql://a@h/db"]),
        ("postgresql:///db?host=/run", ["postgresql:///db?host=/run"]),
        (
            "postgresql://a:p%40,w@h1:1,[::1]:2?sslmode=require",
            ["postgresql://a:p%40,w@h1:1?sslmode=require"]
            + ["postgresql://a:p%40,w@[::1]:2?sslmode=require"],
        ),
        ("postgresql://h1,h2/db", ["postgresql://h1/db", "postgresql://h2/db"]),
        (
            "postgresql://h1,h2/db?target_session_attrs=prefer-standby",
            ["postgresql://h1,h2/db?target_session_attrs=prefer-standby"],
        ),
    ],
)
def test_each_host_of_a_url_has_its_own_url(url: str, expected: list[str]) -> None:
    assert list(PostgresLocation(url).urls_by_host()) == expected
