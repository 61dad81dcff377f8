"""Where events are carried: the schemes of carriers, and URLs without secrets."""

import re

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
