"""The supported frameworks, by the prefix of references; nothing of them is imported here."""

import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from acc.application.agents.framework import FrameworkAgent
from acc.domain.errors import InvalidInput, InvalidTree


class Framework(NamedTuple):
    """A framework: our class for its agents, its package, and the base class of its agents."""

    module: str
    agent_class: str
    package: str
    base_class: str
    install: str

    def load(self) -> type[FrameworkAgent]:
        """Return the class for agents of the framework; ImportError with the command to run."""
        self.check_installed(f"acc.frameworks.{self.agent_class}")
        module = import_module(f"acc.adapters.frameworks.{self.module}")
        loaded: type[FrameworkAgent] = getattr(module, self.agent_class)
        return loaded

    def check_installed(self, user: str) -> None:
        """Raise ImportError with the command that installs the framework, if it is missing."""
        root = self.package.partition(".")[0]
        if find_spec(root) is None or find_spec(self.package) is None:
            raise ImportError(f"{user} needs {self.package}: run pip install '{self.install}'")


FRAMEWORKS: Mapping[str, Framework] = {
    "langgraph": Framework("langgraph", "LangGraphAgent", "langgraph", "Pregel", "langgraph>=1.2"),
    "pydantic-ai": Framework(
        "pydantic_ai", "PydanticAIAgent", "pydantic_ai", "AbstractAgent", "pydantic-ai-slim>=2.66"
    ),
    "openai-agents": Framework(
        "openai_agents", "OpenAIAgentsAgent", "agents", "AgentBase", "openai-agents>=0.24"
    ),
    "google-adk": Framework(
        "google_adk", "AdkAgent", "google.adk", "BaseAgent", "google-adk>=2.13"
    ),
    "agent-framework": Framework(
        "agent_framework",
        "AgentFrameworkAgent",
        "agent_framework",
        "BaseAgent",
        "agent-framework-core>=1.23",
    ),
}


def find_framework(target: object) -> str:
    """Return the prefix of the framework whose agent an object is, or an empty string."""
    for prefix, framework in FRAMEWORKS.items():
        for cls in type(target).__mro__:
            is_inside = f"{cls.__module__}.".startswith(f"{framework.package}.")
            if is_inside and cls.__name__ == framework.base_class:
                return prefix
    return ""


def as_agent(prefix: str, target: Any, reference: str) -> FrameworkAgent:
    """Return an object of a framework, or what a function creates, as an agent.

    InvalidInput if it is not an agent of the framework, or if the framework is not installed.
    """
    try:
        agent_class: Any = FRAMEWORKS[prefix].load()
    except ImportError as error:
        raise InvalidInput(f"{reference}: {error}") from error
    if inspect.isfunction(target) and not inspect.signature(target).parameters:
        target = target()
    try:
        agent: FrameworkAgent = agent_class(target)
    except InvalidTree as error:
        raise InvalidTree(f"{reference}: {error}") from error
    return agent
