"""Stores of large content outside the database."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class StoredBlob(NamedTuple):
    """A blob in a list, with the time of its last write in seconds since the epoch."""

    name: str
    size: int
    written_at: float


class BlobStorePort(Protocol):
    """Stores content under names of lower-case letters and digits.

    Every method raises StorageFailed if the store cannot be used.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Store content, all or nothing; a blob that exists is written again."""
        ...

    async def get(self, name: str) -> bytes | None:
        """Return content, None if there is none."""
        ...

    async def blobs(self) -> Sequence[StoredBlob]:
        """Return all blobs, in any order."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Delete blobs; those that do not exist are skipped."""
        ...
