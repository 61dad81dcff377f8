"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest
from command import serve


@pytest.fixture(scope="module")
def everything() -> Iterator[str]:
    """Return the URL of an agent that supports every kind of command."""
    with serve("sample_agents:everything") as url:
        yield url
