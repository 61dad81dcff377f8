"""Read the content words of a sentence with their clause, negation and part of speech.

A claim and its evidence are compared word by word. English words are stems; Japanese ones are runs
of kanji or katakana in pieces of two characters, and words in hiragana that have a synonym.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.language import STOPWORDS, is_japanese, stem
from acc.domain.paraphrases import is_light, listed_terms
from acc.domain.quantities import with_digits

#: A word that is negated itself, and one that a negation may refer to as well.
NEGATED, NEAR_NEGATION = 2, 1
LIGHT_WEIGHT = 0.5


def _words(text: str) -> frozenset[str]:
    return frozenset(stem(word) if word.isascii() else word for word in text.split())


@dataclass(frozen=True, slots=True)
class Word:
    """A content word or a number of a sentence."""

    term: str
    clause: int
    #: 0, NEAR_NEGATION or NEGATED.
    negation: int
    weight: float
    is_number: bool
    is_noun: bool


CLAUSE = re.compile(
    r"[,;:()—–]\s|\s(?:and|but|while|whereas|although|though|because|so|which|who|except|if|unless"
    r"|when|instead)\s|\.\s"
)
CLAUSE_JAPANESE = re.compile("、|。|が、|ので|ため|けど|でも|のに")
_WORD = re.compile(r"~?\d[\dh.,:%]*|[^\W\d_]+(?:['’][a-z]+)*")
_KEPT = _words("few more most same before after over under above below all each every both")
_NEGATION = re.compile(
    r"^(?:not|no|never|none|neither|nor|cannot|without|nobody|nothing|hardly|unable|forbidden"
    r"|forbids?|prohibited|banned|bans|lacks?|lacking)$|n['’]t$"
)
_NO_NEGATION = re.compile(
    r"\b(?:no (?:more|less|later|fewer|earlier) than|not only|no problem\w*"
    r"|without (?:any )?problems?)\b"
)
_EXCEPTION = re.compile(r"\b(?:except|apart from|other than)\s*(?:for |that )?$")
#: Content words that a negation refers to.
_SCOPE = 4
_DAYS = {"mon": "monday", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday"}
_DAYS |= {"thu": "thursday", "thur": "thursday", "thurs": "thursday", "fri": "friday"}
_DAYS |= {"sat": "saturday", "sun": "sunday", "jan": "january", "feb": "february"}
_DAYS |= {"aug": "august", "sept": "september", "oct": "october", "nov": "november"}
_DAYS |= {"dec": "december"}
_TIMES = _words(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may"
    " june july august september october november december today tonight tomorrow yesterday"
    " week month year morning evening night hour minute kilometre km"
)
_DETERMINERS = _words(
    "a an the his her their our its my your no each every this that these those any some new old"
    " of in on at with by for from to about"
)
_EXTRA_LIGHT = _words(
    "supposed allowed able manage handle condition still yet simply really quite very probably"
    " actually"
    " 一切 今後 全く 絶対 特 同様 従来 各自 自分 本人"
)

_KANJI = "\u3400-\u9fff々〆ヶ"
_RUN = re.compile(f"[{_KANJI}]+|[\u30a1-\u30fa\u30fc]+|[a-z0-9][a-z0-9.'’_-]*|[\u3041-\u3096]+")
_HIRAGANA = re.compile("^[\u3041-\u3096ー]+$")
#: A run of three kanji that begins with one of these is this prefix and a word.
_PREFIXES = frozenset("新再前各全約未不無非最大小旧副両翌毎初数")
_NEGATIVE_PREFIXES = frozenset("不未無非")
_NOT_NEGATIVE = _words("不良 不動 不安 不便 無料 無事 無線 未来 非常 不思 不況 不満 不調 無理 不在")
_NEGATION_JAPANESE = re.compile(
    r"(?<![少危])ない(?!し)|ません|なかった|なく(?!な)|ず(?=[、にず。]|$)|ぬ。|かね(?:る|ます)|ねます"
    r"|じゃな|なし(?=[。、でにの]|$)|無し|ゼロ|禁止|厳禁|(?<=対象)外|だめ|ダメ|以外|お断り|ご遠慮|控え"
)
_NO_NEGATION_JAPANESE = re.compile(
    r"(?:なければ|なくては|ないと)(?:なら|いけ|だめ|ダメ)?(?:ない|ません)?|かもしれ(?:ない|ません)"
    r"|だけで(?:は)?なく|まもなく|間もなく|(?:構|かま)(?:い|わ)(?:ません|ない)|すみません"
    r"|問題(?:は)?(?:ない|ありません|なく)|しか[^。、]{0,12}(?:ない|ません)"
)
_AFTER_NOUN = re.compile("[はがをにでのもとへや、。]|です|だ|だけ|まで|から|より|さん|様|氏")
#: Particles and endings that the word lists contain as well.
_GRAMMAR = _words("まで から ほど 持って やる せい のち いる ため つ")


@lru_cache(maxsize=1)
def _hiragana_words() -> re.Pattern[str]:
    words = {
        term
        for term in listed_terms()
        if len(term) > 1 and _HIRAGANA.match(term) and term not in _GRAMMAR
    }
    return re.compile("|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word)))))


def clause_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern that separates the clauses of a text."""
    return CLAUSE_JAPANESE if is_japanese(text) else CLAUSE


