"""Maintain stores: versions, migrations, copies."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from acc.bootstrap import settings
from acc.domain.errors import InvalidInput
from acc.ports.outbound.storage_ports import SessionStorePort, StoreCatalogPort

if TYPE_CHECKING:
    from acc.ports.outbound.blob_ports import BlobStorePort


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


def make_blob_store(location: str | Path) -> "BlobStorePort | None":
    """Return the store of large files at a location, None for an empty one."""
    text = str(location)
    if not text:
        return None
    scheme, is_url, rest = text.partition("://")
    if isinstance(location, str) and is_url:
        bucket, _, prefix = rest.partition("/")
        if scheme != "s3" or not bucket or "@" in bucket:
            raise InvalidInput(
                f"files cannot be stored in {scheme!r}: expected a directory, or "
                "s3://BUCKET/PREFIX, with credentials in AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY"
            )
        if find_spec("obstore") is None:
            raise InvalidInput("files in S3 require obstore; run: pip install 'acc-agents[s3]'")
        from acc.adapters.storage.s3_blobs import S3BlobStore

        return S3BlobStore(bucket, prefix=prefix.strip("/"), endpoint=settings.s3_endpoint())
    from acc.adapters.storage.directory_blobs import DirectoryBlobStore
    from acc.adapters.system.threads import DaemonThreads

    return DirectoryBlobStore(Path(text), threads=DaemonThreads())


async def prune_files(store: str, files: str, *, dry_run: bool) -> tuple[int, int]:
    """Delete the content of files that were deleted; return how many blobs, and their bytes."""
    from acc.adapters.storage.blob_artifacts import ReferenceStore, prune
    from acc.adapters.storage.location import PostgresLocation, parse_location
    from acc.adapters.system.clock import SystemClock

    place = files or settings.files_location()
    blobs = make_blob_store(place)
    if blobs is None:
        raise InvalidInput("name the store of files with --files, or in ACC_FILES")
    if "://" not in place and not Path(place).is_dir():  # noqa: ASYNC240 - nothing else runs
        raise InvalidInput(f"{place} is not a directory; check --files or ACC_FILES")
    await check_store_version(store)
    location = parse_location(store)
    references: ReferenceStore
    if isinstance(location, PostgresLocation):
        from acc.adapters.storage.postgres_artifacts import PostgresArtifactStore

        references = PostgresArtifactStore(location)
    else:
        from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore

        references = SqliteArtifactStore(Path(str(location)))
    try:
        return await prune(references, blobs, now=SystemClock().now(), dry_run=dry_run)
    finally:
        await references.database.aclose()


async def check_store_version(store: str) -> StoreStatus:
    """Return the version of the tables of a store; StorageFailed if acc cannot use them."""
    from acc.adapters.storage.location import PostgresLocation, parse_location

    location = parse_location(store)
    if location is None:
        raise InvalidInput(
            "a store in memory exists only in the process that uses it; name a SQLite file, such "
            "as shop.db, or a URL postgresql://..."
        )
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
