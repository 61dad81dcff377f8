"""Interfaces of conversation memories and of the parts of the ACC loop."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import NO_USAGE, ChatMessage, Usage
from acc.domain.value_objects.memory import (
    Candidate,
    Compression,
    ConversationTurn,
    Evidence,
    Match,
    Passage,
    Qualification,
    TurnSignal,
    TurnTrace,
)


class MemoryView(Value, frozen=True, kw_only=True):
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
class CanonicalReaderPort(Protocol):
    """A memory that reads the judge's canonical memory; only `oracle` does."""

    def read_canonical(self, canonical_memory: Mapping[str, object]) -> None:
        """Read the judge's canonical memory before the turn."""
        ...


class EvidenceStorePort(Protocol):
    """Stores evidence and recalls it by a query."""

    async def add(self, evidence: Sequence[Evidence]) -> None:
        """Store evidence; an id that is stored already keeps its first text."""
        ...

    async def recall(
        self, cue: str, *, limit: int, lexical_only: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` candidates that match the cue, best first.

        `lexical_only` restricts the result to evidence that shares terms with the cue.
        """
        ...

    async def supersede(self, old_id: str, new_id: str) -> None:
        """Record that the newer evidence replaces the older."""
        ...


@runtime_checkable
class ReportingStorePort(Protocol):
    """An evidence store that reports degraded operation."""

    def drain_notes(self) -> tuple[str, ...]:
        """Return and clear the notes about failures since the last call."""
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


class QualifierPort(Protocol):
    """Selects the recalled evidence that a state may be built from."""

    async def qualify(
        self,
        candidates: Sequence[Candidate],
        state: CompressedCognitiveState,
        signal: TurnSignal,
    ) -> Qualification:
        """Return the candidates that are relevant to the decision, and the rejected ones."""
        ...


class CompressorPort(Protocol):
    """Writes the next state."""

    async def compress(
        self,
        signal: TurnSignal,
        state: CompressedCognitiveState,
        evidence: Sequence[Evidence],
    ) -> Compression:
        """Return the state that replaces `state`."""
        ...
