"""Logs of commands."""

import sys
from contextlib import AbstractContextManager, nullcontext

from acc.bootstrap.settings import has_json_logs


def log_to_stderr() -> AbstractContextManager[None]:
    """Return a block in which everything is logged as JSON lines, if ACC_LOG_FORMAT says so."""
    if not has_json_logs():
        return nullcontext()
    from acc.adapters.system.logs import log_everything_to

    return log_everything_to(sys.stderr)
