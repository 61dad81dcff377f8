"""Where a store is: in memory or in a SQLite file."""

import os
import re
from pathlib import Path

from acc.domain.errors import InvalidInput

_IN_MEMORY = frozenset({"memory", ":memory:"})
# A scheme has two characters or more, so that a Windows drive is a path.
_URL = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]+):")
# A Path joins the slashes of a URL; other colons are part of a file name.
_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def parse_location(store: str | os.PathLike[str]) -> Path | None:
    """Return the path of a SQLite file, or None for a store in memory.

    Accepts "memory", a path, and `sqlite:///PATH`. A Path object is always a file. The error for
    another URL names only its scheme, because the rest may contain a password.
    """
    if not isinstance(store, str | os.PathLike):
        raise InvalidInput(
            'store must be "memory", the path of a SQLite file, or a pair of stores, got '
            f"{type(store).__name__}"
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
    if url is not None:
        raise InvalidInput(
            f"store scheme {url[1]!r} is not supported: use the path of a SQLite file, "
            'sqlite:///PATH, or "memory"'
        )
    if not path.strip("/"):
        raise InvalidInput(f"store {text!r} has no path: use sqlite:///PATH or the path of a file")
    return Path(path)
