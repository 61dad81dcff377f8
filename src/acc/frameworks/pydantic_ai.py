"""ACC memory for pydantic-ai: `Agent(..., capabilities=[AccMemory()])`."""

from acc.bootstrap.frameworks import HistoryMemoryOptions, require_package

with require_package(__name__, "pydantic-ai-slim>=2.66"):
    from acc.adapters.frameworks.pydantic_ai import AccCapability

__all__ = ["AccMemory"]


class AccMemory(HistoryMemoryOptions, AccCapability):
    """Bounded memory for agents of pydantic-ai.

    The model gets the memory and the messages of the current turn instead of all messages. The
    history of a run is not changed. Conversations are distinguished by `conversation_id`. `store`
    is "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
    """

    _app_name = "pydantic_ai"
