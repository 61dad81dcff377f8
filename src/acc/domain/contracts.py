"""Rules about contracts: breaking changes, vague contracts, and fields that do not match."""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from acc.domain.value_objects.contract import IntentContract

#: Names and words that say nothing about what an intent does.
_VAGUE_WORDS = frozenset(
    (
        *("do", "handle", "handler", "process", "manage", "run", "execute", "call", "work", "it"),
        *("request", "requests", "task", "job", "thing", "things", "stuff", "data", "input"),
        *("something", "anything", "general", "generic", "misc", "main"),
    )
)
_VAGUE_JAPANESE = ("処理する", "処理を行", "対応する", "いろいろ", "何でも", "なんでも", "汎用")
_WORDS = re.compile(r"[a-z]+")
_TYPE_KEYWORDS = ("type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref")
_MIN_DESCRIPTION_WORDS = 3
_MAX_VAGUE_CHARACTERS = 14
_MIN_DESCRIPTION_CHARACTERS = 8


class ChangeKind(StrEnum):
    """Whether existing callers keep working after a change."""

    BREAKING = "breaking"
    COMPATIBLE = "compatible"


class ContractChange(NamedTuple):
    """A difference between two versions of a contract."""

    kind: ChangeKind
    intent: str
    text: str


class FieldMismatch(NamedTuple):
    """An input field that no earlier agent provides, and a similar output field."""

    consumer: str
    field: str
    producer: str
    similar: str


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
            changes += _changes(before[name], after[name])
    return tuple(sorted(changes, key=lambda change: change.kind is not ChangeKind.BREAKING))


def vague_parts(contract: IntentContract) -> tuple[str, ...]:
    """Return what a contract leaves open; an empty tuple if it is precise."""
    found: list[str] = []
    words = _WORDS.findall(contract.name.lower())
    if words and all(word in _VAGUE_WORDS for word in words):
        found.append(f"the name {contract.name!r} does not say what is done")
    if not _is_clear(contract.description):
        found.append("the description does not say what the intent does")
    if not contract.input_fields:
        found.append("the inputs are not declared")
    if not contract.output_fields:
        found.append("the outputs are not declared")
    untyped = [
        name
        for fields in (contract.input_fields, contract.output_fields)
        for name, schema in fields.items()
        if not _constraints(schema)
    ]
    if untyped:
        found.append(f"fields without a type: {', '.join(untyped)}")
    return tuple(found)


def find_mismatches(
    steps: Sequence[tuple[str, IntentContract]], provided: Sequence[str] = ()
) -> tuple[FieldMismatch, ...]:
    """Return required inputs of later steps that resemble an output but do not match it.

    `steps` are the agents of a sequence with their contracts, `provided` the names of state keys.
    """
    mismatches: list[FieldMismatch] = []
    available: dict[str, str] = dict.fromkeys(provided, "")
    for number, (consumer, contract) in enumerate(steps):
        for field in contract.required_inputs:
            if number == 0 or field in available:
                continue
            similar = _similar(field, available)
            if similar:
                mismatches.append(FieldMismatch(consumer, field, available[similar], similar))
        available |= dict.fromkeys(contract.input_fields, consumer)
        available |= dict.fromkeys(contract.output_fields, consumer)
    return tuple(mismatches)


def _changes(old: IntentContract, new: IntentContract) -> Iterator[ContractChange]:
    def change(is_breaking: bool, text: str) -> ContractChange:
        kind = ChangeKind.BREAKING if is_breaking else ChangeKind.COMPATIBLE
        return ContractChange(kind, old.name, text)

    for name in sorted({*old.input_fields, *new.input_fields}):
        yield from (
            change(breaking, f"input {name!r} {text}")
            for breaking, text in _input_changes(name, old, new)
        )
    for name in sorted({*old.output_fields, *new.output_fields}):
        yield from (
            change(breaking, f"output {name!r} {text}")
            for breaking, text in _output_changes(name, old, new)
        )
    for permission in sorted({*new.permissions}.difference(old.permissions)):
        yield change(True, f"the permission {permission!r} is required")
    for permission in sorted({*old.permissions}.difference(new.permissions)):
        yield change(False, f"the permission {permission!r} is no longer required")
    if old.idempotent and not new.idempotent:
        yield change(True, "the intent is no longer idempotent")
    if new.idempotent and not old.idempotent:
        yield change(False, "the intent is idempotent")


def _input_changes(
    name: str, old: IntentContract, new: IntentContract
) -> Iterator[tuple[bool, str]]:
    was, now = old.input_fields.get(name), new.input_fields.get(name)
    is_required = name in new.required_inputs
    if was is None:
        yield is_required, f"was added{' and is required' if is_required else ''}"
    elif now is None:
        yield True, "was removed"
    else:
        if is_required and name not in old.required_inputs:
            yield True, "is now required"
        if not is_required and name in old.required_inputs:
            yield False, "is no longer required"
        yield from _schema_changes(was, now, is_input=True)


