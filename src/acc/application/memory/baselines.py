"""Memories to compare with: transcript, retrieval and oracle."""

from collections import deque
from collections.abc import Mapping, Sequence

from acc.application.memory.acc import _MOST_CUE
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.memory import Decision, Evidence, Source, TurnSignal
from acc.ports.outbound.memory_ports import (
    EvidenceStorePort,
    MemoryView,
)
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_WINDOW = 4096


class TranscriptMemory:
    """Replays the conversation, cut oldest-first at the model's window."""

    def __init__(self, *, tokens: TokenCounterPort, window: int = DEFAULT_WINDOW) -> None:
        if window < 1:
            raise InvalidInput(f"a window of {window} tokens holds nothing")
        self._tokens = tokens
        self._window = window
        self._entries: deque[tuple[str, int]] = deque()
        self._size = 0
        #: What was said since the last view; it is counted when somebody looks.
        self._uncounted: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return as much of the newest conversation as leaves room for the query."""
        for entry in self._uncounted:
            size = self._tokens.count(entry)
            self._entries.append((entry, size))
            self._size += size
        self._uncounted.clear()
        if not self._entries:
            return MemoryView(text="", tokens=0)
        room = self._window - self._tokens.count(signal.text)
        while self._entries and self._size > room:
            self._size -= self._entries.popleft()[1]
        return MemoryView(text="\n".join(text for text, _ in self._entries), tokens=self._size)

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        """Append the turn."""
        for speaker, text in ((signal.author, signal.text), ("assistant", decision.text)):
            if text:
                self._uncounted.append(f"{speaker}: {text}\n")


class RetrievalMemory:
    """Keeps every turn in a store of its own and brings back the most similar few."""

    def __init__(
        self, *, evidence: EvidenceStorePort, tokens: TokenCounterPort, top: int = 5
    ) -> None:
        self._evidence = evidence
        self._tokens = tokens
        self._top = top

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the best matches in the order in which they were said."""
        found = await self._evidence.recall(signal.text[:_MOST_CUE], limit=self._top)
        chosen = sorted(
            (c.artifact for c in found), key=lambda a: (a.turn_id, a.source is Source.AGENT)
        )
        entries = [f"{artifact.author}: {artifact.text}\n" for artifact in chosen]
        tokens = sum(self._tokens.count(entry) for entry in entries)
        return MemoryView(text="\n".join(entries), tokens=tokens)

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        """Store query and answer as two chunks."""
        turn = signal.turn_id
        chunks = [
            Evidence(
                id=f"{signal.place}.q",
                turn_id=turn,
                text=signal.text,
                source=signal.source,
                author=signal.author,
            ),
            Evidence(
                id=f"{signal.place}.a",
                turn_id=turn,
                text=decision.text,
                source=Source.AGENT,
                author="assistant",
            ),
        ]
        await self._evidence.add([chunk for chunk in chunks if chunk.text])


class OracleMemory:
    """Reads the judge's canonical memory: the ceiling for any memory, never a competitor."""

    def __init__(self, *, tokens: TokenCounterPort) -> None:
        self._tokens = tokens
        self._text = ""

    def read_canonical(self, canonical_memory: Mapping[str, object]) -> None:
        """Take over the facts and constraints that hold now."""
        lines = [
            *_texts(canonical_memory.get("facts")),
            *_texts(canonical_memory.get("constraints")),
        ]
        self._text = "\n".join(lines)

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return what the judge holds to be true."""
        return MemoryView(text=self._text, tokens=self._tokens.count(self._text))

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        """Keep nothing: the judge remembers."""


def _texts(entries: object) -> Sequence[str]:
    if not isinstance(entries, Mapping):
        return []
    return [str(entry["text"]) for entry in entries.values() if isinstance(entry, Mapping)]
