"""ACC memory for the OpenAI Agents SDK: `RunConfig(call_model_input_filter=AccMemory())`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from acc.bootstrap.frameworks import make_history_memory, require_package
from acc.ports.outbound.model_ports import EmbedderPort, LanguageModelPort

with require_package(__name__, "openai-agents>=0.24"):
    from acc.adapters.frameworks.openai_agents import AccInputFilter

__all__ = ["AccMemory"]


class AccMemory(AccInputFilter):
    """Bounded memory for agents of the OpenAI Agents SDK.

    The model gets the memory and the items of the current turn instead of all items. Sessions and
    results are not changed. `session_id` distinguishes conversations; it may be a function of the
    run's context. `store` is "memory" or the path of a SQLite file; the other options are those of
    `acc.acc_memory`.
    """

    def __init__(
        self,
        *,
        session_id: str | Callable[[Any], str] = "",
        store: str | Path = "memory",
        budget: int = 1_024,
        embeddings: str | EmbedderPort = "none",
        compressor: str | LanguageModelPort = "rules",
    ) -> None:
        memory = make_history_memory(
            app_name="openai_agents",
            store=store,
            budget=budget,
            embeddings=embeddings,
            compressor=compressor,
        )
        super().__init__(memory=memory, session_id=session_id)
