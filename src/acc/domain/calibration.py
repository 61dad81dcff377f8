"""Labelled examples that a judge is held against."""

from dataclasses import dataclass
from enum import StrEnum


class Label(StrEnum):
    """What people say of a claim, or of an answer under a rule."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    UNSUPPORTED = "unsupported"
    KEPT = "kept"
    VIOLATED = "violated"
    OMITTED = "omitted"


CLAIM_LABELS = (Label.SUPPORTED, Label.CONTRADICTED, Label.UNSUPPORTED)
RULE_LABELS = (Label.KEPT, Label.VIOLATED, Label.OMITTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationItem:
    """A claim, or an answer under a rule, with its label.

    `answer` is what a judge gets to read; it may say more than the claim. `evidence` are the words
    of the context that decide a claim.
    """

    id: str
    kind: str
    label: Label
    text: str
    answer: str
    evidence: str = ""

    @property
    def is_claim(self) -> bool:
        """Tell whether a claim is labelled, and not an answer under a rule."""
        return self.label in CLAIM_LABELS

    def __post_init__(self) -> None:
        if not self.text.strip() or not self.answer.strip():
            raise ValueError(f"{self.id}: the text is empty")
        if not self.kind.strip():
            raise ValueError(f"{self.id}: the kind is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCase:
    """What users said, turn by turn, what is asked then, and labelled answers to that."""

    id: str
    language: str
    domain: str
    context: tuple[str, ...]
    question: str
    items: tuple[CalibrationItem, ...]

    def __post_init__(self) -> None:
        if not self.context or not all(text.strip() for text in self.context):
            raise ValueError(f"{self.id}: the context is empty")
        if not self.question.strip():
            raise ValueError(f"{self.id}: the question is empty")
        if not self.items:
            raise ValueError(f"{self.id}: there is nothing to judge")
        for item in self.items:
            if item.is_claim and item.label is not Label.UNSUPPORTED and not item.evidence:
                raise ValueError(f"{item.id}: a claim that is {item.label} needs its evidence")
            if item.evidence and not any(item.evidence in text for text in self.context):
                raise ValueError(f"{item.id}: the evidence does not stand in the context")
