"""A rule about the form of an answer, in a shape that a machine can check."""

from dataclasses import dataclass
from enum import StrEnum


class RuleKind(StrEnum):
    """What a rule limits or asks for."""

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


NUMBERED = frozenset(
    {
        RuleKind.MAX_WORDS,
        RuleKind.MAX_CHARACTERS,
        RuleKind.MAX_SENTENCES,
        RuleKind.MAX_BULLETS,
        RuleKind.EXACT_BULLETS,
    }
)
WORDED = frozenset(
    {
        RuleKind.ENDS_WITH,
        RuleKind.STARTS_WITH,
        RuleKind.HEADINGS,
        RuleKind.FORBID,
        RuleKind.REQUIRE,
    }
)
#: Kinds of which only one can hold at a time: a newer one replaces the older.
SINGULAR = frozenset(
    NUMBERED | {RuleKind.ENDS_WITH, RuleKind.STARTS_WITH, RuleKind.HEADINGS, RuleKind.JSON}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Say what an answer must look like.

    `number` is the limit of a numbered kind. `words` are the texts a worded kind is about, the
    keys of a JSON object, or what a refusal protects. A policy is known by its text alone.
    """

    kind: RuleKind
    number: int = 0
    words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.kind in NUMBERED and self.number < 1:
            raise ValueError(f"{self.kind} needs a number of at least 1, not {self.number}")
        if self.kind in WORDED and not any(word.strip() for word in self.words):
            raise ValueError(f"{self.kind} needs at least one word that is not blank")
