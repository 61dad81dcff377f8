"""Agents of other frameworks as agents of acc, and ACC memory for other frameworks.

The agents are here. The memories are in one module for each framework, such as
`acc.frameworks.langchain`. A framework is imported only when something of it is used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acc.adapters.frameworks.langgraph import LangGraphAgent as LangGraphAgent

__all__ = ["LangGraphAgent"]

if not TYPE_CHECKING:  # type checkers use the imports above

    def __getattr__(name: str) -> object:
        """Import an agent class on first use; ImportError if its framework is missing."""
        if name not in __all__:
            raise AttributeError(f"module 'acc.frameworks' has no attribute {name!r}")
        import acc.bootstrap.agent_runner  # noqa: F401 - what `agent.run("hello")` needs
        from acc.adapters.frameworks.registry import FRAMEWORKS

        (framework,) = (one for one in FRAMEWORKS.values() if one.agent_class == name)
        value = globals()[name] = framework.load()
        return value
