"""Places of counters for the contract suites: memory, stores, a Valkey server."""

from collections.abc import Callable
from pathlib import Path

import pytest
from postgres_server import new_store_url
from valkey_server import shared_valkey

PLACES: dict[str, Callable[[Path], str | Path]] = {
    "memory": lambda _: "memory",
    "postgres": lambda _: new_store_url(),
    "sqlite": lambda folder: folder / "counters.db",
    "valkey": lambda _: shared_valkey(),
}
#: Places that two servers can share.
SHARED = sorted(set(PLACES) - {"memory"})


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return PLACES[request.param](tmp_path)


@pytest.fixture(params=SHARED)
def shared_place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    return PLACES[request.param](tmp_path)
