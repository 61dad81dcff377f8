"""Memories to compare ACC with: transcript, retrieval and oracle."""

from collections import deque
from collections.abc import Mapping, Sequence

from acc.domain.errors import InvalidInput
from acc.domain.value_objects.memory import (
    MAX_CUE_LENGTH,
    Decision,
    Evidence,
    Source,
    TurnSignal,
)
from acc.ports.outbound.memory_ports import EvidenceStorePort, MemoryView
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_WINDOW_TOKENS = 4_096
_DEFAULT_TOP_K = 5


class TranscriptMemory:
    """Replays the conversation, truncated oldest-first to the window."""

    def __init__(self, *, tokens: TokenCounterPort, window: int = DEFAULT_WINDOW_TOKENS) -> None:
        if window < 1:
            raise InvalidInput(f"window must be at least 1 token, got {window}")
        self._tokens = tokens
        self._window = window
        self._entries: deque[tuple[str, int]] = deque()
        self._size = 0
        #: Entries since the last view. They are counted by the next one.
        self._uncounted: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the newest entries that fit into the window beside the query."""
        for entry in self._uncounted:
            size = self._tokens.count(entry)
            self._entries.append((entry, size))
            self._size += size
        self._uncounted.clear()
        if not self._entries:
            return MemoryView(text="", tokens=0)
        available = self._window - self._tokens.count(signal.text)
        while self._entries and self._size > available:
            self._size -= self._entries.popleft()[1]
        return MemoryView(text="\n".join(text for text, _ in self._entries), tokens=self._size)

    async def record(self, signal: TurnSignal, decision: Decision) -> None:
        """Append the turn."""
        for author, text in ((signal.author, signal.text), ("assistant", decision.text)):
            if text:
                self._uncounted.append(f"{author}: {text}\n")


class RetrievalMemory:
    """Stores every turn and returns the most similar chunks."""

    def __init__(
        self, *, evidence: EvidenceStorePort, tokens: TokenCounterPort, top: int = _DEFAULT_TOP_K
    ) -> None:
        self._evidence = evidence
        self._tokens = tokens
        self._top = top

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the best matches in conversation order."""
        candidates = await self._evidence.recall(signal.text[:MAX_CUE_LENGTH], limit=self._top)
        matches = sorted(
            (candidate.evidence for candidate in candidates),
            key=lambda item: (item.turn_id, item.source is Source.AGENT),
        )
        entries = [f"{match.author}: {match.text}\n" for match in matches]
        tokens = sum(self._tokens.count(entry) for entry in entries)
        return MemoryView(text="\n".join(entries), tokens=tokens)

    async def record(self, signal: TurnSignal, decision: Decision) -> None:
        """Store query and answer as two chunks."""
        turn = signal.turn_id
        chunks = [
            Evidence(
                id=f"{signal.step_id}.q",
                turn_id=turn,
                text=signal.text,
                source=signal.source,
                author=signal.author,
            ),
            Evidence(
                id=f"{signal.step_id}.a",
                turn_id=turn,
                text=decision.text,
                source=Source.AGENT,
                author="assistant",
            ),
        ]
        await self._evidence.add([chunk for chunk in chunks if chunk.text])


class OracleMemory:
    """Reads the judge's canonical memory; the upper bound for other memories."""

    def __init__(self, *, tokens: TokenCounterPort) -> None:
        self._tokens = tokens
        self._text = ""

    def read_canonical(self, canonical_memory: Mapping[str, object]) -> None:
        """Replace the content by the current facts and constraints of the judge."""
        lines = [
            *_texts(canonical_memory.get("facts")),
            *_texts(canonical_memory.get("constraints")),
        ]
        self._text = "\n".join(lines)

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the current facts and constraints of the judge."""
        return MemoryView(text=self._text, tokens=self._tokens.count(self._text))

    async def record(self, signal: TurnSignal, decision: Decision) -> None:
        """Do nothing: the judge maintains the canonical memory."""


def _texts(entries: object) -> Sequence[str]:
    if not isinstance(entries, Mapping):
        return []
    return [str(entry["text"]) for entry in entries.values() if isinstance(entry, Mapping)]
