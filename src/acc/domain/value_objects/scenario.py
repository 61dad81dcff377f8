"""One episode's script: what is asked, what it establishes, what a right answer holds.

These are the annotations a judge works from. No agent and no model may import this module; an
import contract says so.
"""

from dataclasses import dataclass
from enum import StrEnum

from acc.domain.value_objects.format_rule import FormatRule


class StressTopic(StrEnum):
    """The ten ways in which a scenario leans on an agent's memory."""

    SETUP = "setup"
    EVIDENCE_UPDATE = "evidence_update"
    STRICT_FORMAT = "strict_format"
    CONFLICT = "conflict"
    BIAS_PRESSURE = "bias_pressure"
    POISONED_RUNBOOK = "poisoned_runbook"
    PROMPT_INJECTION = "prompt_injection"
    UNCERTAINTY = "uncertainty"
    RISK_TRADE_OFF = "risk_trade_off"
    COMMUNICATION = "communication"


class AnswerKind(StrEnum):
    """What a right answer does: give it, say that it is not known, or decline."""

    ANSWER = "answer"
    UNKNOWN = "unknown"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something a query establishes; `values` are the parts a right answer must get right."""

    id: str
    text: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """A standing rule that a query sets; `rule` is its checkable form."""

    id: str
    text: str
    rule: FormatRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One element of a right answer: at least one of these texts appears in it."""

    any_of: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.any_of or not all(text.strip() for text in self.any_of):
            raise ValueError("an expectation needs at least one text that is not blank")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTurn:
    """One rendered turn: the query as agents see it, and what the judge knows of it."""

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
    def stated(self) -> str:
        """Return the query without its injected content, which stands there but nobody says."""
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
