"""Names of agents of other frameworks."""

import re

from acc.application.agents.base import MAX_NAME_LENGTH


def agent_name(given: object, default: str) -> str:
    """Return a name that is valid for an agent of acc, similar to a given one."""
    name = re.sub(r"\W+", "_", str(given or "")).strip("_")[:MAX_NAME_LENGTH]
    return name if name.isidentifier() and name != "user" else default
