from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from server_harness import CommandAgent, ServerHarness


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[ServerHarness]:
    created = ServerHarness("memory", tmp_path)
    yield created
    await created.aclose()


@pytest.fixture(params=["memory", "sqlite"])
async def any_harness(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[ServerHarness]:
    created = ServerHarness(request.param, tmp_path)
    yield created
    await created.aclose()


@pytest.fixture
async def agent_under_test() -> CommandAgent:
    return CommandAgent(name="doer", description="Executes commands.")


@pytest.fixture
async def sqlite_harness(tmp_path: Path) -> AsyncIterator[ServerHarness]:
    created = ServerHarness("sqlite", tmp_path)
    yield created
    await created.aclose()
