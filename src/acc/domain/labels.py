"""Labels of people for verdicts of a judge: samples, agreement and corrected rates.

A sample has strata: agent, class, verdict and whether the verdict is unclear. Within a stratum
items are drawn at random, so rates can be estimated from the labels whatever the judge said.
"""

import math
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from acc.domain.statistics import (
    CONFIDENCE,
    cohen_kappa,
    kappa_interval,
    t_quantile,
    threshold_of,
)
from acc.domain.value_objects.evaluation import ClaimThreshold

#: Items of each stratum in a sample of uncertain items, so that every stratum has labels.
_LEAST_OF_STRATUM = 2
JUDGE = "judge"


class SampleMethod(StrEnum):
    """How the items of a sample are chosen.

    Within a stratum items are always drawn at random, so rates can be corrected with each method.
    """

    #: The same number of items from each stratum.
    STRATIFIED = "stratified"
    #: Mostly items with an unclear verdict, and a few of each other stratum.
    UNCERTAIN = "uncertain"
    RANDOM = "random"


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


def draw_sample(
    items: Sequence[LabelItem],
    size: int,
    seed: int,
    method: SampleMethod = SampleMethod.STRATIFIED,
) -> list[LabelItem]:
    """Return a sample in random order, see `SampleMethod`.

    A stratified sample labels bad and unclear verdicts, of which there are few, more often than
    good ones. A sample of uncertain items helps most to set a threshold.
    """
    if size < 1:
        raise ValueError(f"the size of a sample must be at least 1, got {size}")
    draw = random.Random(seed)  # noqa: S311 - sampling, not secrecy
    ordered = sorted(items, key=lambda item: item.id)
    if method is SampleMethod.RANDOM:
        return draw.sample(ordered, min(size, len(ordered)))
    strata: dict[tuple[str, str, bool, bool], list[LabelItem]] = defaultdict(list)
    for item in ordered:
        strata[item.stratum].append(item)
    for members in strata.values():
        draw.shuffle(members)
    # Rounds of one item from each stratum; uncertain items come before the third round of others.
    ranked = sorted(
        (
            (depth if method is SampleMethod.STRATIFIED else _priority(item, depth), key, depth)
            for key, members in strata.items()
            for depth, item in enumerate(members)
        ),
    )
    chosen = [strata[key][depth] for _, key, depth in ranked[:size]]
    draw.shuffle(chosen)
    return chosen


def _priority(item: LabelItem, depth: int) -> int:
    if depth < _LEAST_OF_STRATUM or item.is_unclear:
        return min(depth, _LEAST_OF_STRATUM)
    return depth + 1


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
    """Return kappa of two raters with a bootstrap interval over items, if there are several."""
    interval = kappa_interval([[pair] for pair in pairs], seed=seed)
    return Agreement(
        first=first,
        second=second,
        group=group,
        items=len(pairs),
        kappa=cohen_kappa(pairs),
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRate:
    """The corrected rate of one agent and class."""

    agent: str
    kind: LabelKind
    rate: CorrectedRate


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReport:
    """Agreement by class and language, and rates by agent and class."""

    agreements: tuple[Agreement, ...]
    rates: tuple[AgentRate, ...]


def label_report(
    items: Sequence[LabelItem], labels: Mapping[str, Mapping[str, bool | None]]
) -> LabelReport:
    """Return agreement and corrected rates; skipped items do not count."""
    by_rater = {
        rater: {key: good for key, good in own.items() if good is not None}
        for rater, own in labels.items()
    }
    verdicts = {JUDGE: {item.id: item.is_good for item in items}}
    raters = {**by_rater, **verdicts}
    agreements = [
        agreement(first, second, group, pairs)
        for first, second in combinations(raters, 2)
        for group, members in _groups(items)
        if (
            pairs := [
                (raters[first][item.id], raters[second][item.id])
                for item in members
                if item.id in raters[first] and item.id in raters[second]
            ]
        )
    ]
    merged = merge_labels(by_rater)
    rates = [
        AgentRate(agent=agent, kind=kind, rate=corrected_rate(strata_of(own, merged)))
        for agent in dict.fromkeys(item.agent for item in items)
        for kind in LabelKind
        if (own := [item for item in items if item.agent == agent and item.kind is kind])
    ]
    return LabelReport(agreements=tuple(agreements), rates=tuple(rates))


def merge_labels(by_rater: Mapping[str, Mapping[str, bool]]) -> dict[str, bool]:
    """Return one label per item; an item on which raters disagree has the first rater's label."""
    merged: dict[str, bool] = {}
    for own in by_rater.values():
        for key, good in own.items():
            merged.setdefault(key, good)
    return merged


def _groups(items: Sequence[LabelItem]) -> Iterator[tuple[str, list[LabelItem]]]:
    for kind in LabelKind:
        of_kind = [item for item in items if item.kind is kind]
        yield f"{kind.value}s", of_kind
        for language in sorted({item.language for item in of_kind}):
            yield (
                f"{kind.value}s, {language}",
                [item for item in of_kind if item.language == language],
            )
