"""What every store of blobs does, and the artifact store on top of it."""

import hashlib
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import cast

import pytest
from s3_server import shared_server
from session_store_factories import KEY, MAKERS, Stores

from acc.adapters.storage.blob_artifacts import (
    PRUNE_AFTER_SECONDS,
    BlobArtifactStore,
    ReferenceStore,
    prune,
)
from acc.bootstrap.storage import make_blob_store, prune_files
from acc.domain.errors import InvalidInput, StorageFailed
from acc.ports.outbound.blob_ports import BlobStorePort

_buckets = count(1)
CONTENT = "大きなファイル".encode() * 1000
NAME = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(params=["directory", "s3", "s3_prefix"])
def blobs(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BlobStorePort:
    location = str(tmp_path / "files")
    if request.param != "directory":
        for name, value in shared_server().environment().items():
            monkeypatch.setenv(name, value)
        bucket = f"files-{next(_buckets)}"
        shared_server().create_bucket(bucket)
        location = f"s3://{bucket}/{'team/a' if request.param == 's3_prefix' else ''}"
    made = make_blob_store(location)
    assert made is not None
    return made


@pytest.fixture(params=list(MAKERS))
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    made = MAKERS[request.param](tmp_path)
    yield made
    await made.sessions.aclose()


async def test_blob_is_returned_as_it_was_stored(blobs: BlobStorePort) -> None:
    assert await blobs.get(NAME) is None
    await blobs.put(NAME, CONTENT)
    await blobs.put(NAME, CONTENT)
    await blobs.put("ff00", b"")
    assert await blobs.get(NAME) == CONTENT
    assert await blobs.get("ff00") == b""


async def test_blobs_are_listed_and_deleted(blobs: BlobStorePort) -> None:
    assert list(await blobs.blobs()) == []
    await blobs.put(NAME, CONTENT)
    await blobs.put("ff00", b"small")
    found = {blob.name: blob.size for blob in await blobs.blobs()}
    assert found == {NAME: len(CONTENT), "ff00": 5}
    await blobs.delete([NAME, "0011"])
    assert [blob.name for blob in await blobs.blobs()] == ["ff00"]
    assert await blobs.get(NAME) is None


async def test_large_files_are_in_the_blob_store(stores: Stores, tmp_path: Path) -> None:
    references = cast("ReferenceStore", stores.artifacts)
    blobs = make_blob_store(tmp_path / "files")
    assert blobs is not None
    files = BlobArtifactStore(references, blobs=blobs, min_bytes=1000)
    assert await files.save(KEY, "small.txt", b"abc", "text/plain") == 1
    assert await files.save(KEY, "large.bin", CONTENT, "application/x") == 1
    assert await files.save(KEY, "large.bin", CONTENT + b"2", "application/x") == 2
    loaded = await files.load(KEY, "large.bin", 1)
    assert loaded is not None
    assert (loaded.version, loaded.media_type, loaded.data) == (1, "application/x", CONTENT)
    newest = await files.load(KEY, "large.bin")
    assert newest is not None
    assert newest.data == CONTENT + b"2"
    assert await files.names(KEY) == ("large.bin", "small.txt")
    assert await files.versions(KEY, "large.bin") == (1, 2)
    # The database has references, which lead nowhere without the store of files.
    stored = await stores.artifacts.load(KEY, "large.bin", 1)
    assert stored is not None
    assert len(stored.data) < 100
    with pytest.raises(InvalidInput, match="ACC_FILES"):
        await BlobArtifactStore(references, blobs=None).load(KEY, "large.bin")
    # Content that looks like a reference is content.
    await files.save(KEY, "odd", stored.data, "text/plain")
    odd = await files.load(KEY, "odd")
    assert odd is not None
    assert odd.data == stored.data
    with pytest.raises(InvalidInput, match="must not begin"):
        await BlobArtifactStore(references, blobs=None).save(KEY, "odd", stored.data, "a/b")
    await blobs.delete([NAME])
    with pytest.raises(StorageFailed, match="not in the store of files"):
        await files.load(KEY, "large.bin", 1)
    await blobs.put(NAME, b"something else")
    with pytest.raises(StorageFailed, match="was changed"):
        await files.load(KEY, "large.bin", 1)


async def test_content_of_deleted_sessions_is_pruned(stores: Stores, tmp_path: Path) -> None:
    references = cast("ReferenceStore", stores.artifacts)
    blobs = make_blob_store(tmp_path / "files")
    assert blobs is not None
    files = BlobArtifactStore(references, blobs=blobs, min_bytes=1000)
    await stores.sessions.open(KEY, holder="a")
    await files.save(KEY, "large.bin", CONTENT, "application/x")
    await files.save(KEY, "user:shared.bin", CONTENT + b"2", "application/x")
    written_at = max(blob.written_at for blob in await blobs.blobs())
    late = written_at + PRUNE_AFTER_SECONDS + 1
    assert await prune(references, blobs, now=late) == (0, 0)
    await stores.sessions.release(KEY, holder="a")
    await stores.sessions.delete(KEY)
    assert await prune(references, blobs, now=written_at) == (0, 0)
    expected = (1, len(CONTENT))
    assert await prune(references, blobs, now=late, dry_run=True) == expected
    assert await prune(references, blobs, now=late) == expected
    shared = await files.load(KEY, "user:shared.bin")
    assert shared is not None
    assert shared.data == CONTENT + b"2"


@pytest.mark.parametrize("name", ["missing", "ファイル"])
async def test_pruning_needs_an_existing_directory(name: str, tmp_path: Path) -> None:
    (tmp_path / "ファイル").write_text("x")
    with pytest.raises(InvalidInput, match=rf"{name} is not a directory; check --files"):
        await prune_files(str(tmp_path / "acc.db"), str(tmp_path / name), dry_run=True)


async def test_what_acc_did_not_write_is_not_pruned(stores: Stores, blobs: BlobStorePort) -> None:
    await blobs.put("ja.json", b"{}")
    (other,) = await blobs.blobs()
    late = other.written_at + PRUNE_AFTER_SECONDS + 1
    references = cast("ReferenceStore", stores.artifacts)
    assert await prune(references, blobs, now=late) == (0, 0)
    assert await blobs.get("ja.json") == b"{}"


@pytest.mark.parametrize(
    ("bucket", "changes", "problem"),
    [
        ("missing", {}, "the bucket does not exist"),
        ("known", {"AWS_SECRET_ACCESS_KEY": "wrong-secret"}, "the credentials are wrong"),
        ("known", {"AWS_ACCESS_KEY_ID": "wrong-key"}, "the credentials are wrong"),
        ("known", {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "check AWS_ENDPOINT_URL"),
    ],
)
async def test_problem_of_an_object_store_is_named_without_secrets(
    monkeypatch: pytest.MonkeyPatch, bucket: str, changes: dict[str, str], problem: str
) -> None:
    server = shared_server()
    if bucket == "known":
        bucket = f"files-{next(_buckets)}"
        server.create_bucket(bucket)
    for name, value in server.environment(**changes).items():
        monkeypatch.setenv(name, value)
    blobs = make_blob_store(f"s3://{bucket}")
    assert blobs is not None
    for operation in (blobs.put(NAME, CONTENT), blobs.get(NAME), blobs.blobs()):
        with pytest.raises(StorageFailed, match=problem) as caught:
            await operation
        assert f"s3://{bucket}" in str(caught.value)
        assert server.secret not in str(caught.value)
        assert "wrong-secret" not in str(caught.value)


async def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("not a directory")
    blobs = make_blob_store(tmp_path / "files")
    assert blobs is not None
    with pytest.raises(StorageFailed, match="files cannot be stored in"):
        await blobs.put(NAME, CONTENT)


@pytest.mark.parametrize("location", ["gs://bucket", "s3://", "s3://key:secret@bucket"])
def test_unknown_place_for_files_is_rejected(location: str) -> None:
    with pytest.raises(InvalidInput, match="expected a directory, or s3://BUCKET/PREFIX") as caught:
        make_blob_store(location)
    assert "secret@" not in str(caught.value)


async def test_files_that_vanish_while_they_are_listed_are_skipped(tmp_path: Path) -> None:
    made = make_blob_store(str(tmp_path))
    assert made is not None
    await made.put(NAME, CONTENT)
    # Like a file that another process deletes: it is listed, but has no status.
    (tmp_path / NAME[:2] / ("f" * 64)).symlink_to(tmp_path / "deleted")
    assert [blob.name for blob in await made.blobs()] == [NAME]
