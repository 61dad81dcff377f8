"""ACC memory for pydantic-ai: `Agent(..., capabilities=[AccMemory()])`."""

from pathlib import Path

try:
    from acc.adapters.frameworks.pydantic_ai import AccCapability
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.frameworks.pydantic_ai needs {error.name}: run pip install 'pydantic-ai-slim>=2.66'"
    ) from error

from acc.bootstrap.frameworks import make_history_memory
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

__all__ = ["AccMemory"]


class AccMemory(AccCapability):
    """Bounded memory for agents of pydantic-ai.

    The model gets the memory and the messages of the current turn instead of all messages. The
    history of a run is not changed. Conversations are distinguished by `conversation_id`. `store`
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
            app_name="pydantic_ai",
            store=store,
            budget=budget,
            embeddings=embeddings,
            compressor=compressor,
        )
        super().__init__(memory=memory)
