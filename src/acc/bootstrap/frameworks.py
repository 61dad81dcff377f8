"""Construct agents of other frameworks, and ACC memories for other frameworks."""

from pathlib import Path
from typing import TYPE_CHECKING

from acc.application.memory.acc import DEFAULT_BUDGET_TOKENS
from acc.application.memory.history import HistoryMemory
from acc.bootstrap.memory import RULES
from acc.domain.value_objects.session import SessionKey
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

if TYPE_CHECKING:
    from acc.application.agents.framework import FrameworkAgent
    from acc.application.memory.acc import AccMemory


def agent_class(name: str) -> "type[FrameworkAgent]":
    """Return the class for agents of a framework; ImportError if it is not installed."""
    from acc.adapters.frameworks.registry import FRAMEWORKS

    (framework,) = (one for one in FRAMEWORKS.values() if one.agent_class == name)
    return framework.load()


def make_history_memory(
    *,
    app_name: str,
    store: str | Path = "memory",
    budget: int = DEFAULT_BUDGET_TOKENS,
    embeddings: str | EmbedderPort = "none",
    compressor: str | LanguageModelPort = RULES,
) -> HistoryMemory:
    """Return ACC memory for the histories of a framework, stored in memory or a SQLite file."""
    from acc.application.runtime.run import MemoryScope, memory_scope
    from acc.bootstrap.agents import make_services
    from acc.bootstrap.memory import acc_memory

    services = make_services(store=store)

    def create(key: SessionKey, name: str) -> "AccMemory":
        token = memory_scope.set(MemoryScope(services, key, name))
        try:
            return acc_memory(budget=budget, embeddings=embeddings, compressor=compressor)
        finally:
            memory_scope.reset(token)

    create(SessionKey(app_name=app_name, user_id="user", session_id="check"), "check")
    return HistoryMemory(
        sessions=services.sessions,
        create=create,
        ids=services.ids,
        clock=services.clock,
        app_name=app_name,
    )
