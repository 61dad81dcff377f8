"""Where events are carried: the schemes of carriers, and URLs without secrets."""

import re
from urllib.parse import urlsplit

from acc.domain.errors import InvalidInput

NATS_SCHEMES = frozenset({"nats", "tls"})
VALKEY_SCHEMES = frozenset({"valkey", "valkeys", "redis", "rediss"})
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def carrier_scheme(url: str) -> str:
    """Return the scheme of a URL, an empty string for a path."""
    match = _SCHEME.match(url)
    return match[1].lower() if match else ""


def carrier_label(url: str) -> str:
    """Return a URL as it may be printed: without user, password and parameters."""
    labels: list[str] = []
    for one in url.split(","):
        scheme, separator, rest = one.strip().rpartition("://")
        place = rest.partition("?")[0].rpartition("@")[2]
        labels.append(f"{scheme}{separator}{place}")
    return ",".join(labels)


def check_broker_url(url: str) -> None:
    """Raise InvalidInput if the URL of a broker names no host or an impossible port."""
    for one in url.split(","):
        try:
            place = urlsplit(one.strip())
            host, port = place.hostname, place.port
        except ValueError:
            host, port = None, None
        else:
            port = 1 if port is None else port
        if not host or not port:
            raise InvalidInput(
                f"{carrier_label(one)} names no host, or no port from 1 to 65535; the form of the "
                "URL is nats://HOST:4222 or valkey://HOST:6379"
            )
