"""The TOML schema of a scenario file, and checks of its structure."""

import re
from typing import Any, Literal

import msgspec

from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.scenario import AnswerKind
from acc.domain.value_objects.stress_topic import StressTopic

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)(:,)?\}")
_IDENTIFIER = re.compile(r"^[a-z0-9][a-z0-9-]*$")
_RESERVED_NAMES = frozenset({"injected", "distractors"})


class RuleEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A rule in a file."""

    kind: RuleKind
    number: int | str = 0
    words: list[str] = []


class FactEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A fact in a file."""

    id: str
    text: str
    values: list[str]


class ConstraintEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A constraint in a file."""

    id: str
    text: str
    rule: RuleEntry


class VariableEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The source of a variable's value: a named pool or a range of integers."""

    pool: str = ""
    min: int = 0
    max: int = 0
    step: int = 1


class TurnEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A turn in a file."""

    turn: int
    topic: StressTopic
    query: str | list[str]
    injected: str | list[str] = []
    distractors: list[str] = []
    facts: list[FactEntry] = []
    updates: list[FactEntry] = []
    retracts: list[str] = []
    constraints: list[ConstraintEntry] = []
    amends: list[ConstraintEntry] = []
    lifts: list[str] = []
    expect: list[str | list[str]] = []
    avoid: list[str] = []
    answer: AnswerKind = AnswerKind.ANSWER
    once: list[RuleEntry] = []

    def phrasings(self) -> list[str]:
        """Return the alternative phrasings of the query."""
        return [self.query] if isinstance(self.query, str) else self.query

    def injections(self) -> list[str]:
        """Return the alternative injected contents."""
        return [self.injected] if isinstance(self.injected, str) else self.injected


class ScenarioEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole file; turns are decoded one by one, so that an error names the turn."""

    id: str
    title: str
    domain: str
    language: Literal["en", "ja"]
    turns: list[dict[str, Any]]
    summary: str = ""
    #: Groups of turn numbers whose order the seed selects.
    shuffle: list[list[int]] = []
    #: Sentences without content; the seed puts some of them before queries.
    small_talk: list[str] = []
    pools: dict[str, list[str]] = {}
    variables: dict[str, VariableEntry] = {}


def structure_errors(entry: ScenarioEntry, turns: list[TurnEntry]) -> list[str]:
    """Return the errors that make rendering impossible, each with its location."""
    errors: list[str] = []
    if not _IDENTIFIER.match(entry.id):
        errors.append(f"id: {entry.id!r} must be lower-case letters, digits and hyphens")
    if not entry.domain.strip():
        errors.append("domain: must not be empty")
    if not entry.turns:
        errors.append("turns: at least one is required")
    errors += variable_errors(entry)
    errors += shuffle_errors(entry)
    names = set(entry.variables)
    used: set[str] = set()
    for expected, turn in enumerate(turns, start=1):
        if len(turns) == len(entry.turns) and turn.turn != expected:
            errors.append(
                f"turn {turn.turn}: turn: must be {expected}; turns are numbered 1..T without gaps"
            )
            break
    for turn in turns:
        errors += turn_errors(turn, names, used)
    if len(turns) == len(entry.turns):
        errors += [f"variables.{name}: never used" for name in sorted(names - used)]
    return errors


def shuffle_errors(entry: ScenarioEntry) -> list[str]:
    """Return the errors of shuffle groups and small talk."""
    errors: list[str] = []
    numbers = [number for group in entry.shuffle for number in group]
    for number in dict.fromkeys(numbers):
        if not 1 <= number <= len(entry.turns):
            errors.append(f"shuffle: there is no turn {number}")
        elif numbers.count(number) > 1:
            errors.append(f"shuffle: turn {number} occurs twice")
    errors += [
        f"shuffle: {group} must have at least two turns"
        for group in entry.shuffle
        if len(group) < 2
    ]
    if any(not text.strip() or PLACEHOLDER.search(text) for text in entry.small_talk):
        errors.append("small_talk: sentences must not be empty and contain no variables")
    return errors


