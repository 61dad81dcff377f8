"""Evidence of a view: the recalled passages that fit, as messages in the order of conversation."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from acc.application.memory.messages import MESSAGE_TOKENS, CountTokens, count_tokens
from acc.application.memory.passages import (
    day,
    has_file_parts,
    heading,
    heading_message,
    passage_messages,
    without_files,
)
from acc.domain.value_objects.content import ChatMessage
from acc.domain.value_objects.memory import Match, Passage, Rejection, RejectionReason, Source

_EXPLANATIONS = {
    RejectionReason.SUPERSEDED: "a later sentence changed, lifted or corrected it",
    RejectionReason.DUPLICATE: "the view already contains it",
}


class EvidenceSelection:
    """Selects passages for a view; `add` can be called again with more room.

    `current` returns a passage without superseded sentences, empty if it has no others. Passages
    of the turn `last_turn` are part of the view as the last exchange. Messages are shortened to
    `max_length` characters.
    """

    def __init__(
        self,
        *,
        current: Callable[[Passage], Passage],
        last_turn: int,
        max_length: int,
        count: CountTokens,
    ) -> None:
        self.tokens = 0
        self._rejected: dict[str, Rejection] = {}
        self._current = current
        self._last_turn = last_turn
        self._max_length = max_length
        self._count = count
        self._chosen: dict[str, tuple[Passage, tuple[ChatMessage, ...]]] = {}
        #: The times of the selected passages, one for each day.
        self._days: dict[int, float] = {}
        self._seen: set[tuple[Source, str]] = set()

    def add(self, matches: Iterable[Match], available: int) -> None:
        """Add the passages of matches that fit into so many more tokens, the best first.

        Passages that were added before are skipped.
        """
        limit = self.tokens + available
        for match in matches:
            if match.passage.id in self._chosen:
                continue
            passage = self._current(match.passage)
            if not passage.text:
                self._reject(match.passage, RejectionReason.SUPERSEDED)
                continue
            key = (passage.source, passage.text)
            if passage.turn_id == self._last_turn or (key in self._seen and not passage.parts):
                self._reject(passage, RejectionReason.DUPLICATE)
                continue
            date = day(passage.at)
            extra = 0 if date in self._days else self._heading_size(passage.at)
            size = passage_size(passage, self._max_length, self._count)
            if self.tokens + size + extra > limit and has_file_parts(passage.parts):
                passage = without_files(passage)
                size = passage_size(passage, self._max_length, self._count)
            if self.tokens + size + extra > limit:
                reason = RejectionReason.OVER_BUDGET
                self._reject(passage, reason, f"{size} tokens do not fit")
                continue
            self._seen.add(key)
            self._days.setdefault(date, passage.at)
            self.tokens += size + extra
            self._chosen[passage.id] = passage, passage_messages(passage, self._max_length)
            self._rejected.pop(passage.id, None)

    def _reject(self, passage: Passage, reason: RejectionReason, explanation: str = "") -> None:
        text = explanation or _EXPLANATIONS[reason]
        self._rejected[passage.id] = Rejection(passage=passage, reason=reason, explanation=text)

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Return the passages that were not selected, with the reasons."""
        return tuple(self._rejected.values())

    def passages(self) -> list[Passage]:
        """Return the selected passages in the order of their days and of the conversation."""
        return [passage for passage, _ in self._in_order()]

    def _in_order(self) -> list[tuple[Passage, tuple[ChatMessage, ...]]]:
        # With days first, each day has one heading, also if clocks of processes differ.
        return sorted(self._chosen.values(), key=lambda entry: _place(entry[0]))

    def messages(self) -> list[ChatMessage]:
        """Return the selected passages as messages, with a heading for each day."""
        result: list[ChatMessage] = []
        shown_day = -1
        previous = 0.0
        for passage, messages in self._in_order():
            if day(passage.at) != shown_day:
                shown_day = day(passage.at)
                result.append(heading_message(heading(passage.at, previous)))
                previous = passage.at or previous
            result += messages
        return result

    def _heading_size(self, at: float) -> int:
        """Return the tokens of one more heading.

        The first heading is the longest, and the first of another year is longer than others. The
        sum does not depend on the order.
        """
        known = [other for other in self._days.values() if other]
        same_year = [other for other in known if _year(other) == _year(at)]
        previous = next(iter(same_year or known), 0.0)
        return self._count(heading(at, previous)) + MESSAGE_TOKENS


def _place(passage: Passage) -> tuple[int, int, int, str]:
    return day(passage.at), passage.turn_id, passage.order, passage.id


def _year(at: float) -> int:
    return datetime.fromtimestamp(at, UTC).year


def passage_size(passage: Passage, max_length: int, count: CountTokens) -> int:
    """Return the tokens of a passage as messages of at most `max_length` characters."""
    if passage.tokens and len(passage.text) <= max_length:
        return passage.tokens
    return sum(count_tokens(message, count) for message in passage_messages(passage, max_length))
