"""AUROC, and thresholds from labels."""

import random

import pytest

from acc.domain.labels import LabelItem, LabelKind, label_thresholds
from acc.domain.statistics import ranking_quality


@pytest.mark.parametrize(
    ("scored", "quality"),
    [
        ([(0.9, True), (0.1, False)], 1.0),
        ([(0.1, True), (0.9, False)], 0.0),
        ([(0.5, True), (0.5, False)], 0.5),
        ([(0.9, True), (0.5, True), (0.5, False), (0.1, False)], 0.875),
        ([(0.9, True)], None),
        ([], None),
    ],
)
def test_quality_is_the_chance_of_the_right_order(
    scored: list[tuple[float, bool]], quality: float | None
) -> None:
    assert ranking_quality(scored) == quality


def test_quality_equals_the_comparison_of_all_pairs() -> None:
    draw = random.Random(5)  # noqa: S311 - reproducible
    scored = [(round(draw.random(), 1), draw.random() < 0.4) for _ in range(200)]
    good = [score for score, label in scored if label]
    bad = [score for score, label in scored if not label]
    wins = sum((one > other) + (one == other) / 2 for one in good for other in bad)
    assert ranking_quality(scored) == pytest.approx(wins / len(good) / len(bad))


def item(number: int, score: float | None, language: str = "en") -> LabelItem:
    return LabelItem(
        id=str(number),
        kind=LabelKind.CLAIM,
        agent="a",
        language=language,
        query="q",
        context=(),
        text="t",
        answer="a",
        is_good=True,
        score=score,
    )


def test_threshold_of_labels_is_between_their_scores() -> None:
    items = [item(1, 0.9), item(2, 0.8), item(3, 0.3), item(4, 0.2), item(5, None)]
    items += [item(6, 0.5, "ja")]
    labels = {"1": True, "2": True, "3": False, "4": False, "5": True, "6": True}
    (threshold,) = label_thresholds(items, labels)
    assert (threshold.language, threshold.examples) == ("en", 4)
    assert threshold.value == pytest.approx(0.55)
    assert threshold.low < 0.55 < threshold.high
