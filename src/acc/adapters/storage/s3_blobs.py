"""Blobs as objects of a bucket in S3 or a compatible object store."""

from collections.abc import Awaitable, Sequence
from datetime import timedelta
from typing import TypeVar

import obstore
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import S3Store

from acc.domain.errors import StorageFailed
from acc.ports.outbound.blob_ports import StoredBlob

T = TypeVar("T")
_CONNECT_TIMEOUT = timedelta(seconds=5)
_RETRY_TIMEOUT = timedelta(seconds=30)
_MAX_RETRIES = 4
_DELETE_BATCH = 500
_NO_BUCKET = "NoSuchBucket"
_FORBIDDEN = "403 Forbidden"


class S3BlobStore:
    """Stores each blob as an object below a prefix.

    Endpoint, region and credentials are those of the environment (`AWS_ENDPOINT_URL`, `AWS_REGION`,
    `AWS_ACCESS_KEY_ID`, ...), or of the machine on AWS.
    """

    def __init__(self, bucket: str, *, prefix: str = "", endpoint: str = "") -> None:
        self._label = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._store = S3Store(
            bucket,
            prefix=prefix or None,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "connect_timeout": _CONNECT_TIMEOUT,
            },
            retry_config={"max_retries": _MAX_RETRIES, "retry_timeout": _RETRY_TIMEOUT},
        )

    async def put(self, name: str, data: bytes) -> None:
        """Write an object."""
        await self._run(obstore.put_async(self._store, name, data))

    async def get(self, name: str) -> bytes | None:
        """Return the content of an object, None if there is none."""
        try:
            found = await self._run(obstore.get_async(self._store, name))
        except _NoObject:
            return None
        return bytes(await self._run(found.bytes_async()))

    async def blobs(self) -> Sequence[StoredBlob]:
        """Return all objects below the prefix."""
        objects = await self._run(obstore.list(self._store).collect_async())
        return [
            StoredBlob(one["path"], one["size"], one["last_modified"].timestamp())
            for one in objects
        ]

    async def delete(self, names: Sequence[str]) -> None:
        """Delete objects that exist."""
        for start in range(0, len(names), _DELETE_BATCH):
            batch = list(names[start : start + _DELETE_BATCH])
            await self._run(obstore.delete_async(self._store, batch))

    async def _run(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except FileNotFoundError as error:
            if _NO_BUCKET in str(error):
                raise self._explain(error) from None
            raise _NoObject from None
        except (BaseError, OSError) as error:
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> StorageFailed:
        """Return the error that names the problem; the type alone does not in lists."""
        text = str(error)
        if _NO_BUCKET in text:
            return self._failed("the bucket does not exist; create it, or name another one")
        if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _FORBIDDEN in text:
            return self._failed(
                "the credentials are wrong or lack permissions; check AWS_ACCESS_KEY_ID, "
                "AWS_SECRET_ACCESS_KEY and the policy of the bucket"
            )
        # The text of the library has the request, but no credentials.
        reason = text.partition("\n")[0]
        return self._failed(
            "the object store cannot be used; check AWS_ENDPOINT_URL, AWS_REGION and that it runs "
            f"({reason})"
        )

    def _failed(self, reason: str) -> StorageFailed:
        return StorageFailed(f"{self._label}: {reason}")


class _NoObject(Exception):
    """There is no object with this name."""