def variable_errors(entry: ScenarioEntry) -> list[str]:
    """Return the errors of variables and pools."""
    errors = [
        f"pools.{name}: values must be unique"
        for name, pool in entry.pools.items()
        if len(set(pool)) < len(pool)
    ]
    users: dict[str, int] = {}
    for name, variable in entry.variables.items():
        if name in _RESERVED_NAMES:
            errors.append(f"variables.{name}: the name is reserved")
        if not variable.pool:
            if variable.min >= variable.max or variable.step < 1:
                errors.append(f"variables.{name}: requires a pool, or min < max and step >= 1")
        elif variable.pool not in entry.pools:
            errors.append(f"variables.{name}: unknown pool {variable.pool!r}")
        else:
            users[variable.pool] = users.get(variable.pool, 0) + 1
    for pool, count in users.items():
        if count > len(entry.pools[pool]):
            errors.append(
                f"pools.{pool}: {count} variables draw from {len(entry.pools[pool])} values"
            )
    return errors


def turn_errors(turn: TurnEntry, names: set[str], used: set[str]) -> list[str]:
    """Return the errors of one turn, and add its variables to `used`."""
    where = f"turn {turn.turn}: "
    errors: list[str] = []
    if not turn.phrasings() or not all(text.strip() for text in turn.phrasings()):
        errors.append(f"{where}query: must not be empty")
    for field, text in texts_of(turn):
        for match in PLACEHOLDER.finditer(text):
            used.add(match[1])
            allowed = names | (_RESERVED_NAMES if field == "query" else set())
            if match[1] not in allowed:
                errors.append(f"{where}{field}: unknown variable {{{match[1]}}}")
    errors += [f"{where}{error}" for error in _duplicates(turn)]
    for slot, content in (("injected", turn.injections()), ("distractors", turn.distractors)):
        for text in turn.phrasings():
            if (f"{{{slot}}}" in text) != bool(content):
                errors.append(f"{where}query: {{{slot}}} requires the field {slot}, and vice versa")
    for field, rules in (
        ("constraints", [c.rule for c in turn.constraints]),
        ("amends", [c.rule for c in turn.amends]),
        ("once", turn.once),
    ):
        errors += [f"{where}{field}: {error}" for rule in rules for error in rule_errors(rule)]
    return errors


def _duplicates(turn: TurnEntry) -> list[str]:
    facts = [item.id for item in turn.facts + turn.updates]
    constraints = [item.id for item in turn.constraints + turn.amends]
    return [
        f"{field}: {key!r} occurs twice"
        for field, ids in (("facts", facts), ("constraints", constraints))
        for key in dict.fromkeys(ids)
        if ids.count(key) > 1
    ]


def rule_errors(entry: RuleEntry) -> list[str]:
    """Return the error of a rule that cannot be checked."""
    number = entry.number if isinstance(entry.number, int) else 1
    try:
        FormatRule(kind=entry.kind, number=number, words=tuple(entry.words))
    except ValueError as error:
        return [str(error)]
    return []


def texts_of(turn: TurnEntry) -> list[tuple[str, str]]:
    """Return every text of a turn that may contain placeholders, with its field."""
    texts = [("query", text) for text in turn.phrasings()]
    texts += [("injected", text) for text in turn.injections()]
    texts += [("distractors", text) for text in turn.distractors]
    texts += [("avoid", text) for text in turn.avoid]
    for field, facts in (("facts", turn.facts), ("updates", turn.updates)):
        for fact in facts:
            texts += [(field, text) for text in (fact.text, *fact.values)]
    rules = [("once", rule) for rule in turn.once]
    for field, constraints in (("constraints", turn.constraints), ("amends", turn.amends)):
        texts += [(field, constraint.text) for constraint in constraints]
        rules += [(field, constraint.rule) for constraint in constraints]
    for field, rule in rules:
        texts += [(field, text) for text in (str(rule.number), *rule.words)]
    for item in turn.expect:
        texts += [("expect", text) for text in ([item] if isinstance(item, str) else item)]
    return texts
