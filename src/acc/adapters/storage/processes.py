"""Processes that hold leases: who they are, and whether they have ended."""

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Process:
    """Identifies a process, even if its pid is reused later.

    `host` names the machine and its pid namespace: the same pid in two containers is two
    processes. `started` is the start time, empty if unknown.
    """

    host: str
    pid: int
    started: str

    def is_dead(self, observer: "Process") -> bool:
        """Return True if the process is known to have ended; False for other hosts."""
        if self.host != observer.host:
            return False
        if self.pid == observer.pid:
            return self.started != observer.started
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        except (PermissionError, OverflowError):
            return False
        state, started = _read_stat(self.pid)
        # A zombie has ended; only its parent has not read the exit status yet.
        return state == "Z" or bool(started and self.started and started != self.started)


def this_process() -> Process:
    """Return the identity of the current process."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    pid = os.getpid()
    return Process(f"{socket.gethostname()} {namespace}".strip(), pid, _read_stat(pid)[1])


def _read_stat(pid: int) -> tuple[str, str]:
    """Return the state and start time of a process, empty where /proc does not exist."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", ""
    # The name in parentheses may contain anything; the fields after it are letters and numbers.
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]
