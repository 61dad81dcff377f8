"""The sample agents in a process that seems to run on a machine of its own."""

import os
import socket

socket.gethostname = lambda: f"machine-{os.getpid()}"

from sample_agents import everything  # noqa: E402 - the name is changed first

__all__ = ["everything"]
