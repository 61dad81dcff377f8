"""The one memory seam, and the parts of the ACC loop behind it."""

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from acc.domain.value_objects.base import Value
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.content import NO_USAGE, Usage
from acc.domain.value_objects.memory import (
    Candidate,
    Compression,
    Decision,
    Evidence,
    Qualification,
    TurnSignal,
    TurnTrace,
)


class MemoryView(Value, frozen=True, kw_only=True):
    """What an agent carries into a turn, and what that costs."""

    text: str
    tokens: int
    trace: TurnTrace | None = None
    #: The trace as plain data, for events and records.
    detail: Mapping[str, object] = {}
    #: What the memory's own model cost, beside what the agent's costs.
    spent: Usage = NO_USAGE


@runtime_checkable
class MemoryPort(Protocol):
    """A conversation's memory: shown before each answer, told after it."""

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return what the agent is to remember while it faces `signal`."""
        ...

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        """Take note of a turn that is over."""
        ...


@runtime_checkable
class RestorableMemoryPort(Protocol):
    """A memory whose state can be written down and taken up again."""

    def snapshot(self) -> Mapping[str, object]:
        """Return the state as plain data; its size does not grow with the conversation."""
        ...

    def restore(self, snapshot: Mapping[str, object]) -> None:
        """Take up a state that `snapshot` returned."""
        ...


@runtime_checkable
class CanonicalReaderPort(Protocol):
    """A memory that is allowed to read the judge's canonical memory; only `oracle` is."""

    def read_canonical(self, canonical_memory: Mapping[str, object]) -> None:
        """Take over the judge's memory before the turn."""
        ...


class EvidenceStorePort(Protocol):
    """Keeps artifacts and finds them again."""

    async def add(self, artifacts: Sequence[Evidence]) -> None:
        """Keep artifacts; an id that is known already is left as it is."""
        ...

    async def recall(
        self, cue: str, *, limit: int, by_words: bool = False
    ) -> tuple[Candidate, ...]:
        """Return at most `limit` artifacts that match the cue, best first.

        `by_words` asks for those that share words with it, whatever else the store goes by.
        """
        ...

    async def supersede(self, old_id: str, new_id: str) -> None:
        """Record that the newer artifact replaces the older."""
        ...


@runtime_checkable
class NotingStorePort(Protocol):
    """A store that can say what it could not do."""

    def take_notes(self) -> tuple[str, ...]:
        """Return what could not be done since this was last asked."""
        ...


class QualifierPort(Protocol):
    """The gate between recall and commitment."""

    async def qualify(
        self,
        candidates: Sequence[Candidate],
        state: CompressedCognitiveState,
        signal: TurnSignal,
    ) -> Qualification:
        """Return which candidates the decision needs, and why the others are kept out."""
        ...


class CompressorPort(Protocol):
    """Writes the next state."""

    async def compress(
        self,
        signal: TurnSignal,
        state: CompressedCognitiveState,
        evidence: Sequence[Evidence],
    ) -> Compression:
        """Return the state that is to replace `state`."""
        ...
