"""ACC memory for LangChain: `create_agent(..., middleware=[AccMemory()])`."""

from pathlib import Path

try:
    from acc.adapters.frameworks.langchain import AccMiddleware
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.frameworks.langchain needs {error.name}: run pip install 'langchain>=1.4'"
    ) from error

from acc.bootstrap.frameworks import make_history_memory
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

__all__ = ["AccMemory"]


class AccMemory(AccMiddleware):
    """Bounded memory for agents of `langchain.agents.create_agent`.

    The model gets the memory and the messages of the current turn instead of all messages. The
    state of the agent is not changed. Conversations are distinguished by `thread_id`. `store` is
    "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
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
            app_name="langchain",
            store=store,
            budget=budget,
            embeddings=embeddings,
            compressor=compressor,
        )
        super().__init__(memory=memory)
