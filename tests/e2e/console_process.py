"""`acc console` as a process, for tests."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx2
from command import environment

TOKEN = "token-of-the-tests-0123"
FOLDER = Path(__file__).parent


class ConsoleProcess:
    """A console on a free port, or on the port of an earlier one."""

    def __init__(
        self,
        *options: str | Path,
        agent: str | None = "console_agents:desk",
        store: Path,
        port: int = 0,
    ) -> None:
        self.store = store
        words = [*([agent] if agent else []), "--store", store, "--token", TOKEN, *options]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-W", "ignore", "-m", "acc", "console", *map(str, words)]
            + ["--port", str(port)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=FOLDER,
            env=environment(REFUNDS=str(store.with_suffix(".refunds"))),
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("console at http"), line
        self.url = line.split()[-1].removesuffix("/login")
        self.port = int(self.url.rpartition(":")[2])

    def __enter__(self) -> "ConsoleProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def refunds(self) -> list[str]:
        """Return what the tool of the agent executed."""
        file = self.store.with_suffix(".refunds")
        return file.read_text().splitlines() if file.exists() else []

    @property
    def memory_bytes(self) -> int:
        """Return the resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024

    def kill(self) -> None:
        """End the process without a chance to clean up."""
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait(20)

    def client(self) -> httpx2.Client:
        """Return a client with the token."""
        return httpx2.Client(
            base_url=self.url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=20
        )


def ids(session: str, app: str = "app", user: str = "local") -> dict[str, str]:
    """Return the parameters that name a session."""
    return {"app": app, "user": user, "id": session}


def send(client: httpx2.Client, session: str, message: str) -> httpx2.Response:
    """Start a turn."""
    return client.post("/session/send", data={**ids(session), "message": message})


def wait_for(client: httpx2.Client, session: str, status: str, *, app: str = "app") -> str:
    """Return the conversation once the session has a status."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        page = client.get("/session", params=ids(session, app)).text
        if f'class="badge {status}"' in page and "The run works." not in page:
            return client.get("/session", params=ids(session, app)).text  # all of it after the run
        time.sleep(0.05)
    raise AssertionError(page)


def form_fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the first request on a page."""
    form = page[page.index('action="/session/answer"') :]
    form = form[: form.index("</form>")]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
