"""Normalise plain text, English or Japanese, and split it into sentences, terms and values.

All functions are lexical and deterministic. Japanese has no spaces: kanji are split into
overlapping pairs and katakana into whole runs; hiragana mostly carries grammar and is skipped.
Other scripts are split into words.
"""

import re
import unicodedata
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


def omit_middle(text: str) -> str:
    """Return a text without its middle if it is too long to be read in full."""
    if len(text) <= _MAX_READ_LENGTH:
        return text
    return f"{text[: _MAX_READ_LENGTH - _READ_TAIL_LENGTH]}\n{text[-_READ_TAIL_LENGTH:]}"
