"""Scenario files: load, validate, and render one episode per seed."""

import hashlib
import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path

import msgspec

from acc.adapters.evaluation.recorded_scenarios import REPLAY_REFERENCE, ReplayLibrary
from acc.adapters.evaluation.scenario_schema import (
    PLACEHOLDER,
    ConstraintEntry,
    FactEntry,
    RuleEntry,
    ScenarioEntry,
    TurnEntry,
    structure_errors,
)
from acc.adapters.system.decode_errors import field_error_of
from acc.domain.errors import InvalidInput, InvalidScenario
from acc.domain.language import contains_text
from acc.domain.value_objects.evaluation_run import ScenarioChoice
from acc.domain.value_objects.format_rule import FormatRule, RuleKind
from acc.domain.value_objects.scenario import (
    AnswerKind,
    Constraint,
    Expectation,
    Fact,
    Scenario,
    ScenarioTurn,
)
from acc.domain.value_objects.stress_topic import INJECTION_TOPICS, StressTopic

#: The allowed values of fields, by name.
_CHOICES: Mapping[str, Sequence[str]] = {
    "language": ("en", "ja"),
    "topic": tuple(StressTopic),
    "answer": tuple(AnswerKind),
    "kind": tuple(RuleKind),
}


class UnknownFact(InvalidInput):
    """An expectation refers to a fact that no turn has established."""

    code = "unknown_fact"


class ScenarioLibrary:
    """Validated scenarios by id or path, loaded once."""

    def __init__(self) -> None:
        self._templates: dict[str, ScenarioTemplate] = {}
        self.replays = ReplayLibrary()

    def template(self, reference: str) -> "ScenarioTemplate":
        """Return a validated scenario, or raise InvalidScenario."""
        if reference not in self._templates:
            template = load_template(reference)
            errors = scenario_errors(template)
            if errors:
                raise InvalidScenario(template.source, errors)
            self._templates[reference] = template
        return self._templates[reference]

    def shipped(self) -> tuple["ScenarioTemplate", ...]:
        """Return the shipped scenarios, sorted by id; their contents are not validated."""
        return tuple(map(load_template, shipped_ids()))

    def starter_text(self, name: str) -> str:
        """Return the text of a small example scenario."""
        text = (resources.files("acc.scenarios") / "starter.txt").read_text(encoding="utf-8")
        text = text.replace("NAME", name)
        parse_scenario(text, f"{name}.toml")
        return text

    def render(self, reference: str, seed: int) -> Scenario:
        """Return the episode of a scenario for a seed; a replay is the same for every seed."""
        if reference.startswith(REPLAY_REFERENCE):
            return replace(self.replays.scenario(reference), seed=seed)
        return self.template(reference).render(seed)

    def turn_count(self, reference: str) -> int:
        """Return the number of turns of a scenario; its content is not validated."""
        if reference.startswith(REPLAY_REFERENCE):
            return len(self.replays.scenario(reference).turns)
        return len(load_template(reference).turns)

    def choice(self, reference: str) -> ScenarioChoice:
        """Return the description of a scenario for a configuration."""
        if reference.startswith(REPLAY_REFERENCE):
            return self.replays.choice(reference)
        template = self.template(reference)
        return ScenarioChoice(
            reference=reference,
            id=template.id,
            domain=template.entry.domain,
            language=template.entry.language,
            digest=hashlib.sha256(template.text.encode()).hexdigest(),
        )


