"""A command in a pseudo-terminal, for the end-to-end tests."""

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
    """Run a command in a pseudo-terminal; `output` is its text without escape sequences."""

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

    def send_line(self, line: str) -> None:
        self.send(f"{line}\r")

    def read_until(self, text: str, timeout: float = 60) -> str:
        """Return the output since the previous call, up to and including `text`."""
        deadline = time.monotonic() + timeout
        while text not in self.output[self._read :]:
            if not self._read_more(deadline):
                raise AssertionError(f"waited for {text!r}, saw:\n{self.output}")
        end = self.output.index(text, self._read) + len(text)
        output = self.output[self._read : end]
        self._read = end
        return output

    def interrupt(self, text: str) -> None:
        """Send Ctrl-C repeatedly until `text` is in the output.

        A signal between a prompt and the read of the next line takes effect at the next key.
        """
        for _ in range(12):
            self.send("\x03")
            try:
                self.read_until(text, timeout=5)
            except AssertionError:
                continue
            return
        raise AssertionError(f"sent Ctrl-C for {text!r}, saw:\n{self.output}")

    def wait(self, timeout: float = 60) -> int:
        """Wait for the end of the command and return its exit status."""
        deadline = time.monotonic() + timeout
        while self._read_more(deadline):
            pass
        _, status = os.waitpid(self._pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    @property
    def output(self) -> str:
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def _read_more(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"no output before the deadline, saw:\n{self.output}")
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux reports a closed other end with this error
            return False
        self.raw += self._decoder.decode(data)
        return bool(data)
