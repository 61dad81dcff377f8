"""The supported frameworks, by the prefix of references; nothing of them is imported here."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from acc.application.agents.framework import FrameworkAgent
from acc.domain.errors import InvalidInput


class Framework(NamedTuple):
    """A framework: the class for its agents, and the package that has to be installed."""

    module: str
    agent_class: str
    package: str
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
    "langgraph": Framework("langgraph", "LangGraphAgent", "langgraph", "langgraph>=1.2"),
    "pydantic-ai": Framework(
        "pydantic_ai", "PydanticAIAgent", "pydantic_ai", "pydantic-ai-slim>=2.66"
    ),
    "openai-agents": Framework(
        "openai_agents", "OpenAIAgentsAgent", "agents", "openai-agents>=0.24"
    ),
    "google-adk": Framework("google_adk", "AdkAgent", "google.adk", "google-adk>=2.13"),
    "agent-framework": Framework(
        "agent_framework", "AgentFrameworkAgent", "agent_framework", "agent-framework-core>=1.23"
    ),
}


def find_framework(target: object) -> str:
    """Return the prefix of the framework that an object belongs to, or an empty string."""
    modules = {cls.__module__ for cls in type(target).__mro__}
    for prefix, framework in FRAMEWORKS.items():
        if any(f"{module}.".startswith(f"{framework.package}.") for module in modules):
            return prefix
    return ""


def as_agent(prefix: str, target: Any, reference: str) -> FrameworkAgent:
    """Return an object of a framework as an agent; InvalidInput if it is not one."""
    try:
        agent_class = FRAMEWORKS[prefix].load()
    except ImportError as error:
        raise InvalidInput(f"{reference}: {error}") from error
    construct: Any = agent_class
    agent: FrameworkAgent = construct(target)
    return agent