class ScenarioTemplate:
    """A scenario file with a valid structure, which can be rendered for any seed."""

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
        """Return the episode of `seed`; `phrasing` selects one phrasing of every query."""
        order = self.draw_order(seed, phrasing=phrasing)
        scenario = self.render_ordered(order, seed, phrasing=phrasing)
        if scenario is None:
            raise InvalidScenario(self.source, self._unknown_facts())
        return scenario

    def render_ordered(
        self, entries: Sequence[TurnEntry], seed: int, *, phrasing: int | None = None
    ) -> Scenario | None:
        """Return an episode with a given order, or None if a fact is asked before it is stated."""
        draw = self._random(seed)
        values = self._draw_values(draw)
        small_talk = self._draw_small_talk(seed)
        known: dict[str, Fact] = {}
        rendered: dict[int, ScenarioTurn] = {}
        try:
            # All orders of a seed have the same values and phrasings.
            choices = {entry.turn: self._choose(entry, draw, phrasing) for entry in self.turns}
            for place, entry in enumerate(entries, start=1):
                turn = self._render_turn(entry, values, choices[entry.turn], known)
                opening = small_talk.get(entry.turn, "")
                rendered[place] = replace(turn, turn_id=place, query=opening + turn.query)
        except UnknownFact:
            return None
        return Scenario(
            id=self.entry.id,
            title=self.entry.title,
            domain=self.entry.domain,
            language=self.entry.language,
            seed=seed,
            turns=tuple(rendered.values()),
        )

    def draw_order(self, seed: int, *, phrasing: int | None = None) -> list[TurnEntry]:
        """Return the turns in the order of a seed, or in file order if that is not admissible.

        Turns of a group exchange their places, but none comes before a turn that it depends on.
        """
        if not self.entry.shuffle:
            return list(self.turns)
        draw = self._random(seed, "order")
        for _ in range(_DRAWN_ORDERS):
            order = self._swap_turns(draw)
            scenario = self.render_ordered(order, seed, phrasing=phrasing)
            if scenario is not None and not episode_errors(scenario):
                return order
        return list(self.turns)

    def _swap_turns(self, draw: random.Random) -> list[TurnEntry]:
        order = list(self.turns)
        for group in self.entry.shuffle:
            places = sorted(number - 1 for number in group)
            # A random number of swaps: an even number of them would not change a pair.
            for _ in range(_SWAPS_PER_TURN * len(places) + draw.randrange(2)):
                one, other = draw.sample(places, 2)
                order[one], order[other] = order[other], order[one]
                if not self._states_before_use(order):
                    order[one], order[other] = order[other], order[one]
        return order

    def _states_before_use(self, order: Sequence[TurnEntry]) -> bool:
        seen: set[int] = set()
        for entry in order:
            if not self._dependencies[entry.turn] <= seen:
                return False
            seen.add(entry.turn)
        return True

    @cached_property
    def _dependencies(self) -> dict[int, set[int]]:
        """Return for each turn the earlier ones that state what it uses."""
        stated: dict[str, list[int]] = {}
        texts: list[tuple[int, str]] = []
        needed: dict[int, set[int]] = {}
        for turn in self.turns:
            own = " ".join(turn.phrasings())
            used = [*turn.retracts, *turn.lifts, *(item.id for item in turn.updates)]
            used += [item.id for item in turn.amends]
            literal: list[str] = []
            for item in turn.expect:
                if isinstance(item, str) and item.startswith("@"):
                    used.append(item[1:])
                elif not any(text in own for text in _alternatives(item)):
                    literal += _alternatives(item)
            needed[turn.turn] = {number for key in used for number in stated.get(key, ())}
            needed[turn.turn] |= {n for n, known in texts if any(one in known for one in literal)}
            for fact in (*turn.facts, *turn.updates):
                stated.setdefault(fact.id, []).append(turn.turn)
                texts.append((turn.turn, fact.text))
            for constraint in (*turn.constraints, *turn.amends):
                stated.setdefault(constraint.id, []).append(turn.turn)
                texts.append((turn.turn, constraint.text))
            needed[turn.turn].discard(turn.turn)
        return needed

    def variation(self) -> float:
        """Return the share of turns whose query differs from that of another seed."""
        episodes = [self.render(seed).turns for seed in range(_COMPARED_SEEDS)]
        pairs = [
            (one.query, other.query)
            for first, second in pairwise(episodes)
            for one, other in zip(first, second, strict=True)
        ]
        return sum(one != other for one, other in pairs) / len(pairs)

    def _random(self, seed: int, purpose: str = "") -> random.Random:
        # A string seed is hashed, so that neighbouring seeds give unrelated values.
        suffix = f":{purpose}" if purpose else ""
        return random.Random(f"{self.entry.id}:{seed}{suffix}")  # noqa: S311 - variety, not secrecy

    def _draw_small_talk(self, seed: int) -> dict[int, str]:
        """Return what is said before some queries, by turn number."""
        if not self.entry.small_talk:
            return {}
        draw = self._random(seed, "small talk")
        gap = "" if self.entry.language == "ja" else " "
        return {
            entry.turn: draw.choice(self.entry.small_talk).strip() + gap
            for entry in self.turns
            if draw.random() < _SMALL_TALK_SHARE
        }

    def _unknown_facts(self) -> list[str]:
        known: set[str] = set()
        errors: list[str] = []
        for entry in self.turns:
            known |= {fact.id for fact in (*entry.facts, *entry.updates)}
            errors += [
                f"turn {entry.turn}: expect: no earlier turn establishes {item[1:]!r}"
                for item in entry.expect
                if isinstance(item, str) and item.startswith("@") and item[1:] not in known
            ]
        return errors[:1]

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

    def _choose(
        self, entry: TurnEntry, draw: random.Random, phrasing: int | None
    ) -> tuple[str, str, str]:
        """Return a phrasing, injected content and distractors of a turn."""
        phrasings, injections = entry.phrasings(), entry.injections()
        query = phrasings[draw.randrange(len(phrasings))]
        if phrasing is not None:
            query = phrasings[phrasing % len(phrasings)]
        injected = draw.choice(injections) if injections else ""
        gap = "" if self.entry.language == "ja" else " "
        return query, injected, gap.join(draw.sample(entry.distractors, len(entry.distractors)))

    def _render_turn(
        self,
        entry: TurnEntry,
        values: Mapping[str, str],
        choice: tuple[str, str, str],
        known: dict[str, Fact],
    ) -> ScenarioTurn:
        query, injected, distractors = choice
        injected = fill(injected, values).strip()
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


