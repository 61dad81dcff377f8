"""Run `acc` commands to their end without starting Python and importing `acc` for each of them.

A server process imports the commands once. Each command is a process forked from it, with its own
arguments, directory, environment and streams. It executes the module like `python -m acc`. Tests
that stop or kill a command, use a terminal, or compare runs with different hash seeds start a new
Python.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

MAX_REQUEST_BYTES = 1 << 20
POLL_SECONDS = 0.005
#: What most commands import.
PRELOADED = (
    "acc.cli",
    "acc.adapters.a2a.client.client",
    "acc.adapters.evaluation.agents",
    "acc.adapters.evaluation.rubric_judge",
    "acc.adapters.memory.recall",
    "acc.adapters.reports.writer",
    "rich.markdown",
)


@cache
def _connect() -> socket.socket:
    """Start the server, which ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_REQUEST_BYTES)

    def stop() -> None:
        ours.close()
        server.wait()

    atexit.register(stop)
    return ours


def run_command(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    text: str | None = None,
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `acc` with arguments; `text` is the standard input."""
    words = [str(argument) for argument in arguments]
    request = {
        "arguments": words,
        "cwd": str(cwd or Path.cwd()),
        "env": dict(os.environ if env is None else env),
    }
    connection = _connect()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as stdin,
        tempfile.TemporaryFile("w+", encoding="utf-8") as stdout,
        tempfile.TemporaryFile("w+", encoding="utf-8") as stderr,
    ):
        stdin.write(text or "")
        stdin.seek(0)
        reply, answer = os.pipe()
        with os.fdopen(reply, encoding="ascii") as replies:
            files = [stdin.fileno(), stdout.fileno(), stderr.fileno(), answer]
            socket.send_fds(connection, [json.dumps(request).encode()], files)
            os.close(answer)
            process = int(replies.readline())
            if not select.select([replies], [], [], timeout)[0]:
                os.kill(process, signal.SIGKILL)
                raise subprocess.TimeoutExpired(words, timeout)
            status = int(replies.readline())
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(words, status, stdout.read(), stderr.read())


def _fork_commands(connection: socket.socket) -> bytes | None:
    """Fork a process per request; return its request in the new process, None at the end."""
    running: dict[int, int] = {}
    while True:
        if select.select([connection], [], [], POLL_SECONDS if running else None)[0]:
            request, files, _, _ = socket.recv_fds(connection, MAX_REQUEST_BYTES, 4)
            if not request:
                return None
            process = os.fork()
            if process == 0:
                for stream, file in enumerate(files[:3]):
                    os.dup2(file, stream)
                for file in (*files, *running.values()):
                    os.close(file)
                connection.close()
                return request
            for file in files[:3]:
                os.close(file)
            running[process] = files[3]
            os.write(files[3], f"{process}\n".encode())
        while running:
            process, status = os.waitpid(-1, os.WNOHANG)
            if process == 0:
                break
            answer = running.pop(process)
            os.write(answer, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            os.close(answer)


def _execute(request: bytes) -> None:
    """Execute a command in this process, which ends with its status."""
    command = json.loads(request)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    # In the order of a new Python: its directory, then those of the environment.
    sys.path[:0] = [command["cwd"], *filter(None, folders)]
    sys.argv = ["acc", *command["arguments"]]
    runpy.run_module("acc", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    # The folder of this file, which a command does not have.
    sys.path.pop(0)
    for module in PRELOADED:
        importlib.import_module(module)
    # A collection would copy the memory that the forked processes share.
    gc.collect()
    gc.freeze()
    received = _fork_commands(socket.socket(fileno=int(sys.argv[1])))
    if received is not None:
        _execute(received)
