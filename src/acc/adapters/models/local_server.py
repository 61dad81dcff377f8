"""The llama.cpp process of a local model: start, share and stop.

`python -m acc.adapters.models.local_server FOLDER ID FILE SETTINGS` loads the model, announces its
address, and ends when no user is left or when it was idle for long enough. Native code runs only
in that process, so that a crash does not end the caller.

Two locks of the operating system say who is there, and end with their process: the server holds
one exclusively, and all users share the other. No process id is stored.
"""

import faulthandler
import fcntl
import importlib
import json
import logging
import os
import secrets
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.error
import urllib.request
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acc.adapters.models.local_files import ENGINE_PACKAGE, model_file, server_id
from acc.application.models.names import LocalModelName
from acc.domain.errors import ModelFailed

log = logging.getLogger("acc.run")

_MODULE = "acc.adapters.models.local_server"
_SOURCE = Path(__file__).parents[3]


# Files that a server and its users share

_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_MAX_LOG_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The URL of a server and its key."""

    url: str
    key: str

    def __repr__(self) -> str:
        return f"ServerAddress({self.url!r})"


def runtime_directory(base: str) -> Path:
    """Return a directory in `base` or in the temporary directory that only this user can open."""
    if base and Path(base).is_dir() and os.access(base, os.W_OK):
        directory = Path(base) / "acc-local"
    else:
        directory = Path(tempfile.gettempdir()) / f"acc-local-{os.getuid()}"
    with suppress(FileExistsError):
        directory.mkdir(_DIRECTORY_MODE)
    found = directory.lstat()
    open_to_others = stat.S_IMODE(found.st_mode) & 0o077
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or open_to_others:
        raise ModelFailed(
            f"{directory} must be a directory of yours with mode 700: remove it and try again"
        )
    return directory


class ServerFiles:
    """The files of one server: its lock with the address, the lock of its users, its log."""

    def __init__(self, directory: Path, server_id: str) -> None:
        self.server = directory / f"{server_id}.server"
        self.users = directory / f"{server_id}.users"
        self.log = directory / f"{server_id}.log"

    def join_users(self) -> int:
        """Return a file descriptor that keeps the server alive until it is closed."""
        descriptor = _open(self.users)
        # A server that is about to end holds the lock exclusively for a moment.
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor

    def has_users(self) -> bool:
        """Return True if there is a user; if not, none can join while this process lives."""
        descriptor = _open(self.users)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return True
        return False

    def become_server(self, timeout: float = 0.5) -> int | None:
        """Return the lock of the server, or None if there is a server."""
        descriptor = _open(self.server)
        until = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > until:
                    os.close(descriptor)
                    return None
                time.sleep(0.02)  # `is_served` of another process holds it for a moment
            else:
                os.ftruncate(descriptor, 0)
                return descriptor

    def is_served(self) -> bool:
        """Return True if a server is alive."""
        descriptor = _open(self.server)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def announce(self, descriptor: int, address: ServerAddress) -> None:
        """Write the address of the server in one write."""
        line = json.dumps({"url": address.url, "key": address.key}) + "\n"
        os.pwrite(descriptor, line.encode(), 0)

    def address(self) -> ServerAddress | None:
        """Return the address of the server, or None if it is not ready."""
        try:
            text = self.server.read_text(encoding="utf-8")
            if not text.endswith("\n"):
                return None
            found = json.loads(text)
            return ServerAddress(found["url"], found["key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def log_text(self) -> str:
        """Return the end of the server's log."""
        try:
            return self.log.read_text(encoding="utf-8", errors="replace")[-_MAX_LOG_LENGTH:]
        except OSError:
            return ""

    def open_log(self) -> int:
        """Return a file descriptor of the emptied log."""
        return _open(self.log, os.O_TRUNC)


def _open(path: Path, flags: int = 0) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | flags, _FILE_MODE)


# The user's side: find or start a server

_POLL_INTERVAL_SECONDS = 0.05
_LOG_INTERVAL_SECONDS = 5.0
_SECRET_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


