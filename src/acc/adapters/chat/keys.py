"""The keys of models' servers: where they are held, and whether they can be read on their way."""

import ipaddress
import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.endpoint import redact_secrets


def held_key(name: str, variables: Iterable[str]) -> str:
    """Return the key of a model that the first of the variables holds, empty if none does."""
    for variable in variables:
        found = os.environ.get(variable, "").strip()
        if found and not (found.isascii() and found.isprintable() and " " not in found):
            raise InvalidInput(
                f"{name}: {variable} holds no key: blanks, line breaks or letters are in it that "
                "no key has"
            )
        if found:
            return found
    return ""


def is_clear(url: str) -> bool:
    """Tell whether what is sent to a URL can be read on its way."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname == "localhost":
        return False
    try:
        return not ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return True


def is_variable(name: str) -> bool:
    """Tell whether it names a variable; what may be a key is none, unless there is one."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) or redact_secrets(name) != name:
        return False
    return name.isupper() or name in os.environ
