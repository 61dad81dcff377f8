"""ACC memory for the Agent Framework: `Agent(..., context_providers=[AccProvider()])`."""

from pathlib import Path

try:
    from acc.adapters.frameworks.agent_framework import AccContextProvider
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.frameworks.agent_framework needs {error.name}: run "
        "pip install 'agent-framework-core>=1.23'"
    ) from error

from acc.bootstrap.frameworks import make_history_memory
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

__all__ = ["AccProvider"]


class AccProvider(AccContextProvider):
    """Bounded memory for agents of Microsoft's Agent Framework.

    The model gets the memory and the messages of the current turn instead of all messages. The
    history of a session is not changed. Conversations are sessions of the framework. `store`
    is "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
    """

    def __init__(
        self,
        *,
        store: str | Path = "memory",
        budget: int = 1_024,
        embeddings: str | EmbedderPort = "none",
        compressor: str | LanguageModelPort = "rules",
    ) -> None:
        memory = make_history_memory(
            app_name="agent_framework",
            store=store,
            budget=budget,
            embeddings=embeddings,
            compressor=compressor,
        )
        super().__init__(memory=memory)
