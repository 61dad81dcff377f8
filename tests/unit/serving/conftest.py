from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from serving_world import Doer, World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World("memory", tmp_path)
    yield made
    await made.aclose()


@pytest.fixture(params=["memory", "sqlite"])
async def worlds(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made = World(request.param, tmp_path)
    yield made
    await made.aclose()


@pytest.fixture
async def doer() -> Doer:
    return Doer(name="doer", description="Does as it is told.")


@pytest.fixture
async def shared(tmp_path: Path) -> AsyncIterator[World]:
    made = World("sqlite", tmp_path)
    yield made
    await made.aclose()
