"""Scenario files: TOML in, a checked template out, one rendered episode per seed."""

import random
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

import msgspec

from acc.adapters.evaluation.scenario_schema import (
    PLACEHOLDER,
    ConstraintEntry,
    FactEntry,
    RuleEntry,
    ScenarioEntry,
    TurnEntry,
    structure_faults,
)
from acc.domain.errors import InvalidInput, InvalidScenario
from acc.domain.language import contains_text
from acc.domain.value_objects.format_rule import FormatRule
from acc.domain.value_objects.scenario import (
    AnswerKind,
    Constraint,
    Expectation,
    Fact,
    Scenario,
    ScenarioTurn,
    StressTopic,
)


class UnknownFact(InvalidInput):
    """Report an expectation of a fact that nothing has established."""

    code = "unknown_fact"


class ScenarioTemplate:
    """A scenario file whose structure is sound, ready to be rendered for any seed."""

    def __init__(
        self, source: str, text: str, entry: ScenarioEntry, turns: tuple[TurnEntry, ...]
    ) -> None:
        self.source = source
        self.text = text
        self.entry = entry
        self.turns = turns

    @property
    def id(self) -> str:
        """Return the scenario's identifier."""
        return self.entry.id

    def render(self, seed: int, *, phrasing: int | None = None) -> Scenario:
        """Return the episode of `seed`; `phrasing` forces one way of putting every query."""
        # A string seeds the generator through SHA-512, so neighbours such as 1 and 2 differ widely.
        draw = random.Random(f"{self.entry.id}:{seed}")  # noqa: S311 - variety, not secrecy
        values = self._draw_values(draw)
        turns: list[ScenarioTurn] = []
        known: dict[str, Fact] = {}
        for entry in self.turns:
            try:
                turns.append(self._render_turn(entry, values, draw, phrasing, known))
            except UnknownFact as error:
                fault = f"turn {entry.turn}: expect: no fact {str(error)!r} is established by then"
                raise InvalidScenario(self.source, [fault]) from error
        return Scenario(
            id=self.entry.id,
            title=self.entry.title,
            domain=self.entry.domain,
            language=self.entry.language,
            seed=seed,
            turns=tuple(turns),
        )

    def _draw_values(self, draw: random.Random) -> dict[str, str]:
        pools = {name: draw.sample(pool, len(pool)) for name, pool in self.entry.pools.items()}
        values: dict[str, str] = {}
        for name, variable in self.entry.variables.items():
            if variable.pool:
                values[name] = pools[variable.pool].pop()
            else:
                steps = (variable.max - variable.min) // variable.step
                values[name] = str(variable.min + variable.step * draw.randint(0, steps))
        return values

    def _render_turn(
        self,
        entry: TurnEntry,
        values: Mapping[str, str],
        draw: random.Random,
        phrasing: int | None,
        known: dict[str, Fact],
    ) -> ScenarioTurn:
        phrasings, injections = entry.phrasings(), entry.injections()
        query = phrasings[draw.randrange(len(phrasings))]
        if phrasing is not None:
            query = phrasings[phrasing % len(phrasings)]
        injected = fill(draw.choice(injections), values).strip() if injections else ""
        gap = "" if self.entry.language == "ja" else " "
        distractors = gap.join(draw.sample(entry.distractors, len(entry.distractors)))
        parts = {**values, "injected": injected, "distractors": fill(distractors, values)}
        facts = tuple(render_fact(fact, values) for fact in entry.facts)
        updates = tuple(render_fact(fact, values) for fact in entry.updates)
        for fact in facts + updates:
            known[fact.id] = fact
        return ScenarioTurn(
            turn_id=entry.turn,
            topic=entry.topic,
            query=fill(query, parts).strip(),
            injected=injected,
            facts=facts,
            updates=updates,
            retracts=tuple(entry.retracts),
            constraints=tuple(render_constraint(c, values) for c in entry.constraints),
            amends=tuple(render_constraint(c, values) for c in entry.amends),
            lifts=tuple(entry.lifts),
            expects=tuple(
                expectation
                for item in entry.expect
                for expectation in render_expectations(item, values, known)
            ),
            avoids=tuple(fill(text, values) for text in entry.avoid),
            answer=entry.answer,
            once=tuple(render_rule(rule, values) for rule in entry.once),
        )


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and `{name:,}` by the number with separators."""

    def one(match: re.Match[str]) -> str:
        value = values[match[1]]
        return f"{int(value):,}" if match[2] else value

    return PLACEHOLDER.sub(one, text)


def render_rule(entry: RuleEntry, values: Mapping[str, str]) -> FormatRule:
    """Return the rule with its placeholders filled."""
    number = int(fill(entry.number, values)) if isinstance(entry.number, str) else entry.number
    return FormatRule(
        kind=entry.kind, number=number, words=tuple(fill(word, values) for word in entry.words)
    )


def render_fact(entry: FactEntry, values: Mapping[str, str]) -> Fact:
    """Return the fact with its placeholders filled."""
    return Fact(
        id=entry.id,
        text=fill(entry.text, values),
        values=tuple(fill(value, values) for value in entry.values),
    )


def render_constraint(entry: ConstraintEntry, values: Mapping[str, str]) -> Constraint:
    """Return the constraint with its placeholders filled."""
    return Constraint(
        id=entry.id, text=fill(entry.text, values), rule=render_rule(entry.rule, values)
    )


def render_expectations(
    item: str | list[str], values: Mapping[str, str], known: Mapping[str, Fact]
) -> list[Expectation]:
    """Return what an `expect` item asks for; `@id` stands for each value of that fact now."""
    if isinstance(item, list):
        return [Expectation(any_of=tuple(fill(text, values) for text in item))]
    if item.startswith("@"):
        fact = known.get(item[1:])
        if fact is None:
            raise UnknownFact(item[1:])
        return [Expectation(any_of=(value,)) for value in fact.values]
    return [Expectation(any_of=(fill(item, values),))]


def parse(text: str, source: str) -> ScenarioTemplate:
    """Return the template in `text`, or raise InvalidScenario naming file, turn and field."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidScenario(source, [f"not TOML: {error}"]) from error
    try:
        entry = msgspec.convert(raw, ScenarioEntry)
    except msgspec.ValidationError as error:
        raise InvalidScenario(source, [readable(error)]) from error
    faults: list[str] = []
    turns: list[TurnEntry] = []
    for position, raw_turn in enumerate(entry.turns, start=1):
        try:
            turns.append(msgspec.convert(raw_turn, TurnEntry))
        except msgspec.ValidationError as error:
            faults.append(f"turn {raw_turn.get('turn', f'at place {position}')}: {readable(error)}")
    faults += structure_faults(entry, turns)
    if faults:
        raise InvalidScenario(source, faults)
    return ScenarioTemplate(source, text, entry, tuple(turns))


