"""Input, evidence and trace of one turn of the ACC loop."""

from enum import StrEnum
from typing import NamedTuple

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.base import ExplainedMeta, Value
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import (
    NO_USAGE,
    ChatMessage,
    Part,
    Usage,
    text_part,
    user_message,
)
from acc.domain.value_objects.reading import Act, Reading

#: Maximum length of a recall query and of a stored answer, in characters.
MAX_CUE_LENGTH = 2_000


class Source(StrEnum):
    """Producer of a piece of evidence."""

    USER = "user"
    AGENT = "agent"
    TOOL = "tool"


class TurnSignal(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """Input of one step of a turn; `author` is the name of the speaker.

    Step 0 of a turn is the user's message; further steps are the results of tools.
    """

    turn_id: int
    text: str
    author: str = "user"
    source: Source = Source.USER
    step: int = 0

    def __post_init__(self) -> None:
        _check_turn_id(self.turn_id)
        _check_text("TurnSignal.text", self.text)

    @property
    def step_id(self) -> str:
        """Return an id of this step that is unique in the conversation."""
        return f"t{self.turn_id}.s{self.step}" if self.step else f"t{self.turn_id}"


class ConversationTurn(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """A finished turn: the user's message, tool calls with their results, and the answer.

    If the turn failed, its last message says so. `at` is the time of the user's message.
    """

    turn_id: int
    messages: tuple[ChatMessage, ...]
    at: float = 0.0

    def __post_init__(self) -> None:
        _check_turn_id(self.turn_id)

    @staticmethod
    def of(turn_id: int, query: str, answer: str) -> "ConversationTurn":
        """Return a turn of a question and its answer."""
        _check_text("query", query)
        _check_text("answer", answer)
        messages = [user_message(query)] if query else []
        if answer:
            reply = ChatMessage(role="assistant", author="assistant", parts=text_part(answer))
            messages.append(reply)
        return ConversationTurn(turn_id=turn_id, messages=tuple(messages))


def _check_turn_id(turn_id: object) -> None:
    if not isinstance(turn_id, int) or isinstance(turn_id, bool):
        raise InvalidInput(f"turn_id must be an integer such as 1, got {turn_id!r}")


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInput(f"{name} must be a str, got {type(text).__name__}")


class ReadSentence(Value, frozen=True, kw_only=True, array_like=True):
    """The place of a sentence in the normalised text of its message, and `Reading.words` of it."""

    start: int
    end: int
    words: tuple[int, ...] = ()


#: Authors without a name of their own.
_UNNAMED = frozenset({"user", "assistant"})


class Passage(Value, frozen=True, kw_only=True):
    """A whole message of one speaker, as memories recall it.

    `id` is unique within a memory. `at` is the Unix time of the message, 0 if unknown, and `order`
    its place in the conversation. `tokens` is the size of the messages that show it in full, 0 if
    unknown. `parts` are those of a message that is not only text, and the call and result of a
    tool, as they were. `unknown_calls` are the names of tools that were started in the same turn
    and whose outcome is unknown, because the process ended. `sentences` are those of a user's
    message as a reader read them, empty if unknown.
    """

    id: str
    turn_id: int
    text: str
    author: str = "user"
    source: Source = Source.USER
    at: float = 0.0
    order: int = 0
    tokens: int = 0
    parts: tuple[Part, ...] = ()
    unknown_calls: tuple[str, ...] = ()
    sentences: tuple[ReadSentence, ...] = ()

    @property
    def searched_text(self) -> str:
        """Return the text for an index: questions often name the speaker of a message."""
        return self.text if self.author in _UNNAMED else f"{self.author}: {self.text}"

    @property
    def has_named_speaker(self) -> bool:
        """Return True if a person or an agent with a name of its own said the message."""
        return self.author not in _UNNAMED and self.source is not Source.TOOL


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


class Note(Value, frozen=True, kw_only=True, array_like=True):
    """A reference to a sentence of a user, and what the reader made of it.

    `id` names the passage and the place of the sentence in it, see `sentence_id`. `score` says
    how much the sentence matters later, and `words` is `Reading.words`. `tokens` is the size of the
    sentence as an item of the state, 0 if unknown. `replaced` is the id of the sentence that it
    corrects.
    """

    id: str
    turn_id: int
    act: Act
    score: float
    words: tuple[int, ...] = ()
    tokens: int = 0
    replaced: str = ""


def sentence_id(passage_id: str, start: int, end: int) -> str:
    """Return the id of a sentence: the passage and a range of its normalised text."""
    return f"{passage_id}#{start}-{end}"


class SentencePlace(NamedTuple):
    """What the id of a sentence names."""

    passage_id: str
    start: int
    end: int


def parse_sentence_id(text: str) -> SentencePlace:
    """Return the parts of the id of a sentence."""
    passage_id, _, place = text.rpartition("#")
    start, _, end = place.partition("-")
    return SentencePlace(passage_id, int(start), int(end))


def passage_of_sentence(text: str) -> str:
    """Return the id of the passage that contains a sentence, by the id of the sentence."""
    return text.rpartition("#")[0]


class RejectionReason(StrEnum):
    """Why the memory does not show a recalled passage."""

    SUPERSEDED = "superseded"
    DUPLICATE = "duplicate"
    OVER_BUDGET = "over_budget"


class Rejection(Value, frozen=True, kw_only=True):
    """A recalled passage that is not shown, with a human-readable explanation."""

    passage: Passage
    reason: RejectionReason
    explanation: str


class TurnTrace(Value, frozen=True, kw_only=True):
    """Trace of one pass of the ACC loop.

    `readings` are the sentences of the turn as the reader read them. `fallback` is the reason why
    the embedded reader decided in place of a model, or empty.
    """

    turn_id: int
    readings: tuple[Reading, ...]
    recalled: tuple[Match, ...]
    qualified: tuple[Passage, ...]
    rejected: tuple[Rejection, ...]
    committed: CompressedCognitiveState
    dropped: tuple[str, ...]
    notes: tuple[str, ...]
    tokens: int
    usage: Usage = NO_USAGE
    fallback: str = ""
