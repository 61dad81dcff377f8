"""Finding the server of a model, or starting it, and keeping it alive while it may be asked."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from acc.adapters.local_models.choice import LocalChoice
from acc.adapters.local_models.shared_files import Address, SharedFiles, runtime_folder
from acc.domain.errors import ModelFailed

log = logging.getLogger("acc.run")

_SERVER = "acc.adapters.local_models.server"
_SOURCE = Path(__file__).parents[3]
_LOOK_AGAIN = 0.05
_TELL_EVERY = 5.0
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


class ServerLease:
    """One user's hold on the server of a model; the server lives while anyone has one."""

    def __init__(self, choice: LocalChoice) -> None:
        self._choice = choice
        self._lock = threading.Lock()
        self._files: SharedFiles | None = None
        self._release: weakref.finalize[[int], ServerLease] | None = None

    def address(self) -> Address:
        """Return where the server answers; it is started if it does not run. This blocks."""
        with self._lock:
            files = self._held()
            until = time.monotonic() + self._choice.start_seconds
            while time.monotonic() < until:
                if not files.is_served():
                    _start(self._choice, files, until)
                elif (found := files.address()) is not None:
                    return found
                time.sleep(_LOOK_AGAIN)
            raise _too_slow(self._choice)

    def release(self) -> None:
        """Give the hold back; the server ends if it was the last."""
        with self._lock:
            self._files = None
            if self._release is not None:
                self._release()
                self._release = None

    def _held(self) -> SharedFiles:
        if self._files is None:
            file = self._choice.file()
            files = SharedFiles(runtime_folder(), self._choice.server_id(file))
            self._release = weakref.finalize(self, os.close, files.join_users())
            self._files = files
        return self._files


def _start(choice: LocalChoice, files: SharedFiles, until: float) -> None:
    """Start a server and wait until it answers, or another one turns out to be there already."""
    file = choice.file()
    log.info("starting a local server for %s (%d MB)", file.name, file.stat().st_size >> 20)
    began = time.monotonic()
    written = json.dumps(choice.server_settings())
    command = [sys.executable, "-P", "-m", _SERVER]
    command += [str(files.server.parent), files.server.stem, str(file), written]
    errors = files.open_log()
    try:
        # Its own session: a Ctrl-C meant for us is not meant for others who use it.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(),
            start_new_session=True,
        )
    finally:
        os.close(errors)
    words = _Words(process)
    while (said := words.next(_TELL_EVERY)) is None or "loading" in said:
        if time.monotonic() > until:
            process.kill()
            raise _too_slow(choice)
        if said is None:
            log.info("still loading %s after %.0f s", file.name, time.monotonic() - began)
    if "ready" in said:
        log.info("the local server answers after %.1f s", time.monotonic() - began)
    elif "taken" not in said:
        raise ModelFailed(f"{choice.name} cannot be loaded: {_why(said, files)}")


class _Words:
    """What a new server tells, line by line. Its process is waited for, so none stays undead."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._said: list[dict[str, Any]] = []
        self._news = threading.Condition()
        threading.Thread(target=self._listen, name="acc local server", daemon=True).start()

    def next(self, patience: float) -> dict[str, Any] | None:
        """Return what it says next, or None if it says nothing for so many seconds."""
        with self._news:
            self._news.wait_for(lambda: self._said, patience)
            return self._said.pop(0) if self._said else None

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        with self._process.stdout as lines:
            for line in lines:
                self._tell(json.loads(line))
        self._tell({"status": self._process.wait()})

    def _tell(self, said: dict[str, Any]) -> None:
        with self._news:
            self._said.append(said)
            self._news.notify()


def _environment() -> dict[str, str]:
    """Return our environment without secrets: the server may outlive us, for another user of it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in _SECRET)
    }
    paths = [str(_SOURCE), *filter(None, [kept.get("PYTHONPATH", "")])]
    return kept | {"PYTHONPATH": os.pathsep.join(paths)}


def _why(said: dict[str, Any], files: SharedFiles) -> str:
    """Return why a server did not come up, in words that help."""
    status = said.get("status")
    if status == -signal.SIGKILL:
        return "the system ended its server while it was loading: most likely too little memory"
    text = files.log_text()
    lowered = text.lower()
    if "alloc" in lowered or "out of memory" in lowered or "memoryerror" in lowered:
        return "there is too little memory for it: lower context or slots, or take a smaller model"
    for line in text.splitlines():
        _, found, reason = line.partition("error loading model:")
        if found:
            return reason.strip()
    if status is not None:
        return f"its server ended with status {status}; see {files.log}"
    return f"{said.get('fault', 'no reason was given')}; see {files.log}"


def _too_slow(choice: LocalChoice) -> ModelFailed:
    return ModelFailed(
        f"{choice.name} was not ready after {choice.start_seconds:g} s: raise start_seconds, or "
        "take a smaller model"
    )
