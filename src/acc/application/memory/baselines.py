"""Memories to compare ACC with: transcript, retrieval and oracle."""

from collections.abc import Mapping, Sequence

from acc.application.memory.messages import count_tokens, fit_messages, part_text
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import (
    MAX_CUE_LENGTH,
    ConversationTurn,
    Evidence,
    Source,
    TurnSignal,
)
from acc.ports.outbound.memory_ports import EvidenceStorePort, MemoryView
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_WINDOW_TOKENS = 16_384
_DEFAULT_TOP_K = 5
#: How much of a full window remains after old turns are dropped. Dropping several turns at once
#: keeps the start of the prompt the same for many turns, so that providers can cache it.
_REMAINING_SHARE = 0.5
_SOURCES = {"user": Source.USER, "assistant": Source.AGENT, "tool": Source.TOOL}


class TranscriptMemory:
    """Replays the conversation; the oldest turns are dropped when the window is full."""

    def __init__(self, *, tokens: TokenCounterPort, window: int = DEFAULT_WINDOW_TOKENS) -> None:
        if window < 1:
            raise InvalidInput(f"window must be at least 1 token, got {window}")
        self._tokens = tokens
        self._window = window
        #: Messages and size of each turn.
        self._turns: tuple[tuple[tuple[ChatMessage, ...], int], ...] = ()
        #: Turns since the last view. They are counted by the next one.
        self._uncounted: list[ConversationTurn] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the newest turns that fit into the window beside the query."""
        # What is dropped depends on recorded turns only, so it is the same after a restart.
        for turn in self._uncounted:
            self._add(turn)
        self._uncounted.clear()
        turns = self._fit(signal.text)
        messages = tuple(message for turn, _ in turns for message in turn)
        return MemoryView(messages=messages, tokens=sum(size for _, size in turns))

    def _add(self, turn: ConversationTurn) -> None:
        count = self._tokens.count
        size = sum(count_tokens(message, count) for message in turn.messages)
        query = turn.messages[0].text if turn.messages else ""
        self._turns = (*self._fit(query), (turn.messages, size))

    def _fit(self, query: str) -> tuple[tuple[tuple[ChatMessage, ...], int], ...]:
        """Return the newest turns that fit beside a query."""
        turns = self._turns
        total = sum(size for _, size in turns)
        if not turns or total + (used := self._tokens.count(query)) <= self._window:
            return turns
        available = max(self._window - used, 0)
        first = 0
        while first < len(turns) - 1 and total > available * _REMAINING_SHARE:
            total -= turns[first][1]
            first += 1
        if total > available:  # one turn is larger than the window
            return (fit_messages(turns[-1][0], available, self._tokens.count),)
        return turns[first:]

    async def record(self, turn: ConversationTurn) -> None:
        """Append the turn."""
        self._uncounted.append(turn)


class RetrievalMemory:
    """Stores every turn and returns the most similar messages.

    A tool result is a unit with its call.
    """

    def __init__(
        self, *, evidence: EvidenceStorePort, tokens: TokenCounterPort, top: int = _DEFAULT_TOP_K
    ) -> None:
        self._evidence = evidence
        self._tokens = tokens
        self._top = top
        self._messages: dict[str, tuple[ChatMessage, ...]] = {}

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the best matches in conversation order."""
        candidates = await self._evidence.recall(signal.text[:MAX_CUE_LENGTH], limit=self._top)
        ids = {candidate.evidence.id for candidate in candidates}
        matches = tuple(m for key, unit in self._messages.items() if key in ids for m in unit)
        tokens = sum(count_tokens(message, self._tokens.count) for message in matches)
        return MemoryView(messages=matches, tokens=tokens)

    async def record(self, turn: ConversationTurn) -> None:
        """Store the messages of a turn."""
        chunks: list[Evidence] = []
        for number, unit in enumerate(_units(turn.messages)):
            text = "\n".join(part_text(part) for message in unit for part in message.parts)
            if not text.strip():
                continue
            chunk = Evidence(
                id=f"t{turn.turn_id}.{number}",
                turn_id=turn.turn_id,
                text=text,
                source=_SOURCES[unit[-1].role],
                author=unit[-1].author,
            )
            if chunk.id not in self._messages:
                self._messages[chunk.id] = unit
                chunks.append(chunk)
        await self._evidence.add(chunks)


def _units(messages: Sequence[ChatMessage]) -> list[tuple[ChatMessage, ...]]:
    """Return messages that belong together: calls with their results, other messages alone."""
    units: list[tuple[ChatMessage, ...]] = []
    for message in messages:
        if message.role == "tool" and units:
            units[-1] = (*units[-1], message)
        else:
            units.append((message,))
    return units


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

    async def record(self, turn: ConversationTurn) -> None:
        """Do nothing: the judge maintains the canonical memory."""


def _texts(entries: object) -> Sequence[str]:
    if not isinstance(entries, Mapping):
        return []
    return [str(entry["text"]) for entry in entries.values() if isinstance(entry, Mapping)]
