"""Input, evidence and trace of one turn of the ACC loop."""

from enum import StrEnum

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import (
    NO_USAGE,
    ChatMessage,
    Usage,
    text_part,
    user_message,
)

#: Maximum length of a recall query and of a stored answer, in characters.
MAX_CUE_LENGTH = 2_000


class Source(StrEnum):
    """Producer of a piece of evidence."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"


class TurnSignal(Value, frozen=True, kw_only=True):
    """Input of one step of a turn; `author` is the name of the speaker.

    Step 0 of a turn is the user's message; further steps are the results of tools.
    """

    turn_id: int
    text: str
    author: str = "user"
    source: Source = Source.USER
    step: int = 0

    @property
    def step_id(self) -> str:
        """Return an id of this step that is unique in the conversation."""
        return f"t{self.turn_id}.s{self.step}" if self.step else f"t{self.turn_id}"


class ConversationTurn(Value, frozen=True, kw_only=True):
    """A finished turn: the user's message, tool calls with their results, and the answer.

    If the turn failed, its last message says so. `at` is the time of the user's message.
    """

    turn_id: int
    messages: tuple[ChatMessage, ...]
    at: float = 0.0

    @staticmethod
    def of(turn_id: int, query: str, answer: str) -> "ConversationTurn":
        """Return a turn of a question and its answer."""
        messages = [user_message(query)] if query else []
        if answer:
            reply = ChatMessage(role="assistant", author="assistant", parts=text_part(answer))
            messages.append(reply)
        return ConversationTurn(turn_id=turn_id, messages=tuple(messages))


class Evidence(Value, frozen=True, kw_only=True):
    """A stored statement with its provenance.

    `quoted` is True if its author quoted or pasted the text.
    """

    id: str
    turn_id: int
    text: str
    source: Source = Source.USER
    quoted: bool = False
    author: str = "user"

    @property
    def trusted(self) -> bool:
        """Return True if the text is a user's own words."""
        return self.source is Source.USER and not self.quoted

    @property
    def provenance(self) -> str:
        """Return the origin and the turn of the evidence."""
        origin = "quoted" if self.quoted else self.source.value
        return f"{origin} turn {self.turn_id}"


class Passage(Value, frozen=True, kw_only=True):
    """A whole message of one speaker, as memories recall it.

    `id` is unique within a memory. `at` is the Unix time of the message, 0 if unknown, and `order`
    its place in the conversation.
    """

    id: str
    turn_id: int
    text: str
    author: str = "user"
    source: Source = Source.USER
    at: float = 0.0
    order: int = 0


class Match(Value, frozen=True, kw_only=True):
    """A recalled passage with its score, which is the sum of the parts that follow it.

    `replaces` contains retired passages that match too and that this one replaces, oldest first.
    If one of them matches better than the passage, the score is that of the retired one.
    """

    passage: Passage
    score: float
    words: float = 0.0
    grams: float = 0.0
    neighbour: float = 0.0
    window: float = 0.0
    replaces: tuple[Passage, ...] = ()


class Candidate(Value, frozen=True, kw_only=True):
    """Recalled evidence with its score and the evidence that superseded it, if any.

    `semantic_match` is True if it stands out by embedding similarity, even without shared terms.
    """

    evidence: Evidence
    score: float
    superseded_by: Evidence | None = None
    semantic_match: bool = False


class RejectionReason(StrEnum):
    """Why the qualifier rejected a candidate."""

    OFF_DECISION = "off_decision"
    SUPERSEDED = "superseded"
    DUPLICATE = "duplicate"
    UNTRUSTED = "untrusted"


class Rejection(Value, frozen=True, kw_only=True):
    """Rejected evidence with a human-readable explanation."""

    evidence: Evidence
    reason: RejectionReason
    explanation: str


class Qualification(Value, frozen=True, kw_only=True):
    """Evidence that the qualifier accepted and rejected."""

    qualified: tuple[Evidence, ...] = ()
    rejected: tuple[Rejection, ...] = ()


class Compression(Value, frozen=True, kw_only=True):
    """A proposed next state, the items that it leaves out, and diagnostic notes.

    `usage` is the usage of the compressor's model. `fallback` is the reason why the rule-based
    compressor wrote the state instead of the model, or empty.
    """

    state: CompressedCognitiveState
    dropped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    fallback: str = ""


class TurnTrace(Value, frozen=True, kw_only=True):
    """Trace of one pass of the ACC loop."""

    turn_id: int
    recalled: tuple[Candidate, ...]
    qualified: tuple[Evidence, ...]
    rejected: tuple[Rejection, ...]
    committed: CompressedCognitiveState
    dropped: tuple[str, ...]
    notes: tuple[str, ...]
    tokens: int
    usage: Usage = NO_USAGE
    fallback: str = ""
