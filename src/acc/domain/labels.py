"""Labels of people for verdicts of a judge: samples, agreement and corrected rates.

A sample has strata: agent, class, verdict and whether the verdict is unclear. Within a stratum
items are drawn at random, so rates can be estimated from the labels whatever the judge said.
"""

import math
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from acc.domain.statistics import (
    CONFIDENCE,
    cohen_kappa,
    percentile,
    t_quantile,
    threshold_of,
)
from acc.domain.value_objects.evaluation import ClaimThreshold

_RESAMPLES = 1_000


class LabelKind(StrEnum):
    """What a person labels."""

    CLAIM = "claim"
    RULE = "rule"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelItem:
    """A claim of an answer, or an answer under a rule, with the verdict of the judge.

    `is_good` is True for a supported claim and a kept rule. Raters see neither it nor the agent.
    """

    id: str
    kind: LabelKind
    agent: str
    language: str
    query: str
    context: tuple[str, ...]
    text: str
    answer: str
    is_good: bool
    is_unclear: bool = False
    #: The support of a claim without a fault, which a threshold decides about.
    score: float | None = None

    @property
    def stratum(self) -> tuple[str, str, bool, bool]:
        """Return the stratum of the item."""
        return (self.agent, self.kind.value, self.is_good, self.is_unclear)


def label_thresholds(
    items: Sequence[LabelItem], labels: Mapping[str, bool]
) -> tuple[ClaimThreshold, ...]:
    """Return the threshold of each language with supported and unsupported labelled claims."""
    scored: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for item in items:
        if item.score is not None and item.id in labels:
            scored[item.language].append((item.score, labels[item.id]))
    return tuple(
        threshold_of(language, pairs)
        for language, pairs in sorted(scored.items())
        if len({label for _, label in pairs}) == 2
    )


def draw_sample(items: Sequence[LabelItem], size: int, seed: int) -> list[LabelItem]:
    """Return a stratified sample in random order, with more of the rare and unclear strata.

    Each stratum gets the same number of items, as far as it has them. This labels bad and unclear
    verdicts, of which there are few, more often than good ones.
    """
    if size < 1:
        raise ValueError(f"the size of a sample must be at least 1, got {size}")
    draw = random.Random(seed)  # noqa: S311 - sampling, not secrecy
    strata: dict[tuple[str, str, bool, bool], list[LabelItem]] = defaultdict(list)
    for item in sorted(items, key=lambda item: item.id):
        strata[item.stratum].append(item)
    for members in strata.values():
        draw.shuffle(members)
    chosen: list[LabelItem] = []
    depth = 0
    while len(chosen) < min(size, len(items)):
        for key in sorted(strata):
            if depth < len(strata[key]) and len(chosen) < size:
                chosen.append(strata[key][depth])
        depth += 1
    draw.shuffle(chosen)
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Cohen's kappa of two raters with its interval; None if it is undefined."""

    first: str
    second: str
    group: str
    items: int
    kappa: float | None
    low: float | None
    high: float | None


def agreement(
    first: str,
    second: str,
    group: str,
    pairs: Sequence[tuple[bool, bool]],
    *,
    seed: int = 0,
) -> Agreement:
    """Return kappa of two raters with a bootstrap interval over items."""
    kappa = cohen_kappa(pairs)
    draw = random.Random(seed)  # noqa: S311 - resampling, not secrecy
    resampled: list[float] = []
    if kappa is not None:
        for _ in range(_RESAMPLES):
            value = cohen_kappa(draw.choices(pairs, k=len(pairs)))
            if value is not None:
                resampled.append(value)
    resampled.sort()
    tail = (1 - CONFIDENCE) / 2
    return Agreement(
        first=first,
        second=second,
        group=group,
        items=len(pairs),
        kappa=kappa,
        low=percentile(resampled, tail) if resampled else None,
        high=percentile(resampled, 1 - tail) if resampled else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedRate:
    """The share of bad verdicts by the judge, and by labels with a 95 % interval."""

    raw: float
    corrected: float | None
    low: float | None
    high: float | None
    items: int
    labelled: int
    reason: str = ""


def corrected_rate(strata: Sequence[tuple[int, bool, Sequence[bool]]]) -> CorrectedRate:
    """Return the share of bad items, corrected by labels.

    A stratum has its size, whether the judge calls its items good, and the labels of a random
    sample of it. The estimate is the weighted mean of the labelled shares: it is unbiased for any
    judge, and the better the judge, the narrower the interval.
    """
    total = sum(size for size, _, _ in strata)
    if not total:
        raise ValueError("at least one item is required")
    raw = sum(size for size, is_good, _ in strata if not is_good) / total
    labelled = sum(len(labels) for _, _, labels in strata)
    unlabelled = [size for size, _, labels in strata if size and not labels]
    if unlabelled:
        share = sum(unlabelled) / total
        return CorrectedRate(
            raw=raw,
            corrected=None,
            low=None,
            high=None,
            items=total,
            labelled=labelled,
            reason=f"{100 * share:.0f} % of the items are in strata without a label",
        )
    rate = variance = degrees = 0.0
    for size, _, labels in strata:
        if not size:
            continue
        count, bad = len(labels), sum(not label for label in labels)
        weight = size / total
        rate += weight * bad / count
        # One pseudo label of each kind: a stratum of equal labels still has an error.
        smooth = (bad + 1) / (count + 2)
        rest = 1 - count / size
        part = weight**2 * smooth * (1 - smooth) / count * rest
        variance += part
        degrees += part**2 / max(1, count - 1)
    freedom = max(1, round(variance**2 / degrees)) if degrees else 1_000
    margin = t_quantile(1 - (1 - CONFIDENCE) / 2, min(freedom, 1_000)) * math.sqrt(variance)
    return CorrectedRate(
        raw=raw,
        corrected=rate,
        low=max(0.0, rate - margin),
        high=min(1.0, rate + margin),
        items=total,
        labelled=labelled,
    )


def strata_of(
    items: Sequence[LabelItem], labels: Mapping[str, bool]
) -> list[tuple[int, bool, list[bool]]]:
    """Return the strata of items with the labels that they have."""
    sizes: dict[tuple[str, str, bool, bool], int] = defaultdict(int)
    known: dict[tuple[str, str, bool, bool], list[bool]] = defaultdict(list)
    for item in items:
        sizes[item.stratum] += 1
        if item.id in labels:
            known[item.stratum].append(labels[item.id])
    return [(size, key[2], known[key]) for key, size in sorted(sizes.items())]
