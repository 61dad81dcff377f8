"""`acc store`: migrate, check and copy stores."""

import asyncio
from typing import Annotated

from cyclopts import App, Parameter

from acc.bootstrap.storage import (
    check_store_version,
    copy_store,
    describe_store,
    migrate_store,
    prune_files,
)
from acc.cli.output import console, count_noun

app = App(
    name="store",
    group="Build agents",
    help="""Migrate, check and copy stores of sessions and tasks.

A password in the URL is visible to other users of the machine; set PGPASSWORD instead.
""",
)

_Store = Annotated[
    str, Parameter(help="The path of a SQLite file, or postgresql://USER@HOST/DATABASE.")
]
_DryRun = Annotated[
    bool, Parameter(help="Print what would be done, and change nothing.", negative=())
]


@app.command
def migrate(store: _Store, /, *, dry_run: _DryRun = False) -> int:
    """Create or upgrade the tables of a PostgreSQL database.

    Processes of the previous version may continue. An empty database is also migrated on its first
    use.

    Example: acc store migrate postgresql://acc@db.example.com/acc --dry-run
    """
    versions = asyncio.run(migrate_store(store, dry_run=dry_run))
    name = describe_store(store)
    if not versions:
        _print(f"{name}: no migration is missing")
    for version in versions:
        _print(f"{name}: {'would migrate' if dry_run else 'migrated'} to version {version}")
    return 0


@app.command
def check(store: _Store, /) -> int:
    """Check that a store can be reached and that its tables have the right version.

    Exit status 1 if a migration is missing.
    """
    status = asyncio.run(check_store_version(store))
    if status.is_current:
        _print(f"{status.location}: schema version {status.version}, ok")
        return 0
    _print(
        f"{status.location}: schema version {status.version}, this acc needs {status.expected}; "
        "run: acc store migrate"
    )
    return 1


@app.command
def copy(source: _Store, target: _Store, /, *, dry_run: _DryRun = False) -> int:
    """Copy all sessions, tasks, files and memories to an empty store, in one transaction.

    First stop the processes that use the source: data that they write during the copy is not
    copied.

    Example: acc store copy shop.db postgresql://acc@db.example.com/acc
    """
    counts = asyncio.run(copy_store(source, target, dry_run=dry_run))
    verb = "would copy" if dry_run else "copied"
    for table, count in counts.items():
        _print(f"{verb} {count_noun(count, 'row')} of {table.removeprefix('acc_')}")
    _print(f"{verb} {describe_store(source)} to {describe_store(target)}")
    return 0


@app.command
def prune(
    store: _Store,
    /,
    *,
    files: Annotated[
        str,
        Parameter(
            help="The store of large files: a directory or s3://BUCKET/PREFIX. "
            "[default: ACC_FILES]",
            show_default=False,
        ),
    ] = "",
    dry_run: _DryRun = False,
) -> int:
    """Delete the content of large files whose sessions were deleted.

    Content that was written in the last day stays. The place for files must belong to this store
    alone: content to which only another store refers would be deleted.

    Example: acc store prune postgresql://acc@db.example.com/acc --files s3://acc-files
    """
    count, size = asyncio.run(prune_files(store, files, dry_run=dry_run))
    _print(f"{'would delete' if dry_run else 'deleted'} {count} blobs, {size} bytes")
    return 0


def _print(text: str) -> None:
    console().print(text, markup=False, highlight=False, soft_wrap=True)
