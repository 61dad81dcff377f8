"""ACC memory for LangChain: `create_agent(..., middleware=[AccMemory()])`."""

from acc.bootstrap.frameworks import HistoryMemoryOptions, require_package

with require_package(__name__, "langchain>=1.4"):
    from acc.adapters.frameworks.langchain import AccMiddleware

__all__ = ["AccMemory"]


class AccMemory(HistoryMemoryOptions, AccMiddleware):
    """Bounded memory for agents of `langchain.agents.create_agent`.

    The model gets the memory and the messages of the current turn instead of all messages. The
    state of the agent is not changed. Conversations are distinguished by `thread_id`. `store` is
    "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
    """

    _app_name = "langchain"
