from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from runner_harness import STORAGES, Crash, Storage


@pytest.fixture(params=sorted(STORAGES))
async def storage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Storage]:
    made = STORAGES[request.param](tmp_path)
    yield made
    await made.sessions.aclose()


@pytest.fixture
async def crash(storage: Storage, tmp_path: Path) -> AsyncIterator[Crash]:
    made = Crash(storage, tmp_path)
    yield made
    await made.close()
