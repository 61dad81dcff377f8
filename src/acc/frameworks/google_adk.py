"""ACC memory for ADK: `App(..., plugins=[AccPlugin()])`."""

from acc.bootstrap.frameworks import HistoryMemoryOptions, require_package

with require_package(__name__, "google-adk>=2.13"):
    from acc.adapters.frameworks.google_adk import AccMemoryPlugin

__all__ = ["AccPlugin"]


class AccPlugin(HistoryMemoryOptions, AccMemoryPlugin):
    """Bounded memory for agents of the Agent Development Kit.

    The model gets the memory and the messages of the current turn instead of all messages. The
    events of a session are not changed. Conversations are those of the session service. `store`
    is "memory" or the path of a SQLite file; the other options are those of `acc.acc_memory`.
    """

    _app_name = "google_adk"
