"""Skip the tests of frameworks that are not installed; `make test-frameworks` installs all."""

from importlib.util import find_spec
from pathlib import Path

NEEDS = {
    "test_agent_framework_agent.py": "agent_framework",
    "test_google_adk_agent.py": "google.adk",
    "test_langgraph_agent.py": "langgraph",
    "test_langsmith_runs.py": "langgraph",
    "test_openai_agents_agent.py": "agents",
    "test_pydantic_ai_agent.py": "pydantic_ai",
}


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    package = NEEDS.get(collection_path.name)
    if package is None:
        return None
    root = package.partition(".")[0]
    return None if find_spec(root) is not None and find_spec(package) is not None else True
