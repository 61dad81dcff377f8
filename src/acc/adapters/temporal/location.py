"""Where a Temporal service is, and which namespace is used."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from acc.domain.errors import InvalidInput

SCHEME = "temporal"
DEFAULT_PORT = 7233
#: A worker that does not report for this time is dead; another one continues its runs.
DEFAULT_WORKER_TIMEOUT = 5
_MIN_WORKER_TIMEOUT = 2
_MAX_WORKER_TIMEOUT = 60
_EXPECTED = "temporal://HOST:PORT/NAMESPACE, such as temporal://localhost:7233"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalLocation:
    """The address of a service; its text form contains no secrets."""

    host: str
    port: int = DEFAULT_PORT
    namespace: str = "default"
    tls: bool = False
    #: Seconds; see `DEFAULT_WORKER_TIMEOUT`.
    worker_timeout: int = DEFAULT_WORKER_TIMEOUT

    @property
    def target(self) -> str:
        """Return host and port."""
        return f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"{SCHEME}://{self.target}/{self.namespace}{'?tls=true' if self.tls else ''}"


def parse_location(url: str) -> TemporalLocation:
    """Return the address in a URL; InvalidInput, without the URL, if it is not valid."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise InvalidInput(f"the URL of the engine is not valid; expected {_EXPECTED}") from None
    if parts.scheme != SCHEME:
        name = f"engine scheme {parts.scheme!r}" if parts.scheme else "an engine without a scheme"
        raise InvalidInput(f'{name} is not supported; expected {_EXPECTED}, or "in-process"')
    if parts.username is not None or parts.password is not None:
        raise InvalidInput(
            "the URL of the engine must not contain credentials; set ACC_TEMPORAL_API_KEY"
        )
    namespace = parts.path.strip("/") or "default"
    query = parse_qs(parts.query, keep_blank_values=True)
    tls = query.pop("tls", ["false"])[-1].lower()
    timeout = query.pop("worker_timeout", [str(DEFAULT_WORKER_TIMEOUT)])[-1]
    if not (
        timeout.isascii()
        and timeout.isdecimal()
        and _MIN_WORKER_TIMEOUT <= int(timeout) <= _MAX_WORKER_TIMEOUT
    ):
        raise InvalidInput(
            f"worker_timeout in the URL of the engine must be {_MIN_WORKER_TIMEOUT} to "
            f"{_MAX_WORKER_TIMEOUT} seconds without a unit, got {timeout!r}"
        )
    if (
        not parts.hostname
        or not _NAME.fullmatch(namespace)
        or tls not in ("true", "false")
        or query
    ):
        raise InvalidInput(
            f"the URL of the engine is not valid; expected {_EXPECTED}, with ?tls=true for TLS"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return TemporalLocation(
        host=host,
        port=port,
        namespace=namespace,
        tls=tls == "true",
        worker_timeout=int(timeout),
    )
