"""A session's state as a run sees it: copied in, copied out, every change noticed."""

import inspect
import math
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from acc.domain.errors import InvalidInput, StateConflict, StateNotGranted, StateNotStorable

_MOST_DEPTH = 64
_PLAIN: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int),
    (float, float),
)
#: Stands for the value of a key that is not there.
ABSENT: Any = object()
_NOTHING_FOREIGN: Mapping[str, int] = {}
#: What a branch wrote: new values, and the keys it took away.
Written = tuple[Mapping[str, Any], tuple[str, ...]]
MergeRule = str | Callable[[Any, Sequence[Any]], Any]


def plain(value: Any, place: str, depth: int = 0) -> Any:
    """Return a copy of `value` as plain data, or say what in it cannot be stored."""
    kind = type(value)
    if (kind is str and value.isascii()) or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, str):
        return _whole(value, place)
    if isinstance(value, float) and not math.isfinite(value):
        raise StateNotStorable(place, f"{value} has no place in JSON")
    if depth > _MOST_DEPTH:
        raise StateNotStorable(place, f"it is nested deeper than {_MOST_DEPTH} levels")
    if kind is dict or isinstance(value, Mapping):
        return {
            _text_key(key, place): plain(item, f"{place}.{key}", depth + 1)
            for key, item in _items(value)
        }
    if isinstance(value, list | tuple):
        return [plain(item, f"{place}[{n}]", depth + 1) for n, item in enumerate(value)]
    for base, as_plain in _PLAIN:
        if isinstance(value, base):  # floats, and an IntEnum and the like
            return as_plain(value)
    raise StateNotStorable(place, f"a {kind.__name__} is not text, number, list or mapping")