def _alternatives(item: str | list[str]) -> list[str]:
    return [item] if isinstance(item, str) else item


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace `{name}` by its value, and `{name:,}` by the number with separators."""

    def value_of(match: re.Match[str]) -> str:
        value = values[match[1]]
        return f"{int(value):,}" if match[2] else value

    return PLACEHOLDER.sub(value_of, text)


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
    """Return the expectations of an `expect` item; `@id` means each value of that fact."""
    if isinstance(item, list):
        return [Expectation(any_of=tuple(fill(text, values) for text in item))]
    if item.startswith("@"):
        fact = known.get(item[1:])
        if fact is None:
            raise UnknownFact(item[1:])
        return [Expectation(any_of=(value,)) for value in fact.values]
    return [Expectation(any_of=(fill(item, values),))]


def parse_scenario(text: str, source: str) -> ScenarioTemplate:
    """Return the template in `text`, or raise InvalidScenario with file, turn and field."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidScenario(source, [f"not TOML: {error}"]) from error
    try:
        entry = msgspec.convert(raw, ScenarioEntry)
    except msgspec.ValidationError as error:
        raise InvalidScenario(source, [_format_error(error, ScenarioEntry)]) from error
    errors: list[str] = []
    turns: list[TurnEntry] = []
    for position, raw_turn in enumerate(entry.turns, start=1):
        try:
            turns.append(msgspec.convert(raw_turn, TurnEntry))
        except msgspec.ValidationError as error:
            number = raw_turn.get("turn", f"at position {position}")
            errors.append(f"turn {number}: {_format_error(error, TurnEntry)}")
    errors += structure_errors(entry, turns)
    if errors:
        raise InvalidScenario(source, errors)
    return ScenarioTemplate(source, text, entry, tuple(turns))


def _format_error(error: msgspec.ValidationError, of: object) -> str:
    field, text = field_error_of(error, of)
    choices = _CHOICES.get(field.rpartition(".")[2])
    if choices and "allowed values" in text:
        text = f"{text}: {', '.join(choices)}"
    return f"{field}: {text}" if field else text


def _read_scenario(path: Path) -> ScenarioTemplate:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidScenario(str(path), [f"cannot be read: {reason}"]) from error
    return parse_scenario(text, str(path))


def shipped_ids() -> tuple[str, ...]:
    """Return the ids of the shipped scenarios, sorted."""
    folder = resources.files("acc.scenarios")
    return tuple(
        sorted(
            item.name.removesuffix(".toml")
            for item in folder.iterdir()
            if item.name.endswith(".toml")
        )
    )


def load_template(reference: str) -> ScenarioTemplate:
    """Return a scenario by its id or path; its contents are not validated."""
    if reference in shipped_ids():
        item = resources.files("acc.scenarios") / f"{reference}.toml"
        return parse_scenario(item.read_text(encoding="utf-8"), f"{reference}.toml")
    if reference.endswith(".toml") or Path(reference).exists():
        return _read_scenario(Path(reference))
    known = shipped_ids()
    similar = get_close_matches(reference.casefold(), known, 1)
    file = f"{reference}.toml"
    suggestion = file if Path(file).exists() else next(iter(similar), "")
    meant = f"Did you mean {suggestion!r}? " if suggestion else ""
    raise InvalidInput(
        f"unknown scenario {reference!r}. {meant}Expected the path of a .toml file, or one of "
        f"{', '.join(known)}"
    )


_CHECKED_SEEDS = 3
#: How often two turns of a group are drawn to change places, for each turn of the group.
_SWAPS_PER_TURN = 4
_DRAWN_ORDERS = 8
_COMPARED_SEEDS = 6
#: Share of the queries that small talk precedes.
_SMALL_TALK_SHARE = 0.3


