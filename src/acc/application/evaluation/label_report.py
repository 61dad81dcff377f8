"""Agreement of raters and judge, and corrected rates, from the labels of a run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from acc.domain.labels import (
    Agreement,
    CorrectedRate,
    LabelItem,
    LabelKind,
    agreement,
    corrected_rate,
    strata_of,
)

JUDGE = "judge"


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
