"""Fixtures with every session store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from engine_support import EngineUnderTest
from session_store_factories import MAKERS, Stores

from acc.ports.outbound.storage_ports import SessionStorePort


@pytest.fixture(params=sorted(MAKERS))
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    created = MAKERS[request.param](tmp_path)
    yield created
    await created.sessions.aclose()


@pytest.fixture
def store(stores: Stores) -> SessionStorePort:
    return stores.sessions


@pytest.fixture(params=["in_process", "temporal"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    return EngineUnderTest(request.param, tmp_path)