def scenario_errors(template: ScenarioTemplate) -> tuple[str, ...]:
    """Return the errors of all phrasings for several seeds, with their turns."""
    phrasings = max(len(turn.phrasings()) for turn in template.turns)
    errors: dict[str, None] = {}
    for seed in range(_CHECKED_SEEDS):
        for phrasing in range(phrasings):
            # The order of the file first: its turn numbers are those of the author.
            scenario = template.render_ordered(template.turns, seed, phrasing=phrasing)
            if scenario is None:
                try:
                    template.render(seed, phrasing=phrasing)
                except InvalidScenario as error:
                    return error.faults
            else:
                errors.update(dict.fromkeys(episode_errors(scenario)))
    if not errors:
        moved = {
            entry.turn
            for seed in range(_CHECKED_SEEDS)
            for place, entry in enumerate(template.draw_order(seed), start=1)
            if entry.turn != place
        }
        for group in template.entry.shuffle:
            if not moved & set(group):
                errors[f"shuffle: no two turns of {group} can change places"] = None
    return tuple(errors)


def episode_errors(scenario: Scenario) -> list[str]:
    """Return the errors of an episode: facts and rules must be stated before they are used."""
    check = _EpisodeCheck()
    return [error for turn in scenario.turns for error in check.turn_errors(turn)]


class _EpisodeCheck:
    """Follows facts and constraints through an episode, as the judge does."""

    def __init__(self) -> None:
        self.facts: dict[str, Fact] = {}
        self.constraints: dict[str, Constraint] = {}

    def turn_errors(self, turn: ScenarioTurn) -> list[str]:
        """Return the errors of a turn, and apply its facts and constraints."""
        stated = turn.stated
        errors = self._fact_errors(turn, stated) + self._constraint_errors(turn, stated)
        errors += self._answer_errors(turn, stated)
        if turn.topic in INJECTION_TOPICS and not turn.injected:
            errors.append(f"injected: required in a {turn.topic} turn")
        return [f"turn {turn.turn_id}: {error}" for error in errors]

    def _fact_errors(self, turn: ScenarioTurn, stated: str) -> list[str]:
        errors = [
            f"facts: {f.id!r} already exists; use updates" for f in turn.facts if f.id in self.facts
        ]
        errors += [f"updates: no fact {f.id!r} yet" for f in turn.updates if f.id not in self.facts]
        errors += [f"retracts: no fact {key!r}" for key in turn.retracts if key not in self.facts]
        for fact in turn.facts + turn.updates:
            for value in fact.values:
                if not contains_text(fact.text, value):
                    errors.append(f"facts: {fact.id!r} value {value!r} is missing in its text")
                if not contains_text(stated, value):
                    errors.append(f"facts: {fact.id!r} value {value!r} is missing in the query")
            self.facts[fact.id] = fact
        for key in turn.retracts:
            self.facts.pop(key, None)
        return errors

    def _constraint_errors(self, turn: ScenarioTurn, stated: str) -> list[str]:
        active = self.constraints
        errors = [
            f"constraints: {c.id!r} already exists; use amends"
            for c in turn.constraints
            if c.id in active
        ]
        errors += [
            f"amends: no constraint {c.id!r} in force" for c in turn.amends if c.id not in active
        ]
        errors += [
            f"lifts: no constraint {key!r} in force" for key in turn.lifts if key not in active
        ]
        for constraint in turn.constraints + turn.amends:
            for word in constraint.rule.words:
                if not contains_text(stated, word):
                    errors.append(
                        f"constraints: {constraint.id!r} word {word!r} is missing in the query"
                    )
            active[constraint.id] = constraint
        for key in turn.lifts:
            active.pop(key, None)
        return errors

    def _answer_errors(self, turn: ScenarioTurn, stated: str) -> list[str]:
        errors: list[str] = []
        if turn.answer is AnswerKind.ANSWER and not turn.expects:
            errors.append("expect: at least one element is required for an answer")
        known = [stated, *(fact.text for fact in self.facts.values())]
        known += [constraint.text for constraint in self.constraints.values()]
        for expectation in turn.expects:
            if not any(contains_text(text, word) for word in expectation.any_of for text in known):
                errors.append(
                    f"expect: no fact or constraint so far contains {list(expectation.any_of)}"
                )
            for avoided in turn.avoids:
                if any(contains_text(word, avoided) for word in expectation.any_of):
                    errors.append(f"avoid: {avoided!r} is part of an expected text")
        return errors
