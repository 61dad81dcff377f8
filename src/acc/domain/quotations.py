"""Separate the author's own words of a message from the text that the author quotes or pastes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from acc.domain.language import normalize_text, omit_middle, sentences

_CACHE_SIZE = 2_048


class Origin(StrEnum):
    """Whether a segment is the author's own words or text that the author quotes."""

    DIRECT = "direct"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text with one origin."""

    text: str
    origin: Origin


_FENCE = re.compile(r"^\s*(?:```|~~~)")
#: A line that begins with ">" or "|", or a line of an exported chat: "[12/05/26, 10:01] Bo: …".
_QUOTE_LINE = re.compile(
    r"^\s*(?:>|\||\[?\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4},?\s+\d{1,2}:\d{2}(?::\d{2})?(?:\s?[ap]m)?\]?"
    r"\s+(?:-\s+)?[^:\n]{1,40}:\s)",
    re.I,
)
_PASTE_START = re.compile(
    r"^\s*(?:-{3,}|={3,}|<{3,}|\[)\s*(?:begin\b.*|(?:pasted|paste|forwarded|quoted|excerpt"
    r"|snippet|original)\b.*"
    r"|(?:貼り付け|引用|転送|抜粋).*)$",
    re.I,
)
_PASTE_END = re.compile(
    r"^\s*(?:-{3,}|={3,}|>{3,}|\[)\s*(?:end\b.*|(?:引用)?(?:終わり|ここまで|以上).*)?\]?\s*$", re.I
)
#: Labels that mark quoted text by themselves, and labels that need "from …".
_QUOTED_NOUN = (
    r"(?:tool|logs?|output|runbook|wiki|e-?mail|mail|ticket|snippet|excerpt|paste|banner|vendor"
    r"|attachment|transcript|scan|bulletin)"
)
_SENT_NOUN = r"(?:note|memo|message|comment|alert|report|page|chat|post|document|doc)"
_NOT_A_SOURCE = r"(?!(?:please|kindly|i|we|you|take|for|in|to|on|every|each|all|any|important)\s)"
_LABEL = re.compile(
    rf"^\s*{_NOT_A_SOURCE}(?:[\w.'’-]+\s+){{0,3}}?"
    rf"(?:{_QUOTED_NOUN}(?:\s+(?:excerpt|snippet|output|text|body|entry|lines?|note|result))?"
    r"(?:\s+(?:from|of|by|for)(?:\s+[\w.@'’-]+){1,4})?"
    rf"|{_SENT_NOUN}\s+(?:from|by)(?:\s+[\w.@'’-]+){{1,4}})"
    r"(?:\s*\([^)]{0,40}\))?:\s+(?=[^\s\"“])"
    r"|^\s*[^\s。、:：]{0,16}(?:ログ|出力|手順書|メール|添付|貼り付け|引用|転送|掲示)"
    r"[^\s。、:：]{0,12}[:：]\s*(?=[^\s「『])"
    r"|^\s*[^\s。、:：]{1,16}(?:から|より)の(?:メモ|通知|コメント|連絡|伝言)[:：]\s*(?=[^\s「『])",
    re.I,
)
_REPORTING = (
    r"\b(?:says|said|wrote|writes|reads|states|stated|claims|claimed|asks|asked|tells|told|posted"
    r"|reports|reported|replied|(?:they|people|some|many|others|users|vendors|docs)\s+(?:say|state"
    r"|claim|ask|report|write))\b"
)
_REPORTED = re.compile(
    rf"(?:{_REPORTING}[^\"“.]{{0,24}}[:,]?\s*|:\s*)[\"“]([^\"“”]{{12,}})[\"”]", re.I
)
#: "Close with this line: …" is a rule about the answer, not reported speech.
_ABOUT_ANSWERS = re.compile(
    r"(?:^|[.!?,;]\s+|\b(?:please|always|must|never|not|and|then)\s+)"
    r"(?:end|close|finish|sign off|start|begin|open|include|use|add|put|write|say|state|answer"
    r"|reply|respond)\b[^.!?]*$"
    r"|\b(?:every|each|all|any|your)\s+(?:answers?|repl(?:y|ies)|responses?|messages?|updates?)"
    r"\b[^.!?]*$",
    re.I,
)
_REPORTED_JAPANESE = re.compile(
    r"(?:「([^「」]{10,})」|『([^『』]{10,})』)(?:と(?!(?:必ず|毎回|常に)?(?:書|記|添|付|入れ|締|結"
    r"|明記|回答|答|返|言|述)[^。]{0,10}(?:ください|下さい|こと|よう)(?!と))"
    r"|という(?:記述|記載|指示|文|メール|一文|連絡|書き込み|投稿))"
)
_AFTER_COLON_JAPANESE = re.compile(r":\s*(?:「([^「」]{10,})」|『([^『』]{10,})』)")
#: "回答の最後の文:「…」" and "ルール:「…」" are the author's own words.
_OWN_WORDS_JAPANESE = re.compile(
    r"(?:回答|返信|返事|答え|文末|末尾|最後|冒頭|締め|件名|署名|書式|形式|ルール|規則|約束|お願い)[^。!?]*$"
)
#: "The web page says: …" and "I got this e-mail:" introduce quoted text.
_INTRODUCES_QUOTE = re.compile(
    r"^(?!.*\b(?:i|we|you)\s+(?:say|said|wrote|write|told)\b)[^:\n]{0,80}"
    r"\b(?:says|said|wrote|writes|reads|states|claims|replied|posted|(?:this|following) "
    r"(?:e-?mail|mail|message|note|text|paste|snippet)|translate this"
    r"|here(?:['’]s| is| are)\s+(?:(?!your\b)[\w'’-]+\s+){0,3}?(?:e-?mail|mail|letter|document"
    r"|runbook|article|transcript|minutes|manual|contract|thread|chat)"
    r"(?:\s+(?:from|of|by|i|we|he|she|they|that|which)\b[^:\n]{0,40})?)\s*:"
    r"(?:\s*(?P<rest>[^\s\"“].*))?\s*$"
    r"|^[^。]{0,40}(?:以下|次)は[^。]{0,24}(?:メール|連絡|文面|手順|ログ|書き込み|投稿"
    r"|議事録|手紙|文書|資料|記事|規約|契約書|チャット|会話)です。?$",
    re.I,
)


#: The first lines of a pasted e-mail; "From: Rome" and "To: Oslo" alone are none.
_HEADER = re.compile(
    r"^\s*(?:from|to|cc|bcc|date|sent|subject|reply-to|差出人|送信者|宛先|件名|日時|送信日時)\s*:\s*\S",
    re.I,
)
_MAIL_HEADER = re.compile(r"^\s*(?:subject|件名)\s*:|\S@\S", re.I)
#: A line that is one quotation, and the line before it that names its source.
_WHOLE_QUOTATION = re.compile(
    r"^\s*(?:\"[^\"]{12,}\"|“[^“”]{12,}”|「[^「」]{10,}」|『[^『』]{10,}』)[.。]?\s*$"
)
_SOURCE = re.compile(
    rf":\s*$|\b(?:{_QUOTED_NOUN}|{_SENT_NOUN}|letter|sms)\b|{_REPORTING}"
    r"|手紙|メール|メッセージ|連絡|通知|投稿|書き込み|文面|張り紙|貼り紙|掲示",
    re.I,
)


_QUOTATION_MARKS = ('"', '"'), ("“", "”"), ("「", "」"), ("『", "』")
#: Longer quotations between marks are hardly meant as such.
_MAX_QUOTED_LINES = 200


@lru_cache(maxsize=_CACHE_SIZE)
def segments(text: str) -> tuple[Segment, ...]:
    """Split a text into the author's own words and quoted text.

    Quoted text is: quoted lines, fenced and marked blocks, e-mails with headers, a paragraph after
    the label of a source ("Runbook: …"), speech after a reporting verb (the vendor wrote: "…"),
    also of several lines, and a line in quotation marks after one that names its source.
    """
    result: list[Segment] = []
    labelled = quote_follows = False
    lines = normalize_text(text).split("\n")
    next_line = 0
    for number, line, in_block in _without_markers(lines):
        if number < next_line:
            continue
        is_own = not (in_block or labelled or quote_follows or _QUOTE_LINE.match(line))
        quotation, size = _quotation(lines, number) if is_own else ([], 0)
        if quotation:
            result += quotation
            next_line = number + size
            labelled = _INTRODUCES_QUOTE.match(line) is not None
            continue
        if line.strip() and quote_follows:
            labelled, quote_follows = True, False
        labelled = bool(line.strip()) and (labelled or _LABEL.match(line) is not None)
        if in_block or labelled or _QUOTE_LINE.match(line):
            result.append(Segment(line.lstrip(" >|"), Origin.QUOTED))
        elif (introduction := _INTRODUCES_QUOTE.match(line)) is not None:
            rest = introduction["rest"] or ""
            result.append(Segment(line[: len(line) - len(rest)], Origin.DIRECT))
            result.append(Segment(rest, Origin.QUOTED))
            labelled, quote_follows = bool(rest), not rest
        elif line.strip():
            result.extend(_inline(line))
    return tuple(segment for segment in result if segment.text.strip())


def _without_markers(lines: list[str]) -> Iterator[tuple[int, str, bool]]:
    """Yield lines with their numbers, and whether a fence or a marker makes them quoted text."""
    fenced = pasted = False
    mail = _mail_lines(lines)
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not pasted and _PASTE_START.match(line):
            pasted = True
        elif pasted and _PASTE_END.match(line):
            pasted = False
        else:
            yield number, line, fenced or pasted or number in mail


def _mail_lines(lines: list[str]) -> range:
    """Return the numbers of the lines from the headers of a pasted e-mail to the end.

    If the message begins with the e-mail, a question in the last paragraph is the author's own.
    """
    headers = [_HEADER.match(line) is not None for line in lines]
    for first in range(len(lines) - 1):
        pair = lines[first : first + 2]
        if all(headers[first : first + 2]) and any(map(_MAIL_HEADER.search, pair)):
            break
    else:
        return range(0)
    while first and headers[first - 1]:
        first -= 1
    last = "\n".join(lines).rstrip().count("\n") + 1
    blank = [number for number in range(first, last) if not lines[number].strip()]
    is_question = lines[last - 1].rstrip().endswith(("?", "か。"))
    if is_question and len(blank) > 1 and not "".join(lines[:first]).strip():
        last = blank[-1]
    return range(first, last)


def _quotation(lines: list[str], first: int) -> tuple[list[Segment], int]:
    """Return the segments of the lines that a quotation of several lines needs, and their number.

    `first` is the line in which it begins or the line that introduces it. Without such a quotation
    there are no segments.
    """
    if not lines[first].strip():
        return [], 0
    opening = next((n for n in range(first + 1, len(lines)) if lines[n].strip()), first)
    if opening > first and _is_quoted_line(lines[opening], lines[first]):
        own = _inline(lines[first])
        return [*own, Segment(lines[opening], Origin.QUOTED)], opening + 1 - first
    if not lines[first].rstrip().endswith(":"):
        opening = first
    for marks in _QUOTATION_MARKS:
        last = _closing_line(lines, opening, marks)
        pieces = _inline("\n".join(lines[first : last + 1])) if last else []
        if not any(piece.origin is Origin.QUOTED and "\n" in piece.text for piece in pieces):
            continue
        # Quotation marks inside a quoted paragraph do not end it.
        if _INTRODUCES_QUOTE.match(lines[first]) or _QUOTE_LINE.match(lines[last]):
            pieces[1:] = [Segment(piece.text, Origin.QUOTED) for piece in pieces[1:]]
        found = [
            Segment(line.lstrip(" >|"), piece.origin)
            for piece in pieces
            for line in piece.text.split("\n")
        ]
        return found, last + 1 - first
    return [], 0


def _is_quoted_line(line: str, lead: str) -> bool:
    """Return True if a line is one quotation, and the line before it names its source."""
    if _WHOLE_QUOTATION.match(line) is None or _SOURCE.search(lead) is None:
        return False
    return not (_is_about_answers(lead) or _OWN_WORDS_JAPANESE.search(lead))


def _closing_line(lines: list[str], opening: int, marks: tuple[str, str]) -> int:
    """Return the line that closes the quotation which a line leaves open, 0 if there is none."""
    begin, end = marks
    line = lines[opening]
    is_open = line.count(begin) % 2 if begin == end else line.rfind(begin) > line.rfind(end)
    if not is_open:
        return 0
    for number in range(opening + 1, min(opening + _MAX_QUOTED_LINES, len(lines))):
        line = lines[number]
        if _FENCE.match(line) or _PASTE_START.match(line):
            return 0
        if end in line:
            return number
        if begin in line:
            return 0
    return 0


def _inline(line: str) -> list[Segment]:
    spans = [
        match.span(match.lastindex or 0)
        for pattern in (_REPORTED, _REPORTED_JAPANESE)
        for match in pattern.finditer(line)
        if not _is_about_answers(line[: match.start()])
    ]
    spans += [
        match.span(match.lastindex or 0)
        for match in _AFTER_COLON_JAPANESE.finditer(line)
        if not _OWN_WORDS_JAPANESE.search(line[: match.start()])
    ]
    pieces: list[Segment] = []
    position = 0
    for start, end in sorted(spans):
        if start < position:
            continue
        between = line[position:start].rstrip('"“「『')
        pieces.append(Segment(between.lstrip('"”」』') if pieces else between, Origin.DIRECT))
        pieces.append(Segment(line[start:end], Origin.QUOTED))
        position = end
    rest = line[position:].lstrip('"”」』') if spans else line
    return [*pieces, Segment(rest, Origin.DIRECT)]


def _is_about_answers(lead: str) -> bool:
    near = lead[-200:]
    return _ABOUT_ANSWERS.search(near) is not None and not re.search(_REPORTING, near, re.I)


def direct_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text that are its author's own words."""
    return _sentences_of(text, Origin.DIRECT)


def quoted_sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text that its author quotes."""
    return _sentences_of(text, Origin.QUOTED)


def _sentences_of(text: str, origin: Origin) -> tuple[str, ...]:
    return tuple(
        sentence
        for segment in segments(omit_middle(text))
        if segment.origin is origin
        for sentence in sentences(segment.text)
    )
