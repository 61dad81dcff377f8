"""Skip the tests of frameworks that are not installed; `make test-frameworks` installs all."""

from importlib.util import find_spec
from pathlib import Path

NEEDS = {"test_langgraph_agent.py": "langgraph", "test_langsmith_runs.py": "langgraph"}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    package = NEEDS.get(collection_path.name)
    return True if package is not None and find_spec(package) is None else None