def clauses_of(text: str) -> list[str]:
    """Return the clauses of a text, numbers in digits."""
    plain = with_digits(text)
    return [piece for piece in clause_pattern(text).split(plain) if piece and piece.strip()]


@lru_cache(maxsize=4_096)
def read_words(text: str) -> tuple[Word, ...]:
    """Return the content words and numbers of a sentence in order."""
    if is_japanese(text):
        return tuple(
            word
            for number, clause in enumerate(clauses_of(text))
            for word in _japanese_words(clause, number)
        )
    found: list[Word] = []
    plain = with_digits(text)
    start = number = 0
    ends = [(match.start(), match.end()) for match in CLAUSE.finditer(plain)]
    for end, after in [*ends, (len(plain), len(plain))]:
        clause = plain[start:end]
        if clause.strip():
            is_exception = _EXCEPTION.search(plain[max(0, start - 12) : start]) is not None
            words = _english_words(clause, number)
            if is_exception:
                # "Nobody complained except Ruth": the exception has the other polarity.
                level = 0 if any(word.negation for word in found) else NEGATED
                words = [*(_with_negation(word, level) for word in words[:2]), *words[2:]]
            found += words
            number += 1
        start = after
    return tuple(found)


def _with_negation(word: Word, level: int) -> Word:
    return Word(word.term, word.clause, level, word.weight, word.is_number, word.is_noun)


def _english_words(clause: str, number: int) -> list[Word]:
    found: list[Word] = []
    scope, before = 0, ""
    for text in _WORD.findall(_NO_NEGATION.sub(" ", clause)):
        previous, before = before, text
        bare = text.replace("’", "'")
        if _NEGATION.search(bare):
            scope = _SCOPE
            continue
        bare = bare.removesuffix("'s")
        bare = _DAYS.get(bare, bare)
        is_number = bare[0].isdigit() or bare[0] == "~"
        if not is_number and ((bare in STOPWORDS and stem(bare) not in _KEPT) or len(bare) == 1):
            continue
        term = bare.rstrip(".,:") if is_number else stem(bare)
        light = is_light(term) or term in _EXTRA_LIGHT or bare in STOPWORDS
        level = 0
        if scope and not is_number and term not in _TIMES:
            level = NEGATED if scope == _SCOPE else NEAR_NEGATION
            scope -= not light
        weight = LIGHT_WEIGHT if light else 1.0
        is_noun = stem(previous) in _DETERMINERS and not bare.endswith("ing")
        found.append(Word(term, number, level, weight, is_number, is_noun))
    if scope == _SCOPE:
        # "underwear never": nothing follows the negation.
        found[-2:] = [_with_negation(word, 0 if word.is_number else NEGATED) for word in found[-2:]]
    return found


def _japanese_words(clause: str, number: int) -> list[Word]:
    masked = _NO_NEGATION_JAPANESE.sub(lambda match: "\u3000" * len(match[0]), clause)
    negations = [match.start() for match in _NEGATION_JAPANESE.finditer(masked)]
    pieces: list[tuple[str, int]] = []
    negative: set[int] = set()
    for match in _RUN.finditer(clause):
        for term, place in _pieces(match[0], match.start()):
            if (
                len(term) == 2
                and term[0] in _NEGATIVE_PREFIXES
                and term not in _NOT_NEGATIVE
                and masked[place : place + 2] == term
            ):
                negations.append(place)
                negative.add(place + 1)
                pieces.append((term[1], place + 1))
            else:
                pieces.append((term, place))
    levels: dict[int, int] = defaultdict(int)
    for start in negations:
        before = [k for k, (term, place) in enumerate(pieces) if place < start]
        before = [k for k in before if not pieces[k][0][0].isdigit()]
        content = [k for k in before if _weight(pieces[k][0]) == 1]
        for k in content[-2:]:
            levels[k] = max(levels[k], NEAR_NEGATION)
        for k in content[-1:] + before[-1:]:
            levels[k] = NEGATED
    found: list[Word] = []
    for k, (term, place) in enumerate(pieces):
        rest = clause[place + len(term) : place + len(term) + 3]
        is_noun = not rest or bool(_AFTER_NOUN.match(rest)) or not _HIRAGANA.match(rest[0])
        level = NEGATED if place in negative else levels[k]
        found.append(Word(term, number, level, _weight(term), term[0].isdigit(), is_noun))
    return found


def _weight(term: str) -> float:
    return LIGHT_WEIGHT if is_light(term) or term in _EXTRA_LIGHT else 1.0


def _pieces(run: str, start: int) -> list[tuple[str, int]]:
    if _HIRAGANA.match(run):
        return [(match[0], start + match.start()) for match in _hiragana_words().finditer(run)]
    if not "\u3400" <= run[0] <= "\u9fff" and run[0] not in "々〆ヶ":
        return [(run, start)]
    first = 1 if len(run) > 2 and len(run) % 2 and run[0] in _PREFIXES else 0
    found = [(run[0], start)] if first else []
    return found + [(run[k : k + 2], start + k) for k in range(first, len(run), 2)]
