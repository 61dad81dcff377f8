"""Cutting an answer into atomic claims, and finding what supports each."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from acc.adapters.evaluation.answer_kinds import is_courtesy, is_refusal, is_unknown
from acc.domain.alignment import EvidenceIndex
from acc.domain.claim_differences import POSSIBILITY, Corrections, difference
from acc.domain.claim_features import ClaimModel, claim_features
from acc.domain.claim_support import ABSENT_NUMBER_FACTOR, MAX_CLAIM_LENGTH, SupportDocument
from acc.domain.language import identifiers, numbers, one_line, sentences, terms, values, word_list
from acc.domain.roles import NEGATION
from acc.domain.statement_frames import frame
from acc.domain.value_objects.evaluation import (
    NOT_CLOSE,
    NOT_IN_FULL,
    STATED,
    UNCLEAR,
    ClaimThreshold,
    ClaimVerdict,
)

_CLAUSE = re.compile(
    r";\s+|,\s+(?:and|but|while|whereas)\s+(?=\w+\s+\w+\s+\w+)|(?<=す)が、(?=[^、。]{4})"
)
#: Share of the words of a claim that evidence on the same subject has.
_LEAST_SHARED = 0.5
_MOST_CLAIMS = 200


class Evidence(NamedTuple):
    """A sentence that may support a claim; `fault` is the reason why it does not count."""

    text: str
    fault: str = ""


#: Features of the differences that `SupportDocument` and `difference` name.
_DIFFERENCES = {
    "number differs": "number_differs",
    "name differs": "name_differs",
    NEGATION: "negation",
    "says all, but part was stated": "all_for_part",
    "another frequency": "other_frequency",
    "the order is exchanged": "other_order",
    "more certain than what was said": "more_certain",
    "what was said is uncertain": "uncertain",
    "says": "other_word",
}
#: Differences that no other agreement can outweigh.
_CONTRADICTIONS = ("roles are exchanged", "the opposite", "another one", POSSIBILITY)
#: 20 of the 21 labelled claims with one are not supported; too few to train a weight for each.
_CONTRADICTION_FACTOR = 0.5
#: What a feature that speaks against a claim means.
_REASONS = {
    "number_replaced": "number differs",
    "number_of_other_words": "the number belongs to something else",
    "other_negation": NEGATION,
    "negated_copy": NEGATION,
    "part_for_whole": "says all, but part was stated",
    "old_value": "the value was changed",
    "other_date": "date differs",
    "updated_later": "a later sentence changed it",
    "outdated": "a later sentence changed it",
}


class _Sentences:
    """Sentences in the two forms that a claim is compared with."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._document = SupportDocument(texts, is_conversation=True)
        self._index = EvidenceIndex(texts)

    def compare(self, claim: str) -> "_Comparison":
        claim = claim[:MAX_CLAIM_LENGTH]
        support = self._document.score(claim)
        faults = support.faults
        if other := difference(claim, support.evidence):
            faults = (*faults, other)
        return _Comparison(claim_features(claim, self._index), faults, support.evidence)


class _Comparison:
    """The features of a claim, what differs and the closest sentences."""

    def __init__(
        self, features: dict[str, float], faults: tuple[str, ...], evidence: tuple[str, ...]
    ) -> None:
        self.features = features
        self.evidence = evidence
        is_derived = "number_derived" in features
        self.faults = tuple(
            fault for fault in faults if not (is_derived and fault.startswith("number differs"))
        )
        for fault in self.faults:
            kind = fault.split(":")[0]
            if name := _DIFFERENCES.get(kind) or _DIFFERENCES.get(kind.split()[0]):
                features[name] = 1.0


