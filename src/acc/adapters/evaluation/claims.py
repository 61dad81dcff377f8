"""Cutting an answer into atomic claims, and finding what supports each."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from acc.adapters.evaluation.answer_kinds import is_refusal, is_unknown
from acc.domain.claim_differences import Corrections, difference
from acc.domain.language import identifiers, numbers, one_line, sentences, terms, values, word_list
from acc.domain.statement_frames import frame
from acc.domain.support import SupportDocument, SupportScore
from acc.domain.value_objects.evaluation import (
    NOT_CLOSE,
    NOT_IN_FULL,
    STATED,
    UNCLEAR,
    ClaimThreshold,
    ClaimVerdict,
)

_CLAUSE = re.compile(r";\s+|,\s+(?:and|but|while|whereas)\s+(?=\w+\s+\w+\s+\w+)")
#: Share of the words of a claim that evidence on the same subject has.
_LEAST_SHARED = 0.5
_MOST_CLAIMS = 200


class Evidence(NamedTuple):
    """A sentence that may support a claim; `fault` is the reason why it does not count."""

    text: str
    fault: str = ""


class EvidencePool:
    """Sentences that can support a claim in one turn, and those that cannot any more."""

    def __init__(self, entries: Iterable[Evidence], threshold: ClaimThreshold) -> None:
        self._threshold = threshold
        listed = list(entries)
        self._exact: dict[str, Evidence] = {}
        for entry in listed:
            # Evidence without a fault replaces faulty evidence with the same text.
            known = self._exact.get(_key(entry.text))
            if known is None or (known.fault and not entry.fault):
                self._exact[_key(entry.text)] = entry
        self._corrections = Corrections([entry.text for entry in listed])
        active = [entry.text for entry in listed if not entry.fault]
        self._active = SupportDocument(active, has_context=True)
        self._faulty = [
            (entry, terms(entry.text), SupportDocument([entry.text]))
            for entry in listed
            if entry.fault
        ]

    def judge(self, claim: str) -> ClaimVerdict:
        """Return the verdict on one claim with its score, reason and evidence."""
        exact = self._exact.get(_key(claim))
        if exact is not None:
            return ClaimVerdict(
                claim=claim,
                supported=not exact.fault,
                reason=exact.fault or STATED,
                evidence=exact.text,
                score=0.0 if exact.fault else 1.0,
            )
        support = self.score(claim)
        faulty, fault = self._closest_faulty(claim, support.score)
        if faulty is not None and faulty.score >= self._threshold.value:
            return ClaimVerdict(
                claim=claim,
                supported=False,
                reason=fault,
                evidence=" ".join(faulty.evidence),
                score=round(1 - faulty.score, 4),
            )
        if newer := self._corrections.outdated(claim):
            return ClaimVerdict(
                claim=claim,
                supported=False,
                reason=f"superseded: {newer}",
                evidence=newer,
                score=round(1 - support.score, 4),
            )
        faults = self._faults(claim, support)
        # A number, name or negation that differs decides, whatever the rest of the claim scores.
        supported = not faults and support.score >= self._threshold.value
        in_band = self._threshold.low <= support.score <= self._threshold.high
        is_unclear = in_band and not faults
        evidence = " ".join(support.evidence)
        reason = STATED if supported else "; ".join(faults)
        if not reason:
            nothing = support.features.coverage < _LEAST_SHARED
            reason = NOT_CLOSE if nothing else NOT_IN_FULL
            evidence = "" if nothing else evidence
        return ClaimVerdict(
            claim=claim,
            supported=supported,
            reason=reason,
            evidence=evidence,
            verdict=UNCLEAR if is_unclear else "",
            score=support.score,
        )

    def _faults(self, claim: str, support: SupportScore) -> tuple[str, ...]:
        """Return what differs, without numbers that an earlier, corrected sentence contradicts."""
        faults = support.faults
        if self._corrections.has_new_value(claim):
            faults = tuple(fault for fault in faults if not fault.startswith("number differs"))
        if not faults and (other := difference(claim, support.evidence)):
            faults = (other,)
        return faults

    def score_without_fault(self, claim: str) -> float | None:
        """Return the support of a claim, or None if something in it differs."""
        support = self.score(claim)
        if self._corrections.outdated(claim) or self._faults(claim, support):
            return None
        return support.score

    def score(self, claim: str) -> SupportScore:
        """Return the support of a claim by the sentences without a fault."""
        return self._active.score(claim)

    def _closest_faulty(self, claim: str, best: float) -> tuple[SupportScore | None, str]:
        """Return the best score by evidence that does not count, if it is above `best`."""
        wanted = terms(claim)
        closest: SupportScore | None = None
        reason = ""
        for entry, entry_terms, document in self._faulty:
            if len(wanted & entry_terms) < _LEAST_SHARED * len(wanted):
                continue
            support = document.score(claim)
            if support.score > best and not support.faults:
                closest, reason, best = support, entry.fault, support.score
        return closest, reason


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
    if _is_courtesy(text) or not word_list(text):
        return False
    if frame(text) is not None or bool(values(text)) or len(terms(text)) > 2:
        return True
    # A heading has no full stop.
    return text.rstrip().endswith((".", "。", "!", "！")) and len(word_list(text)) > 2


def _bodies(answer: str) -> list[str]:
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return [answer]
    if isinstance(value, dict):
        return [str(item) for item in value.values()]
    return [answer]


def _is_courtesy(text: str) -> bool:
    return (
        text.endswith(("?", "？"))
        or is_refusal(text)
        or (is_unknown(text) and not numbers(text) and not identifiers(text))
        or _key(text) in {"noted", "understood", "承知しました", "nothing to report", "特になし"}
    )
