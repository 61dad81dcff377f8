"""Normalise plain text, English or Japanese, and split it into sentences, terms and values.

All functions are lexical and deterministic. Japanese has no spaces: kanji are split into
overlapping pairs and katakana into whole runs; hiragana mostly carries grammar and is skipped.
Other scripts are split into words.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

_CACHE_SIZE = 2_048
#: In characters. A longer run without a full stop is data and is not analysed.
MAX_SENTENCE_LENGTH = 1_000
_LINE_END = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_KANJI = "\u3400-\u9fff々〆ヶ"
_KATAKANA = "\u30a1-\u30fa\u30fc"
_JAPANESE = re.compile(f"[\u3041-\u3096{_KATAKANA}{_KANJI}]")


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOPWORDS = _word_set(
    """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each else ever every few for from
    further get give given go had has have having he her here hers him his how i if in into is it
    its itself just let lets like made make many may me might mine more most much my need no nor
    not now of off ok on once one only or other our ours out over own per please same shall she
    should so some still such tell than that the their theirs them then there these they this
    those through to too under until up upon us use very want was we were what when where which
    while who whom whose why will with without would yes yet you your yours
    answer reply say said state list name show explain confirm remind remember current currently
    right today thing things
    """
)
#: Longer texts are read without their middle, in characters.
_MAX_READ_LENGTH = 16_000
_READ_TAIL_LENGTH = 4_000
_WORD = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|[^\W_]+(?:[._:/@+'’%-]*[^\W_]+)*%?")
_PLAIN_WORD = re.compile(r"\d[\d,]*(?:\.\d+)*|[^\W\d_]+(?:['’][a-z]+)?")
_JAPANESE_CHARACTER = re.compile(r"[\u3041-\u3096\u30a1-\u30fc\u3400-\u9fff々]")
_RUN = re.compile(
    f"[{_KANJI}]+|[{_KATAKANA}]+|[\u3041-\u3096]+|[^{_KANJI}{_KATAKANA}\u3041-\u3096]+"
)
_IS_KANJI = re.compile(f"[{_KANJI}]")
_IS_KATAKANA = re.compile(f"[{_KATAKANA}]")
_BREAK = re.compile(
    r"(?<=。)(?![」』)])\s*|(?<=[\u3041-\u9fff][!?])(?=[「『(]?[\u3041-\u9fff])"
    r"|(?:(?<=[.!?])|(?<=[.!?][\"'”’)\]])|(?<=[.!?][\"'”’)\]]{2}))"
    r"\s+(?=[\"'“‘(\[]*(?![a-z])[^\W_])"
)
_ABBREVIATION = re.compile(r"\b(?:Dr|Mr|Mrs|Ms|Prof|St|vs|approx|e\.g|i\.e|cf|Fig|fig)\.$")
_NUMBERED = re.compile(r"\b[Nn]o\.$")
_BULLET = re.compile(r"^\s*(?:>\s*)*(?:(?:[-*•・]|\d{1,2}[.)])\s+)?")
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nobody|nothing)\b|n['’]t\b"
    r"|ない|ません|なし|ず、|ずに|禁止|不可|禁じ|無効|ぬ。",
    re.I,
)


class Origin(StrEnum):
    """Whether a segment is the author's own words or text that the author quotes."""

    DIRECT = "direct"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text with one origin."""

    text: str
    origin: Origin


def normalize_text(text: str) -> str:
    """Return `text` in NFKC, without control and direction characters."""
    if text.isascii() and text.isprintable():
        return text
    encodable = _LINE_END.sub("\n", text.encode("utf-8", "replace").decode())
    # Remove control characters first: their neighbours may combine afterwards.
    return unicodedata.normalize("NFKC", _CONTROL.sub("", encodable))


def one_line(text: str) -> str:
    """Return normalised text on a single line, with single spaces."""
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip(" ")
    return _one_line(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _one_line(text: str) -> str:
    return " ".join(normalize_text(text).split())


def is_japanese(text: str) -> bool:
    """Return True if the text is mainly Japanese."""
    if text.isascii():
        return False
    marks = len(_JAPANESE.findall(text))
    return marks * 4 >= sum(map(str.isalpha, text)) and marks > 0


@lru_cache(maxsize=_CACHE_SIZE)
def sentences(text: str) -> tuple[str, ...]:
    """Return the sentences of a text without bullet marks, each on one line."""
    pieces = (piece for line in normalize_text(text).split("\n") for piece in _pieces(line))
    lines = (one_line(piece) for piece in pieces)
    return tuple(line for line in lines if any(character.isalnum() for character in line))


def _pieces(line: str) -> list[str]:
    pieces = [""]
    for piece in _BREAK.split(_BULLET.sub("", line)):
        numbered = piece[:1].isdigit() and _NUMBERED.search(pieces[-1][-4:])
        if numbered or _ABBREVIATION.search(pieces[-1][-9:]):
            pieces[-1] += f" {piece}"
        else:
            pieces.append(piece)
    return pieces


#: Words with these endings are already stems.
_STEM_ENDINGS = ("ss", "us", "is")


def stem(word: str) -> str:
    """Return an English word without its common endings."""
    if len(word) < 4 or not word.isascii() or not word.isalpha():
        return word
    for ending, rest in (
        ("ies", "y"),
        ("sses", "ss"),
        ("ing", ""),
        ("ed", ""),
        ("es", "e"),
        ("s", ""),
    ):
        if (
            word.endswith(ending)
            and len(word) - len(ending) >= 3
            and not word.endswith(_STEM_ENDINGS)
        ):
            word = word[: -len(ending)] + rest
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


@lru_cache(maxsize=_CACHE_SIZE)
def term_list(text: str) -> tuple[str, ...]:
    """Return the content terms of a text in order, including repeats."""
    terms: list[str] = []
    for word in _WORD.findall(normalize_text(text).casefold()):
        terms.extend(_terms_of_word(word))
    return tuple(terms)


def word_list(plain: str) -> tuple[str, ...]:
    """Return all words of a text in lower case as stems, stop words included.

    Each Japanese character is a word.
    """
    words: list[str] = []
    for word in _PLAIN_WORD.findall(plain):
        if word.isascii():
            words.append(stem(word.replace(",", "").removesuffix("'s")))
        elif _JAPANESE_CHARACTER.search(word):
            words += word
        else:
            words.append(word)
    return tuple(words)


@lru_cache(maxsize=_CACHE_SIZE)
def _terms_of_word(word: str) -> tuple[str, ...]:
    runs = (word,) if word.isascii() else _RUN.findall(word)
    return tuple(term for run in runs for term in _terms_of_run(run))


def _terms_of_run(run: str) -> list[str]:
    first = run[0]
    if first.isascii():
        return _terms_of_latin(run)
    if _IS_KANJI.match(first):
        return [run] if len(run) < 3 else [run[i : i + 2] for i in range(len(run) - 1)]
    if _IS_KATAKANA.match(first):
        return [run]
    if "\u3041" <= first <= "\u3096":
        return []
    return _terms_of_latin(run)


def _terms_of_latin(run: str) -> list[str]:
    word = run.replace("’", "'").removesuffix("'s").strip("._:/@+'-")
    if not word or word in STOPWORDS or (len(word) == 1 and word.isalpha()):
        return []
    if "-" in word and word.replace("-", "").isalpha():
        return [stem(part) for part in word.split("-") if part and part not in STOPWORDS]
    return [stem(_plain_number(word))]


def _plain_number(word: str) -> str:
    return word.replace(",", "") if word[0].isdigit() else word


@lru_cache(maxsize=_CACHE_SIZE)
def terms(text: str) -> frozenset[str]:
    """Return the set of content terms of a text."""
    return frozenset(term_list(text))


@lru_cache(maxsize=_CACHE_SIZE)
def is_negated(text: str) -> bool:
    """Return True if the text contains a negation."""
    return _NEGATION.search(text) is not None


_SPELLED_OUT = {
    word: str(number)
    for number, word in enumerate(
        (
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
        ),
        start=2,
    )
}
_SPELLED = re.compile(rf"\b(?:{'|'.join(_SPELLED_OUT)})\b", re.I)
_NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:[.:]\d+)*%?", re.ASCII)
_CODE = re.compile(
    r"(?<![\w-])(?=[A-Za-z0-9])(?!\d+(?:ms|[smhk]|min|[kmgtKMGT][bB])\b)"
    r"(?=[\w.:/@-]{0,80}?[\d_@/-])(?=[\w.:/@-]{0,80}?[A-Za-z])\w[\w.:/@-]*\w",
    re.ASCII,
)
_NAME = re.compile(
    r"(?<![.!?:]\s)(?<!^)(?<![\w“\"'])\b(?!I['’])[A-Z][a-zA-Zà-ÿ'’]+\b(?:\s+[A-Z][a-zA-Zà-ÿ'’]+)*"
)
_LEADING_NAME = re.compile(r"^[A-Z][a-zà-ÿ'’]+(?:\s+(?!I['’])[A-Z][a-zà-ÿ'’]+)+")
_JAPANESE_NAME = re.compile(
    f"([{_KANJI}{_KATAKANA}]{{1,8}})(?:さん|様|氏|医師|先生|課長|部長|室長|主任)"
)


@lru_cache(maxsize=_CACHE_SIZE)
def numbers(text: str) -> frozenset[str]:
    """Return the numbers of a text: 1,200 as 1200, times and percentages unchanged."""
    plain = _SPELLED.sub(lambda match: _SPELLED_OUT[match[0].casefold()], normalize_text(text))
    matches = (match[0] for match in _NUMBER.finditer(_CODE.sub(" ", plain)))
    return frozenset(number.replace(",", "") for number in matches)


@lru_cache(maxsize=_CACHE_SIZE)
def identifiers(text: str) -> frozenset[str]:
    """Return the identifiers of a text, such as db-1 or ops@example.com."""
    codes = {match[0].casefold().strip(".:/") for match in _CODE.finditer(normalize_text(text))}
    return frozenset(
        code
        for code in codes
        if any(c.isdigit() or c in "_@/" for c in code) or not code.replace("-", "").isalpha()
    )


@lru_cache(maxsize=_CACHE_SIZE)
def names(text: str) -> frozenset[str]:
    """Return the words that look like proper names, case-folded."""
    plain = normalize_text(text)
    words: set[str] = set()
    for pattern in (_NAME, _LEADING_NAME):
        for match in pattern.finditer(plain):
            words.update(
                word.strip("'’").removesuffix("'s").removesuffix("’s").casefold()
                for word in match[0].split()
            )
    words.update(match[1] for match in _JAPANESE_NAME.finditer(plain))
    words.update(re.findall("[月火水木金土日]曜", plain))
    return frozenset(word for word in words if word not in STOPWORDS)


@lru_cache(maxsize=_CACHE_SIZE)
def values(text: str) -> frozenset[str]:
    """Return the numbers, identifiers and names of a text."""
    return numbers(text) | identifiers(text) | names(text)


@lru_cache(maxsize=_CACHE_SIZE)
def _flat(text: str) -> str:
    return " ".join(normalize_text(text).casefold().replace("’", "'").split())


@lru_cache(maxsize=_CACHE_SIZE)
def _tight(text: str) -> str:
    return _flat(text).replace(" ", "")


@lru_cache(maxsize=1_024)
def _needle(text: str) -> re.Pattern[str]:
    flat = _flat(text)
    # Match whole words and numbers only: 30 does not match in 300, 1.30 or 9:30.
    before = (
        r"(?<![\d.])(?<!\d[,:])"
        if flat[:1].isdigit()
        else (r"(?<![a-z0-9])" if flat[:1].isascii() and flat[:1].isalpha() else "")
    )
    after = (
        r"(?!\d|[.,:]\d)"
        if flat[-1:].isdigit()
        else (r"(?![a-z0-9])" if flat[-1:].isascii() and flat[-1:].isalpha() else "")
    )
    return re.compile(before + re.escape(flat).replace(r"\ ", r"\s?") + after)


def contains_text(text: str, part: str) -> bool:
    """Return True if `text` contains `part`, ignoring case, width and spacing."""
    # A plain substring test rejects nearly all texts before the pattern is compiled.
    tight = _tight(part)
    return bool(tight) and tight in _tight(text) and _needle(part).search(_flat(text)) is not None


_FENCE = re.compile(r"^\s*(?:```|~~~)")
_QUOTE_LINE = re.compile(r"^\s*(?:>|\|)")
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
    r"(?:e-?mail|mail|message|note|text|paste|snippet)|translate this)\s*:"
    r"(?:\s*(?P<rest>[^\s\"“].*))?\s*$"
    r"|^[^。]{0,40}(?:以下|次)は[^。]{0,24}(?:メール|連絡|文面|手順|ログ|書き込み|投稿)です。?$",
    re.I,
)


_QUOTATION_MARKS = ('"', '"'), ("“", "”"), ("「", "」"), ("『", "』")
#: Longer quotations between marks are hardly meant as such.
_MAX_QUOTED_LINES = 200


@lru_cache(maxsize=_CACHE_SIZE)
def segments(text: str) -> tuple[Segment, ...]:
    """Split a text into the author's own words and quoted text.

    Quoted text is: quoted lines, fenced and marked blocks, a paragraph after the label of a source
    ("Runbook: …") and speech after a reporting verb (the vendor wrote: "…"), also of several lines.
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
    for number, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and not pasted and _PASTE_START.match(line):
            pasted = True
        elif pasted and _PASTE_END.match(line):
            pasted = False
        else:
            yield number, line, fenced or pasted


def _quotation(lines: list[str], first: int) -> tuple[list[Segment], int]:
    """Return the segments of the lines that a quotation of several lines needs, and their number.

    `first` is the line in which it begins or the line that introduces it. Without such a quotation
    there are no segments.
    """
    opening = first
    if lines[first].rstrip().endswith(":"):
        opening = next((n for n in range(first + 1, len(lines)) if lines[n].strip()), first)
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


def omit_middle(text: str) -> str:
    """Return a text without its middle if it is too long to be read in full."""
    if len(text) <= _MAX_READ_LENGTH:
        return text
    return f"{text[: _MAX_READ_LENGTH - _READ_TAIL_LENGTH]}\n{text[-_READ_TAIL_LENGTH:]}"


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
