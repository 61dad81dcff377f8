"""Sessions, and the scopes of their state."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import ExplainedMeta, JsonData, Value
from acc.domain.value_objects.run import RunStatus

MAX_ID_LENGTH = 256
#: Of a turn without ids.
DEFAULT_USER_ID = "local"
DEFAULT_SESSION_ID = "default"


class Scope(StrEnum):
    """The scope of a state key, given by its prefix."""

    APP = "app:"
    USER = "user:"
    TEMP = "temp:"
    SESSION = ""


def scope_of(key: str) -> Scope:
    """Return the scope of a state key."""
    prefix, colon, _ = key.partition(":")
    if not colon:
        return Scope.SESSION
    return {"app": Scope.APP, "user": Scope.USER, "temp": Scope.TEMP}.get(prefix, Scope.SESSION)


def _id_error(name: str, value: object) -> str:
    """Return why an id is invalid, empty if it is valid."""
    if not isinstance(value, str) or not value.strip():
        return f"{name} must be a non-empty str, got {value!r}"
    if len(value) > MAX_ID_LENGTH or not value.isprintable():
        return f"{name} must be printable and at most {MAX_ID_LENGTH} characters long"
    return ""


def _are_ids(names: tuple[str, str, str]) -> bool:
    """Return True if all ids are valid, in a third of the time of `_id_error`."""
    try:
        joined = "".join(names)
    except TypeError:
        return False
    return (
        all(map(str.strip, names))
        and joined.isprintable()
        and max(map(len, names)) <= MAX_ID_LENGTH
    )


class _Names(NamedTuple):
    app_name: str
    user_id: str
    session_id: str


class SessionKey(_Names):
    """Identifies a session; the same session id of two users is two sessions.

    It is a tuple because it is hashed about twelve times per turn.
    """

    __slots__ = ()

    def __new__(cls, *, app_name: str, user_id: str, session_id: str) -> "SessionKey":
        """Raise InvalidInput for ids that are empty, too long or not printable."""
        names = (app_name, user_id, session_id)
        if not _are_ids(names):
            raise InvalidInput(next(filter(None, map(_id_error, cls._fields, names))))
        return tuple.__new__(cls, names)

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, str]]:
        return (), self._asdict()


class Session(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """A session: its state and status, without its events."""

    key: SessionKey
    state: Mapping[str, JsonData] = {}
    seq: int = 0
    turns: int = 0
    run_id: str = ""
    status: RunStatus = RunStatus.COMPLETED
    updated_at: float = 0.0

    @property
    def session_id(self) -> str:
        """Return the id of the session."""
        return self.key.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """One version of a file of a session."""

    name: str
    version: int
    media_type: str
    data: bytes

    @property
    def text(self) -> str:
        """Return the content as text."""
        return self.data.decode("utf-8")
