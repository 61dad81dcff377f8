"""Which process holds a session, and whether it still lives."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """A process as others can recognise it, also when its number is given to another later.

    `host` names the machine and, where there are such things, the space that numbers are counted
    in: the same number in two containers is two processes. `started` is empty if it is not known.
    """

    host: str
    pid: int
    started: str

    def is_gone(self, seen_from: "Process") -> bool:
        """Tell whether the process is known to have ended; one elsewhere is never known to."""
        if self.host != seen_from.host:
            return False
        if self.pid == seen_from.pid:
            return self.started != seen_from.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        condition, started = _look_at(self.pid)
        # A zombie runs no more; it only waits for its parent to ask how it ended.
        return condition == "Z" or bool(started and self.started and started != self.started)


def this_process() -> Process:
    """Return the process that asks."""
    try:
        numbered_in = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        numbered_in = ""
    pid = os.getpid()
    return Process(f"{socket.gethostname()} {numbered_in}".strip(), pid, _look_at(pid)[1])


def _look_at(pid: int) -> tuple[str, str]:
    """Return a process's condition and when it began; empty where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    # The name in parentheses may hold anything; the fields behind it are letters and numbers.
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
