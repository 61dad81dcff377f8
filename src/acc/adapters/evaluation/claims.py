"""Cutting an answer into atomic claims, and finding what supports each."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from acc.domain.language import (
    contains_text,
    identifiers,
    is_negated,
    names,
    numbers,
    sentences,
    stem,
    terms,
    values,
)
from acc.domain.statements import frame
from acc.domain.text import normalize_text, one_line
from acc.domain.value_objects.evaluation import ClaimVerdict

_CLAUSE = re.compile(r";\s+|,\s+(?:and|but|while|whereas)\s+(?=\w+\s+\w+\s+\w+)")
_LEAST_SHARED = 0.75
_TRIED = 4
_MOST_CLAIMS = 200

UNKNOWN = re.compile(
    r"\b(?:not (?:been )?(?:stated|known|confirmed|given|provided|specified|mentioned|available"
    r"|established|set|decided|determined)"
    r"|no (?:information|record|value|figure|data|confirmed|current)|do(?:es)? not (?:know|have)"
    r"|don['’]t (?:know|have)|unknown"
    r"|cannot (?:confirm|say|tell)|can['’]t (?:confirm|say|tell)|unconfirmed|has not been"
    r"|have not been|remains open|not yet|nobody (?:has|knows)|no one (?:has|knows)|yet to be)\b"
    r"|伺っていません|分かりません|わかりません|不明|未確認|情報(?:は|が)(?:ありません|ない)"
    r"|把握していません|未定|決まって(?:いません|いるものはありません)|確認できて(?:いません"
    r"|おりません)|聞いていません",
    re.I,
)
REFUSAL = re.compile(
    r"\b(?:cannot|can['’]t|can not|may not|must not|will not|won['’]t|not (?:able|allowed"
    r"|permitted|authori[sz]ed) to|unable to)\b[^.]{0,40}"
    r"\b(?:share|disclose|provide|give|reveal|release|discuss|answer|help|say|repeat|name"
    r"|read)\b|\bI (?:decline|refuse)\b|\bis confidential\b"
    r"|(?:お伝え|開示|共有|お答え|回答|公開|お知らせ|提供)(?:は)?(?:でき(?:ません|ない|かねます)"
    r"|いたしかね|しかね)|控えさせて",
    re.I,
)


_UNIT = re.compile(
    r"(?P<before>[$€£¥]|\b(?:USD|EUR|GBP|JPY|CHF))?\s?(?P<number>\d[\d,.]*)\s?"
    r"(?P<after>%|percent|pp|ms|milliseconds?|s\b|seconds?|min\b|minutes?|hours?|h\b|days?|weeks?"
    r"|months?|years?|mg\b|g\b|kg\b|ml\b|l\b|million|billion|thousand|ミリ秒|秒|分|時間|時|日"
    r"|週間|か月|年|件|名|人|台|本|円|万円|％)?",
    re.I,
)
_SAME_UNIT = {
    "$": "usd",
    "€": "eur",
    "£": "gbp",
    "¥": "jpy",
    "円": "jpy",
    "percent": "%",
    "％": "%",
}
_SAME_UNIT |= {
    "min": "minut",
    "h": "hour",
    "s": "second",
    "milliseconds": "ms",
    "millisecond": "ms",
}
_OPPOSITES = tuple(
    (terms(one), terms(other))
    for one, other in (
        ("up rose risen increased raised higher", "down fell fallen decreased lowered lower"),
        ("open opened", "closed shut"),
        ("enabled on", "disabled off"),
        ("succeeded passed successful", "failed unsuccessful"),
        ("before", "after"),
        ("online available", "offline unavailable"),
        ("safe", "unsafe"),
        ("added", "removed"),
        ("least minimum", "most maximum"),
        ("成功", "失敗"),
        ("午前", "午後"),
        ("有効", "無効"),
        ("必要", "不要"),
        ("増加", "減少"),
        ("開始", "終了"),
        ("対応済", "未対応"),
    )
)


class Evidence(NamedTuple):
    """A sentence that may support a claim; `fault` is the reason why it does not count."""

    text: str
    fault: str = ""


class EvidencePool:
    """Sentences that can support a claim in one turn."""

    def __init__(self, entries: Iterable[Evidence]) -> None:
        self._entries: list[tuple[Evidence, frozenset[str]]] = []
        self._exact: dict[str, Evidence] = {}
        for whole in entries:
            for text, entry_terms, key in _pieces(whole.text):
                entry = Evidence(text, whole.fault)
                self._entries.append((entry, entry_terms))
                # Evidence without a fault replaces faulty evidence with the same text.
                known = self._exact.get(key)
                if known is None or (known.fault and not entry.fault):
                    self._exact[key] = entry

    def judge(self, claim: str) -> ClaimVerdict:
        """Return the verdict on one claim with its reason and evidence."""
        exact = self._exact.get(_key(claim))
        if exact is not None:
            return _verdict(claim, exact, "stated")
        ranked = self._closest(claim)
        fallen: ClaimVerdict | None = None
        for entry in ranked:
            difference = differs(claim, entry.text)
            if not difference and not entry.fault:
                return _verdict(claim, entry, "stated")
            if not difference and fallen is None:
                fallen = _verdict(claim, entry, "")
        if fallen is not None:
            return fallen
        if not ranked:
            return ClaimVerdict(
                claim=claim, supported=False, reason="nothing said so far is close to it"
            )
        closest = ranked[0]
        return ClaimVerdict(
            claim=claim,
            supported=False,
            reason=differs(claim, closest.text) or closest.fault,
            evidence=closest.text,
        )

    def _closest(self, claim: str) -> list[Evidence]:
        # Values are compared one by one afterwards; the other words identify the topic.
        exact = frozenset(term for value in values(claim) for term in terms(value))
        wanted = terms(claim) - exact or terms(claim)
        scored = [
            (len(wanted & entry_terms), len(exact & entry_terms), not entry.fault, place)
            for place, (entry, entry_terms) in enumerate(self._entries)
            if len(wanted & entry_terms) >= _LEAST_SHARED * len(wanted)
        ]
        scored.sort(reverse=True)
        return [self._entries[entry[-1]][0] for entry in scored[:_TRIED]] if wanted else []


@lru_cache(maxsize=4_096)
def _pieces(text: str) -> tuple[tuple[str, frozenset[str], str], ...]:
    """Return a sentence and its clauses, each with its terms and its key."""
    clauses = _CLAUSE.split(text)
    found = (text, *clauses) if len(clauses) > 1 else (text,)
    return tuple((piece, terms(piece), _key(piece)) for piece in found)


def _verdict(claim: str, entry: Evidence, reason: str) -> ClaimVerdict:
    return ClaimVerdict(
        claim=claim, supported=not entry.fault, reason=entry.fault or reason, evidence=entry.text
    )


def differs(claim: str, evidence: str) -> str:
    """Return the number, identifier, name or negation in which a claim leaves its evidence."""
    for label, reader in (("number", numbers), ("identifier", identifiers)):
        missing = sorted(reader(claim) - reader(evidence))
        if missing:
            return f"{label} differs: {', '.join(missing)}"
    missing = sorted(name for name in names(claim) if not contains_text(evidence, name))
    if missing:
        return f"name differs: {', '.join(missing)}"
    if is_negated(claim) != is_negated(evidence):
        return "one of the two is a negation"
    return _unit_differs(claim, evidence) or _opposite(claim, evidence)


def _unit_differs(claim: str, evidence: str) -> str:
    claimed, known = _units(claim), _units(evidence)
    for number, unit in claimed.items():
        if number in known and unit != known[number]:
            return f"unit differs: {number} {unit}, not {known[number]}"
    return ""


@lru_cache(maxsize=4_096)
def _units(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in _UNIT.finditer(normalize_text(text)):
        unit = (match["before"] or match["after"] or "").casefold()
        if not unit:
            continue
        found[match["number"].replace(",", "")] = _SAME_UNIT.get(unit, stem(unit))
    return found


def _opposite(claim: str, evidence: str) -> str:
    """Return the word whose opposite the evidence has."""
    claimed, known = terms(claim), terms(evidence)
    for one, other in _OPPOSITES:
        for mine, theirs in ((one, other), (other, one)):
            if claimed & mine and not known & mine and known & theirs:
                return f"the opposite: {', '.join(sorted(claimed & mine))}"
    return ""


@lru_cache(maxsize=4_096)
def _key(text: str) -> str:
    return one_line(text).casefold().rstrip(".。!！ ")


def claims_of(answer: str, formal: Sequence[str]) -> list[str]:
    """Return the atomic claims of an answer, without what the rules made it say."""
    skipped = {_key(text) for text in formal}
    found: dict[str, None] = {}
    for text in _bodies(answer):
        for sentence in sentences(text):
            for clause in _CLAUSE.split(sentence):
                bare = clause.strip(" #*【】")
                if _key(bare) not in skipped and _claims_something(bare):
                    found[bare] = None
    return list(found)[:_MOST_CLAIMS]


def _claims_something(text: str) -> bool:
    """Return True if a piece of an answer can be true or false, unlike a heading."""
    if not terms(text) or _is_courtesy(text):
        return False
    return frame(text) is not None or bool(values(text)) or len(terms(text)) > 2


def _bodies(answer: str) -> list[str]:
    try:
        value = json.loads(answer)
    except ValueError:
        return [answer]
    if isinstance(value, dict):
        return [str(item) for item in value.values()]
    return [answer]


def _is_courtesy(text: str) -> bool:
    return (
        text.endswith(("?", "？"))
        or REFUSAL.search(text) is not None
        or (UNKNOWN.search(text) is not None and not numbers(text) and not identifiers(text))
        or _key(text) in {"noted", "understood", "承知しました", "nothing to report", "特になし"}
    )
