"""A scenario file as it is written, and what makes one impossible to render."""

import re
from typing import Any, Literal

import msgspec

from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.scenario import AnswerKind, StressTopic

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)(:,)?\}")
_IDENTIFIER = re.compile(r"^[a-z0-9][a-z0-9-]*$")
_RESERVED = frozenset({"injected", "distractors"})


class RuleEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A rule as the file writes it."""

    kind: RuleKind
    number: int | str = 0
    words: list[str] = []


class FactEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A fact as the file writes it."""

    id: str
    text: str
    values: list[str]


class ConstraintEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A constraint as the file writes it."""

    id: str
    text: str
    rule: RuleEntry


class VariableEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where a variable's value is drawn from: a named pool, or a range of whole numbers."""

    pool: str = ""
    min: int = 0
    max: int = 0
    step: int = 1


class TurnEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A turn as the file writes it."""

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
        """Return the ways in which the query may be put."""
        return [self.query] if isinstance(self.query, str) else self.query

    def injections(self) -> list[str]:
        """Return the ways in which the injected content may be put."""
        return [self.injected] if isinstance(self.injected, str) else self.injected


class ScenarioEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A whole file; its turns are decoded one by one, so that an error can name the turn."""

    id: str
    title: str
    domain: str
    language: Literal["en", "ja"]
    turns: list[dict[str, Any]]
    summary: str = ""
    pools: dict[str, list[str]] = {}
    variables: dict[str, VariableEntry] = {}


def structure_faults(entry: ScenarioEntry, turns: list[TurnEntry]) -> list[str]:
    """Return what makes the file impossible to render, each with its place."""
    faults: list[str] = []
    if not _IDENTIFIER.match(entry.id):
        faults.append(f"id: {entry.id!r} must be lower-case letters, digits and hyphens")
    if not entry.domain.strip():
        faults.append("domain: is empty")
    if not entry.turns:
        faults.append("turns: there are none")
    faults += variable_faults(entry)
    names = set(entry.variables)
    used: set[str] = set()
    for expected, turn in enumerate(turns, start=1):
        if len(turns) == len(entry.turns) and turn.turn != expected:
            faults.append(f"turn {turn.turn}: turn: expected {expected}; turns run 1..T, no gap")
            break
    for turn in turns:
        faults += turn_faults(turn, names, used)
    if len(turns) == len(entry.turns):
        faults += [f"variables.{name}: never used" for name in sorted(names - used)]
    return faults


def variable_faults(entry: ScenarioEntry) -> list[str]:
    """Return the variables that cannot be drawn."""
    faults = [
        f"pools.{name}: has duplicates"
        for name, pool in entry.pools.items()
        if len(set(pool)) < len(pool)
    ]
    wanted: dict[str, int] = {}
    for name, variable in entry.variables.items():
        if name in _RESERVED:
            faults.append(f"variables.{name}: the name is reserved")
        if not variable.pool:
            if variable.min >= variable.max or variable.step < 1:
                faults.append(f"variables.{name}: needs a pool, or min < max and step ≥ 1")
        elif variable.pool not in entry.pools:
            faults.append(f"variables.{name}: no pool {variable.pool!r}")
        else:
            wanted[variable.pool] = wanted.get(variable.pool, 0) + 1
    for pool, count in wanted.items():
        if count > len(entry.pools[pool]):
            faults.append(
                f"pools.{pool}: {count} variables draw from {len(entry.pools[pool])} values"
            )
    return faults


def turn_faults(turn: TurnEntry, names: set[str], used: set[str]) -> list[str]:
    """Return what is wrong with one turn by itself, and note the variables it uses."""
    where = f"turn {turn.turn}: "
    faults: list[str] = []
    if not turn.phrasings() or not all(text.strip() for text in turn.phrasings()):
        faults.append(f"{where}query: is empty")
    for field, text in texts_of(turn):
        for match in PLACEHOLDER.finditer(text):
            used.add(match[1])
            allowed = names | (_RESERVED if field == "query" else set())
            if match[1] not in allowed:
                faults.append(f"{where}{field}: no variable {{{match[1]}}}")
    faults += [f"{where}{fault}" for fault in _repeats(turn)]
    for slot, content in (("injected", turn.injections()), ("distractors", turn.distractors)):
        for text in turn.phrasings():
            if (f"{{{slot}}}" in text) != bool(content):
                faults.append(f"{where}query: {{{slot}}} and the field {slot} go together")
    for field, rules in (
        ("constraints", [c.rule for c in turn.constraints]),
        ("amends", [c.rule for c in turn.amends]),
        ("once", turn.once),
    ):
        faults += [f"{where}{field}: {fault}" for rule in rules for fault in rule_faults(rule)]
    return faults


def _repeats(turn: TurnEntry) -> list[str]:
    facts = [item.id for item in turn.facts + turn.updates]
    constraints = [item.id for item in turn.constraints + turn.amends]
    return [
        f"{field}: {key!r} stands twice"
        for field, ids in (("facts", facts), ("constraints", constraints))
        for key in dict.fromkeys(ids)
        if ids.count(key) > 1
    ]


def rule_faults(entry: RuleEntry) -> list[str]:
    """Return why the rule cannot be checked, if so."""
    number = entry.number if isinstance(entry.number, int) else 1
    try:
        FormatRule(kind=entry.kind, number=number, words=tuple(entry.words))
    except ValueError as error:
        return [str(error)]
    return []


def texts_of(turn: TurnEntry) -> list[tuple[str, str]]:
    """Return every text of a turn that may hold placeholders, with its field."""
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
