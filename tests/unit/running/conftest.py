from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from running_world import WORLDS, World


@pytest.fixture(params=sorted(WORLDS))
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made = WORLDS[request.param](tmp_path)
    yield made
    await made.sessions.aclose()