class EvidencePool:
    """Sentences that can support a claim in one turn, and those that cannot any more.

    Without annotations, a later sentence on the same subject may change what was said.
    """

    def __init__(
        self,
        entries: Iterable[Evidence],
        threshold: ClaimThreshold,
        model: ClaimModel,
        *,
        is_annotated: bool = False,
    ) -> None:
        self._threshold = threshold
        self._is_annotated = is_annotated
        self._model = model
        listed = list(entries)
        self._exact: dict[str, Evidence] = {}
        for entry in listed:
            # Evidence without a fault replaces faulty evidence with the same text.
            known = self._exact.get(_key(entry.text))
            if known is None or (known.fault and not entry.fault):
                self._exact[_key(entry.text)] = entry
        self._corrections = Corrections([entry.text for entry in listed])
        self._active = _Sentences([entry.text for entry in listed if not entry.fault])
        self._faulty = [
            (entry, terms(entry.text), _Sentences([entry.text])) for entry in listed if entry.fault
        ]

    def judge(self, claim: str) -> ClaimVerdict:
        """Return the verdict on one claim with its probability, reason and evidence."""
        exact = self._exact.get(_key(claim))
        if exact is not None:
            return ClaimVerdict(
                claim=claim,
                supported=not exact.fault,
                reason=exact.fault or STATED,
                evidence=exact.text,
                score=None if exact.fault else 1.0,
            )
        comparison, newer = self._compare(claim)
        probability = self._model.probability(comparison.features)
        if comparison.features.get("number_absent"):
            probability *= ABSENT_NUMBER_FACTOR
        if any(fault.startswith(_CONTRADICTIONS) for fault in comparison.faults):
            probability *= _CONTRADICTION_FACTOR
        faulty = self._closest_faulty(claim, max(probability, self._threshold.value))
        if faulty is not None:
            return ClaimVerdict(
                claim=claim,
                supported=False,
                reason=faulty.fault,
                evidence=faulty.text,
            )
        supported = probability >= self._threshold.value
        evidence = newer or " ".join(comparison.evidence)
        reason = STATED
        if not supported:
            reason = "; ".join(comparison.faults) or self._reason(comparison.features, newer)
            evidence = "" if reason == NOT_CLOSE else evidence
        in_band = self._threshold.low <= probability <= self._threshold.high
        return ClaimVerdict(
            claim=claim,
            supported=supported,
            reason=reason,
            evidence=evidence,
            verdict=UNCLEAR if in_band else "",
            score=round(probability, 4),
        )

    def _reason(self, features: Mapping[str, float], newer: str) -> str:
        if newer:
            return f"superseded: {newer}"
        if features.get("covered", 0.0) < _LEAST_SHARED:
            return NOT_CLOSE
        against = {
            name: self._model.weights.get(name, 0.0) * features[name]
            for name in _REASONS
            if name in features
        }
        worst = min(against, key=lambda name: against[name], default="")
        return _REASONS[worst] if worst and against[worst] < 0 else NOT_IN_FULL

    def features(self, claim: str) -> dict[str, float]:
        """Return the features that decide whether a claim is supported."""
        return self._compare(claim)[0].features

    def _compare(self, claim: str) -> tuple[_Comparison, str]:
        """Return how a claim relates to the sentences, and the sentence that corrected it."""
        comparison = self._active.compare(claim)
        if self._is_annotated:
            # The annotations say what was changed later.
            comparison.features.pop("updated_later", None)
        newer = self._corrections.outdated(claim)
        if newer:
            comparison.features["outdated"] = 1.0
        if self._corrections.has_new_value(claim):
            # An earlier sentence still has the old number.
            for name in ("number_differs", "number_of_other_words"):
                comparison.features.pop(name, None)
        return comparison, newer

    def _closest_faulty(self, claim: str, best: float) -> Evidence | None:
        """Return the evidence that does not count, if it supports the claim more than `best`."""
        wanted = terms(claim)
        closest: Evidence | None = None
        for entry, entry_terms, sentences_ in self._faulty:
            if len(wanted & entry_terms) < _LEAST_SHARED * len(wanted):
                continue
            comparison = sentences_.compare(claim)
            probability = self._model.probability(comparison.features)
            if probability > best and not comparison.faults:
                closest, best = entry, probability
        return closest


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
    if _says_nothing(text) or not word_list(text):
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


def _says_nothing(text: str) -> bool:
    return (
        text.endswith(("?", "？"))
        or is_refusal(text)
        or (is_unknown(text) and not numbers(text) and not identifiers(text))
        or is_courtesy(text)
    )
