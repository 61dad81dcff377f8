"""Find differences between a claim and the sentences that share its words.

Word overlap does not detect a removed "may", "all" instead of "some", another frequency
or a value that was corrected later. Each check compares one such property.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from acc.domain.contrasts import contrast
from acc.domain.language import is_japanese, terms
from acc.domain.quantities import Quantity, contains_quantity, quantities, with_digits
from acc.domain.roles import NEGATION, allows_forbidden, is_permission

_HEDGE = re.compile(
    r"\b(?:may|might|could|possibly|it is possible that|perhaps|maybe|probabl[ey]|likely"
    r"|suspect\w*|believ\w*|think\w*"
    r"|expect\w*|assum\w*|estimat\w*|unconfirmed|unclear|seems?|appears?|rumou?r\w*|plans? to"
    r"|would|should|up to|around|about|roughly|nearly|whether|if|unless|not (?:yet )?(?:been )?"
    r"(?:confirmed|verified|decided|ruled out)|(?:is|was|are|were)n['’]t confirmed)\b"
    r"|かもしれ|おそらく|可能性|疑|見込|と思われ|とみ(?:て|られ)|と考え|未確認|未定|推定|ようです|らしい"
    r"|まだ(?:です|出て|確)|ほど|約|予定|かどうか|なければ|場合|なら",
    re.I,
)
#: "May" is not the month, and what someone may do is no possibility.
_POSSIBLE = re.compile(
    r"\b(?:might|possibly|perhaps|maybe)\b|(?<![\d.])\s(?-i:may)(?! \d)\b(?!\s(?:not|use|enter"
    r"|leave|bring|take|only))|かもしれ|可能性",
    re.I,
)
_CERTAIN = re.compile(
    r"\b(?:certainly|definitely|exactly|surely|without doubt|is confirmed|confirmed|ruled out"
    r"|proven"
    r"|guaranteed)\b|確定し|確認済み|確実|間違いなく|ちょうど|きっかり|断定",
    re.I,
)
_ALL = re.compile(
    r"\b(?:all|every|each|both|entire(?:ly)?|whole|everyone|everything|fully|completely)\b"
    r"|すべて|全て|全部|全員|全件|とも(?!に)|どちらも|いずれも|そろって",
    re.I,
)
_PART = re.compile(
    r"\b(?:some|part(?:ly)?|half|most|only|except|one of|other|others|not all|several|a few|off"
    r"|remaining|rest)\b|\d+(?:\.\d+)?\s?(?:%|percent)|一部|半分|ほとんど|だけ|以外|除|残る|残り|のみ"
    r"|割|しか",
    re.I,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|none|neither|nor|cannot|without|nobody|nothing|no longer)\b|n['’]t\b", re.I
)
_CLAUSE = re.compile(
    r"[,;:]\s+(?:(?:and|but|while|whereas)\s+)?|\s(?:but|although|though|while|whereas|because)\s",
    re.I,
)
_CLAUSE_JAPANESE = re.compile(r"、|。|が、|ので|ため")
_PERIODS = {
    "hour": 8_760.0,
    "day": 365.0,
    "night": 365.0,
    "week": 52.0,
    "month": 12.0,
    "quarter": 4.0,
    "year": 1.0,
    "時間": 8_760.0,
    "日": 365.0,
    "週": 52.0,
    "月": 12.0,
    "四半期": 4.0,
    "年": 1.0,
}
_ADVERBS = {"hourly": 8_760.0, "daily": 365.0, "nightly": 365.0, "weekly": 52.0, "monthly": 12.0}
_ADVERBS |= {"quarterly": 4.0, "yearly": 1.0, "annually": 1.0, "毎日": 365.0, "毎晩": 365.0}
_ADVERBS |= {"毎週": 52.0, "毎月": 12.0, "毎年": 1.0}
_RATE = re.compile(
    r"\b(?:(once|\d+ times)\s+(?:a|an|per|each|every)|every|each)\s+(?:(other|2|3|4)\s+)?"
    r"(hour|day|night|week|month|quarter|year)s?\b|\b(?:(\d+) times )?(hourly|daily|nightly"
    r"|weekly|monthly|quarterly|yearly|annually)\b|(毎日|毎晩|毎週|毎月|毎年)|(時間|日|週|月|四半期|年)に?(\d+)[回度便]"
)
_UPDATE = re.compile(
    r"\b(?:update|correction|corrected|now|moved|put off|postponed|changed|raised|lowered|restated"
    r"|revised|instead|rescheduled|brought forward|extended|shortened|latest|new|has become"
    r")\b"
    r"|訂正|変更|更新|修正|になりました|に早まり|に延び|に変わり|延期|繰り|改め|分かりました|引き上げ|引き下げ"
    r"|新しい|最新",
    re.I,
)
_UPDATE_WORDS = terms(
    "update correction corrected moved put postponed changed raised lowered restated revised"
    " rescheduled brought forward extended shortened latest new become only note date"
    " 訂正 変更 更新 修正 延期 追加 連絡 都合"
)
_PAST = re.compile(
    r"\b(?:before|formerly|previously|earlier|used to|originally|at first|until then|was first)\b"
    r"|以前|元は|もともと|当初|それまで|これまで|前は",
    re.I,
)


def difference(claim: str, evidence: Sequence[str]) -> str:
    """Return how a claim differs from the sentences that are closest to it, or ""."""
    known = " ".join(evidence)
    if not known:
        return ""
    if _HEDGE.search(evidence[0]) and _shares_half(claim, evidence[0]):
        if _CERTAIN.search(claim) and not _CERTAIN.search(evidence[0]):
            return "more certain than what was said"
        if _is_possibility_stated(claim, evidence[0]):
            return POSSIBILITY
        if (
            not _HEDGE.search(claim)
            and not _NEGATION.search(claim)
            and _is_hedged(claim, evidence[0])
        ):
            return "what was said is uncertain"
    if _ALL.search(claim) and not _ALL.search(known) and _PART.search(known):
        return "says all, but part was stated"
    claimed_rates, known_rates = _rates(claim), _rates(known)
    if claimed_rates and known_rates and not claimed_rates & known_rates:
        return "another frequency"
    if not _shares_half(claim, evidence[0]):
        return ""
    if allows_forbidden(claim, evidence[0]):
        return NEGATION
    return contrast(claim, evidence[0], evidence[1:])


def _shares_half(claim: str, sentence: str) -> bool:
    wanted = terms(claim)
    return bool(wanted) and len(wanted & terms(sentence)) * 2 >= len(wanted)


POSSIBILITY = "a possibility is stated as a fact"


def _is_possibility_stated(claim: str, sentence: str) -> bool:
    """Return True if the words of the claim are those of a clause about what may be."""
    if _HEDGE.search(claim) or _NEGATION.search(claim) or is_permission(claim):
        return False
    wanted = terms(claim)
    clause = max(_clauses(sentence), key=lambda clause: len(wanted & terms(clause)), default="")
    return _POSSIBLE.search(clause) is not None


def _is_hedged(claim: str, sentence: str) -> bool:
    """Return True if the clause that is closest to the claim is uncertain."""
    wanted = terms(claim)
    clauses = _clauses(sentence)
    best = max(clauses, key=lambda clause: len(wanted & terms(clause)), default="")
    return _HEDGE.search(best) is not None


def _clauses(sentence: str) -> list[str]:
    pattern = _CLAUSE_JAPANESE if is_japanese(sentence) else _CLAUSE
    return [clause for clause in pattern.split(sentence) if clause.strip()]


@lru_cache(maxsize=2_048)
def _rates(text: str) -> frozenset[float]:
    """Return how often per year something happens: "twice a week" is 104."""
    found: set[float] = set()
    for match in _RATE.finditer(with_digits(text)):
        count, gap, period, per, adverb, adverb_ja, period_ja, count_ja = match.groups("")
        if adverb or adverb_ja:
            found.add(int(per or 1) * _ADVERBS[adverb or adverb_ja])
            continue
        times = int(count_ja) if count_ja else int(count.split()[0]) if count[:1].isdigit() else 1
        skipped = {"": 1, "other": 2}.get(gap) or int(gap)
        found.add(times * _PERIODS[period or period_ja] / skipped)
    return frozenset(found)


_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|[月火水木金土日]曜", re.I)


@lru_cache(maxsize=2_048)
def _values(text: str) -> frozenset[Quantity]:
    """Return the numbers and weekdays of a text."""
    days = {Quantity(day.casefold(), "weekday", day.casefold()) for day in _WEEKDAY.findall(text)}
    return quantities(text) | days


@dataclass(frozen=True, slots=True)
class _Correction:
    """A value that a later sentence replaces."""

    terms: frozenset[str]
    old: frozenset[Quantity]
    new: frozenset[Quantity]
    text: str


class Corrections:
    """The values of a conversation that a later sentence replaced."""

    def __init__(self, sentences: Sequence[str]) -> None:
        self._found: list[_Correction] = []
        for index, later in enumerate(sentences):
            new = _values(later)
            if not new or not _UPDATE.search(later):
                continue
            about = terms(later) - _UPDATE_WORDS
            for earlier in sentences[:index]:
                shared = about & terms(earlier)
                # The correction is about the clause that shares the most words with it.
                clause = max(_clauses(earlier), key=lambda text: len(about & terms(text)))
                old = frozenset(
                    value
                    for value in _values(clause)
                    if not contains_quantity(new, value) and _has_same_dimension(value, new)
                )
                words = {term for term in about if not term[0].isdigit()}
                if old and len(shared) * 4 >= len(words) and shared:
                    self._found.append(_Correction(shared, old, new, later))

    def outdated(self, claim: str) -> str:
        """Return the sentence that corrected a value of the claim, or ""."""
        if _PAST.search(claim):
            return ""
        stated, words = _values(claim), terms(claim)
        for correction in self._found:
            if not words & correction.terms:
                continue
            has_old = any(contains_quantity(correction.old, value) for value in stated)
            has_new = any(contains_quantity(correction.new, value) for value in stated)
            if has_old and not has_new:
                return correction.text
        return ""

    def has_new_value(self, claim: str) -> bool:
        """Return True if a claim states the new value of a correction."""
        stated, words = _values(claim), terms(claim)
        return any(
            words & correction.terms and any(contains_quantity(correction.new, v) for v in stated)
            for correction in self._found
        )


def _has_same_dimension(value: Quantity, others: frozenset[Quantity]) -> bool:
    return any(value.dimension == other.dimension for other in others)
