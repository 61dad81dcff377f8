"""Bearer tokens in a TOML file that contains only their hashes.

[[token]]
sha256 = "9f86d081…"                    # result of `token_hash`, never the token
caller = "billing"
tenant = "acme"                          # optional
permissions = ["agent.invoke"]           # optional; default: all permissions
expires = 2027-01-01T00:00:00Z           # optional
"""

import hashlib
import hmac
import json
import logging
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

log = logging.getLogger("acc.auth")
PREFIX = "acc_"
_HASH = re.compile(r"[0-9a-f]{64}")
_FIELDS = ("caller", "expires", "permissions", "sha256", "tenant")


class TokenEntry(Value, frozen=True, kw_only=True):
    """Caller of a token, which is stored as a hash. `permissions` of None means all."""

    sha256: str
    caller: str
    tenant: str = ""
    permissions: Collection[str] | None = None
    expires: float | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for an invalid hash, caller or permission."""
        if not _HASH.fullmatch(self.sha256):
            raise InvalidInput("sha256: must be 64 hexadecimal digits, as token_hash returns")
        if not self.caller.strip():
            raise InvalidInput("caller: must not be empty")
        if not all(self.permissions or ("all",)):
            raise InvalidInput('permissions: must be a list of names such as ["agent.invoke"]')


def new_token() -> str:
    """Return a new token of 256 random bits with a prefix that secret scanners recognise."""
    return PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> str:
    """Return the stored hash of a token.

    A fast hash is sufficient: 256 random bits cannot be guessed, unlike passwords.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class StaticTokens:
    """Verifies tokens against a fixed list; implements TokenVerifierPort."""

    def __init__(
        self, entries: Iterable[TokenEntry], *, now: Callable[[], float] = time.time
    ) -> None:
        self._now = now
        self._entries: dict[str, TokenEntry] = {}
        for number, entry in enumerate(entries, start=1):
            if entry.sha256 in self._entries:
                raise InvalidInput(f"token {number}: sha256: duplicates an earlier token")
            self._entries[entry.sha256] = entry
        self._unknown = TokenEntry(sha256=token_hash(new_token()), caller="unknown")

    @classmethod
    def from_file(cls, path: Path, *, now: Callable[[], float] = time.time) -> "StaticTokens":
        """Return the tokens of a TOML file, or raise InvalidInput if it is invalid."""
        try:
            return cls(_read(path), now=now)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: {error}") from None

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self._entries)

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if the token is unknown or expired."""
        digest = token_hash(token)
        # The lookup uses a keyed hash of the digest, so its duration does not depend on a common
        # prefix; the rest is the same for known and unknown tokens.
        entry = self._entries.get(digest, self._unknown)
        is_known = hmac.compare_digest(entry.sha256, digest)
        is_current = entry.expires is None or self._now() < entry.expires
        principal = Principal(
            caller=entry.caller, tenant=entry.tenant, permissions=entry.permissions
        )
        return principal if is_known and is_current else None


class TokenFile:
    """Verifies tokens against a file, which is read again when it changes.

    A revoked token is rejected without a restart. A file that became invalid is reported in the
    log, and rejects every token until it is corrected.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._version = self._current_version()
        self._tokens = StaticTokens.from_file(path, now=now)

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token, or None if the token is unknown or expired."""
        version = self._current_version()
        if version != self._version:
            self._version = version
            try:
                self._tokens = StaticTokens.from_file(self._path, now=self._now)
            except InvalidInput as error:
                log.warning("no token is accepted until the token file is corrected: %s", error)
                self._tokens = StaticTokens([], now=self._now)
        return await self._tokens.verify(token)

    def _current_version(self) -> tuple[int, ...]:
        try:
            status = self._path.stat()
        except OSError:
            return ()
        return (status.st_mtime_ns, status.st_size, status.st_ino)


def _read(path: Path) -> list[TokenEntry]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"is not TOML: {error}") from None
    if unknown := sorted(set(content) - {"token"}):
        raise InvalidInput(f"{unknown[0]}: unknown; the file must contain [[token]] tables")
    tables = content.get("token")
    if not isinstance(tables, list) or not tables:
        raise InvalidInput("contains no [[token]] table; add one with `acc token add`")
    entries = []
    for number, table in enumerate(tables, start=1):
        try:
            entries.append(_entry(table))
        except InvalidInput as error:
            raise InvalidInput(f"token {number}: {error}") from None
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
        raise InvalidInput(f"{name}: must be a string")
    return value


def _permissions(table: Mapping[str, Any]) -> frozenset[str] | None:
    value = table.get("permissions")
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidInput('permissions: must be a list of names such as ["agent.invoke"]')
    return frozenset(value)


def _expires(table: Mapping[str, Any]) -> float | None:
    value = table.get("expires")
    if value is None:
        return None
    if not isinstance(value, datetime) or value.tzinfo is None:
        raise InvalidInput(
            "expires: must be a date-time with a time zone, such as 2027-01-01T00:00:00Z"
        )
    return value.timestamp()


def read_entries(path: Path) -> list[TokenEntry]:
    """Return the entries of a token file, or raise InvalidInput if it is invalid."""
    try:
        return _read(path)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def append_entry(path: Path, entry: TokenEntry) -> None:
    """Append a token to a file, which is created if necessary and readable by its owner only.

    The existing content, including comments, is preserved.
    """
    text = _format_entry(entry)
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
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {error.strerror or error}") from None


def _format_entry(entry: TokenEntry) -> str:
    lines = ["[[token]]", f"sha256 = {_quoted(entry.sha256)}", f"caller = {_quoted(entry.caller)}"]
    if entry.tenant:
        lines.append(f"tenant = {_quoted(entry.tenant)}")
    if entry.permissions is not None:
        names = ", ".join(_quoted(name) for name in sorted(entry.permissions))
        lines.append(f"permissions = [{names}]")
    if entry.expires is not None:
        expires = datetime.fromtimestamp(entry.expires, UTC)
        lines.append(f"expires = {expires:%Y-%m-%dT%H:%M:%SZ}")
    return "\n".join(["", *lines, ""])


def _quoted(text: str) -> str:
    if not text.isprintable():
        raise InvalidInput(f"{text!r} contains characters that are not printable")
    return json.dumps(text, ensure_ascii=False)
