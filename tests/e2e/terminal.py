"""The command line at a terminal, for the end-to-end tests."""

import codecs
import os
import pty
import re
import select
import signal
import sys
import time
from pathlib import Path
from types import TracebackType

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|[\x01\x02]")


class Terminal:
    """Runs a command with a terminal of its own; what it shows is read as a person reads it."""

    def __init__(self, *arguments: str | Path, cwd: Path, color: bool = False) -> None:
        command = [sys.executable, "-m", "acc", *map(str, arguments)]
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        environment.pop("NO_COLOR", None)
        if not color:
            environment["NO_COLOR"] = "1"
        self.status: int | None = None
        self.raw = ""
        self._read = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pid, self._fd = pty.fork()
        if self._pid == 0:  # pragma: no cover - the child becomes the command
            os.chdir(cwd)
            os.execve(command[0], command, environment)  # noqa: S606 - our own command

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._fd)

    def send(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def say(self, line: str) -> None:
        self.send(f"{line}\r")

    def until(self, text: str, timeout: float = 60) -> str:
        """Return what has been shown since the last time, up to `text`."""
        deadline = time.monotonic() + timeout
        while text not in self.shown[self._read :]:
            if not self._more(deadline):
                raise AssertionError(f"waited for {text!r}, saw:\n{self.shown}")
        end = self.shown.index(text, self._read) + len(text)
        found = self.shown[self._read : end]
        self._read = end
        return found

    def interrupt(self, text: str) -> None:
        """Press Ctrl-C, as often as it takes, until `text` is shown.

        A signal that comes between a prompt and the reading of the line after it waits for a key.
        """
        for _ in range(12):
            self.send("\x03")
            try:
                self.until(text, timeout=5)
            except AssertionError:
                continue
            return
        raise AssertionError(f"pressed Ctrl-C for {text!r}, saw:\n{self.shown}")

    def wait(self, timeout: float = 60) -> int:
        """Return the exit status, once the command has ended."""
        deadline = time.monotonic() + timeout
        while self._more(deadline):
            pass
        _, status = os.waitpid(self._pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    @property
    def shown(self) -> str:
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def _more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came in time, saw:\n{self.shown}")
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux tells so that the other end is closed
            return False
        self.raw += self._decoder.decode(data)
        return bool(data)
