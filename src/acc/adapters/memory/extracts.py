"""Check whether a text is an extract of a statement and adds no claim of its own.

An extract keeps the words of its source in their order. It may omit words without a claim of their
own: a greeting, an article, a place, a reason, a second statement. It must not omit words that the
meaning depends on: negations, conditions, hedges, the speaker. When in doubt, the check rejects the
extract and the original sentence stays. `extracts_ja` does the same for Japanese.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from acc.adapters.memory import extracts_ja
from acc.adapters.memory.extracts_ja import MAX_REPEATS
from acc.domain.language import MAX_SENTENCE_LENGTH, numbers, sentences
from acc.domain.text import normalize_text, one_line

_CACHE_SIZE = 2_048
_TOKEN = re.compile(
    r"[!<>]=|\d+(?:,\d{3})+(?:\.\d+)?%?|[^\W_]+(?:[._:/@+'%-]*[^\W_]+)*%?|[^\w\s.!?\"'“”]"
)
_WORD = re.compile(r"[^\W_]")
_MONTH = re.compile(r"(?<=[a-z\d,] )May\b")
_SIGN = re.compile(r"(?<!\S)[-−–](?=[\d.$€£¥])")
_NOT = re.compile(r"\b(?:(ca)n|(wo)n|(\w+)n)['’]t\b", re.I)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ARTICLES = _words("a an the")
_IS = _words("is are : =")
_BREAKS = _words(", ; ( ) - – —")
#: What may be left out wherever it stands.
_FREE = (
    _ARTICLES | _IS | _BREAKS | _words("also very really quite now currently already still indeed")
)
_AUXILIARIES = _words(
    "is are was were be been being am has have had do does did will would shall should can could"
    " may might must"
)
_PREPOSITIONS = _words(
    "in on at of for with by from near inside outside behind beside across along around among into"
    " onto through via within during under over above below against toward towards about to as"
    " between per upon than like"
)
#: The prepositions with which a phrase begins that may be left out at the end of a sentence.
_PHRASES = _words("in on at with by from near inside behind beside via")
#: What the rest of a sentence depends on; never left out.
_OPERATORS = _words(
    """
    not no never none neither nor cannot nobody nothing nowhere hardly barely rarely seldom
    scarcely almost nearly partly partially half if unless until till when whenever once while
    before after except excluding only whether or either may might could would should can will
    shall must ought need needs perhaps maybe possibly probably presumably apparently allegedly
    supposedly reportedly likely unlikely seemingly seem seems seemed appear appears appeared look
    looks think thinks thought believe believes believed guess guesses hope hopes hoped suppose
    assume assuming assumes doubt doubts doubted suspect suspects suspected hear heard say says said
    claim claims claimed tell tells told according rumour rumours rumor rumors unsure uncertain
    sure unconfirmed unverified unknown unclear tentative tentatively preliminary provisional
    provisionally draft wrong wrongly false falsely untrue incorrect incorrectly mistaken mistake
    error lie lies lied joke joking kidding pretend imagine hypothetical hypothetically example
    case condition provided providing theory principle paper dream fiction story former formerly
    previously past used longer instead rather sorry correction corrected actually wait without lack
    lacks fail fails failed refuse refuses refused deny denies denied forgot let wish wishes want
    wants plan plans planned expected supposed intended alleged question recall recalls remember
    wrote writes write report reports reported insist insists insisted suggest suggests suggested
    mention mentions mentioned argue argues argued pending subject disagree disagrees disregard
    ignore scratch oops typo void invalid expired outdated obsolete deprecated revoked cancelled
    canceled withdrawn overturned reversed film movie novel game simulation test demo drill exercise
    rehearsal play part first luck vain
    """
)
#: What points back at the rest of a sentence, and may take it back.
_POINTING = _words(
    "i me my we us our you he him she they them it its that this these those which who whose whom"
    " such there then one ones same"
)
_TAKING_BACK = _POINTING - _words("me my us our we")
_JOINING = _words("and but so yet")
_REASONS = _words("because due owing")
_ADDING = _JOINING | _REASONS | _words("although though since")
_ASIDE = _words("a an the our my his her their its")
_SCALES = _words("hundred thousand million billion")
#: What holds of all, or only so far as the whole sentence goes.
_NARROWED = _OPERATORS | _words("is all every each any most everyone everybody everything always")
#: How a sentence can begin before it claims anything; most such words need a pause behind them.
_OPENING = re.compile(
    r"(?:(?:please|also|and|so|but|finally|meanwhile) "
    r"|(?:please )?(?:note|remember|be aware|keep in mind|(?:i|we) (?:can )?confirm)"
    r" (?:also )?(?:that |: |, )"
    r"|(?:well|ok|okay|yes|hi|hello|hey|thanks|thank you|(?:dear |hi |hello |hey )?(?:team|everyone"
    r"|all|folks|colleagues)|fyi|btw|update|news|correction|reminder|summary|fact|note|first|second"
    r"|third|finally|meanwhile|in short|in brief|in addition|besides|by way|good morning|good day"
    r"|good evening|for record|for your information|as you know|as discussed|as of today"
    r"|just so you know|just to be clear|to be clear|to confirm|heads up|heads-up|quick note"
    r"|quick update|one more thing) (?:, |: |; |- |– |— ))+"
)
#: A question that lacks its mark.
_ASKS = re.compile(
    r"^(?:(?:so|and|but|ok|okay|then|well)[, ]+)?(?:is|are|was|were|do|does|did|can|could|will"
    r"|would|should|shall|has|have|had|may|might|am|who|whose|whom|what|where|why|how|which)\b"
    r"(?!.*[.!]$)"
    r"|[?？]\W*$|か\W*$",
    re.I,
)


def is_statement(sentence: str) -> bool:
    """Return True if a sentence is a statement rather than a question."""
    line = one_line(sentence)
    if len(line) > MAX_SENTENCE_LENGTH:  # a question shows at the beginning or at the end
        line = f"{line[:100]}{line[100 - MAX_SENTENCE_LENGTH :]}"
    return _ASKS.search(line) is None


@lru_cache(maxsize=_CACHE_SIZE)
def is_extract(text: str, source: str) -> bool:
    """Return True if each sentence of a text is an extract of a sentence of `source`."""
    parts = _parts(text)
    return bool(parts) and all(
        any(_is_sentence_extract(part, sentence) for sentence in _parts(source)) for part in parts
    )


def _parts(text: str) -> tuple[str, ...]:
    return sentences(text[:MAX_SENTENCE_LENGTH])


def _is_sentence_extract(text: str, source: str) -> bool:
    if _plain(text) == _plain(source):
        return True
    if extracts_ja.contains_japanese(text) or extracts_ja.contains_japanese(source):
        return extracts_ja.is_extract(text, source)
    wanted, original = _content_tokens(text), _tokens(source)
    if not wanted or any(not 0 < original.count(token) <= MAX_REPEATS for token in wanted):
        return False
    return any(_may_leave_out(original, last, len(original)) for last in _ends(wanted, original))


def _plain(text: str) -> str:
    return one_line(text).casefold().strip(" .!。")


def is_verbatim(text: str, source: str) -> bool:
    """Return True if `source` contains a text as one piece, outside of any condition.

    This is weaker than `is_extract` and suits goals, which claim nothing.
    """
    if extracts_ja.contains_japanese(text) or extracts_ja.contains_japanese(source):
        return extracts_ja.is_verbatim(text, source)
    wanted = [token for token in _tokens(text) if token not in _FREE]
    original = [token for token in _tokens(source) if token not in _FREE]
    return bool(wanted) and any(
        original[start : start + len(wanted)] == wanted
        and not _OPERATORS.intersection(original[:start] + original[start + len(wanted) :])
        for start in range(len(original) - len(wanted) + 1)
    )


def _ends(wanted: Sequence[str], original: Sequence[str]) -> list[int]:
    """Return the possible positions of the last wanted word."""
    reached = [-1]
    for token in wanted:
        places = [place for place, other in enumerate(original) if other == token]
        reached = [
            place
            for place in places
            if any(
                last < place and _may_leave_out(original, last, place) for last in reversed(reached)
            )
        ]
    return reached


@lru_cache(maxsize=_CACHE_SIZE)
def _tokens(text: str) -> tuple[str, ...]:
    plain = _MONTH.sub("may-month", normalize_text(text).replace("’", "'")).casefold()
    plain = _SIGN.sub("minus ", plain)
    plain = _NOT.sub(lambda found: f"{found[1] or found[2] or found[3]} not", plain)
    plain = re.sub(r"\bca not\b|\bcan not\b", "cannot", plain).replace("wo not", "will not")
    return tuple(_token(token) for token in _TOKEN.findall(plain))


@lru_cache(maxsize=_CACHE_SIZE)
def _content_tokens(text: str) -> tuple[str, ...]:
    unbound = _ARTICLES | _BREAKS
    return tuple(token for token in _tokens(text) if token not in unbound)


def _token(word: str) -> str:
    """Return a word as it is compared: a number in digits, one thing like many of it."""
    if word in _IS:
        return "is"
    number = numbers(word)
    if len(number) == 1 and (word.isalpha() or "," in word):
        return next(iter(number))
    many = len(word) > 3 and word.isalpha() and word.endswith("s") and not word.endswith("ss")
    return word[:-1] if many and word not in _OPERATORS | _AUXILIARIES else word


def _may_leave_out(original: Sequence[str], last: int, place: int) -> bool:
    """Return True if the words between two positions may be missing."""
    gap = original[last + 1 : place]
    if _FREE.issuperset(gap):
        return True
    if last < 0:
        return _is_opening(gap)
    if _OPERATORS.intersection(gap):
        return False
    if place == len(original):
        return _adds(original[: last + 1], gap)
    return _is_aside(gap) or (gap[0] == "from" and original[place] == "to" and _is_bare(gap))


def _is_opening(gap: Sequence[str]) -> bool:
    rest = [token for token in gap if token not in _ARTICLES]
    if _OPENING.fullmatch(" ".join([*rest, ""]).replace("is ", ": ")):
        return True
    ended = rest[-1] == ";" or (rest[-1] in _JOINING and rest[-2:-1] in ([","], [";"]))
    return ended and not _OPERATORS.intersection(gap)


def _adds(prefix: Sequence[str], gap: Sequence[str]) -> bool:
    """Return True if a sentence end only adds a reason, place or statement."""
    pause = 1 if gap[0] in (",", ";", "-", "–", "—") else 0
    first = gap[pause]
    if first in _REASONS:
        return not _OPERATORS.intersection(prefix)
    if _POINTING.intersection(gap):
        return False
    if first in _ADDING:
        return bool(pause) or first not in _JOINING or _may_lose_second(first, prefix)
    # "In 2025" is when it was; "in the film" or "on paper" is not so at all.
    framed = first in ("in", "on", "at") and not any(token[0].isdigit() for token in gap)
    place = first in _PHRASES and len(gap) > 1 and not framed
    return gap[0] == ";" or (place and _may_lose_place(prefix))


def _may_lose_second(joined_by: str, prefix: Sequence[str]) -> bool:
    # Not of "between 5 and 9" or "two hundred and five", nor of "everything but the roof".
    counts = "between" in prefix or prefix[-1][0].isdigit() or prefix[-1] in _SCALES
    return joined_by == "and" and not counts


def _may_lose_place(prefix: Sequence[str]) -> bool:
    # "Closed on Mondays" is not closed, and "does not run at night" may well run.
    return _is_content(prefix[-1]) and not _NARROWED.intersection(prefix)


def _is_aside(gap: Sequence[str]) -> bool:
    """Return True if a gap is an apposition or a relative clause between two commas."""
    if not (gap[0] == gap[-1] == "," and gap.count(",") == 2):
        return False
    if gap[1] in ("who", "which"):
        return not _TAKING_BACK.intersection(gap[2:])
    # Of more words one may be a verb, and tell who says it: "the vendor announced".
    return gap[1] in _ASIDE and len(gap) == 4


def _is_bare(gap: Sequence[str]) -> bool:
    return not (_AUXILIARIES | _BREAKS | _JOINING | _POINTING).intersection(gap)


def _is_content(token: str) -> bool:
    return bool(_WORD.match(token)) and token not in _FREE | _AUXILIARIES | _PREPOSITIONS
