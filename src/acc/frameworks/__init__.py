"""Agents of other frameworks as agents of acc, and ACC memory for other frameworks.

The agents are here. The memories are in one module for each framework, such as
`acc.frameworks.langchain`. A framework is imported only when something of it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acc.adapters.frameworks.agent_framework import AgentFrameworkAgent as AgentFrameworkAgent
    from acc.adapters.frameworks.google_adk import AdkAgent as AdkAgent
    from acc.adapters.frameworks.langgraph import LangGraphAgent as LangGraphAgent
    from acc.adapters.frameworks.openai_agents import OpenAIAgentsAgent as OpenAIAgentsAgent
    from acc.adapters.frameworks.pydantic_ai import PydanticAIAgent as PydanticAIAgent

__all__ = [
    "AdkAgent",
    "AgentFrameworkAgent",
    "LangGraphAgent",
    "OpenAIAgentsAgent",
    "PydanticAIAgent",
]

if not TYPE_CHECKING:  # type checkers use the imports above

    def __getattr__(name: str) -> object:
        """Import an agent class on first use; ImportError if its framework is missing."""
        if name not in __all__:
            raise AttributeError(f"module 'acc.frameworks' has no attribute {name!r}")
        import_module("acc.bootstrap.agent_runner")  # what `agent.run("hello")` needs
        value = globals()[name] = import_module("acc.bootstrap.frameworks").agent_class(name)
        return value
