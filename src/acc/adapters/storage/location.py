"""Where a store is: in memory, in a SQLite file, or in a PostgreSQL database."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from acc.domain.errors import InvalidInput

_IN_MEMORY = frozenset({"memory", ":memory:"})
_POSTGRES_SCHEMES = frozenset({"postgresql", "postgres"})
# A scheme has two characters or more, so that a Windows drive is a path.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):")
# A Path joins the slashes of a URL; other colons are part of a file name.
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_PREFERENCE = "target_session_attrs=prefer-standby"
_SUPPORTED = (
    'the path of a SQLite file, sqlite:///PATH, postgresql://USER@HOST/DATABASE, or "memory"'
)


@dataclass(frozen=True, slots=True)
class PostgresLocation:
    """The URL of a PostgreSQL database; its text form has no password and no parameters."""

    url: str = field(repr=False)

    def __str__(self) -> str:
        scheme, _, rest = self.url.partition("://")
        netloc, slash, database = rest.partition("?")[0].partition("/")
        user, at, hosts = netloc.rpartition("@")
        return f"{scheme}://{user.partition(':')[0]}{at}{hosts}{slash}{database}"

    def urls_by_host(self) -> tuple[str, ...]:
        """Return a URL for each host, in order."""
        if _PREFERENCE in self.url:  # it compares all hosts
            return (self.url,)
        scheme, _, rest = self.url.partition("://")
        end = next((at for at, one in enumerate(rest) if one in "/?#"), len(rest))
        user, at, hosts = rest[:end].rpartition("@")
        return tuple(f"{scheme}://{user}{at}{host}{rest[end:]}" for host in hosts.split(","))


#: None is a store in memory.
StoreLocation = Path | PostgresLocation | None


def parse_location(store: str | os.PathLike[str]) -> StoreLocation:
    """Return the path of a SQLite file, a PostgreSQL database, or None for a store in memory.

    Accepts "memory", a path, `sqlite:///PATH`, and `postgresql://USER:PASSWORD@HOST/DATABASE`. A
    Path object is always a file. The error for another URL names only its scheme, because the rest
    may contain a password.
    """
    if not isinstance(store, str | os.PathLike):
        raise InvalidInput(
            f"store must be {_SUPPORTED}, or a pair of stores, got {type(store).__name__}"
        )
    text = os.fspath(store)
    if not isinstance(store, str) and text in _IN_MEMORY:
        return Path(text)
    path = text.removeprefix("sqlite:///").removeprefix("sqlite:")
    has_host = path.startswith("//") and not text.startswith("sqlite:///")
    if path != text and (has_host or "?" in path):
        raise InvalidInput("a SQLite URL is sqlite:///PATH, without a host and without parameters")
    if path in _IN_MEMORY:
        return None
    url = (_URL if isinstance(store, str) else _URL_AS_PATH).match(path)
    if url is not None and isinstance(store, str) and url[1] in _POSTGRES_SCHEMES and path == text:
        if not path.startswith(f"{url[1]}://"):
            raise InvalidInput(f"a PostgreSQL URL is {url[1]}://USER:PASSWORD@HOST:PORT/DATABASE")
        return PostgresLocation(path)
    if url is not None:
        raise InvalidInput(f"store scheme {url[1]!r} is not supported: use {_SUPPORTED}")
    if not path.strip("/"):
        raise InvalidInput(f"store {text!r} has no path: use sqlite:///PATH or the path of a file")
    return Path(path)


def describe_location(store: str | os.PathLike[str]) -> str:
    """Return a store as it may be printed, without a password."""
    location = parse_location(store)
    return str(location) if isinstance(location, PostgresLocation) else os.fspath(store)
