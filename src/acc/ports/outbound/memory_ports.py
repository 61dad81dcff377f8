"""Interfaces of conversation memories and of the parts of the ACC loop."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from acc.domain.value_objects.base import ExplainedMeta, Value
from acc.domain.value_objects.content import NO_USAGE, ChatMessage, Usage
from acc.domain.value_objects.memory import (
    ConversationTurn,
    Match,
    Passage,
    TurnSignal,
    TurnTrace,
)
from acc.domain.value_objects.reading import EarlierSentence, Reading


class MemoryView(Value, frozen=True, kw_only=True, metaclass=ExplainedMeta):
    """The memory that an agent carries into a turn, with its size in tokens.

    `text` states rules and facts, from the words of users only. `messages` are earlier messages,
    selected and shortened, oldest first.
    """

    text: str = ""
    tokens: int
    messages: tuple[ChatMessage, ...] = ()
    trace: TurnTrace | None = None
    #: The trace as JSON data, for events and records.
    detail: Mapping[str, object] = {}
    #: Usage of the memory's own model, in addition to the agent's.
    usage: Usage = NO_USAGE


@runtime_checkable
class MemoryPort(Protocol):
    """Memory of one conversation: read before each answer, updated after it."""

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the memory to answer `signal` with."""
        ...

    async def record(self, turn: ConversationTurn) -> None:
        """Record a finished turn."""
        ...


@runtime_checkable
class RestorableMemoryPort(Protocol):
    """A memory whose state can be saved and restored."""

    def snapshot(self) -> Mapping[str, object]:
        """Return the state as JSON data; its size does not grow with the conversation."""
        ...

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Restore a state that `snapshot` returned."""
        ...


@runtime_checkable
class IndexedMemoryPort(Protocol):
    """A memory whose turns are in an index that outlives it."""

    async def has_turn(self, turn_id: int) -> bool:
        """Return True if the index contains a turn."""
        ...


@runtime_checkable
class WindowMemoryPort(Protocol):
    """A memory of the newest turns, which is restored from the newest to the oldest."""

    def add_older(self, turn: ConversationTurn) -> bool:
        """Add a turn before all others; return False if there is no room for more."""
        ...


@runtime_checkable
class CanonicalReaderPort(Protocol):
    """A memory that reads the judge's canonical memory; only `oracle` does."""

    def read_canonical(self, canonical_memory: Mapping[str, object]) -> None:
        """Read the judge's canonical memory before the turn."""
        ...


@runtime_checkable
class ReportingIndexPort(Protocol):
    """An index that reports degraded operation."""

    def drain_warnings(self) -> tuple[str, ...]:
        """Return and clear the warnings about failures since the last call."""
        ...


class RecallIndexPort(Protocol):
    """The passages of one memory of one session, found by a query.

    The cost of a call is bounded: it does not depend on other sessions, and hardly on the number of
    passages.
    """

    async def add(self, passages: Sequence[Passage]) -> None:
        """Store passages in the order of the conversation; a known id keeps its first text."""
        ...

    async def search(self, query: str, *, limit: int) -> tuple[Match, ...]:
        """Return at most `limit` matches, best first, then newest first.

        A match shares terms with the query, or is near a passage that does. A retired passage is
        not returned, except in `replaces` of the passage that replaced it.
        """
        ...

    async def get(self, ids: Sequence[str]) -> tuple[Passage, ...]:
        """Return the passages with these ids in the order of the conversation, retired or not."""
        ...

    async def neighbours(
        self, passage_id: str, *, before: int = 0, after: int = 0
    ) -> tuple[Passage, ...]:
        """Return a passage with so many passages before and after it, retired ones left out.

        The passage itself is returned even if it is retired. Nothing for an unknown id.
        """
        ...

    async def retire(self, ids: Sequence[str], *, replaced_by: str = "") -> None:
        """Hide passages from search; matches of them count for the passage that replaces them.

        A replacement may be retired later, then its own replacement takes its place. InvalidInput
        for an unknown id, or for a passage that would replace itself; nothing changes then.
        """
        ...


class ReaderPort(Protocol):
    """Reads what the sentences of a user do in a conversation."""

    async def read(
        self,
        sentences: Sequence[str],
        earlier: Sequence[EarlierSentence],
        *,
        dialogue: Sequence[str] = (),
    ) -> tuple[Reading, ...]:
        """Return one reading per sentence, in order.

        `earlier` are sentences that a new one may change, lift or correct. `dialogue` are the
        last messages before the sentences.
        """
        ...


@runtime_checkable
class MeteredReaderPort(Protocol):
    """A reader that asks a language model."""

    def drain_usage(self) -> tuple[Usage, str]:
        """Return and clear the usage since the last call, and why the model did not decide."""
        ...
