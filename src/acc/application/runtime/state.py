"""The state of a session during a run, which detects every change."""

import inspect
import math
from _thread import RLock
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args

import msgspec

from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput, StateConflict, StateNotGranted, StateNotStorable
from acc.domain.value_objects.base import JsonData

_MAX_DEPTH = 64
_NUMBERS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (int, int),
    (float, float),
)
#: Prefixes of keys that belong to a user, to an app or to one run.
_SCOPE_PREFIXES = ("user:", "app:", "temp:")
#: Stands for the value of a missing key.
MISSING: Any = object()
_NO_EXTERNAL_WRITES: Mapping[str, int] = {}
#: What was written: new values, and removed keys.
Written = tuple[Mapping[str, Any], tuple[str, ...]]
_NamedMergeRule = Literal["error", "first", "last", "list", "sum", "total", "union"]
MERGE_RULES = get_args(_NamedMergeRule)
MergeRule = _NamedMergeRule | Callable[[Any, Sequence[Any]], Any]


def to_json_data(value: Any, place: str, depth: int = 0) -> Any:
    """Return a copy of a value as JSON data; StateNotStorable if it has another type."""
    kind = type(value)
    if (kind is str and value.isascii()) or kind is int or kind is bool or value is None:
        return value
    if isinstance(value, str):
        return _check_text(value, place)
    if isinstance(value, float) and not math.isfinite(value):
        raise StateNotStorable(place, f"{value} is not a JSON number")
    if depth > _MAX_DEPTH:
        raise StateNotStorable(place, f"nested deeper than {_MAX_DEPTH} levels")
    if kind is dict or isinstance(value, Mapping):
        return {
            _check_key(key, place): to_json_data(item, f"{place}.{key}", depth + 1)
            for key, item in _items(value)
        }
    if isinstance(value, list | tuple):
        return [to_json_data(item, f"{place}[{n}]", depth + 1) for n, item in enumerate(value)]
    for base, convert in _NUMBERS:
        if isinstance(value, base):  # also subclasses such as IntEnum
            return convert(value)
    raise StateNotStorable(
        place, f"{kind.__name__} is not JSON data (str, number, bool, None, list or mapping)"
    )


def _items(value: Mapping[Any, Any]) -> Iterable[tuple[Any, Any]]:
    """Return the items of a mapping that a thread may change at the same time."""
    # dict.copy is atomic; creating a list of items is not.
    return dict.copy(value).items() if isinstance(value, dict) else list(value.items())


def _check_key(key: Any, place: str) -> str:
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise StateNotStorable(place, f"its key {key!r} is not a str")
    return _check_text(key, place)


def _check_text(text: str, place: str) -> str:
    """Return a text; StateNotStorable if it contains an unpaired surrogate."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise StateNotStorable(place, f"unpaired surrogate: {error}") from None
    return str.__str__(text)


def _fingerprint(value: Any) -> bytes:
    """Return the encoding of a value, which distinguishes True, 1 and 1.0."""
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return b""  # not JSON data; converted or refused when it is copied


class _LockedMapping(MutableMapping[str, Any]):
    """A mapping that tools in several threads may use at the same time."""

    __slots__ = ("lock",)

    lock: Any

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(
                f"the state has no attribute {name!r}: read a key with ctx.state[{name!r}], or "
                f"with ctx.state.get({name!r}) if it may be missing"
            )

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a value, written first if missing, so that it can be changed in place."""
        with self.lock:
            if key not in self:
                self[key] = default
            return self.get(key, default)

    def pop(self, key: str, *default: Any) -> Any:
        """Remove a value and return it, or the default if it is missing."""
        with self.lock:
            return super().pop(key, *default)