class ServerLease:
    """Keeps the server of a model alive; it lives as long as any process has a lease."""

    def __init__(self, name: LocalModelName, *, runtime_base: str) -> None:
        self._name = name
        self._runtime_base = runtime_base
        self._lock = threading.Lock()
        self._files: ServerFiles | None = None
        self._release: weakref.finalize[[int], ServerLease] | None = None

    def address(self) -> ServerAddress:
        """Return the address of the server, which is started if necessary. This blocks."""
        with self._lock:
            files = self._join()
            until = time.monotonic() + self._name.start_seconds
            while time.monotonic() < until:
                if not files.is_served():
                    _start(self._name, files, until)
                elif (found := files.address()) is not None:
                    return found
                time.sleep(_POLL_INTERVAL_SECONDS)
            raise _too_slow(self._name)

    def release(self) -> None:
        """Release the lease and stop the server if it was the last one."""
        with self._lock:
            self._files = None
            if self._release is not None:
                self._release()
                self._release = None

    def _join(self) -> ServerFiles:
        if self._files is None:
            file = model_file(self._name)
            files = ServerFiles(runtime_directory(self._runtime_base), server_id(self._name, file))
            self._release = weakref.finalize(self, os.close, files.join_users())
            self._files = files
        return self._files


def _start(name: LocalModelName, files: ServerFiles, until: float) -> None:
    """Start a server and wait until it is ready, or until another one turns out to exist."""
    file = model_file(name)
    log.info("starting a local server for %s (%d MB)", file.name, file.stat().st_size >> 20)
    started = time.monotonic()
    settings = json.dumps(name.server_settings())
    command = [sys.executable, "-P", "-m", _MODULE]
    command += [str(files.server.parent), files.server.stem, str(file), settings]
    errors = files.open_log()
    try:
        # A session of its own: Ctrl-C in this process must not stop it for other users.
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=server_environment(),
            start_new_session=True,
        )
    finally:
        os.close(errors)
    messages = _ProcessMessages(process)
    while (message := messages.next(_LOG_INTERVAL_SECONDS)) is None or "loading" in message:
        if time.monotonic() > until:
            process.kill()
            raise _too_slow(name)
        if message is None:
            log.info("still loading %s after %.0f s", file.name, time.monotonic() - started)
    if "ready" in message:
        log.info("the local server is ready after %.1f s", time.monotonic() - started)
    elif "taken" not in message:
        raise ModelFailed(f"{name.name} cannot be loaded: {failure_reason(message, files)}")


