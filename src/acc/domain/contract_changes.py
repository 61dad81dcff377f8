"""Differences between two versions of contracts, and which of them break callers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from acc.domain.value_objects.contract import IntentContract

#: Keywords that narrow a schema if their value grows, and if it decreases.
_LOWER_BOUNDS = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER_BOUNDS = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
#: Keywords that narrow a schema if they are added; any other change may be both.
_RESTRICTIONS = ("pattern", "format", "multipleOf", "const", "uniqueItems", "contentEncoding")
#: Keywords without an effect, and those that are compared with others.
_IGNORED = frozenset(
    (
        *("description", "default", "title", "examples", "$comment", "$defs", "$ref", "$schema"),
        *("type", "enum", "anyOf", "properties", "required", "items", "additionalProperties"),
    )
)


class ChangeKind(StrEnum):
    """Whether existing callers keep working after a change."""

    BREAKING = "breaking"
    COMPATIBLE = "compatible"


class ContractChange(NamedTuple):
    """A difference between two versions of a contract."""

    kind: ChangeKind
    intent: str
    text: str


def compare_contracts(
    old: Sequence[IntentContract], new: Sequence[IntentContract]
) -> tuple[ContractChange, ...]:
    """Return the differences between two sets of contracts, breaking ones first."""
    before = {contract.name: contract for contract in old}
    after = {contract.name: contract for contract in new}
    changes = [
        ContractChange(ChangeKind.BREAKING, name, "the intent was removed")
        for name in before
        if name not in after
    ]
    changes += [
        ContractChange(ChangeKind.COMPATIBLE, name, "the intent was added")
        for name in after
        if name not in before
    ]
    for name in before:
        if name in after:
            for is_breaking, text in _changes(before[name], after[name]):
                kind = ChangeKind.BREAKING if is_breaking else ChangeKind.COMPATIBLE
                changes.append(ContractChange(kind, name, text))
    return tuple(sorted(changes, key=lambda change: change.kind is not ChangeKind.BREAKING))


def _changes(old: IntentContract, new: IntentContract) -> Iterator[tuple[bool, str]]:
    for place, was, now in (
        ("input", old.input_schema, new.input_schema),
        ("output", old.output_schema, new.output_schema),
    ):
        comparison = _Comparison(place=place, old=_definitions(was), new=_definitions(now))
        yield from comparison.compare(was, now)
    if "*" not in new.reads:
        for pattern in sorted({*old.reads}.difference(new.reads)):
            yield True, f"the memory keys {pattern!r} are no longer read, and rejected"
    for permission in sorted({*new.permissions}.difference(old.permissions)):
        yield True, f"the permission {permission!r} is required"
    for permission in sorted({*old.permissions}.difference(new.permissions)):
        yield False, f"the permission {permission!r} is no longer required"
    if old.idempotent and not new.idempotent:
        yield True, "the intent is no longer idempotent"
    if new.idempotent and not old.idempotent:
        yield False, "the intent is idempotent"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """Compares two schemas with their definitions, in which `path` was reached."""

    place: str
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    path: str = ""
    visited: frozenset[tuple[str, str]] = frozenset()

    def compare(self, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
        """Yield whether callers break, and the change."""
        references = (str(was.get("$ref", "")), str(now.get("$ref", "")))
        if any(references):
            if references in self.visited:
                return
            visited = self.visited | {references}
            yield from replace(self, visited=visited).compare(
                _resolve(was, self.old), _resolve(now, self.new)
            )
            return
        before, after = self._options(was, self.old), self._options(now, self.new)
        yield from self._compare_types(before, after)
        values_before, values_after = _values(before), _values(after)
        if values_before != values_after:
            narrower = values_after is not None and _is_narrower(values_before, values_after)
            wider = values_before is not None and _is_narrower(values_after, values_before)
            if narrower or wider:
                yield self._change("changed its allowed values", narrower=narrower, wider=wider)
        for first, second in _pairs(before, after):
            yield from self._compare_keywords(first, second)
            yield from self._compare_fields(first, second)
            yield from self._compare_items(first, second)

    def _change(self, text: str, *, narrower: bool, wider: bool) -> tuple[bool, str]:
        """Return a change: callers send what is no longer accepted, or receive more values."""
        subject = f"{self.place} {self.path!r}" if self.path else f"the {self.place}"
        return (narrower if self.place == "input" else wider), f"{subject} {text}"

    def _options(
        self, schema: Mapping[str, Any], definitions: Mapping[str, Any]
    ) -> Sequence[Mapping[str, Any]]:
        options = schema.get("anyOf")
        if not isinstance(options, list):
            return [schema]
        return [_resolve(one, definitions) for one in options if isinstance(one, Mapping)]

    def _compare_types(
        self, was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[bool, str]]:
        before, after = _types(was), _types(now)
        narrower = bool(after) and (not before or not _covers(after, before))
        wider = bool(before) and (not after or not _covers(before, after))
        if narrower or wider:
            text = f"changed its type from {_join(before)} to {_join(after)}"
            yield self._change(text, narrower=narrower, wider=wider)

    def _compare_fields(
        self, was: Mapping[str, Any], now: Mapping[str, Any]
    ) -> Iterator[tuple[bool, str]]:
        before, after = _mapping(was, "properties"), _mapping(now, "properties")
        required_before, required_now = was.get("required", ()), now.get("required", ())
        for name in sorted({*before, *after}):
            path = f"{self.path}.{name}" if self.path else name
            field = replace(self, path=path)
            is_required, was_required = name in required_now, name in required_before
            if name not in before:
                is_needed = is_required and self.place == "input"
                text = f"was added{' and is required' if is_needed else ''}"
                yield field._change(text, narrower=is_required, wider=False)
                continue
            if name not in after:
                yield field._change("was removed", narrower=True, wider=True)
                continue
            if is_required and not was_required:
                text = "is now required" if self.place == "input" else "is now always present"
                yield field._change(text, narrower=True, wider=False)
            if was_required and not is_required:
                text = "is no longer required" if self.place == "input" else "may now be absent"
                yield field._change(text, narrower=False, wider=True)
            yield from field.compare(before[name], after[name])
        closed = was.get("additionalProperties", True), now.get("additionalProperties", True)
        if closed[0] != closed[1]:
            if all(isinstance(one, Mapping) for one in closed):
                yield from replace(self, path=f"{self.path}.*".lstrip(".")).compare(*closed)
            else:
                is_narrower = closed[0] is True or closed[1] is False
                text = "accepts other fields in another way"
                yield self._change(text, narrower=is_narrower, wider=not is_narrower)

    def _compare_items(
        self, was: Mapping[str, Any], now: Mapping[str, Any]
    ) -> Iterator[tuple[bool, str]]:
        before, after = was.get("items", True), now.get("items", True)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from replace(self, path=f"{self.path}[]").compare(before, after)
        elif before != after:
            yield self._change("changed its items", narrower=True, wider=True)

    def _compare_keywords(
        self, was: Mapping[str, Any], now: Mapping[str, Any]
    ) -> Iterator[tuple[bool, str]]:
        for key in sorted({*was, *now} - _IGNORED):
            before, after = was.get(key), now.get(key)
            if before == after:
                continue
            is_bound = key in _LOWER_BOUNDS or key in _UPPER_BOUNDS
            if is_bound and isinstance(before, int | float) and isinstance(after, int | float):
                narrower = (after > before) is (key in _LOWER_BOUNDS)
                wider = not narrower
            elif key in _RESTRICTIONS or is_bound:
                narrower, wider = after is not None, before is not None
            else:
                narrower = wider = True
            yield self._change(f"changed its constraint {key}", narrower=narrower, wider=wider)


def _pairs(
    was: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the options of two schemas that have the same types, in their order."""
    remaining = list(now)
    for option in was:
        found = next((one for one in remaining if _types([one]) == _types([option])), None)
        if len(was) == len(now) == 1:
            found = now[0]
        if found is not None:
            remaining = [one for one in remaining if one is not found]
            yield option, found