def readable(error: msgspec.ValidationError) -> str:
    """Return msgspec's message with the field first and no `$.` notation."""
    message = str(error)
    if " - at `" in message:
        message, _, path = message.partition(" - at `")
        field = path.rstrip("`").removeprefix("$").removeprefix(".")
        if field:
            return f"{field}: {message}"
    return message


def read(path: Path) -> ScenarioTemplate:
    """Return the template in a file."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidScenario(str(path), [f"cannot be read: {error}"]) from error
    return parse(text, str(path))


def shipped_ids() -> tuple[str, ...]:
    """Return the identifiers of the scenarios we ship, sorted."""
    folder = resources.files("acc.scenarios")
    return tuple(
        sorted(
            item.name.removesuffix(".toml")
            for item in folder.iterdir()
            if item.name.endswith(".toml")
        )
    )


def load(reference: str) -> ScenarioTemplate:
    """Return a shipped scenario by its id, or the one in the file at that path."""
    if reference in shipped_ids():
        item = resources.files("acc.scenarios") / f"{reference}.toml"
        return parse(item.read_text(encoding="utf-8"), f"{reference}.toml")
    if reference.endswith(".toml") or Path(reference).exists():
        return read(Path(reference))
    known = ", ".join(shipped_ids())
    raise InvalidInput(f"no scenario {reference!r}: give a path to a .toml file, or one of {known}")


def starter(name: str) -> str:
    """Return the text of a small scenario to start from."""
    text = (resources.files("acc.scenarios") / "starter.txt").read_text(encoding="utf-8")
    text = text.replace("NAME", name)
    parse(text, f"{name}.toml")
    return text


_PROBES = 3
_INJECTION_TOPICS = frozenset({StressTopic.POISONED_RUNBOOK, StressTopic.PROMPT_INJECTION})


def check(template: ScenarioTemplate) -> tuple[str, ...]:
    """Return the faults found by rendering the scenario in every phrasing, with their turns."""
    phrasings = max(len(turn.phrasings()) for turn in template.turns)
    faults: dict[str, None] = {}
    for seed in range(_PROBES):
        for phrasing in range(phrasings):
            try:
                scenario = template.render(seed, phrasing=phrasing)
            except InvalidScenario as error:
                return error.faults
            ledger = _Ledger()
            for turn in scenario.turns:
                faults.update(dict.fromkeys(ledger.check(turn)))
    return tuple(faults)


class _Ledger:
    """Follows facts and constraints through an episode, as the judge will."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.constraints: dict[str, Constraint] = {}

    def check(self, turn: ScenarioTurn) -> list[str]:
        """Return the turn's faults and take over what it establishes."""
        where = f"turn {turn.turn_id}: "
        stated = turn.stated
        faults = self._fact_faults(turn, stated) + self._constraint_faults(turn, stated)
        faults += self._answer_faults(turn, stated)
        if turn.topic in _INJECTION_TOPICS and not turn.injected:
            faults.append(f"injected: a {turn.topic} turn needs it")
        return [where + fault for fault in faults]

    def _fact_faults(self, turn: ScenarioTurn, stated: str) -> list[str]:
        faults = [
            f"facts: {f.id!r} exists already; use updates" for f in turn.facts if f.id in self.facts
        ]
        faults += [f"updates: no fact {f.id!r} yet" for f in turn.updates if f.id not in self.facts]
        faults += [f"retracts: no fact {key!r}" for key in turn.retracts if key not in self.facts]
        for fact in turn.facts + turn.updates:
            for value in fact.values:
                if not contains_text(fact.text, value):
                    faults.append(f"facts: {fact.id!r} has value {value!r} that its text lacks")
                if not contains_text(stated, value):
                    faults.append(f"facts: {fact.id!r} has value {value!r} that the query lacks")
            self.facts[fact.id] = fact
        for key in turn.retracts:
            self.facts.pop(key, None)
        return faults

    def _constraint_faults(self, turn: ScenarioTurn, stated: str) -> list[str]:
        held = self.constraints
        faults = [
            f"constraints: {c.id!r} exists already; use amends"
            for c in turn.constraints
            if c.id in held
        ]
        faults += [
            f"amends: no constraint {c.id!r} in force" for c in turn.amends if c.id not in held
        ]
        faults += [
            f"lifts: no constraint {key!r} in force" for key in turn.lifts if key not in held
        ]
        for constraint in turn.constraints + turn.amends:
            for word in constraint.rule.words:
                if not contains_text(stated, word):
                    faults.append(
                        f"constraints: {constraint.id!r} needs {word!r} that the query lacks"
                    )
            held[constraint.id] = constraint
        for key in turn.lifts:
            held.pop(key, None)
        return faults

    def _answer_faults(self, turn: ScenarioTurn, stated: str) -> list[str]:
        faults: list[str] = []
        if turn.answer is AnswerKind.ANSWER and not turn.expects:
            faults.append("expect: an answer needs at least one element")
        known = [stated, *(fact.text for fact in self.facts.values())]
        known += [constraint.text for constraint in self.constraints.values()]
        for expectation in turn.expects:
            if not any(contains_text(text, word) for word in expectation.any_of for text in known):
                faults.append(f"expect: nothing said so far holds {list(expectation.any_of)}")
            for avoided in turn.avoids:
                if any(contains_text(word, avoided) for word in expectation.any_of):
                    faults.append(f"avoid: {avoided!r} is part of what is expected")
        return faults