class State(_LockedMapping):
    """A mapping that detects what a run writes.

    A list or mapping that is read is a copy of the reader; changing it in place counts as a write.

    In a resumed run, writes of the code before a recorded step are replaced at that step by what
    was recorded.
    """

    __slots__ = (
        "_applied",
        "_before",
        "_base",
        "_copies",
        "_pending",
        "_removed",
        "_values",
        "_written",
        "external_writes",
        "is_complete",
    )

    def __init__(
        self, values: Mapping[str, Any], external_writes: Mapping[str, int] = _NO_EXTERNAL_WRITES
    ) -> None:
        self.lock = RLock()
        self._values = dict(values)
        #: Keys written from outside the run, with the last event that they supersede.
        self.external_writes = external_writes
        #: Whether all recorded events are applied, so that every write is new.
        self.is_complete = False
        self._applied: dict[str, int] = {}
        self._pending: dict[str, Any] = {}
        self._removed: dict[str, None] = {}
        #: Values before the pending writes.
        self._base: dict[str, Any] = {}
        #: Copies that readers have, with the fingerprint of their original.
        self._copies: dict[str, tuple[Any, bytes]] = {}
        self._before: dict[str, Any] = {}
        self._written: dict[str, bool] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if type(value) is not dict and type(value) is not list:
            return value
        with self.lock:
            if key not in self._copies:
                value = to_json_data(self._values[key], key)
                self._copies[key] = (value, _fingerprint(value))
            return self._copies[key][0]

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str) or not key.strip():
            raise StateNotStorable(repr(key), "a state key must be a non-empty str")
        copied = to_json_data(value, _check_text(key, repr(key)))
        with self.lock:
            self._copies.pop(key, None)
            self._write(key, copied)

    def _write(self, key: str, value: Any) -> None:
        self._base.setdefault(key, self._values.get(key, MISSING))
        self._values[key] = value
        self._pending[key] = value
        self._removed.pop(key, None)

    def __delitem__(self, key: str) -> None:
        with self.lock:
            self._base.setdefault(key, self._values[key])
            del self._values[key]
            self._copies.pop(key, None)
            self._pending.pop(key, None)
            self._removed[key] = None

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value, or the default if it is missing."""
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
        """Return a copy of the state as a dict, with changes in place."""
        with self.lock:
            if self._copies:
                self._detect_changes_in_place()
            return {key: to_json_data(value, key) for key, value in self._values.items()}

    def branch(self) -> "State":
        """Return an independent state that starts with the current values."""
        with self.lock:
            self._detect_changes_in_place()
            return State(self._values, self.external_writes)

    @property
    def pending(self) -> bool:
        """Return True if there are writes that were not flushed."""
        if self._copies:
            with self.lock:
                self._detect_changes_in_place()
        return bool(self._pending or self._removed)

    def flush(self) -> Written:
        """Return what was written since the last flush."""
        if not self.pending:
            return _NO_WRITES
        with self.lock:
            for key, value in self._base.items():
                self._note(key, value)
            written = (self._pending, tuple(self._removed))
            self._pending, self._removed, self._base = {}, {}, {}
            return written

    def rollback(self) -> None:
        """Undo the writes that were not flushed, because they are not recorded."""
        with self.lock:
            self._detect_changes_in_place()
            for key in list(self._base):
                self._rollback_key(key)

    def _rollback_key(self, key: str) -> None:
        self._copies.pop(key, None)
        self._pending.pop(key, None)
        self._removed.pop(key, None)
        if key in self._base:
            self._set(key, self._base.pop(key))

    def apply(self, delta: Mapping[str, Any], removed: Iterable[str] = (), *, seq: int = 0) -> None:
        """Apply what a recorded step wrote, in place of what was written before it."""
        with self.lock:
            keys = [*delta, *removed]
            if not self.is_complete:
                keys += self._base
            for key in keys:
                self._rollback_key(key)
            self.rebase(delta, removed, seq=seq)

    def complete(self) -> None:
        """Accept no more recorded changes: all of them are applied."""
        self.is_complete = True

    def rebase(
        self, delta: Mapping[str, Any], removed: Iterable[str] = (), *, seq: int = 0
    ) -> None:
        """Apply recorded changes below the pending writes; the later recorded one wins."""
        with self.lock:
            for key, value in (*delta.items(), *((key, MISSING) for key in removed)):
                if self._supersedes(key, seq):
                    self._rebase_key(key, value, seq)

    def _rebase_key(self, key: str, value: Any, seq: int) -> None:
        self._applied[key] = seq
        if key in self._base:
            self._note(key, self._base[key])
            self._base[key] = value
        else:
            self._note(key, self._values.get(key, MISSING))
            self._copies.pop(key, None)
            self._set(key, value)

    def _supersedes(self, key: str, seq: int) -> bool:
        if self.is_complete or (key in self.external_writes and seq <= self.external_writes[key]):
            return False
        return self._applied.get(key, 0) <= seq

    def _set(self, key: str, value: Any) -> None:
        if value is MISSING:
            self._values.pop(key, None)
        else:
            self._values[key] = value

    def write(self, delta: Mapping[str, Any], removed: Iterable[str] = ()) -> None:
        """Write several keys, as a join of branches does."""
        for key, value in delta.items():
            self[key] = value
        for key in removed:
            if key in self._values:
                del self[key]

    def written(self) -> Written:
        """Return everything that was written since this state was created."""
        with self.lock:
            self._detect_changes_in_place()
            keys = {**self._written, **self._base}
            delta = {key: self._values[key] for key in keys if key in self._values}
            return delta, tuple(key for key in keys if key not in self._values)

    def undo(self) -> Written:
        """Return the changes from the flushed state back to the initial one."""
        added = tuple(key for key, existed in self._written.items() if not existed)
        return dict(self._before), added

    def _note(self, key: str, before: Any) -> None:
        if key not in self._written:
            self._written[key] = before is not MISSING
            if before is not MISSING:
                self._before[key] = before

    def _detect_changes_in_place(self) -> None:
        for key, (copy, fingerprint) in self._copies.items():
            if copy != self._values[key] or _fingerprint(copy) != fingerprint:
                # In this order: a change by a thread in between is detected the next time.
                self._copies[key] = (copy, _fingerprint(copy))
                self._write(key, to_json_data(copy, key))


_NO_WRITES: Written = ({}, ())


class StateView(_LockedMapping):
    """A state limited by a grant: other keys are missing, and writing them raises an error.

    `select` returns what of an entry, a mapping with one key, may be read.
    """

    __slots__ = ("_open", "_read", "_select", "_state", "_write")

    def __init__(
        self,
        state: MutableMapping[str, Any],
        read: Sequence[str] = ("*",),
        write: Sequence[str] = ("*",),
        *,
        select: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
    ) -> None:
        self.lock = getattr(state, "lock", nullcontext())
        self._state = state
        self._read = tuple(read)
        self._write = tuple(write)
        self._select = select
        self._open = True

    def close(self) -> None:
        """Reject all further writes, because the call that used the view has ended."""
        self._open = False

    def check_open(self) -> None:
        """Raise StateNotGranted if the call that used the view has ended."""
        if not self._open:
            raise StateNotGranted("*", "the call that it was granted to has ended")

    def over(self, state: MutableMapping[str, Any]) -> "StateView":
        """Return the same grant over another state."""
        inner = self._state.over(state) if isinstance(self._state, StateView) else state
        return StateView(inner, self._read, self._write, select=self._select)

    def __getitem__(self, key: str) -> Any:
        if not self._matches(self._read, key):
            raise KeyError(key)
        value = self._state[key]
        if self._select is not None:
            value = self._select({key: value})[key]
        # Without write access it is a copy, because a change in place would count as a write.
        return value if self._open and self._matches(self._write, key) else to_json_data(value, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_write(key)
        self._state[key] = value

    def __delitem__(self, key: str) -> None:
        self._check_write(key)
        del self._state[key]

    def __iter__(self) -> Iterator[str]:
        return (
            key
            for key in self._state
            if self._matches(self._read, key)
            and (self._select is None or key in self._select({key: self._state[key]}))
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"StateView({dict(self)!r})"

    def _check_write(self, key: str) -> None:
        if not self._open:
            raise StateNotGranted(key, "the call that it was granted to has ended")
        if not self._matches(self._write, key):
            allowed = ", ".join(self._write)
            raise StateNotGranted(
                key,
                f"the grant has write access to {allowed or 'nothing'}; add the key to its write",
            )

    @staticmethod
    def _matches(patterns: tuple[str, ...], key: str) -> bool:
        return matches_patterns(patterns, key)


def matches_patterns(patterns: Sequence[str], key: str) -> bool:
    """Return True if a key matches a pattern, and none of the exclusions such as `!card_*`.

    An exclusion also applies to the key without `user:`, `app:` or `temp:`.
    """
    if patterns == ("*",):
        return True
    is_included = False
    unscoped = key.partition(":")[2] if key.startswith(_SCOPE_PREFIXES) else key
    for pattern in patterns:
        if pattern.startswith("!"):
            if fnmatchcase(key, pattern[1:]) or fnmatchcase(unscoped, pattern[1:]):
                return False
        elif not is_included:
            is_included = fnmatchcase(key, pattern)
    return is_included


def matching_rule(rules: Iterable[str], caller: str) -> str | None:
    """Return the first of the names and patterns of callers that matches a caller."""
    return next((name for name in rules if name == caller or fnmatchcase(caller, name)), None)


@explains_call()
def filter_memory(
    memory: Mapping[str, JsonData], caller: str, rules: Mapping[str, Sequence[str]]
) -> dict[str, JsonData]:
    """Return the entries that a caller may read.

    `rules` has patterns of keys per caller, as in a `Grant`: `("*", "!payment.card_*")`. The rule
    of the first pattern that matches the caller applies, such as "agent://audit_*" or "*". A caller
    without a rule reads nothing.
    """
    for name, patterns in rules.items():
        if isinstance(patterns, str):
            raise InvalidInput(f'the rule of {name!r} must be a list, such as ("{patterns}",)')
    rule = matching_rule(rules, caller)
    if rule is None:
        return {}
    return {key: memory[key] for key in memory if matches_patterns(rules[rule], key)}


def check_merge_rule(rule: MergeRule) -> None:
    """Raise InvalidInput for an unknown or async merge rule."""
    kind: Any = type(rule)
    if inspect.iscoroutinefunction(rule) or inspect.iscoroutinefunction(kind.__call__):
        raise InvalidInput(f"the merge rule {rule!r} is async; pass a function that is not async")
    if not callable(rule) and rule not in MERGE_RULES:
        raise InvalidInput(
            f"unknown merge rule {rule!r}: use one of {', '.join(MERGE_RULES)}, or a function of"
            " the value before and the list of written values that returns the merged value"
        )


def merge_branches(
    before: Mapping[str, Any],
    branches: Sequence[tuple[str, Written]],
    rules: Mapping[str, MergeRule],
) -> Written:
    """Merge what branches wrote; a key that two of them changed needs a rule."""
    changes: dict[str, list[tuple[str, Any]]] = {}
    for name, (delta, gone) in branches:
        for key, value in delta.items():
            changes.setdefault(key, []).append((name, value))
        for key in gone:
            if key in before:  # otherwise the branch removed a key of its own
                changes.setdefault(key, []).append((name, MISSING))
    merged: dict[str, Any] = {}
    removed: list[str] = []
    for key, written in changes.items():
        value = _merge_key(key, written, before.get(key), rules)
        if value is MISSING:
            removed.append(key)
        else:
            merged[key] = value
    return merged, tuple(removed)


def _merge_key(
    key: str, written: Sequence[tuple[str, Any]], before: Any, rules: Mapping[str, MergeRule]
) -> Any:
    """Return the merged value of a key, MISSING if it is removed."""
    values = [value for _, value in written]
    if len(values) == 1:
        return values[0]
    rule = _rule_for(key, rules)
    if rule == "error":
        raise StateConflict(key, [name for name, _ in written])
    if all(value is MISSING for value in values):
        return MISSING
    if callable(rule):
        return rule(before, [None if value is MISSING else value for value in values])
    try:
        return _BY_RULE[rule](before, values)
    except TypeError as error:
        raise InvalidInput(f"cannot merge {key!r} by {rule!r}: {error}") from error


def _rule_for(key: str, rules: Mapping[str, MergeRule]) -> MergeRule:
    if key in rules:
        return rules[key]
    return next((rule for name, rule in rules.items() if fnmatchcase(key, name)), "error")


def _present(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if value is not MISSING]


def _sum(before: Any, values: Sequence[Any]) -> Any:
    """Add what each branch added to a number; a removed number counts as 0."""
    start = before if before is not None else 0
    return start + sum((0 if value is MISSING else value) - start for value in values)


def _union(before: Any, values: Sequence[Any]) -> Any:
    """Merge changes to a list without duplicates, or to a mapping; existing items come first.

    An item that one branch removed is removed; of two changes to an item, the later one wins.
    """
    there = _present(values) if before is None else [before, *_present(values)]
    if all(isinstance(value, Mapping) for value in there):
        parts = [{} if value is MISSING else value for value in values]
        return _merge_mappings(before or {}, parts)
    if all(isinstance(value, list) for value in there):
        return _merge_lists(before or [], [[] if value is MISSING else value for value in values])
    raise TypeError("union expects lists or mappings")


def _merge_mappings(
    before: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    merged = dict(before)
    for part in parts:
        # A branch that has none of the earlier keys wrote a new mapping and removed nothing.
        for key in before if not part or before.keys() & part.keys() else ():
            if key not in part:
                merged.pop(key, None)
        for key, value in part.items():
            if key not in before or _fingerprint(value) != _fingerprint(before[key]):
                merged[key] = value
    return merged


def _merge_lists(before: Sequence[Any], parts: Sequence[Sequence[Any]]) -> list[Any]:
    merged: list[Any] = []
    continued = [part for part in parts if not part or any(item in part for item in before)]
    for item in before:
        if item not in merged and all(item in part for part in continued):
            merged.append(item)
    for item in (item for part in parts for item in part):
        if item not in merged and item not in before:
            merged.append(item)
    return merged


_BY_RULE: Mapping[str, Callable[[Any, Sequence[Any]], Any]] = {
    "first": lambda before, values: values[0],
    "last": lambda before, values: values[-1],
    "list": lambda before, values: _present(values),
    "sum": _sum,
    "total": lambda before, values: sum(_present(values)),
    "union": _union,
}
