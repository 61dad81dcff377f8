"""A conversation between one user and one application, and the scopes of what it remembers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import Value
from acc.domain.value_objects.run import RunStatus

_MOST_ID = 256


class Scope(StrEnum):
    """How long and for whom a state key lasts, told by its prefix."""

    APP = "app:"
    USER = "user:"
    TEMP = "temp:"
    SESSION = ""


def scope_of(key: str) -> Scope:
    """Return the scope that a state key's prefix names."""
    prefix, colon, _ = key.partition(":")
    if not colon:
        return Scope.SESSION
    return {"app": Scope.APP, "user": Scope.USER, "temp": Scope.TEMP}.get(prefix, Scope.SESSION)


def _fault_of(name: str, value: object) -> str:
    """Return what is wrong with a name, nothing if it can be used."""
    if not isinstance(value, str) or not value.strip():
        return f"{name} must be a text that is not empty, not {value!r}"
    if len(value) > _MOST_ID or not value.isprintable():
        return f"{name} must be printable and at most {_MOST_ID} characters long"
    return ""


def _are_ids(names: tuple[str, str, str]) -> bool:
    """Tell whether there is no fault in any of them, in a third of the time."""
    try:
        joined = "".join(names)
    except TypeError:
        return False
    return all(map(str.strip, names)) and joined.isprintable() and max(map(len, names)) <= _MOST_ID


class _Names(NamedTuple):
    app_name: str
    user_id: str
    session_id: str


class SessionKey(_Names):
    """Names a session. Two users may use the same session id and never meet.

    A tuple, because it is looked up a dozen times a turn and a tuple's hash costs nothing.
    """

    __slots__ = ()

    def __new__(cls, *, app_name: str, user_id: str, session_id: str) -> "SessionKey":
        """Refuse names that are empty, endless or cannot be printed."""
        names = (app_name, user_id, session_id)
        if not _are_ids(names):
            raise InvalidInput(next(filter(None, map(_fault_of, cls._fields, names))))
        return tuple.__new__(cls, names)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, str]]:
        return (), self._asdict()


class Session(Value, frozen=True, kw_only=True):
    """A session as it is opened: its state and where it stands, never its history."""

    key: SessionKey
    state: Mapping[str, Any] = {}
    seq: int = 0
    turns: int = 0
    run_id: str = ""
    status: RunStatus = RunStatus.COMPLETED
    updated_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """One version of a named file that agents share."""

    name: str
    version: int
    media_type: str
    data: bytes

    @property
    def text(self) -> str:
        """Return the content as text."""
        return self.data.decode("utf-8")
