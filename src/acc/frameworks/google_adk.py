"""ACC memory for ADK: `App(..., plugins=[AccPlugin()])`."""

from pathlib import Path

try:
    from acc.adapters.frameworks.google_adk import AccMemoryPlugin
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.frameworks.google_adk needs {error.name}: run pip install 'google-adk>=2.13'"
    ) from error

from acc.bootstrap.frameworks import make_history_memory
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

__all__ = ["AccPlugin"]


class AccPlugin(AccMemoryPlugin):
    """Bounded memory for agents of the Agent Development Kit.

    The model gets the memory and the messages of the current turn instead of all messages. The
    events of a session are not changed. Conversations are those of the session service. `store`
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
            app_name="google_adk",
            store=store,
            budget=budget,
            embeddings=embeddings,
            compressor=compressor,
        )
        super().__init__(memory=memory)