def _output_changes(
    name: str, old: IntentContract, new: IntentContract
) -> Iterator[tuple[bool, str]]:
    was, now = old.output_fields.get(name), new.output_fields.get(name)
    required_before = name in old.output_schema.get("required", ())
    required_now = name in new.output_schema.get("required", ())
    if was is None:
        yield False, "was added"
    elif now is None:
        yield True, "was removed"
    else:
        if required_before and not required_now:
            yield True, "may now be absent"
        if required_now and not required_before:
            yield False, "is now always present"
        yield from _schema_changes(was, now, is_input=False)


def _schema_changes(
    was: Mapping[str, Any], now: Mapping[str, Any], *, is_input: bool
) -> Iterator[tuple[bool, str]]:
    """Compare types and values; callers send less than before, or receive more, if it breaks."""
    before, after = _types(was), _types(now)
    accepts_less = bool(after) and (not before or not _covers(after, before))
    accepts_more = bool(before) and (not after or not _covers(before, after))
    if accepts_less or accepts_more:
        is_breaking = accepts_less if is_input else accepts_more
        yield is_breaking, f"changed its type from {_join(before)} to {_join(after)}"
    old_values, new_values = was.get("enum"), now.get("enum")
    if old_values != new_values:
        removed = new_values is not None and _is_narrower(old_values, new_values)
        added = old_values is not None and _is_narrower(new_values, old_values)
        yield removed if is_input else added, "changed its allowed values"
    others = {key for key in {*was, *now} if was.get(key) != now.get(key)}
    others -= {"type", "enum", "anyOf", "description", "default", "title", "examples"}
    if others:
        yield True, f"changed its constraints: {', '.join(sorted(others))}"


def _is_narrower(values: Any, than: Any) -> bool:
    """Return True if some of the values are not among the others; None stands for all values."""
    return values is None or any(value not in than for value in values)


def _types(schema: Mapping[str, Any]) -> frozenset[str]:
    options = schema.get("anyOf")
    if isinstance(options, list):
        return frozenset().union(*(_types(one) for one in options if isinstance(one, Mapping)))
    values = schema.get("enum")
    if "type" not in schema and isinstance(values, list):
        return frozenset(_type_of(value) for value in values)
    kind = schema.get("type", ())
    return frozenset([kind] if isinstance(kind, str) else kind)


def _type_of(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "null" if value is None else "boolean"
    names = ((str, "string"), (int, "integer"), (float, "number"), (list, "array"))
    return next((name for kind, name in names if isinstance(value, kind)), "object")


def _covers(wide: frozenset[str], narrow: frozenset[str]) -> bool:
    return all(one in wide or (one == "integer" and "number" in wide) for one in narrow)


def _join(types: frozenset[str]) -> str:
    return " or ".join(sorted(types)) or "any"


def _constraints(schema: Mapping[str, Any]) -> bool:
    return any(
        key in schema for key in ("type", "anyOf", "oneOf", "allOf", "enum", "const", "$ref")
    )


def _is_clear(description: str) -> bool:
    text = description.strip()
    if (
        any(phrase in text for phrase in _VAGUE_JAPANESE)
        and len(text) < 2 * _MIN_DESCRIPTION_WORDS + 8
    ):
        return False
    if not text.isascii():
        return len(text) >= _MIN_DESCRIPTION_CHARACTERS
    words = _WORDS.findall(text.lower())
    return len([word for word in words if word not in _VAGUE_WORDS]) >= _MIN_DESCRIPTION_WORDS


def _similar(field: str, available: dict[str, str]) -> str:
    """Return the available name that probably means the same field, or an empty string."""
    wanted = _key(field)
    latest = list(reversed(available))
    for name in latest:
        key = _key(name)
        if key == wanted or (min(len(key), len(wanted)) > 2 and (key in wanted or wanted in key)):
            return name
    return next((name for name in latest if _distance(wanted, _key(name)) <= 2), "")


def _key(name: str) -> str:
    return name.replace("_", "").replace("-", "").replace(".", "").lower()


def _distance(first: str, second: str) -> int:
    """Return the edit distance of two names; long differences count as 3."""
    if abs(len(first) - len(second)) > 2 or min(len(first), len(second)) < 4:
        return 3
    row = list(range(len(second) + 1))
    for number, letter in enumerate(first, start=1):
        previous, row[0] = row[0], number
        for column, other in enumerate(second, start=1):
            cost = previous if letter == other else previous + 1
            previous, row[column] = row[column], min(cost, row[column] + 1, row[column - 1] + 1)
    return min(row[-1], 3)
