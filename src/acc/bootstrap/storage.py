"""Maintain stores: versions, migrations, copies."""

from dataclasses import dataclass
from importlib.util import find_spec

from acc.domain.errors import InvalidInput
from acc.ports.outbound.storage_ports import SessionStorePort, StoreCatalogPort


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """A store as it may be printed, the version of its tables, and the version of this acc."""

    location: str
    version: int
    expected: int

    @property
    def is_current(self) -> bool:
        """Return True if no migration is missing."""
        return self.version >= self.expected


def describe_store(store: str) -> str:
    """Return a store as it may be printed, without a password."""
    from acc.adapters.storage.location import describe_location

    return describe_location(store)


def store_catalog(sessions: SessionStorePort) -> StoreCatalogPort:
    """Return the catalog of a store, which lists what all apps and users have stored."""
    from acc.adapters.storage.in_memory import InMemorySessionStore
    from acc.adapters.storage.sqlite_sessions import SqliteSessionStore

    if isinstance(sessions, InMemorySessionStore):
        return sessions
    if isinstance(sessions, SqliteSessionStore):
        from acc.adapters.storage.sqlite_catalog import SqliteCatalog

        return SqliteCatalog(sessions.database)
    from acc.adapters.storage.postgres_catalog import PostgresCatalog
    from acc.adapters.storage.postgres_sessions import PostgresSessionStore

    if isinstance(sessions, PostgresSessionStore):
        return PostgresCatalog(sessions.database)
    raise InvalidInput('the console needs a SQLite file, a PostgreSQL URL or "memory" as its store')


def require_postgres() -> None:
    """Raise InvalidInput if the library of the PostgreSQL stores is not installed."""
    if find_spec("asyncpg") is None:
        raise InvalidInput(
            "a store in PostgreSQL requires asyncpg; run: pip install 'acc-agents[postgres]'"
        )


async def check_store_version(store: str) -> StoreStatus:
    """Return the version of the tables of a store; StorageFailed if acc cannot use them."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if location is None:
        raise InvalidInput("a store in memory has no version; name a file or a database")
    if isinstance(location, PostgresLocation):
        require_postgres()
        from acc.adapters.storage.postgres import PostgresDatabase
        from acc.adapters.storage.postgres_schema import SCHEMA_VERSION, check_schema

        state = await PostgresDatabase(location).schema()
        if state.version >= SCHEMA_VERSION:
            check_schema(str(location), state)
        return StoreStatus(location=str(location), version=state.version, expected=SCHEMA_VERSION)
    from acc.adapters.storage.sqlite_schema import require_tables

    version = require_tables(location)
    return StoreStatus(location=str(location), version=version, expected=version)


async def migrate_store(store: str, *, dry_run: bool) -> tuple[int, ...]:
    """Apply the missing migrations of a PostgreSQL store; return their versions."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if not isinstance(location, PostgresLocation):
        raise InvalidInput(
            "only PostgreSQL stores have migrations; a SQLite file is created on first use"
        )
    require_postgres()
    from acc.adapters.storage.postgres import PostgresDatabase

    return await PostgresDatabase(location).migrate(dry_run=dry_run)


async def copy_store(source: str, target: str, *, dry_run: bool) -> dict[str, int]:
    """Copy all rows of a store to an empty one; return their number by table."""
    from acc.adapters.storage.location import parse_location

    require_postgres()
    from acc.adapters.storage.store_copy import copy_store as copy

    return await copy(parse_location(source), parse_location(target), dry_run=dry_run)
