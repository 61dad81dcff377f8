"""The labelled examples: whole, balanced, and not to be guessed."""

import math
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from acc.adapters.evaluation.calibration import load_cases
from acc.domain.errors import InvalidInput
from acc.domain.language import is_japanese, is_negated, terms
from acc.domain.value_objects.evaluation_run import CalibrationCase, CalibrationItem, Label

CASES = load_cases(Path("difficult"))
UNSEEN = Path(__file__).parents[3] / "benchmarks" / "judge_unseen"
ITEMS = [(case, item) for case in CASES for item in case.items]
CLAIMS = [(case, item) for case, item in ITEMS if item.is_claim]
DOMAINS = {"it_operations", "cybersecurity", "healthcare", "finance"}


def is_good(item: CalibrationItem) -> bool:
    return item.label in (Label.SUPPORTED, Label.SATISFIED)


def share(items: list[tuple[CalibrationCase, CalibrationItem]]) -> float:
    return sum(is_good(item) for _, item in items) / len(items)


def test_examples_are_many_and_have_unique_ids() -> None:
    assert len(ITEMS) >= 400
    assert len({item.id for _, item in ITEMS}) == len(ITEMS)
    texts = Counter((case.id, item.answer) for case, item in ITEMS)
    assert max(texts.values()) == 1


def test_languages_and_domains_are_balanced() -> None:
    languages = Counter(case.language for case, _ in ITEMS)
    assert languages.keys() == {"en", "ja"}
    assert abs(languages["en"] - languages["ja"]) <= 0.05 * len(ITEMS)
    places = Counter((case.language, case.domain) for case, _ in ITEMS)
    assert {domain for _, domain in places} == DOMAINS
    assert min(places.values()) >= 40
    for case, item in ITEMS:
        if case.language == "en":
            assert not is_japanese(item.text), item.id
        elif not item.text.startswith("{"):
            assert is_japanese(item.text), item.id


@pytest.mark.parametrize("language", ["en", "ja"])
def test_labels_are_balanced(language: str) -> None:
    mine = [(case, item) for case, item in ITEMS if case.language == language]
    claims = [pair for pair in mine if pair[1].is_claim]
    rules = [pair for pair in mine if not pair[1].is_claim]
    assert 0.4 <= share(claims) <= 0.6
    assert 0.4 <= share(rules) <= 0.6
    labels = Counter(item.label for _, item in mine)
    assert min(labels.values()) >= 5
    assert labels.keys() == set(Label)


def test_context_contains_evidence_but_no_claim() -> None:
    for case, item in CLAIMS:
        if item.label is not Label.UNSUPPORTED:
            assert any(item.evidence in text for text in case.context), item.id
        assert not any(item.text in text for text in case.context), item.id


def test_texts_have_realistic_lengths() -> None:
    for case, item in ITEMS:
        assert 5 <= len(item.answer) <= 300, item.id
        assert len(case.context) <= 3
        assert all(len(text) <= 300 for text in case.context)


def test_kind_does_not_predict_the_label() -> None:
    kinds = defaultdict(list)
    for case, item in ITEMS:
        kinds[item.kind].append((case, item))
    for kind, items in kinds.items():
        # What was never mentioned cannot be supported; every other kind goes both ways.
        if kind != "absent":
            assert len(items) >= 10, kind
            assert 0.3 <= share(items) <= 0.7, kind


def test_length_and_negation_do_not_predict_support() -> None:
    good = [item.text for _, item in CLAIMS if is_good(item)]
    bad = [item.text for _, item in CLAIMS if not is_good(item)]
    for language in (True, False):
        lengths = [
            sum(len(t) for t in side if is_japanese(t) is language)
            / sum(is_japanese(t) is language for t in side)
            for side in (good, bad)
        ]
        assert 0.75 <= lengths[0] / lengths[1] <= 1.33
    shares = [sum(map(is_negated, side)) / len(side) for side in (good, bad)]
    assert abs(shares[0] - shares[1]) < 0.15


def test_terms_of_a_claim_do_not_predict_its_label() -> None:
    # A naive Bayes classifier that never sees the context, left one case out at a time.
    correct = 0
    for left_out in {case.id for case, _ in CLAIMS}:
        counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        sizes: Counter[bool] = Counter()
        for case, item in CLAIMS:
            if case.id != left_out:
                counts[is_good(item)].update(terms(item.text))
                sizes[is_good(item)] += 1
        for case, item in CLAIMS:
            if case.id == left_out:
                odds = {
                    side: math.log(sizes[side])
                    + sum(
                        math.log((counts[side][term] + 1) / (sizes[side] + 2))
                        for term in terms(item.text)
                    )
                    for side in (True, False)
                }
                correct += (odds[True] > odds[False]) is is_good(item)
    assert correct / len(CLAIMS) < 0.6


@pytest.mark.parametrize("language", ["en", "ja"])
def test_answers_are_labelled_by_several_writers(language: str) -> None:
    shipped, unseen = (
        [case for case in load_cases(path) if case.language == language] for path in (None, UNSEEN)
    )
    assert not {case.writer for case in shipped} & {case.writer for case in unseen}
    for is_claim, least, writers in ((True, 600, 12), (False, 100, 5)):
        items = [
            (case, item)
            for case in (*shipped, *unseen)
            for item in case.items
            if item.is_claim is is_claim
        ]
        assert len(items) >= least
        assert len({case.writer for case, _ in items}) == writers
        assert 0.35 <= share(items) <= 0.65
        assert sum(case in unseen for case, _ in items) >= 0.25 * len(items)
    for case in (*shipped, *unseen):
        assert len({item.text for item in case.items}) == len(case.items)


def test_every_shipped_set_is_loaded_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_cases(Path("answers")) == load_cases()
    assert {case.writer for case in CASES} == {"difficult"}
    # A folder of the user with the same name wins.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "difficult").mkdir()
    with pytest.raises(InvalidInput, match="contains no"):
        load_cases(Path("difficult"))
