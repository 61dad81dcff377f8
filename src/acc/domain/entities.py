"""Objects and actors that a text names, as typed items of the state."""

import re
from functools import lru_cache

from acc.domain.language import identifiers, names

_MAX_LENGTH = 120
_CACHE_SIZE = 1_024
_TYPED_CODES = (
    ("cve", re.compile(r"^cve-\d+-\d+$")),
    ("mail", re.compile(r"^[\w.+-]+@[\w.-]+$")),
    ("address", re.compile(r"^\d+(?:\.\d+){3}$")),
    ("case", re.compile(r"^(?:inc|tkt|chg|req|case|prb|sr|ir)-?\d+$")),
)
_NOUN_BEFORE = re.compile(
    r"\b(service|host|node|cluster|database|queue|region|server|account|user|team|vendor|ward|bed|theatre|patient"
    r"|invoice|entity|bank|portfolio|desk|ticket|incident|case|release|version|policy|playbook|segment|endpoint)\s+$",
    re.I,
)
#: Characters before a name that may contain its noun.
_NOUN_DISTANCE = 80


@lru_cache(maxsize=_CACHE_SIZE)
def extract_entities(text: str) -> tuple[str, ...]:
    """Return the objects and actors of a sentence as typed items."""
    found: list[str] = []
    flat = text.casefold()
    for code in sorted(identifiers(text)):
        kind = next((name for name, pattern in _TYPED_CODES if pattern.match(code)), "")
        noun = _NOUN_BEFORE.search(text[: flat.find(code)][-_NOUN_DISTANCE:])
        found.append(f"{kind or (noun[1].casefold() if noun else 'item')}({code})")
    for match in re.finditer(r"\b[A-Z][\w'’]+(?:\s+[A-Z][\w'’]+)+", text):
        if all(word.casefold() in names(text) for word in match[0].split()):
            found.append(f"name({match[0]})")
    return tuple(item for item in found if len(item) <= _MAX_LENGTH)
