"""Split a user's message into sentences, with their position and their origin.

Messages are typed by hand: the full stop may be missing, the next sentence may begin with a small
letter, and a smiley or a line break may end a sentence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from acc.domain.language import normalize_text, omit_middle
from acc.domain.quotations import Origin, segments

_CJK = "\u3041-\u30ff\u3400-\u9fff々〆ヶー"
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:dr|mr|mrs|(?<!\d\s)ms|prof|st|vs|approx|e\.g|i\.e|cf|fig|no|nr|etc|p|pp|vol|ca|incl"
    r"|ext|tel)\.$|(?:^|\.\s?)(?-i:[A-Z])\.$",
    re.I,
)
_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff"
_END = re.compile(
    # Japanese full stops and marks; before a closing bracket the sentence goes on.
    rf"[。!?]+[{_EMOJI}]*(?=[「『(\"'“]*[{_CJK}])"
    # Japanese writers also end a sentence with a smiley, a laugh or an ellipsis before a space.
    rf"|(?<=[{_CJK}])(?:[。.…!?]+|[wW]+|笑|\(笑\))[{_EMOJI}]*(?=\s)"
    rf"|。[{_EMOJI}]*(?![)」』])"
    # Other languages: a mark, closing quotes, then a space.
    rf"|[.!?…]+[{_EMOJI}]*(?=\s)"
    r"|[.!?…]+[)\]\"'”’]+(?=\s+[^a-z\s])"
    rf"|[{_EMOJI}\ufe0f\u200d]+(?=\s)"
)
_BULLET = re.compile(r"\s*(?:>\s*)*(?:(?:[-*•・]|\d{1,2}[.)])\s+)?")
_IS_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a message.

    `start` and `end` are positions in `normalize_text` of the message.
    """

    text: str
    start: int
    end: int
    origin: Origin = Origin.DIRECT


def split_message(message: str) -> tuple[Sentence, ...]:
    """Return the sentences of a message, the author's own and quoted ones, in order."""
    text = normalize_text(message)
    result: list[Sentence] = []
    position = 0
    for segment in segments(omit_middle(message)):
        start = text.find(segment.text, position)
        if start < 0:
            continue
        position = start + len(segment.text)
        for first, last in _spans(segment.text):
            result.append(
                Sentence(
                    text=" ".join(segment.text[first:last].split()),
                    start=start + first,
                    end=start + last,
                    origin=segment.origin,
                )
            )
    return tuple(result)


def _spans(line: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of the sentences of a line, without bullets and outer spaces."""
    bullet = _BULLET.match(line)
    begin = bullet.end() if bullet else 0
    for match in _END.finditer(line, begin):
        end = match.end()
        if line[match.start()] == "." and not _ends_sentence(line, begin, match):
            continue
        if not _IS_LETTER_OR_DIGIT.search(line, begin, end):
            continue
        yield _trim(line, begin, end)
        begin = end
    if _IS_LETTER_OR_DIGIT.search(line, begin):
        yield _trim(line, begin, len(line))


def _ends_sentence(line: str, begin: int, match: re.Match[str]) -> bool:
    """Return False if the full stop belongs to an abbreviation or a number such as "No. 5"."""
    if match.end() - match.start() > 1:
        return True
    return _ABBREVIATION.search(line[begin : match.start() + 1]) is None


def _trim(line: str, begin: int, end: int) -> tuple[int, int]:
    piece = line[begin:end]
    return begin + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())
