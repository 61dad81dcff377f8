"""What enters a turn, what is kept of it, and what the ACC loop did with it."""

from enum import StrEnum

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import NO_USAGE, Usage


class Source(StrEnum):
    """Who produced an artifact."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"


class TurnSignal(Value, frozen=True, kw_only=True):
    """What the agent is faced with. `author` is who speaks, by name.

    A turn begins with step 0, what the user said; the results of tools are its further steps.
    """

    turn_id: int
    text: str
    author: str = "user"
    source: Source = Source.USER
    step: int = 0

    @property
    def place(self) -> str:
        """Return a name for this step that no other step of the conversation has."""
        return f"t{self.turn_id}.s{self.step}" if self.step else f"t{self.turn_id}"


class Decision(Value, frozen=True, kw_only=True):
    """What the agent answered or did in a turn."""

    turn_id: int
    text: str


class Evidence(Value, frozen=True, kw_only=True):
    """A piece of evidence with its provenance. `quoted` text was shown, not said."""

    id: str
    turn_id: int
    text: str
    source: Source = Source.USER
    quoted: bool = False
    author: str = "user"

    @property
    def trusted(self) -> bool:
        """Tell whether these are a user's own words."""
        return self.source is Source.USER and not self.quoted

    @property
    def provenance(self) -> str:
        """Return who said or showed it, and when."""
        how = "quoted" if self.quoted else self.source.value
        return f"{how} turn {self.turn_id}"


class Candidate(Value, frozen=True, kw_only=True):
    """A recalled artifact, how well it matched, and what has replaced it since, if anything.

    `close` says that it stands out by meaning, whatever words it shares with the cue.
    """

    artifact: Evidence
    score: float
    superseded_by: Evidence | None = None
    close: bool = False


class RefusalReason(StrEnum):
    """Why the gate keeps a recalled artifact out."""

    OFF_DECISION = "off_decision"
    SUPERSEDED = "superseded"
    DUPLICATE = "duplicate"
    UNTRUSTED = "untrusted"


class Refusal(Value, frozen=True, kw_only=True):
    """An artifact that was kept out, with a reason that a person can read."""

    artifact: Evidence
    reason: RefusalReason
    explanation: str


class Qualification(Value, frozen=True, kw_only=True):
    """What the gate let through and what it kept out."""

    qualified: tuple[Evidence, ...] = ()
    refused: tuple[Refusal, ...] = ()


class Compression(Value, frozen=True, kw_only=True):
    """A proposed next state, what the proposal left out, and notes on what was not done.

    `spent` is what a compressor's model cost, and `fallback` says why it was not taken at its word
    and the rules wrote the state instead.
    """

    state: CompressedCognitiveState
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent: Usage = NO_USAGE
    fallback: str = ""


class TurnTrace(Value, frozen=True, kw_only=True):
    """One pass of the loop, to be looked at afterwards."""

    turn_id: int
    recalled: tuple[Candidate, ...]
    qualified: tuple[Evidence, ...]
    refused: tuple[Refusal, ...]
    committed: CompressedCognitiveState
    dropped: tuple[str, ...]
    notes: tuple[str, ...]
    tokens: int
    spent: Usage = NO_USAGE
    fallback: str = ""
