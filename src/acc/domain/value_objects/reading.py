"""What the sentences of a user do in a conversation."""

from collections.abc import Mapping
from enum import StrEnum

from acc.domain.value_objects.base import Value


class Act(StrEnum):
    """What a sentence does."""

    #: Sets a standing rule or a lasting preference.
    SET = "set"
    #: Replaces or modifies an earlier standing rule.
    CHANGE = "change"
    #: Withdraws an earlier standing rule.
    LIFT = "lift"
    #: Corrects an earlier fact.
    CORRECT = "correct"
    #: Constrains the present answer or task only.
    ONCE = "once"
    #: States a fact.
    STATE = "state"
    #: Everything else: questions, requests for now, small talk.
    OTHER = "other"


#: Acts that refer to an earlier sentence.
REFERRING_ACTS = frozenset({Act.CHANGE, Act.LIFT, Act.CORRECT})
#: Acts that create, modify or withdraw a standing rule.
RULE_ACTS = frozenset({Act.SET, Act.CHANGE, Act.LIFT})


class EarlierSentence(Value, frozen=True, kw_only=True):
    """An earlier sentence of the user that a new one may refer to.

    `act`, `confidence` and `words` are what a reader said about it when it was new.
    """

    id: str
    text: str
    act: Act = Act.OTHER
    turn_id: int = 0
    confidence: float = 0.0
    words: tuple[int, ...] = ()


class Reading(Value, frozen=True, kw_only=True):
    """What one sentence does, with the probability of each act.

    `start` and `end` delimit the sentence in the text it was taken from. `target` is the id of the
    earlier sentence that it changes, lifts or corrects, and `target_score` the probability that it
    refers to that one; both are empty if it refers to none. `note` says why a reader did not
    decide itself, or is empty. `words` are the probabilities of the acts from the words of the
    sentence alone, in the order of `Act` and in units of 0.00001. A memory passes them back with
    the sentence, so that it is not read again.
    """

    text: str
    act: Act
    confidence: float
    scores: Mapping[Act, float]
    start: int = 0
    end: int = 0
    target: str = ""
    target_score: float = 0.0
    note: str = ""
    words: tuple[int, ...] = ()
