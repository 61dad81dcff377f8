"""The server's own process: `python -m acc.adapters.local_models.server FOLDER ID FILE SETTINGS`.

It loads the model, tells where it answers, and ends when nobody is left who could ask, or when
nobody has asked for a while. Native code runs here and nowhere else, so that its crash is not ours.
"""

import faulthandler
import importlib
import json
import os
import secrets
import sys
import time
import traceback
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from acc.adapters.local_models.choice import ENGINE
from acc.adapters.local_models.shared_files import Address, SharedFiles

_LOOK_FOR_USERS = 0.5
_LOOK_FOR_WORK = 2.0
_GRACE = 10.0
#: A server that is deep in work answers late; users must not go unseen meanwhile.
_BRIEFLY = 1.0
_CACHE_MEGABYTES = 64
_ERRORS_ONLY = 1
#: A proxy of the environment is for others than this machine.
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def tell(**found: object) -> None:
    """Tell whoever started this process how far it is; nobody may be listening any more."""
    try:
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    except OSError:
        os._exit(0)


def load(file: str, settings: dict[str, Any], key: str) -> Any:
    """Return a llama.cpp server that has loaded the model and listens on loopback."""
    engine: Any = importlib.import_module(ENGINE)
    wanted = engine.CommonParams()
    wanted.model.path = file
    wanted.model_alias = {Path(file).name}
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = 0  # the system chooses one that is free
    wanted.api_keys = [key]
    wanted.n_ctx = settings["context"] * settings["slots"]
    wanted.n_parallel = settings["slots"]
    wanted.cpuparams.n_threads = settings["threads"]
    wanted.cpuparams_batch.n_threads = settings["threads"]
    wanted.cache_ram_mib = _CACHE_MEGABYTES
    wanted.offline = True
    # Both load or run the model once more before it answers.
    wanted.fit_params = False
    wanted.warmup = False
    wanted.ui = False
    wanted.verbosity = _ERRORS_ONLY
    return engine.Server(wanted)


class Watch:
    """Says when the server has nothing left to live for."""

    def __init__(self, files: SharedFiles, address: Address, idle_seconds: float) -> None:
        self._files = files
        self._address = address
        self._idle_seconds = idle_seconds
        self._seen: object = None
        self._busy_at = time.monotonic()

    def wait(self) -> None:
        """Return when the last user is gone, or when nobody has asked for long enough."""
        look_for_work = 0.0
        while self._files.has_users():
            now = time.monotonic()
            if now >= look_for_work:
                look_for_work = now + _LOOK_FOR_WORK
                if self._is_idle(now):
                    return
            time.sleep(_LOOK_FOR_USERS)

    def _is_idle(self, now: float) -> bool:
        try:
            slots = self._slots()
        except TimeoutError:
            slots = None
        except urllib.error.URLError as error:
            if not isinstance(error.reason, TimeoutError):
                raise  # nobody listens any more: it is over
            slots = None
        if slots is None:
            self._busy_at = now
            return False
        tasks = [slot.get("id_task") for slot in slots]
        if tasks != self._seen or any(slot["is_processing"] for slot in slots):
            self._seen = tasks
            self._busy_at = now
        return now - self._busy_at > self._idle_seconds

    def _slots(self) -> list[dict[str, Any]]:
        address = self._address
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{address.url}/slots", headers={"Authorization": f"Bearer {address.key}"}
        )
        with _DIRECTLY.open(request, timeout=_BRIEFLY) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


def main(folder: str, server_id: str, file: str, written: str) -> int:
    """Serve, and return how it ended."""
    settings: dict[str, Any] = json.loads(written)
    files = SharedFiles(Path(folder), server_id)
    hold = files.become_server()
    if hold is None:
        tell(taken=True)
        return 0
    # Loading holds up every other thread of Python; this one is not Python's. Whoever waits for us
    # gives up first, and says so; this is for when they are gone.
    faulthandler.dump_traceback_later(settings["start_seconds"] + _GRACE, exit=True)
    tell(loading=True)
    key = secrets.token_urlsafe(32)
    try:
        server = load(file, settings, key)
    except (RuntimeError, MemoryError, ImportError) as error:
        tell(fault=str(error))
        return 1
    faulthandler.cancel_dump_traceback_later()
    address = Address(server.listening_address, key)
    files.announce(hold, address)
    tell(ready=True)
    Watch(files, address, settings["idle_minutes"] * 60).wait()
    os.ftruncate(hold, 0)
    return 0


if __name__ == "__main__":
    status = 1
    try:
        status = main(*sys.argv[1:5])
    except Exception:  # noqa: BLE001 - the edge of a process: it is in the log, and the end of it
        traceback.print_exc()
    # Native threads that still write an answer are not waited for.
    os._exit(status)
