"""Tests of SQLite errors: each names the file and the fix, and the store recovers."""

import os
import sqlite3
import tempfile
from asyncio import run
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlite_stores import KEY, event, fill, store_at

from acc.adapters.storage.sqlite_sessions import SqliteArtifactStore, SqliteSessionStore
from acc.domain.errors import InvalidInput, StorageFailed
from acc.domain.value_objects.content import Part, text_part
from acc.domain.value_objects.event import Event, EventActions, EventKind


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acc.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSessionStore]:
    made = store_at(path)
    yield made
    run(made.aclose())


def test_append_on_full_disk_raises_and_works_after_space_is_freed(
    store: SqliteSessionStore, path: Path
) -> None:
    run(fill(store, 1, 3))

    def shrink(connection: sqlite3.Connection) -> None:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")

    run(store.database.read(shrink))
    before = run(store.read(KEY))
    large = event(4, kind=EventKind.MESSAGE, parts=text_part("x" * 100_000))
    with pytest.raises(StorageFailed, match=r"acc\.db: the disk is full; free some space"):
        run(store.append(KEY, [large], holder="h"))
    assert run(store.read(KEY)) == before
    assert len(run(store.events(KEY))) == 3
    run(store.database.read(lambda c: c.execute("PRAGMA max_page_count = 100000").close()))
    run(store.append(KEY, [large], holder="h"))
    assert run(store.events(KEY))[-1] == large


