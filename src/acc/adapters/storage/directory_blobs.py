"""Blobs as files of a directory, which all processes must share."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from acc.domain.errors import StorageFailed
from acc.ports.outbound.blob_ports import StoredBlob
from acc.ports.outbound.system_ports import ThreadsPort

T = TypeVar("T")
_TEMPORARY = ".tmp"


class DirectoryBlobStore:
    """Stores each blob as a file, in folders by the first two characters of its name."""

    def __init__(self, directory: Path, *, threads: ThreadsPort) -> None:
        self._directory = directory
        self._threads = threads

    async def put(self, name: str, data: bytes) -> None:
        """Write a file and rename it, so that no partial file is read."""
        path = self._path(name)

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f"{name}-{uuid4().hex}{_TEMPORARY}")
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

        await self._run(write)

    async def get(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        path = self._path(name)

        def read() -> bytes | None:
            try:
                return path.read_bytes()
            except FileNotFoundError:
                return None

        return await self._run(read)

    async def blobs(self) -> Sequence[StoredBlob]:
        """Return all files except unfinished ones."""

        def find() -> list[StoredBlob]:
            found = []
            for path in self._directory.glob("??/*"):
                if path.suffix != _TEMPORARY:
                    with suppress(FileNotFoundError):  # another process may delete it meanwhile
                        status = path.stat()
                        found.append(StoredBlob(path.name, status.st_size, status.st_mtime))
            return found

        return await self._run(find)

    async def delete(self, names: Sequence[str]) -> None:
        """Delete files that exist."""

        def unlink() -> None:
            for name in names:
                self._path(name).unlink(missing_ok=True)

        await self._run(unlink)

    def _path(self, name: str) -> Path:
        return self._directory / name[:2] / name

    async def _run(self, work: Callable[[], T]) -> T:
        try:
            return await self._threads.call(work)
        except OSError as error:
            raise StorageFailed(
                f"files cannot be stored in {self._directory}: {error.strerror}; check that it is "
                "a directory, its permissions, and free space"
            ) from error