def _resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema without the reference at its root."""
    for _ in definitions:
        reference = schema.get("$ref")
        target = definitions.get(str(reference).removeprefix("#/$defs/"))
        if reference is None or not isinstance(target, Mapping):
            break
        schema = target
    return {key: value for key, value in schema.items() if key != "$ref"}


def _definitions(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return _mapping(schema, "$defs")


def _mapping(schema: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = schema.get(key)
    if not isinstance(found, Mapping):
        return {}
    return {name: one if isinstance(one, Mapping) else {} for name, one in found.items()}


def field_types(schema: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the JSON types of a field of an object; empty if its schema allows any type."""
    definitions = _definitions(schema)
    field = _resolve(_mapping(schema, "properties").get(name, {}), definitions)
    options = field.get("anyOf")
    if isinstance(options, list):
        choices = [_resolve(one, definitions) for one in options if isinstance(one, Mapping)]
    else:
        choices = [field]
    found = [_types([one]) for one in choices]
    return frozenset[str]().union(*found) if all(found) else frozenset()


def _values(options: Sequence[Mapping[str, Any]]) -> list[Any] | None:
    """Return the values that options allow; None stands for all values."""
    values: list[Any] = []
    for option in options:
        if option.get("type") == "null":
            continue
        if not isinstance(option.get("enum"), list):
            return None
        values += option["enum"]
    return values


def _is_narrower(values: list[Any] | None, than: list[Any] | None) -> bool:
    """Return True if some of the values are not among the others."""
    return values is None or any(value not in (than or ()) for value in values)


def _types(options: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    found: set[str] = set()
    for schema in options:
        nested = schema.get("anyOf")
        if isinstance(nested, list):
            found |= _types([one for one in nested if isinstance(one, Mapping)])
        values = schema.get("enum")
        if "type" not in schema and isinstance(values, list):
            found |= {_type_of(value) for value in values}
        kind = schema.get("type", ())
        found |= {kind} if isinstance(kind, str) else {*kind}
    return frozenset(found)


def _type_of(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    names = ((str, "string"), (int, "integer"), (float, "number"), (list, "array"))
    return next((name for kind, name in names if isinstance(value, kind)), "object")


def _covers(wide: frozenset[str], narrow: frozenset[str]) -> bool:
    return all(one in wide or (one == "integer" and "number" in wide) for one in narrow)


def _join(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "any"
