"""What an examination of a server is made of: a guarded client, and a probe upon it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from acc.application.examining.visit import is_loopback
from acc.application.use_cases.examine_server import ExamineServer


@asynccontextmanager
async def examiner(
    url: str, *, allow: Sequence[str] = (), patience: float = 30.0
) -> AsyncIterator[ExamineServer]:
    """Return what examines servers, waiting so many seconds for each answer.

    A loopback URL that the user typed may be called.
    """
    from acc.adapters.a2a.calling.probe import HttpProbe
    from acc.adapters.runtime.machine import RandomIds
    from acc.adapters.security.guarded_http import STREAMING, guarded_client

    allowed = [*allow, *_own(url)]
    async with guarded_client(allow=allowed, timeout=patience) as client:
        yield ExamineServer(HttpProbe(client, streaming=STREAMING), ids=RandomIds())


def _own(url: str) -> list[str]:
    """Return the host and port of a loopback URL as an entry of the allow-list."""
    if not is_loopback(url):
        return []
    parts = urlsplit(url)
    host = parts.hostname or ""
    name = f"[{host}]" if ":" in host else host
    return [f"{name}:{parts.port or (443 if parts.scheme == 'https' else 80)}"]
