"""Bearer tokens of which only the hashes are kept.

[[token]]
sha256 = "9f86d081…"                    # what `token_hash` gives, never the token
caller = "billing"
tenant = "acme"                          # optional
permissions = ["tasks:send"]             # optional; left out, all of them
expires = 2027-01-01T00:00:00Z           # optional
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.principal import Principal

PREFIX = "acc_"
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = ("caller", "expires", "permissions", "sha256", "tenant")


class TokenEntry(Value, frozen=True, kw_only=True):
    """Whose a token is, by its hash. `permissions` of None are all of them."""

    sha256: str
    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    expires: float | None = None

    def __post_init__(self) -> None:
        """Refuse a hash that is none, and a token that is nobody's."""
        if not _HASH.fullmatch(self.sha256):
            raise InvalidInput("sha256: not 64 hexadecimal digits; token_hash makes them")
        if not self.caller.strip():
            raise InvalidInput("caller: must not be empty")
        if not all(self.permissions or ("all",)):
            raise InvalidInput('permissions: must be a list of names, as ["tasks:send"]')


def new_token() -> str:
    """Return a new token of 256 random bits, which a scanner for leaked secrets can recognise."""
    return PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return what is kept of a token.

    A slow hash, as for passwords, would protect nothing: nobody guesses 256 random bits.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class StaticTokens:
    """Verifies tokens against a list that does not change while it is used."""

    def __init__(
        self, entries: Iterable[TokenEntry], *, now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._entries: dict[str, TokenEntry] = {}
        for number, entry in enumerate(entries, start=1):
            if entry.sha256 in self._entries:
                raise InvalidInput(f"token {number}: sha256: the same as an earlier token's")
            self._entries[entry.sha256] = entry
        self._nobody = TokenEntry(sha256=token_hash(new_token()), caller="nobody")

    @classmethod
    def from_file(cls, path: Path, *, now: Callable[[], float] = time.time) -> "StaticTokens":
        """Return the tokens of a TOML file, or raise InvalidInput naming what is wrong with it."""
        try:
            return cls(_read(path), now=now)
        except InvalidInput as fault:
            raise InvalidInput(f"{path}: {fault}") from None

    def __len__(self) -> int:
        """Return how many tokens there are."""
        return len(self._entries)

    async def verify(self, token: str) -> Principal | None:
        """Return whose token this is, or None for one that is not, or no longer, good."""
        digest = token_hash(token)
        # A dictionary finds by a keyed hash of the digest, so the search tells nothing of how
        # far a wrong digest agrees with a right one; and all do the work that follows.
        entry = self._entries.get(digest, self._nobody)
        is_known = hmac.compare_digest(entry.sha256, digest)
        is_current = entry.expires is None or self._now() < entry.expires
        found = Principal(caller=entry.caller, tenant=entry.tenant, permissions=entry.permissions)
        return found if is_known and is_current else None


def _read(path: Path) -> list[TokenEntry]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as fault:
        raise InvalidInput(f"cannot be read: {fault.strerror or fault}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidInput(f"is not TOML: {fault}") from None
    if unknown := sorted(set(content) - {"token"}):
        raise InvalidInput(f"{unknown[0]}: unknown; the file holds [[token]] tables")
    tables = content.get("token")
    if not isinstance(tables, list) or not tables:
        raise InvalidInput("holds no [[token]] table")
    entries = []
    for number, table in enumerate(tables, start=1):
        try:
            entries.append(_entry(table))
        except InvalidInput as fault:
            raise InvalidInput(f"token {number}: {fault}") from None
    return entries


def _entry(table: object) -> TokenEntry:
    if not isinstance(table, dict):
        raise InvalidInput("is not a [[token]] table")
    if unknown := sorted(set(table) - set(_FIELDS)):
        raise InvalidInput(f"{unknown[0]}: unknown; a token has {', '.join(_FIELDS)}")
    return TokenEntry(
        sha256=_text(table, "sha256").lower(),
        caller=_text(table, "caller"),
        tenant=_text(table, "tenant", default=""),
        permissions=_permissions(table),
        expires=_expires(table),
    )


def _text(table: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = table.get(name, default)
    if value is None:
        raise InvalidInput(f"{name}: missing")
    if not isinstance(value, str):
        raise InvalidInput(f"{name}: must be text")
    return value


def _permissions(table: Mapping[str, Any]) -> frozenset[str] | None:
    value = table.get("permissions")
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidInput('permissions: must be a list of names, as ["tasks:send"]')
    return frozenset(value)


def _expires(table: Mapping[str, Any]) -> float | None:
    value = table.get("expires")
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInput("expires: must be a moment with its zone, as 2027-01-01T00:00:00Z")
    return value.timestamp()


def read_entries(path: Path) -> list[TokenEntry]:
    """Return whose tokens a file holds, or raise InvalidInput naming what is wrong with it."""
    try:
        return _read(path)
    except InvalidInput as fault:
        raise InvalidInput(f"{path}: {fault}") from None


def append_entry(path: Path, entry: TokenEntry) -> None:
    """Add a token to a file, which is made if it is not there and is the owner's alone to read.

    What stands in it, comments too, stays as it is.
    """
    text = _table(entry)
    try:
        before = path.read_bytes() if path.exists() else b""
        if before.strip():
            read_entries(path)
        if before and not before.endswith(b"\n"):
            text = f"\n{text}"
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "ab") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text.encode())
    except OSError as fault:
        raise InvalidInput(f"{path}: cannot be written: {fault.strerror or fault}") from None


def _table(entry: TokenEntry) -> str:
    lines = ["[[token]]", f"sha256 = {_quoted(entry.sha256)}", f"caller = {_quoted(entry.caller)}"]
    if entry.tenant:
        lines.append(f"tenant = {_quoted(entry.tenant)}")
    if entry.permissions is not None:
        named = ", ".join(_quoted(name) for name in sorted(entry.permissions))
        lines.append(f"permissions = [{named}]")
    if entry.expires is not None:
        moment = datetime.fromtimestamp(entry.expires, UTC)
        lines.append(f"expires = {moment:%Y-%m-%dT%H:%M:%SZ}")
    return "\n".join(["", *lines, ""])


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise InvalidInput(f"{text!r} cannot be written; use printable characters")
    return json.dumps(text, ensure_ascii=False)
