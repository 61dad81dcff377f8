"""Find words that exclude each other between a claim and the sentence that is closest to it.

"The left arm" and "the right arm", or "the search team" and "the release team", share all other
words. Each check looks for one word in the place of another one.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from acc.domain.language import is_japanese, normalize_text, term_list, terms
from acc.domain.paraphrases import content_terms, is_light, synonyms
from acc.domain.quantities import Quantity, contains_quantity, quantities, with_digits

#: Words of one line exclude each other.
_EXCLUSIVE = tuple(
    tuple(line.split())
    for line in """
left right
north south east west
northern southern eastern western
first second third fourth fifth
monday tuesday wednesday thursday friday saturday sunday
january february march april may june july august september october november december
spring summer autumn winter
morning afternoon evening night
upstairs downstairs
front rear
inside outside
son daughter father mother brother sister husband wife uncle aunt niece nephew
red green blue yellow white black brown grey
kitchen bathroom bedroom garage garden cellar
hotel hostel
own rented
breakfast lunch dinner
""".strip().splitlines()
)
_EXCLUSIVE_JAPANESE = tuple(
    tuple(line.split())
    for line in """
左 右
北側 南側 東側 西側
東門 西門 南門 北門
月曜 火曜 水曜 木曜 金曜 土曜 日曜
午前 午後
有料 無料
春 夏 秋 冬
息子 娘 父 母 兄 姉 弟 妹 夫 妻
朝食 昼食 夕食
台所 浴室 寝室
早く 遅く
長く 短く
増え 減り
上が 下が
""".strip().splitlines()
)
_PART = re.compile(r"[,;:]\s+|\s(?:and|but|or|while|whereas|with)\s|、|。|(?<=ですが)|(?<=だが)")
_ORDER = re.compile(r"\s(before|after)\s", re.I)
_PER = re.compile(r"\b(?:a|an|per|each|every)\s(hour|day|night|week|month|year)\b", re.I)
#: Share of the other words of a claim that a sentence has if one word replaces another one.
_LEAST_SAME = 0.6
_SAME_BEGINNING = 4


def contrast(claim: str, sentence: str, others: Sequence[str] = ()) -> str:
    """Return the word of a claim that the sentence excludes, or an empty text.

    `others` are further sentences that support the claim; their words exclude nothing.
    """
    elsewhere = " ".join(others)
    if found := _exclusive(claim, sentence, elsewhere) or _label(claim, sentence, elsewhere):
        return f"another one: {found}"
    if _is_order_exchanged(claim, sentence):
        return "the order is exchanged"
    if number := _misplaced_number(claim, sentence):
        return f"number differs: {number}"
    periods, known = (set(_PER.findall(text.casefold())) for text in (claim, sentence))
    if len(periods) == len(known) == 1 and periods != known:
        return f"says per {next(iter(periods))}"
    return ""


def _exclusive(claim: str, sentence: str, others: str) -> str:
    if is_japanese(claim):
        for group in _EXCLUSIVE_JAPANESE:
            mine = [word for word in group if word in claim]
            if mine and not any(word in sentence or word in others for word in mine):
                theirs = [word for word in group if word in sentence]
                if theirs:
                    return f"{mine[0]}, not {theirs[0]}"
        return ""
    claimed, known = _words(claim), _words(sentence)
    elsewhere = _words(others)
    for group in _EXCLUSIVE:
        mine = [word for word in group if word in claimed]
        if mine and not any(word in known or word in elsewhere for word in mine):
            theirs = [word for word in group if word in known]
            if theirs:
                return f"{mine[0]}, not {theirs[0]}"
    return ""


#: "Room B", 倉庫B: a noun and the letter that tells two of them apart.
_LABEL = re.compile(
    r"([\u3400-\u9fff\u30a1-\u30fc]{1,8})([A-Z])(?![A-Za-z0-9])"
    r"|\b([A-Za-z]{3,20}) ([A-Z])\b(?!['’.])"
)


def _label(claim: str, sentence: str, others: str) -> str:
    """Return a letter of the claim if the sentence has another one after the same noun."""
    claimed, known = _labels(claim), _labels(sentence)
    elsewhere = _labels(others)
    for noun, mine in claimed.items():
        theirs = known.get(noun, frozenset())
        if theirs and not mine & (theirs | elsewhere.get(noun, frozenset())):
            return f"{noun} {min(mine)}, not {min(theirs)}"
    return ""


@lru_cache(maxsize=2_048)
def _labels(text: str) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for match in _LABEL.finditer(normalize_text(text)):
        noun, letter = (match[1] or match[3]).casefold(), match[2] or match[4]
        if letter != "I":
            found[noun] = found.get(noun, frozenset()) | {letter}
    return found


_FRACTION = re.compile(r"\b(?:a|an|one|two|three) (?:third|fourth|fifth)s?\b(?= of|\W|$)")


@lru_cache(maxsize=2_048)
def _words(text: str) -> frozenset[str]:
    words = re.findall(r"[a-z]+", _FRACTION.sub(" ", text.casefold()))
    return frozenset((*words, *(word[:-1] for word in words if word.endswith("s"))))


def _is_order_exchanged(claim: str, sentence: str) -> bool:
    """Return True if "A before B" became "B before A"."""
    mine, theirs = (_ORDER.split(text) for text in (claim, sentence))
    if len(mine) != 3 or len(theirs) != 3:
        return False
    first, second = terms(mine[0]), terms(mine[2])
    if mine[1].casefold() != theirs[1].casefold():
        first, second = second, first
    before, after = terms(theirs[0]), terms(theirs[2])
    straight = len(first & before) + len(second & after)
    return len(first & after) + len(second & before) > straight


@lru_cache(maxsize=2_048)
def _parts(text: str) -> tuple[str, ...]:
    return tuple(part for part in _PART.split(text) if part.strip())


def _misplaced_number(claim: str, sentence: str) -> str:
    """Return a number of the claim that belongs to another part of the sentence."""
    parts = _parts(sentence)
    if len(parts) < 2:
        return ""
    about = [(frozenset(content_terms(with_digits(part))), quantities(part)) for part in parts]
    for piece in _parts(claim):
        wanted = quantities(piece)
        if len(wanted) != 1:
            continue
        (number,) = wanted
        words = {term for term in content_terms(with_digits(piece)) if not term[0].isdigit()}
        overlaps = [len(words & known) for known, _ in about]
        best = max(overlaps)
        if not best or overlaps.count(best) > 1:
            continue
        own = about[overlaps.index(best)][1]
        if (
            any(_is_alike(number, other) for other in own)
            and not contains_quantity(own, number)
            and any(contains_quantity(values, number) for _, values in about)
        ):
            return number.number
    return ""


def _is_alike(one: Quantity, other: Quantity) -> bool:
    return one.dimension == other.dimension and ("h" in one.number) == ("h" in other.number)


def replaced_word(claim: str, sentence: str, known: frozenset[str]) -> str:
    """Return a word of the claim in whose place the sentence has another one.

    `known` are all words of the document: only a word that it does not have is a replacement.
    """
    mine, theirs = term_list(with_digits(claim)), term_list(with_digits(sentence))
    there = frozenset(theirs)
    missing = [
        index
        for index, term in enumerate(mine)
        if term not in known and not term[0].isdigit() and not is_light(term)
    ]
    if len(missing) != 1 and not (is_japanese(claim) and len(missing) <= 3):
        return ""
    same = sum(term in there for term in mine)
    if same < _LEAST_SAME * (len(mine) - len(missing)) or same < 2:
        return ""
    for index in missing:
        before = mine[index - 1] if index else ""
        after = mine[index + 1] if index + 1 < len(mine) else ""
        for place, term in enumerate(theirs):
            is_between = (theirs[place - 1] if place else "") == before and (
                theirs[place + 1] if place + 1 < len(theirs) else ""
            ) == after
            if is_between and term not in mine and _are_different(mine[index], term):
                return f"{mine[index]}, not {term}"
    return ""


def _are_different(one: str, other: str) -> bool:
    if is_light(other) or other in synonyms(one) or other[0].isdigit():
        return False
    return not (
        one.isascii()
        and (one[:_SAME_BEGINNING] == other[:_SAME_BEGINNING] or one.startswith(other))
    )
