"""Evidence of a view: the recalled passages that fit, as messages in the order of conversation."""

import re
from collections.abc import Callable, Collection, Container, Iterable, Sequence
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
from acc.domain.language import STOPWORDS
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.content import ChatMessage, text_part
from acc.domain.value_objects.memory import Match, Passage, Rejection, RejectionReason, Source

_EXPLANATIONS = {
    RejectionReason.SUPERSEDED: "a later sentence changed, lifted or corrected it",
    RejectionReason.DUPLICATE: "the view already contains it",
}
#: Share of the score that a message has if the query names other speakers.
_OTHER_SPEAKER = 0.5
_WORD = re.compile(r"\w+")
#: A line that looks like the heading of a day.
_HEADING = re.compile(r"\s*[\[［](?:[\d-]+|Earlier)[\]］]")


def prefer_named_speakers(matches: Sequence[Match], query: str) -> list[Match]:
    """Return matches, the best first, with lower scores for messages of speakers not named.

    Questions about a person are mostly answered by what this person said. Without the name of a
    speaker in the query, or with the names of all, scores do not change. Tools and the unnamed user
    and assistant are no speakers with a name.
    """
    passages = [match.passage for match in matches]
    speakers = {p.author for p in passages if p.has_named_speaker}
    words = set(_WORD.findall(query.casefold())) if speakers else set()
    others = {name for name in speakers if not _is_named(name.casefold(), query, words)}
    if not others or others == speakers:
        return list(matches)
    scored = [
        replace(match, score=match.score * _OTHER_SPEAKER)
        if match.passage.author in others and match.passage.has_named_speaker
        else match
        for match in matches
    ]
    return sorted(scored, key=lambda match: match.score, reverse=True)


def _is_named(speaker: str, query: str, words: Collection[str]) -> bool:
    """Return True if a query contains a word of a name; names in Japanese have no spaces."""
    if any(word in words and word not in STOPWORDS for word in _WORD.findall(speaker)):
        return True
    return not speaker.isascii() and speaker in query.casefold()


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
        #: Days whose heading may need a message of its own.
        self._noted_days: set[int] = set()
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
            extra = self._heading_size(passage, date)
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
            if not _contains_heading(passage):
                self._noted_days.add(date)
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
        """Return passages in this order as messages, with a heading for each day.

        A message that begins like a heading gets one too: the first line is never only its own.
        """
        result: list[ChatMessage] = []
        shown_day = -1
        previous = 0.0
        for passage in passages:
            messages = passage_messages(passage, self._max_length)
            date = day(passage.at)
            if date != shown_day or _looks_dated(passage):
                shown_day = date
                text = heading(passage.at, previous)
                previous = passage.at or previous
                if _contains_heading(passage):
                    first, *others = messages
                    parts = (*text_part(f"{text}\n"), *first.parts)
                    messages = (replace(first, parts=parts), *others)
                else:
                    result.append(heading_message(text))
            result += messages
        return result

    def _heading_size(self, passage: Passage, date: int) -> int:
        """Return the most tokens that the headings need in addition with one more passage.

        The first heading is the longest, and the first of another year is longer than others. The
        sum does not depend on the order.
        """
        size = 0
        if _contains_heading(passage):
            if _HEADING.match(passage.text):
                size = self._count(heading(passage.at) + "\n")
        elif date not in self._noted_days:
            size = MESSAGE_TOKENS
        if date not in self._days:
            known = [other for other in self._days.values() if other]
            same_year = [other for other in known if _year(other) == _year(passage.at)]
            size += self._count(heading(passage.at, next(iter(same_year or known), 0.0)) + "\n")
        return size


def _contains_heading(passage: Passage) -> bool:
    """Return True if the date before a passage can be a part of it, a message of the user.

    Before other messages it is a message of the runtime: models imitate their earlier answers.
    """
    return bool(passage.at) and passage.source is Source.USER


def _looks_dated(passage: Passage) -> bool:
    """Return True if a message could be taken for one of another day without its date."""
    return _contains_heading(passage) and _HEADING.match(passage.text) is not None


def _year(at: float) -> int:
    return datetime.fromtimestamp(at, UTC).year


def passage_size(passage: Passage, max_length: int, count: CountTokens) -> int:
    """Return the tokens of a passage as messages of at most `max_length` characters."""
    if passage.tokens and len(passage.text) <= max_length:
        return passage.tokens
    return sum(count_tokens(message, count) for message in passage_messages(passage, max_length))
