"""Recorded conversations with questions about them, for measurements of memories."""

from typing import Literal

from acc.domain.value_objects.base import Value


class RecordedMessage(Value, frozen=True, kw_only=True):
    """A message; `at` is its Unix time, 0 if unknown."""

    id: str
    text: str
    speaker: str = "user"
    role: Literal["user", "assistant"] = "user"
    at: float = 0.0


class RecordedQuestion(Value, frozen=True, kw_only=True):
    """A question about a conversation; `evidence` has the ids of the messages that answer it."""

    id: str
    text: str
    kind: str = "all"
    answer: str = ""
    evidence: tuple[str, ...] = ()


class RecordedConversation(Value, frozen=True, kw_only=True):
    """A conversation, oldest message first, and the questions that follow it."""

    id: str
    messages: tuple[RecordedMessage, ...]
    questions: tuple[RecordedQuestion, ...]
