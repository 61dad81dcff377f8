"""Artifact store in a PostgreSQL database."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import asyncpg

from acc.adapters.storage.location import PostgresLocation
from acc.adapters.storage.postgres import PostgresDatabase, as_database
from acc.adapters.storage.session_records import artifact_scope, scope_name
from acc.domain.value_objects.session import Scope, SessionKey, StoredArtifact

if TYPE_CHECKING:
    from asyncpg import Connection

_SAVE_FILE = (
    "INSERT INTO acc_artifacts (scope, name, version, media_type, data)"
    " SELECT $1, $2, coalesce(max(version), 0) + 1, $3, $4 FROM acc_artifacts"
    " WHERE scope = $1 AND name = $2 RETURNING version"
)
_LOAD_FILE = (
    "SELECT version, media_type, data FROM acc_artifacts WHERE scope = $1 AND name = $2"
    " AND version = coalesce($3, version) ORDER BY version DESC LIMIT 1"
)
_NAMES = "SELECT DISTINCT name FROM acc_artifacts WHERE scope = ANY($1) ORDER BY name"
_CONTENTS = (
    "SELECT DISTINCT data FROM acc_artifacts"
    " WHERE substring(data FROM 1 FOR octet_length($1::bytea)) = $1::bytea"
)
_VERSIONS = "SELECT version FROM acc_artifacts WHERE scope = $1 AND name = $2 ORDER BY version"


class PostgresArtifactStore:
    """Stores versioned files in a database, usually that of the sessions."""

    def __init__(self, database: PostgresDatabase | PostgresLocation | str) -> None:
        self.database = as_database(database)

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a new version and return its number, from 1."""
        values = (scope_name(key, artifact_scope(name)), name, media_type, data)

        async def save(connection: "Connection[Any]") -> int:
            version: int | None = None
            while version is None:
                with suppress(asyncpg.UniqueViolationError):  # another process stored this version
                    version = await connection.fetchval(_SAVE_FILE, *values)
            return version

        return await self.database.write(save)

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        values = (scope_name(key, artifact_scope(name)), name, version)
        row = await self.database.read(lambda c: c.fetchrow(_LOAD_FILE, *values))
        if row is None:
            return None
        return StoredArtifact(name=name, version=row[0], media_type=row[1], data=row[2])

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        scopes = [scope_name(key, Scope.USER), scope_name(key, Scope.SESSION)]
        rows = await self.database.read(lambda c: c.fetch(_NAMES, scopes))
        return tuple(name for (name,) in rows)

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        values = (scope_name(key, artifact_scope(name)), name)
        rows = await self.database.read(lambda c: c.fetch(_VERSIONS, *values))
        return tuple(version for (version,) in rows)

    async def contents(self, prefix: bytes) -> frozenset[bytes]:
        """Return the contents that begin with some bytes."""
        rows = await self.database.read(lambda c: c.fetch(_CONTENTS, prefix))
        return frozenset(bytes(data) for (data,) in rows)
