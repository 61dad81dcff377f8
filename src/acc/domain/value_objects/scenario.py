"""The script of one episode: queries, and annotations for the judge.

No agent and no model may import this module; an import contract checks this.
"""

from dataclasses import dataclass
from enum import StrEnum

from acc.domain.value_objects.format_rule import FormatRule
from acc.domain.value_objects.stress_topic import StressTopic


class AnswerKind(StrEnum):
    """The kind of a correct answer."""

    ANSWER = "answer"
    UNKNOWN = "unknown"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact that a query establishes; a correct answer contains its `values`."""

    id: str
    text: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A rule that a query sets; `rule` can be checked."""

    id: str
    text: str
    rule: FormatRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An element of a correct answer: at least one of the texts."""

    any_of: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.any_of or not all(text.strip() for text in self.any_of):
            raise ValueError("any_of must contain at least one text, and no blank one")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTurn:
    """One rendered turn: the query for the agents and annotations for the judge."""

    turn_id: int
    topic: StressTopic
    query: str
    injected: str = ""
    facts: tuple[Fact, ...] = ()
    updates: tuple[Fact, ...] = ()
    retracts: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    amends: tuple[Constraint, ...] = ()
    lifts: tuple[str, ...] = ()
    expects: tuple[Expectation, ...] = ()
    avoids: tuple[str, ...] = ()
    answer: AnswerKind = AnswerKind.ANSWER
    once: tuple[FormatRule, ...] = ()

    @property
    def is_annotated(self) -> bool:
        """Return True if the turn has annotations about facts, rules or the correct answer."""
        return bool(
            self.facts
            or self.updates
            or self.constraints
            or self.amends
            or self.once
            or self.expects
        )

    @property
    def stated(self) -> str:
        """Return the query without its injected content, which the user does not state."""
        return self.query.replace(self.injected, "\n") if self.injected else self.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One episode, rendered for one seed."""

    id: str
    title: str
    domain: str
    language: str
    seed: int
    turns: tuple[ScenarioTurn, ...]

    @property
    def is_annotated(self) -> bool:
        """Return True if a turn is annotated, False for a plain recorded conversation."""
        return any(turn.is_annotated for turn in self.turns)