def _items(value: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return what a mapping holds now, for a tool in a thread may be at it."""
    # A copy of a dict is made in one go; making a list of its items lets others in between.
    return dict.copy(value).items() if isinstance(value, dict) else list(value.items())


def _text_key(key: Any, place: str) -> str:
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise StateNotStorable(place, f"its key {key!r} is not text")
    return _whole(key, place)


def _whole(text: str, place: str) -> str:
    """Return a text as it is, unless half a character is in it, which nothing can store."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise StateNotStorable(place, f"it holds half a character: {error}") from None
    return str.__str__(text)


def _spelled(value: Any) -> bytes:
    """Return a value as it is written down, which tells True from 1 and 1 from 1.0."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return b""  # no plain data, which is made so or refused when it is copied


class _Mapping(MutableMapping[str, Any]):
    """What tools in several threads read and write at the same time."""

    __slots__ = ("lock",)

    lock: Any

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value, written first where there is none, so that it can be changed in place."""
        with self.lock:
            if key not in self:
                self[key] = default
            return self.get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Take a value out and return it, or the default where there is none."""
        with self.lock:
            return super().pop(key, *default)


class State(_Mapping):
    """A mapping that remembers what a run wrote.

    A list or mapping that is read is a copy of the reader's own; if it is changed in place, that
    counts as a write. So nothing is shared by accident and nothing is lost.

    In a run that is resumed, what code writes again on its way to a step on record is taken back
    there, and what is on record is put in its place.
    """

    __slots__ = (
        "_applied",
        "_before",
        "_below",
        "_lent",
        "_pending",
        "_removed",
        "_values",
        "_written",
        "foreign",
        "is_complete",
    )

    def __init__(
        self, values: Mapping[str, Any], foreign: Mapping[str, int] = _NOTHING_FOREIGN
    ) -> None:
        self.lock = RLock()
        self._values = dict(values)
        #: Keys that others wrote, with the number up to which what is on record no longer holds.
        self.foreign = foreign
        #: Whether all that is on record has been learned, so that whatever is written now is new.
        self.is_complete = False
        self._applied: dict[str, int] = {}
        self._pending: dict[str, Any] = {}
        self._removed: dict[str, None] = {}
        #: What was there before the writes that have not been taken.
        self._below: dict[str, Any] = {}
        #: Copies that readers have, with how they were spelled when they were as on record.
        self._lent: dict[str, tuple[Any, bytes]] = {}
        self._before: dict[str, Any] = {}
        self._written: dict[str, bool] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if type(value) is not dict and type(value) is not list:
            return value
        with self.lock:
            if key not in self._lent:
                value = plain(self._values[key], key)
                self._lent[key] = (value, _spelled(value))
            return self._lent[key][0]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not key.strip():
            raise StateNotStorable(repr(key), "a state key is a text that is not empty")
        copied = plain(value, _whole(key, repr(key)))
        with self.lock:
            self._lent.pop(key, None)
            self._write(key, copied)

    def _write(self, key: str, value: Any) -> None:
        self._below.setdefault(key, self._values.get(key, ABSENT))
        self._values[key] = value
        self._pending[key] = value
        self._removed.pop(key, None)

    def __delitem__(self, key: str) -> None:
        with self.lock:
            self._below.setdefault(key, self._values[key])
            del self._values[key]
            self._lent.pop(key, None)
            self._pending.pop(key, None)
            self._removed[key] = None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default where there is none."""
        value = self._values.get(key, default)
        if type(value) is not dict and type(value) is not list:
            return value
        with self.lock:
            return self[key] if key in self._values else default

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __repr__(self) -> str:
        return f"State({self.copy()!r})"

    def copy(self) -> dict[str, Any]:
        """Return the state as a dictionary of its own, changes in place included."""
        with self.lock:
            if self._lent:
                self._notice_changes_in_place()
            return {key: plain(value, key) for key, value in self._values.items()}

    def branch(self) -> "State":
        """Return a state that starts as this one is now and goes its own way."""
        with self.lock:
            self._notice_changes_in_place()
            return State(self._values, self.foreign)

    @property
    def pending(self) -> bool:
        """Tell whether something was written that has not been taken."""
        if self._lent:
            with self.lock:
                self._notice_changes_in_place()
        return bool(self._pending or self._removed)

    def take(self) -> Written:
        """Return what was written since the last time."""
        if not self.pending:
            return _NOTHING_WRITTEN
        with self.lock:
            for key, value in self._below.items():
                self._note(key, value)
            taken = (self._pending, tuple(self._removed))
            self._pending, self._removed, self._below = {}, {}, {}
            return taken

    def take_back(self) -> None:
        """Undo what was written and not taken, as it is not on record."""
        with self.lock:
            self._notice_changes_in_place()
            for key in list(self._below):
                self._take_back(key)

    def _take_back(self, key: str) -> None:
        self._lent.pop(key, None)
        self._pending.pop(key, None)
        self._removed.pop(key, None)
        if key in self._below:
            self._settle(key, self._below.pop(key))

    def apply(self, delta: Mapping[str, Any], removed: Iterable[str] = (), *, seq: int = 0) -> None:
        """Take over what a step on record wrote, in place of what was written again before it."""
        with self.lock:
            again = [*delta, *removed]
            if not self.is_complete:
                again += self._below
            for key in again:
                self._take_back(key)
            self.learn(delta, removed, seq=seq)

    def learn(self, delta: Mapping[str, Any], removed: Iterable[str] = (), *, seq: int = 0) -> None:
        """Take over changes on record beneath what was written; the one recorded later holds."""
        with self.lock:
            for key, value in (*delta.items(), *((key, ABSENT) for key in removed)):
                if self._is_due(key, seq):
                    self._learn(key, value, seq)

    def _learn(self, key: str, value: Any, seq: int) -> None:
        self._applied[key] = seq
        if key in self._below:
            self._note(key, self._below[key])
            self._below[key] = value
        else:
            self._note(key, self._values.get(key, ABSENT))
            self._lent.pop(key, None)
            self._settle(key, value)

    def _is_due(self, key: str, seq: int) -> bool:
        if self.is_complete or (key in self.foreign and seq <= self.foreign[key]):
            return False
        return self._applied.get(key, 0) <= seq

    def _settle(self, key: str, value: Any) -> None:
        if value is ABSENT:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def write(self, delta: Mapping[str, Any], removed: Iterable[str] = ()) -> None:
        """Write several keys at once, as a join of branches does."""
        for key, value in delta.items():
            self[key] = value
        for key in removed:
            if key in self._values:
                del self[key]

    def written(self) -> Written:
        """Return all that was written since this state began."""
        with self.lock:
            self._notice_changes_in_place()
            keys = {**self._written, **self._below}
            delta = {key: self._values[key] for key in keys if key in self._values}
            return delta, tuple(key for key in keys if key not in self._values)

    def undo(self) -> Written:
        """Return the changes that lead from what was taken back to how this state began."""
        gone = tuple(key for key, existed in self._written.items() if not existed)
        return dict(self._before), gone

    def _note(self, key: str, before: Any) -> None:
        if key not in self._written:
            self._written[key] = before is not ABSENT
            if before is not ABSENT:
                self._before[key] = before

    def _notice_changes_in_place(self) -> None:
        for key, (lent, spelled) in self._lent.items():
            if lent != self._values[key] or _spelled(lent) != spelled:
                # In this order: what a thread changes meanwhile is noticed the next time.
                self._lent[key] = (lent, _spelled(lent))
                self._write(key, plain(lent, key))


_NOTHING_WRITTEN: Written = ({}, ())


class StateView(_Mapping):
    """A state through a grant: keys outside it are not there, and writing them is refused."""

    __slots__ = ("_open", "_read", "_state", "_write")

    def __init__(
        self,
        state: MutableMapping[str, Any],
        read: Sequence[str] = ("*",),
        write: Sequence[str] = ("*",),
    ) -> None:
        self.lock = getattr(state, "lock", nullcontext())
        self._state = state
        self._read = tuple(read)
        self._write = tuple(write)
        self._open = True

    def close(self) -> None:
        """Refuse all further writes: whoever held this view was too late."""
        self._open = False

    def over(self, state: MutableMapping[str, Any]) -> "StateView":
        """Return the same grant over another state."""
        inner = self._state.over(state) if isinstance(self._state, StateView) else state
        return StateView(inner, self._read, self._write)

    def __getitem__(self, key: str) -> Any:
        if not self._may(self._read, key):
            raise KeyError(key)
        value = self._state[key]
        # What may not be written is a copy: a change in place would count as a write.
        return value if self._open and self._may(self._write, key) else plain(value, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_write(key)
        self._state[key] = value

    def __delitem__(self, key: str) -> None:
        self._check_write(key)
        del self._state[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._state if self._may(self._read, key))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"StateView({dict(self)!r})"

    def _check_write(self, key: str) -> None:
        if not self._open:
            raise StateNotGranted(key, "the call it was given to is over")
        if not self._may(self._write, key):
            allowed = ", ".join(self._write)
            raise StateNotGranted(key, f"the parent grants writing {allowed or 'nothing'}")

    @staticmethod
    def _may(patterns: tuple[str, ...], key: str) -> bool:
        return "*" in patterns or any(fnmatchcase(key, pattern) for pattern in patterns)


MERGE_RULES = ("error", "first", "last", "list", "sum", "total", "union")


def check_merge_rule(rule: MergeRule) -> None:
    """Refuse a merge rule that does not exist, or that would have to be awaited."""
    kind: Any = type(rule)
    if inspect.iscoroutinefunction(rule) or inspect.iscoroutinefunction(kind.__call__):
        raise InvalidInput(
            f"the merge rule {rule!r} is async, but branches are joined in one go: give a plain"
            " function"
        )
    if not callable(rule) and rule not in MERGE_RULES:
        raise InvalidInput(
            f"no merge rule {rule!r}: choose one of {', '.join(MERGE_RULES)}, or a function"
            " from the value before and the list of values written to the value to keep"
        )


def merge_branches(
    before: Mapping[str, Any],
    branches: Sequence[tuple[str, Written]],
    rules: Mapping[str, MergeRule],
) -> Written:
    """Join what named branches wrote; a key that two of them wrote or removed needs a rule."""
    changes: dict[str, list[tuple[str, Any]]] = {}
    for name, (delta, gone) in branches:
        for key, value in delta.items():
            changes.setdefault(key, []).append((name, value))
        for key in gone:
            if key in before:  # else it was the branch's own, and nothing has changed
                changes.setdefault(key, []).append((name, ABSENT))
    joined: dict[str, Any] = {}
    removed: list[str] = []
    for key, written in changes.items():
        value = _joined(key, written, before.get(key), rules)
        if value is ABSENT:
            removed.append(key)
        else:
            joined[key] = value
    return joined, tuple(removed)


def _joined(
    key: str, written: Sequence[tuple[str, Any]], before: Any, rules: Mapping[str, MergeRule]
) -> Any:
    """Return what becomes of a key, ABSENT if it is to go."""
    values = [value for _, value in written]
    if len(values) == 1:
        return values[0]
    rule = _rule_for(key, rules)
    if rule == "error":
        raise StateConflict(key, [name for name, _ in written])
    if all(value is ABSENT for value in values):
        return ABSENT
    if callable(rule):
        return rule(before, [None if value is ABSENT else value for value in values])
    try:
        return _BY_RULE[rule](before, values)
    except TypeError as error:
        raise InvalidInput(f"cannot merge {key!r} by {rule!r}: {error}") from error


def _rule_for(key: str, rules: Mapping[str, MergeRule]) -> MergeRule:
    if key in rules:
        return rules[key]
    return next((rule for name, rule in rules.items() if fnmatchcase(key, name)), "error")


def _there(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not ABSENT]


def _sum(before: Any, values: Sequence[Any]) -> Any:
    """Add to a number what each branch added to it; one that is gone is nothing."""
    start = before if before is not None else 0
    return start + sum((0 if value is ABSENT else value) - start for value in values)


def _union(before: Any, values: Sequence[Any]) -> Any:
    """Join what branches did to a list without repeats, or to a mapping; what was there is first.

    What one of them took away is gone; where two changed an item, the later one holds.
    """
    there = _there(values) if before is None else [before, *_there(values)]
    if all(isinstance(value, Mapping) for value in there):
        parts = [{} if value is ABSENT else value for value in values]
        return _joined_mappings(before or {}, parts)
    if all(isinstance(value, list) for value in there):
        return _joined_lists(before or [], [[] if value is ABSENT else value for value in values])
    raise TypeError("union takes lists or mappings")


def _joined_mappings(
    before: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    joined = dict(before)
    for part in parts:
        # Who wrote and kept nothing of what was before wrote what is new, and took nothing away.
        for key in before if not part or before.keys() & part.keys() else ():
            if key not in part:
                joined.pop(key, None)
        for key, value in part.items():
            if key not in before or _spelled(value) != _spelled(before[key]):
                joined[key] = value
    return joined


def _joined_lists(before: Sequence[Any], parts: Sequence[Sequence[Any]]) -> list[Any]:
    joined: list[Any] = []
    kept = [part for part in parts if not part or any(item in part for item in before)]
    for item in before:
        if item not in joined and all(item in part for part in kept):
            joined.append(item)
    for item in (item for part in parts for item in part):
        if item not in joined and item not in before:
            joined.append(item)
    return joined


_BY_RULE: Mapping[str, Callable[[Any, Sequence[Any]], Any]] = {
    "first": lambda before, values: values[0],
    "last": lambda before, values: values[-1],
    "list": lambda before, values: _there(values),
    "sum": _sum,
    "total": lambda before, values: sum(_there(values)),
    "union": _union,
}