class _ProcessMessages:
    """The lines that a new server prints. Its process is waited for, so that no zombie remains."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self._messages: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, name="acc local server", daemon=True).start()

    def next(self, timeout: float) -> dict[str, Any] | None:
        """Return the next message, or None after the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._messages, timeout)
            return self._messages.pop(0) if self._messages else None

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        with self._process.stdout as lines:
            for line in lines:
                self._add(json.loads(line))
        self._add({"status": self._process.wait()})

    def _add(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify()


def server_environment() -> dict[str, str]:
    """Return the environment without secrets: the server may outlive this process."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not any(word in name.upper() for word in _SECRET_WORDS)
    }
    paths = [str(_SOURCE), *filter(None, [environment.get("PYTHONPATH", "")])]
    return environment | {"PYTHONPATH": os.pathsep.join(paths)}


def failure_reason(message: dict[str, Any], files: ServerFiles) -> str:
    """Return why a server did not start."""
    status = message.get("status")
    if status == -signal.SIGKILL:
        return "the system killed its server while it was loading, probably for lack of memory"
    text = files.log_text()
    lowered = text.lower()
    if "alloc" in lowered or "out of memory" in lowered or "memoryerror" in lowered:
        return "there is too little memory: lower context or slots, or use a smaller model"
    for line in text.splitlines():
        _, found, reason = line.partition("error loading model:")
        if found:
            return reason.strip()
    if status is not None:
        return f"its server ended with status {status}; see {files.log}"
    return f"{message.get('error', 'unknown reason')}; see {files.log}"


def _too_slow(name: LocalModelName) -> ModelFailed:
    return ModelFailed(
        f"{name.name} was not ready after {name.start_seconds:g} s: raise start_seconds, or use a "
        "smaller model"
    )


# The server's process

_CHECK_USERS_SECONDS = 0.5
_CHECK_IDLE_SECONDS = 2.0
_START_GRACE_SECONDS = 10.0
#: A busy server answers late; users must be checked in the meantime.
_SLOTS_TIMEOUT_SECONDS = 1.0
_CACHE_MEGABYTES = 64
_LOG_ERRORS_ONLY = 1
#: Without the proxy of the environment.
_LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _report(**message: object) -> None:
    """Print a message for the process that started this one, if it still exists."""
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(0)


def _load(file: str, settings: dict[str, Any], key: str) -> Any:
    """Return a llama.cpp server that has loaded the model and listens on loopback."""
    engine: Any = importlib.import_module(ENGINE_PACKAGE)
    params = engine.CommonParams()
    params.model.path = file
    params.model_alias = {Path(file).name}
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # any free port
    params.api_keys = [key]
    params.n_ctx = settings["context"] * settings["slots"]
    params.n_parallel = settings["slots"]
    params.cpuparams.n_threads = settings["threads"]
    params.cpuparams_batch.n_threads = settings["threads"]
    params.cache_ram_mib = _CACHE_MEGABYTES
    params.offline = True
    # Both load or run the model once more before the first answer.
    params.fit_params = False
    params.warmup = False
    params.ui = False
    params.verbosity = _LOG_ERRORS_ONLY
    return engine.Server(params)


class _IdleWatch:
    """Waits until the server is not needed any more."""

    def __init__(self, files: ServerFiles, address: ServerAddress, idle_seconds: float) -> None:
        self._files = files
        self._address = address
        self._idle_seconds = idle_seconds
        self._tasks: object = None
        self._busy_at = time.monotonic()

    def wait(self) -> None:
        """Return when the last user is gone, or after the idle time without a request."""
        next_check = 0.0
        while self._files.has_users():
            now = time.monotonic()
            if now >= next_check:
                next_check = now + _CHECK_IDLE_SECONDS
                if self._is_idle(now):
                    return
            time.sleep(_CHECK_USERS_SECONDS)

    def _is_idle(self, now: float) -> bool:
        try:
            slots = self._slots()
        except TimeoutError:
            slots = None
        except urllib.error.URLError as error:
            if not isinstance(error.reason, TimeoutError):
                raise  # the server does not listen any more
            slots = None
        if slots is None:
            self._busy_at = now
            return False
        tasks = [slot.get("id_task") for slot in slots]
        if tasks != self._tasks or any(slot["is_processing"] for slot in slots):
            self._tasks = tasks
            self._busy_at = now
        return now - self._busy_at > self._idle_seconds

    def _slots(self) -> list[dict[str, Any]]:
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self._address.url}/slots", headers={"Authorization": f"Bearer {self._address.key}"}
        )
        with _LOOPBACK.open(request, timeout=_SLOTS_TIMEOUT_SECONDS) as response:
            found: list[dict[str, Any]] = json.load(response)
            return found


def main(directory: str, server_id: str, file: str, encoded_settings: str) -> int:
    """Serve the model, and return the exit status."""
    settings: dict[str, Any] = json.loads(encoded_settings)
    files = ServerFiles(Path(directory), server_id)
    lock = files.become_server()
    if lock is None:
        _report(taken=True)
        return 0
    # Loading blocks every Python thread, but not this timer. The starting process gives up
    # earlier; the timer is for the case that it is gone.
    faulthandler.dump_traceback_later(settings["start_seconds"] + _START_GRACE_SECONDS, exit=True)
    _report(loading=True)
    key = secrets.token_urlsafe(32)
    try:
        server = _load(file, settings, key)
    except (RuntimeError, MemoryError, ImportError) as error:
        _report(error=str(error))
        return 1
    faulthandler.cancel_dump_traceback_later()
    address = ServerAddress(server.listening_address, key)
    files.announce(lock, address)
    _report(ready=True)
    _IdleWatch(files, address, settings["idle_minutes"] * 60).wait()
    os.ftruncate(lock, 0)
    return 0


if __name__ == "__main__":
    status = 1
    try:
        status = main(*sys.argv[1:5])
    except Exception:  # noqa: BLE001 - the boundary of a process; it is logged
        traceback.print_exc()
    # Native threads that still generate are not waited for.
    os._exit(status)
