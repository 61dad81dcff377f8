"""Memories to compare ACC with: transcript, last messages, retrieval, BM25 and oracle."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acc.application.memory.evidence import prefer_named_speakers
from acc.application.memory.messages import count_tokens, fit_messages
from acc.application.memory.passages import passage_id, passage_messages, turn_passages
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import (
    MAX_CUE_LENGTH,
    ConversationTurn,
    Passage,
    TurnSignal,
)
from acc.ports.outbound.memory_ports import MemoryView, RecallIndexPort
from acc.ports.outbound.model_ports import TokenCounterPort

DEFAULT_WINDOW_TOKENS = 16_384
#: A window that no conversation fills.
UNLIMITED_TOKENS = 1_000_000_000
_DEFAULT_TOP_K = 5
#: Matches from which a memory with a token budget selects.
_BUDGETED_MATCHES = 200
#: The first turn that is shown has a multiple of such a number, the largest that leaves at least
#: half of what fits. So the start of the prompt stays the same for several turns, and providers can
#: cache it. It depends on the newest turns only, so it is the same after a restart.
_STEPS = (32, 16, 8, 4, 2, 1)


class _Turn(NamedTuple):
    number: int
    messages: tuple[ChatMessage, ...]
    size: int


@explains_call()
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


class LastMessagesMemory:
    """Replays as many of the newest messages as fit into a token budget.

    Calls of tools and their results are shown together or not at all.
    """

    def __init__(self, *, tokens: TokenCounterPort, budget: int) -> None:
        self._tokens = tokens
        self._budget = budget
        #: Messages that are shown together, with their size.
        self._units: deque[tuple[tuple[ChatMessage, ...], int]] = deque()

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the newest messages; the newest of all are shortened if they do not fit."""
        shown: list[tuple[ChatMessage, ...]] = []
        total = 0
        for unit, size in reversed(self._units):
            if total + size > self._budget:
                break
            shown.append(unit)
            total += size
        if self._units and not shown:
            unit, _ = self._units[-1]
            messages, total = fit_messages(unit, self._budget, self._tokens.count)
            return MemoryView(messages=messages, tokens=total)
        messages = tuple(message for unit in reversed(shown) for message in unit)
        return MemoryView(messages=messages, tokens=total)

    async def record(self, turn: ConversationTurn) -> None:
        """Append the messages of a turn and forget those that can never be shown again."""
        units: list[list[ChatMessage]] = []
        for message in turn.messages:
            if message.role == "tool" and units:
                units[-1].append(message)
            else:
                units.append([message])
        for unit in units:
            size = sum(count_tokens(message, self._tokens.count) for message in unit)
            self._units.append((tuple(unit), size))
        total = 0
        for shown, (_, size) in enumerate(reversed(self._units)):
            total += size
            if total > self._budget:
                while len(self._units) > max(shown, 1):
                    self._units.popleft()
                return


@explains_call()
class RetrievalMemory:
    """Stores every turn and returns the most similar messages.

    A tool result is shown with its call. With `budget` the best messages that fit are shown, else
    the `top` best. `words_only` ranks by BM25 over words, each message for itself.
    """

    def __init__(
        self,
        *,
        index: RecallIndexPort,
        tokens: TokenCounterPort,
        top: int = _DEFAULT_TOP_K,
        budget: int | None = None,
        words_only: bool = False,
    ) -> None:
        self._index = index
        self._tokens = tokens
        self._top = top
        self._budget = budget
        self._words_only = words_only
        #: The message of the last turn, if the outcome of one of its calls is unknown.
        self._interrupted: Passage | None = None

    async def has_turn(self, turn_id: int) -> bool:
        """Return True if the index contains a turn."""
        return bool(await self._index.get([passage_id(turn_id, 0)]))

    async def view(self, signal: TurnSignal) -> MemoryView:
        """Return the best matches in conversation order."""
        limit = self._top if self._budget is None else _BUDGETED_MATCHES
        query = signal.text[:MAX_CUE_LENGTH]
        found = await self._index.search(query, limit=limit)
        if self._words_only:
            by_words = [match for match in found if match.words > 0]
            matches = sorted(by_words, key=lambda match: match.words, reverse=True)
        else:
            matches = prefer_named_speakers(found, query)
        chosen: list[tuple[Passage, tuple[ChatMessage, ...]]] = []
        total = 0
        for match in matches:
            messages = passage_messages(match.passage)
            size = sum(count_tokens(message, self._tokens.count) for message in messages)
            if self._budget is None or total + size <= self._budget:
                chosen.append((match.passage, messages))
                total += size
        if (last := self._interrupted) is not None and all(p.id != last.id for p, _ in chosen):
            # The model must know of the call, whatever the user asks next.
            messages = passage_messages(last)
            chosen.append((last, messages))
            total += sum(count_tokens(message, self._tokens.count) for message in messages)
        chosen.sort(key=lambda item: (item[0].turn_id, item[0].order))
        return MemoryView(
            messages=tuple(message for _, messages in chosen for message in messages),
            tokens=total,
            detail={"recalled": [passage.id for passage, _ in chosen]},
        )

    async def record(self, turn: ConversationTurn) -> None:
        """Store the messages of a turn."""
        passages = turn_passages(turn, self._tokens.count)
        self._interrupted = next((p for p in passages if p.unknown_calls), None)
        await self._index.add(passages)


@explains_call()
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
