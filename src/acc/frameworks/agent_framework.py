"""ACC memory for the Agent Framework: `Agent(..., context_providers=[AccProvider()])`."""

from acc.bootstrap.frameworks import HistoryMemoryOptions, require_package

with require_package(__name__, "agent-framework-core>=1.23"):
    from acc.adapters.frameworks.agent_framework import AccContextProvider

__all__ = ["AccProvider"]


class AccProvider(HistoryMemoryOptions, AccContextProvider):
    """Bounded memory for agents of Microsoft's Agent Framework.

    The model gets the memory and the messages of the current turn instead of all messages. The
    history of a session is not changed. Conversations are sessions of the framework. `store`
    is "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
    """

    _app_name = "agent_framework"
