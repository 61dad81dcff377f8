"""Every store of sessions in turn."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from stores_under_test import MAKERS, Stores

from acc.ports.outbound.storage_ports import SessionStorePort


@pytest.fixture(params=sorted(MAKERS))
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    made = MAKERS[request.param](tmp_path)
    yield made
    await made.sessions.aclose()


@pytest.fixture
def store(stores: Stores) -> SessionStorePort:
    return stores.sessions
