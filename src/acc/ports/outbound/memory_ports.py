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
