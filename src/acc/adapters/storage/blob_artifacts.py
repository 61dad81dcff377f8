"""Artifacts whose large content is in a blob store; the database has a reference."""

import hashlib
import re
from typing import Protocol

from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.session import SessionKey, StoredArtifact
from acc.ports.outbound.blob_ports import BlobStorePort
from acc.ports.outbound.storage_ports import ArtifactStorePort

#: Smaller files stay in the database: they cost less there than a request.
MIN_BLOB_BYTES = 256 * 1024
#: Blobs younger than this are not deleted: the reference to them may not be stored yet.
PRUNE_AFTER_SECONDS = 24 * 3600.0
_MARK = b"\0acc-blob\0"
_BLOB_NAME = re.compile(r"[0-9a-f]{64}")


class ReferenceStore(ArtifactStorePort, Protocol):
    """An artifact store that can list references."""

    async def contents(self, prefix: bytes) -> frozenset[bytes]:
        """Return the contents that begin with some bytes."""
        ...


class BlobArtifactStore:
    """Stores files in another artifact store, the content of large ones in a blob store.

    A blob is named by the hash of its content: equal files are stored once, and repeating a write
    that failed is harmless. A blob without a reference is deleted by `prune`.
    """

    def __init__(
        self,
        files: ReferenceStore,
        *,
        blobs: BlobStorePort | None,
        min_bytes: int = MIN_BLOB_BYTES,
    ) -> None:
        self._files = files
        self._blobs = blobs
        self._min_bytes = min_bytes

    async def save(self, key: SessionKey, name: str, data: bytes, media_type: str) -> int:
        """Store a new version and return its number, from 1."""
        is_reference = data.startswith(_MARK)
        if self._blobs is not None and (len(data) >= self._min_bytes or is_reference):
            digest = hashlib.sha256(data).hexdigest()
            # Before the reference, so that no reference is without its content.
            await self._blobs.put(digest, data)
            data = _MARK + digest.encode()
        elif is_reference:
            raise InvalidInput(f"artifact {name!r}: content must not begin with {_MARK!r}")
        return await self._files.save(key, name, data, media_type)

    async def load(
        self, key: SessionKey, name: str, version: int | None = None
    ) -> StoredArtifact | None:
        """Return a version, the newest by default."""
        file = await self._files.load(key, name, version)
        if file is None or not file.data.startswith(_MARK):
            return file
        if self._blobs is None:
            raise InvalidInput(
                f"the content of {name!r} is in a store of files; name it with ACC_FILES"
            )
        digest = _name_of(file.data)
        data = await self._blobs.get(digest)
        if data is None:
            raise StorageFailed(
                f"the content of {name!r} is not in the store of files; check ACC_FILES, or "
                f"restore the blob {digest}"
            )
        if hashlib.sha256(data).hexdigest() != digest:
            raise StorageFailed(f"the content of {name!r} was changed in the store of files")
        return StoredArtifact(
            name=name, version=file.version, media_type=file.media_type, data=data
        )

    async def names(self, key: SessionKey) -> tuple[str, ...]:
        """Return the names that can be loaded, sorted."""
        return await self._files.names(key)

    async def versions(self, key: SessionKey, name: str) -> tuple[int, ...]:
        """Return the version numbers of a name."""
        return await self._files.versions(key, name)


async def prune(
    files: ReferenceStore, blobs: BlobStorePort, *, now: float, dry_run: bool = False
) -> tuple[int, int]:
    """Delete blobs that no file refers to; return how many, and their bytes.

    What is not named like a blob stays, in case the store of files is another place by mistake.
    """
    found = [blob for blob in await blobs.blobs() if _BLOB_NAME.fullmatch(blob.name)]
    old = [blob for blob in found if now - blob.written_at > PRUNE_AFTER_SECONDS]
    used = {_name_of(content) for content in await files.contents(_MARK)}
    unused = [blob for blob in old if blob.name not in used]
    if unused and not dry_run:
        await blobs.delete([blob.name for blob in unused])
    return len(unused), sum(blob.size for blob in unused)


def _name_of(reference: bytes) -> str:
    return reference.removeprefix(_MARK).decode("ascii", "replace")
