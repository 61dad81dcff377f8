"""The files through which a server and those who use it know of each other.

Two locks of the operating system say who is there, and cannot outlive a process: the server holds
one alone as long as it lives, and everyone who may ask it holds the other together. No number of a
process is written down, so none can be mistaken for another.
"""

import fcntl
import json
import os
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from acc.domain.errors import ModelFailed

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
_MOST_READ = 20_000


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server answers, and the key that it wants."""

    url: str
    key: str

    def __repr__(self) -> str:
        return f"Address({self.url!r})"


def runtime_folder() -> Path:
    """Return a folder that only this user can look into."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base and Path(base).is_dir() and os.access(base, os.W_OK):
        folder = Path(base) / "acc-local"
    else:
        folder = Path(tempfile.gettempdir()) / f"acc-local-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(_PRIVATE_FOLDER)
    found = folder.lstat()
    open_to_others = stat.S_IMODE(found.st_mode) & 0o077
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or open_to_others:
        raise ModelFailed(
            f"{folder} must be a folder of yours that nobody else can open: remove it"
        )
    return folder


class SharedFiles:
    """The files of one server: its lock with the address inside, its users' lock, its log."""

    def __init__(self, folder: Path, server_id: str) -> None:
        self.server = folder / f"{server_id}.server"
        self.users = folder / f"{server_id}.users"
        self.log = folder / f"{server_id}.log"

    def join_users(self) -> int:
        """Return a hold that keeps the server alive until it is closed, or its process ends."""
        hold = _opened(self.users)
        # A server that is about to end has it alone, for an instant.
        fcntl.flock(hold, fcntl.LOCK_SH)
        return hold

    def has_users(self) -> bool:
        """Tell whether anyone is left; if not, nobody can join while this process lives."""
        hold = _opened(self.users)
        try:
            fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(hold)
            return True
        return False

    def become_server(self, patience: float = 0.5) -> int | None:
        """Return the hold of the one server, or None where there is one already."""
        hold = _opened(self.server)
        until = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    os.close(hold)
                    return None
                time.sleep(0.02)  # perhaps somebody only looked
            else:
                os.ftruncate(hold, 0)
                return hold

    def is_served(self) -> bool:
        """Tell whether a server lives."""
        hold = _opened(self.server)
        try:
            fcntl.flock(hold, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(hold)
        return False

    def announce(self, hold: int, address: Address) -> None:
        """Write down where the server answers; it is read whole or not at all."""
        line = json.dumps({"url": address.url, "key": address.key}) + "\n"
        os.pwrite(hold, line.encode(), 0)

    def address(self) -> Address | None:
        """Return where the living server answers, or None where it is not ready."""
        try:
            text = self.server.read_text(encoding="utf-8")
            if not text.endswith("\n"):
                return None
            found = json.loads(text)
            return Address(found["url"], found["key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def log_text(self) -> str:
        """Return the end of what the server wrote."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-_MOST_READ:]
        except OSError:
            return ""

    def open_log(self) -> int:
        """Return an emptied log to write to."""
        return _opened(self.log, os.O_TRUNC)


def _opened(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags, _PRIVATE_FILE)
