"""Machine-checkable rules about the form of an answer."""

from dataclasses import dataclass
from enum import StrEnum


class RuleKind(StrEnum):
    """What a rule limits or requires."""

    MAX_WORDS = "max_words"
    MAX_CHARACTERS = "max_characters"
    MAX_SENTENCES = "max_sentences"
    MAX_BULLETS = "max_bullets"
    EXACT_BULLETS = "exact_bullets"
    ENDS_WITH = "ends_with"
    STARTS_WITH = "starts_with"
    HEADINGS = "headings"
    JSON = "json"
    FORBID = "forbid"
    REQUIRE = "require"
    REFUSE = "refuse"
    POLICY = "policy"


NUMERIC_KINDS = frozenset(
    {
        RuleKind.MAX_WORDS,
        RuleKind.MAX_CHARACTERS,
        RuleKind.MAX_SENTENCES,
        RuleKind.MAX_BULLETS,
        RuleKind.EXACT_BULLETS,
    }
)
TEXT_KINDS = frozenset(
    {
        RuleKind.ENDS_WITH,
        RuleKind.STARTS_WITH,
        RuleKind.HEADINGS,
        RuleKind.FORBID,
        RuleKind.REQUIRE,
    }
)
#: Kinds of which one rule applies at a time: a newer rule replaces the older.
EXCLUSIVE_KINDS = frozenset(
    NUMERIC_KINDS | {RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.JSON}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatRule:
    """A rule about the form of an answer.

    `number` is the limit of a numeric kind. `words` holds the texts of a text kind, the required
    keys of a JSON object, or the topics that must not be disclosed. A policy has neither.
    """

    kind: RuleKind
    number: int = 0
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind in NUMERIC_KINDS and self.number < 1:
            raise ValueError(f"number of a {self.kind} rule must be >= 1, got {self.number}")
        if self.kind in TEXT_KINDS and not any(word.strip() for word in self.words):
            raise ValueError(f"words of a {self.kind} rule must contain a text that is not blank")
