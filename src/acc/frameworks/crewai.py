"""ACC memory for CrewAI: `AccMemory()`, and `with memory.conversation(...)` around a kickoff."""

from acc.bootstrap.frameworks import HistoryMemoryOptions, require_package

with require_package(__name__, "crewai>=1.15"):
    from acc.adapters.frameworks.crewai import CrewMemory

__all__ = ["AccMemory"]


class AccMemory(HistoryMemoryOptions, CrewMemory):
    """Bounded memory for crews of CrewAI, in the hooks of their model calls.

    `with memory.conversation(session_id, message): crew.kickoff(...)` continues a conversation. Its
    memory precedes the prompt of every model call in the block. `store` is "memory" or the path of
    a SQLite file; the other options are those of `acc.acc_memory`.
    """

    _app_name = "crewai"
