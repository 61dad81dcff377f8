"""Evidence of a view: the recalled passages that fit, as messages in the order of conversation."""

from collections.abc import Callable, Container, Iterable
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


#: Day, turn, number in the turn and id of a passage.
_Place = tuple[int, int, int, str]


class EvidenceSelection:
    """Selects passages for a view; `add` can be called again with more room.

    `superseded` are the ids of passages with superseded sentences, and `current` returns such a
    passage without these, empty if it has no others. Passages of the turn `last_turn` are part of
    the view as the last exchange. Messages are shortened to `max_length` characters.
    """

    def __init__(
        self,
        *,
        superseded: Container[str],
        current: Callable[[Passage], Passage],
        last_turn: int,
        max_length: int,
        count: CountTokens,
    ) -> None:
        self.tokens = 0
        #: Passages that were not selected by id, each with the reason and its size.
        self._rejected: dict[str, tuple[Passage, RejectionReason, int]] = {}
        self._superseded = superseded
        self._current = current
        self._last_turn = last_turn
        self._max_length = max_length
        self._count = count
        #: Selected passages, each with its place in the conversation.
        self._chosen: list[tuple[_Place, Passage]] = []
        #: Ids of the passages that more room does not help.
        self._decided: set[str] = set()
        #: The times of the selected passages, one for each day.
        self._days: dict[int, float] = {}
        self._seen: set[tuple[Source, str]] = set()

    def add(self, matches: Iterable[Match], available: int) -> None:
        """Add the passages of matches that fit into so many more tokens, the best first.

        Passages that were added or cannot be shown are skipped when they are given again.
        """
        limit = self.tokens + available
        max_length, days = self._max_length, self._days
        seen, decided = self._seen, self._decided
        for match in matches:
            passage = match.passage
            passage_id = passage.id
            if passage_id in decided:
                continue
            if passage_id in self._superseded:
                passage = self._current(passage)
            text = passage.text
            if not text:
                self._rejected[passage_id] = match.passage, RejectionReason.SUPERSEDED, 0
                decided.add(passage_id)
                continue
            key = (passage.source, text)
            if passage.turn_id == self._last_turn or (key in seen and not passage.parts):
                self._rejected[passage_id] = passage, RejectionReason.DUPLICATE, 0
                decided.add(passage_id)
                continue
            date = day(passage.at)
            extra = 0 if date in days else self._heading_size(passage.at)
            size = passage.tokens
            if not size or len(text) > max_length:
                size = passage_size(passage, max_length, self._count)
            if self.tokens + size + extra > limit and has_file_parts(passage.parts):
                passage = without_files(passage)
                size = passage_size(passage, max_length, self._count)
            if self.tokens + size + extra > limit:
                self._rejected[passage_id] = passage, RejectionReason.OVER_BUDGET, size
                continue
            seen.add(key)
            days.setdefault(date, passage.at)
            self.tokens += size + extra
            # With days first, each day has one heading, also if clocks of processes differ.
            place = date, passage.turn_id, passage.order, passage_id
            self._chosen.append((place, passage))
            decided.add(passage_id)
            self._rejected.pop(passage_id, None)

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        """Return the passages that were not selected, with the reasons."""
        return tuple(
            [
                Rejection(
                    passage=passage,
                    reason=reason,
                    explanation=_EXPLANATIONS.get(reason) or f"{size} tokens do not fit",
                )
                for passage, reason, size in self._rejected.values()
            ]
        )

    def passages(self) -> list[Passage]:
        """Return the selected passages in the order of their days and of the conversation."""
        return [passage for _, passage in sorted(self._chosen)]

    def messages(self, passages: Iterable[Passage]) -> list[ChatMessage]:
        """Return passages in this order as messages, with a heading for each day."""
        result: list[ChatMessage] = []
        shown_day = -1
        previous = 0.0
        for passage in passages:
            if day(passage.at) != shown_day:
                shown_day = day(passage.at)
                result.append(heading_message(heading(passage.at, previous)))
                previous = passage.at or previous
            result += passage_messages(passage, self._max_length)
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


def _year(at: float) -> int:
    return datetime.fromtimestamp(at, UTC).year


def passage_size(passage: Passage, max_length: int, count: CountTokens) -> int:
    """Return the tokens of a passage as messages of at most `max_length` characters."""
    if passage.tokens and len(passage.text) <= max_length:
        return passage.tokens
    return sum(count_tokens(message, count) for message in passage_messages(passage, max_length))
