"""`acc serve` as a process of its own, and a receiver of its notifications, for the witnesses."""

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

HERE = Path(__file__).parent
PUSH_SECRET = "0123456789abcdef0123456789abcdef"
START_WITHIN = 60.0
STOP_WITHIN = 20.0


@dataclass(frozen=True, slots=True)
class Server:
    """A server under way: where it is, and two callers that it knows."""

    url: str
    token: str
    other_token: str


@dataclass(frozen=True, slots=True)
class Notification:
    """What a receiver was sent."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """A webhook of our own."""

    url: str = ""
    got: list[Notification] = field(default_factory=list)

    def at(self, path: str) -> list[Notification]:
        """Return what came to a path, in the order in which it came."""
        return [one for one in self.got if one.path == path]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Take notifications on a free port of this machine."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append(Notification(self.path, dict(self.headers.items()), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        receiver.url = f"http://127.0.0.1:{listening.server_address[1]}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield receiver
        finally:
            listening.shutdown()
            thread.join()


@contextmanager
def serving(agent: str, folder: Path, *options: str) -> Iterator[Server]:
    """Serve an agent to two callers until the context ends; files go into the folder."""
    tokens = folder / "tokens.toml"
    token, other = (_acc("token", "add", str(tokens), "--caller", who) for who in ("ann", "bob"))
    said = folder / "serve.log"
    arguments = ("serve", agent, "--port", "0", "--tokens", str(tokens), *options)
    with said.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "acc", *arguments],
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=HERE,
            env=_environment(),
        )
    try:
        yield Server(_answering(process, said), token, other)
    finally:
        process.terminate()
        try:
            process.wait(STOP_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment() -> dict[str, str]:
    return {**os.environ, "NO_COLOR": "1", "COLUMNS": "200", "ACC_PUSH_SECRET": PUSH_SECRET}


def _acc(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-m", "acc", *arguments],
        capture_output=True,
        text=True,
        timeout=START_WITHIN,
        env=_environment(),
        check=True,
    )
    return done.stdout.strip()


def _answering(process: subprocess.Popen[bytes], said: Path) -> str:
    """Return the address of a server once it answers there."""
    until = time.monotonic() + START_WITHIN
    while time.monotonic() < until and process.poll() is None:
        named = re.search(r" at (http://\S+)", said.read_text(encoding="utf-8"))
        if named is not None:
            with (
                suppress(OSError),
                urllib.request.urlopen(f"{named[1]}/health", timeout=5),  # noqa: S310 - our own
            ):
                return named[1]
        time.sleep(0.1)
    words = said.read_text(encoding="utf-8")
    raise AssertionError(f"the server does not answer (exit code {process.poll()}):\n{words}")
