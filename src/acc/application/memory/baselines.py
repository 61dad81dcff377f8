"""Memories to compare ACC with: transcript, retrieval and oracle."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acc.application.memory.messages import count_tokens, fit_messages
from acc.application.memory.passages import passage_id, passage_messages, turn_passages
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import MAX_CUE_LENGTH, ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import MemoryView, RecallIndexPort
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_WINDOW_TOKENS = 16_384
_DEFAULT_TOP_K = 5
#: The first turn that is shown has a multiple of such a number, the largest that leaves at least
#: half of what fits. So the start of the prompt stays the same for several turns, and providers can
#: cache it. It depends on the newest turns only, so it is the same after a restart.
_STEPS = (32, 16, 8, 4, 2, 1)


class _Turn(NamedTuple):
    number: int
    messages: tuple[ChatMessage, ...]
    size: int


class TranscriptMemory:
    """Replays the conversation; the oldest turns are dropped when the window is full."""

    def __init__(self, *, tokens: TokenCounterPort, window: int = DEFAULT_WINDOW_TOKENS) -> None:
        if window < 1:
            raise InvalidInput(f"window must be at least 1 token, got {window}")
        self._tokens = tokens
        self._window = window
        self._turns: deque[_Turn] = deque()
        self._size = 0
        #: Turns since the last view. They are counted by the next one.
        self._uncounted: list[ConversationTurn] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the newest turns that fit into the window beside the query."""
        self._count_new_turns()
        if not self._turns:
            return MemoryView(tokens=0)
        available = max(self._window - self._tokens.count(signal.text), 0)
        turns = self._fitting(available)
        if not turns:  # the last turn is larger than the window
            messages, size = fit_messages(self._turns[-1].messages, available, self._tokens.count)
            return MemoryView(messages=messages, tokens=size)
        messages = tuple(message for turn in turns for message in turn.messages)
        return MemoryView(messages=messages, tokens=sum(turn.size for turn in turns))

    async def record(self, turn: ConversationTurn) -> None:
        """Append the turn."""
        self._uncounted.append(turn)

    def add_older(self, turn: ConversationTurn) -> bool:
        """Add a turn before all others; return False if there is no room for more."""
        self._count_new_turns()
        entry = self._counted(turn)
        self._turns.appendleft(entry)
        self._size += entry.size
        return self._size <= self._window

    def _fitting(self, available: int) -> list[_Turn]:
        turns: list[_Turn] = []
        total = 0
        for turn in reversed(self._turns):
            if total + turn.size > available:
                break
            total += turn.size
            turns.append(turn)
        turns.reverse()
        if not turns or len(turns) == len(self._turns) and self._turns[0].number <= 1:
            return turns
        for step in _STEPS:
            aligned = [turn for turn in turns if turn.number >= -(-turns[0].number // step) * step]
            if 2 * sum(turn.size for turn in aligned) >= total:
                return aligned
        return turns

    def _count_new_turns(self) -> None:
        for turn in self._uncounted:
            entry = self._counted(turn)
            self._turns.append(entry)
            self._size += entry.size
            while len(self._turns) > 1 and self._size - self._turns[0].size > self._window:
                self._size -= self._turns.popleft().size
        self._uncounted.clear()

    def _counted(self, turn: ConversationTurn) -> _Turn:
        size = sum(count_tokens(message, self._tokens.count) for message in turn.messages)
        return _Turn(turn.turn_id, turn.messages, size)


class RetrievalMemory:
    """Stores every turn and returns the most similar messages.

    A tool result is shown with its call.
    """

    def __init__(
        self, *, index: RecallIndexPort, tokens: TokenCounterPort, top: int = _DEFAULT_TOP_K
    ) -> None:
        self._index = index
        self._tokens = tokens
        self._top = top

    async def has_turn(self, turn_id: int) -> bool:
        """Return True if the index contains a turn."""
        return bool(await self._index.get([passage_id(turn_id, 0)]))

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the best matches in conversation order."""
        matches = await self._index.search(signal.text[:MAX_CUE_LENGTH], limit=self._top)
        passages = sorted((match.passage for match in matches), key=lambda p: (p.turn_id, p.order))
        messages = tuple(m for passage in passages for m in passage_messages(passage))
        tokens = sum(count_tokens(message, self._tokens.count) for message in messages)
        return MemoryView(messages=messages, tokens=tokens)

    async def record(self, turn: ConversationTurn) -> None:
        """Store the messages of a turn."""
        await self._index.add(turn_passages(turn, self._tokens.count))


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