def test_append_to_locked_file_raises_and_works_after_unlock(
    store: SqliteSessionStore, path: Path
) -> None:
    run(fill(store, 1, 1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageFailed, match=r"acc\.db: another process has locked it"):
            run(store.append(KEY, [event(2)], holder="h"))
        assert len(run(store.events(KEY))) == 1
        other.execute("ROLLBACK")
    run(store.append(KEY, [event(2)], holder="h"))
    assert len(run(store.events(KEY))) == 2


def test_opening_locked_new_file_raises(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        store = store_at(path)
        with pytest.raises(StorageFailed, match="another process has locked it"):
            run(store.open(KEY, holder="h"))
        other.execute("ROLLBACK")
    assert run(store.open(KEY, holder="h")).seq == 0
    run(store.aclose())


@contextmanager
def as_unprivileged_user() -> Iterator[None]:
    """Run the block without root privileges."""
    previous_uid = os.geteuid()
    if previous_uid == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(previous_uid)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


def test_write_to_read_only_file_raises_but_reads_work(open_folder: Path) -> None:
    path = open_folder / "acc.db"
    writer = store_at(path)
    run(fill(writer, 1, 1))
    run(writer.aclose())
    open_folder.chmod(0o777)
    path.chmod(0o444)
    with as_unprivileged_user():
        reader = store_at(path)
        assert len(run(reader.events(KEY))) == 1
        with pytest.raises(
            StorageFailed, match=r"acc\.db: it is not writable; check the permissions"
        ):
            run(reader.open(KEY, holder="h"))
        assert len(run(reader.events(KEY))) == 1
        run(reader.aclose())


def test_file_in_read_only_folder_raises(open_folder: Path) -> None:
    open_folder.chmod(0o555)
    with as_unprivileged_user():
        store = store_at(open_folder / "acc.db")
        with pytest.raises(StorageFailed, match=r"acc\.db: it cannot be opened"):
            run(store.open(KEY, holder="h"))
        run(store.aclose())


def test_missing_folder_raises_until_it_is_created(tmp_path: Path) -> None:
    store = store_at(tmp_path / "nowhere" / "acc.db")
    with pytest.raises(StorageFailed, match="nowhere does not exist; create it first"):
        run(store.open(KEY, holder="h"))
    (tmp_path / "nowhere").mkdir()
    assert run(store.open(KEY, holder="h")).seq == 0
    run(store.aclose())


def test_path_of_a_folder_raises(store: SqliteSessionStore, path: Path) -> None:
    path.mkdir()
    with pytest.raises(
        StorageFailed, match=r"acc\.db: it cannot be opened; check that it is a file"
    ):
        run(store.read(KEY))


def test_file_that_is_not_a_database_raises_and_is_unchanged(
    store: SqliteSessionStore, path: Path
) -> None:
    path.write_bytes(b"years of work " * 1000)
    with pytest.raises(StorageFailed, match=r"acc\.db: it is not an SQLite database; choose"):
        run(store.open(KEY, holder="h"))
    assert path.read_bytes() == b"years of work " * 1000
    path.unlink()
    assert run(store.open(KEY, holder="h")).seq == 0


def test_damaged_file_raises(path: Path) -> None:
    store = store_at(path)
    run(fill(store, 1, 300))
    run(store.aclose())
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    damaged = store_at(path)
    with pytest.raises(StorageFailed, match=r"acc\.db: it is damaged; move it away"):
        run(damaged.events(KEY))
    path.write_bytes(whole)
    assert len(run(damaged.events(KEY))) == 300
    run(damaged.aclose())


def test_file_of_another_schema_version_is_rejected(path: Path) -> None:
    store = store_at(path)
    run(fill(store, 1, 1))
    run(store.aclose())
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA user_version = 99")
    newer = store_at(path)
    with pytest.raises(StorageFailed, match=r"acc\.db: .*schema version 99"):
        run(newer.open(KEY, holder="h"))
    run(newer.aclose())


def test_database_of_another_program_raises_and_is_unchanged(
    store: SqliteSessionStore, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE songs (title)")
    before = path.read_bytes()
    with pytest.raises(StorageFailed, match="database of another program; choose another path"):
        run(store.open(KEY, holder="h"))
    assert path.read_bytes() == before


@pytest.mark.parametrize("damage", ["UPDATE events SET body = '{}'", "UPDATE state SET value = ''"])
def test_session_record_that_cannot_be_decoded_raises(
    store: SqliteSessionStore, damage: str
) -> None:
    async def read_everything() -> None:
        await store.read(KEY)
        await store.events(KEY)

    run(fill(store, 1, 1))
    run(read_everything())
    run(store.database.write(lambda c: c.execute(damage).close()))
    with pytest.raises(StorageFailed, match=r"acc\.db: a record cannot be read"):
        run(read_everything())


def test_other_sqlite_error_raises_storage_failed(store: SqliteSessionStore) -> None:
    with pytest.raises(StorageFailed, match=r"acc\.db: no such table: nowhere"):
        run(store.database.read(lambda c: c.execute("SELECT * FROM nowhere").close()))
    run(fill(store, 1, 1))


@pytest.mark.parametrize(
    "bad",
    [
        event(1, kind=EventKind.MESSAGE, parts=(Part(text="\ud800"),)),
        event(1, kind=EventKind.MESSAGE, parts=(Part(data=object()),)),
        event(1, actions=EventActions(state_delta={"x": object()})),
        event(1, actions=EventActions(state_delta={"\ud800": 1})),
        event(1, actions=EventActions(state_removed=("\ud800",))),
        event(1, author="\ud800"),
    ],
)
def test_event_that_cannot_be_stored_is_rejected(store: SqliteSessionStore, bad: Event) -> None:
    run(store.open(KEY, holder="h"))
    with pytest.raises(InvalidInput, match="cannot be stored"):
        run(store.append(KEY, [bad], holder="h"))
    assert run(store.events(KEY)) == ()
    run(store.append(KEY, [event(1)], holder="h"))


def test_artifact_name_with_unpaired_surrogate_is_rejected(store: SqliteSessionStore) -> None:
    files = SqliteArtifactStore(store.database)
    with pytest.raises(InvalidInput, match="unpaired surrogates cannot be stored"):
        run(files.save(KEY, "\ud800", b"", "text/plain"))
    assert run(files.save(KEY, "a", b"", "text/plain")) == 1
