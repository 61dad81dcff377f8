"""Words of a claim, their alignment with evidence, and the features of the pair."""

import time

import pytest

from acc.domain.alignment import EvidenceIndex
from acc.domain.claim_features import SUPPORTING, ClaimModel, claim_features
from acc.domain.claim_words import NEGATED, read_words


def negated(text: str) -> set[str]:
    return {word.term for word in read_words(text) if word.negation == NEGATED}


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The lamp is not broken.", {"broken"}),
        ("The lamp is broken, but the switch is not damaged.", {"damag"}),
        ("Shoes may be returned, underwear never.", {"underwear"}),
        ("Everything works except the radio.", {"radio"}),
        ("It takes no more than 3 hours.", set()),
        ("ランプは壊れていません。", {"壊"}),
        ("昼食は不要です。", {"昼食", "要"}),
        ("通路での飲食は禁止です。", {"飲食"}),
        ("明日は雨かもしれません。", set()),
        ("料理は無料です。", set()),
    ],
)
def test_negation_marks_the_word_it_refers_to(text: str, terms: set[str]) -> None:
    assert negated(text) == terms


def test_words_of_a_clause_have_its_number() -> None:
    words = read_words("The baker opens at six, and the butcher closes at noon.")
    assert {word.term: word.clause for word in words if not word.is_number} == {
        "baker": 0,
        "open": 0,
        "butcher": 1,
        "clos": 1,
    }


@pytest.mark.parametrize(
    ("claim", "evidence", "sign"),
    [
        ("The shop sells lamps.", "The shop sells lamps.", 1),
        ("an announcement", "They announce it.", 1),
        ("the bridge", "The footbridge is new.", 1),
        ("They purchased a van.", "They bought a van.", 1),
        ("The flat is empty.", "The flat is occupied.", -1),
        ("The lid was unlocked.", "The lid was locked.", -1),
        ("部品を購入しました。", "部品を買いました。", 1),
        ("会は中止です。", "会は開始です。", -1),
    ],
)
def test_every_word_finds_its_counterpart(claim: str, evidence: str, sign: int) -> None:
    index = EvidenceIndex([evidence])
    alignment = index.align(claim)
    found = {
        alignment.matches[place][known].sign
        for place, known in alignment.chosen.items()
        if alignment.matches[place][known].sign
    }
    assert sign in found
    assert (-1 in found) == (sign < 0)


def test_best_sentences_cover_the_claim_together() -> None:
    index = EvidenceIndex(
        ["The lift is old.", "Anna paints the hall.", "Weather is fine.", "Ben repairs the roof."]
    )
    assert set(index.align("Anna paints the hall and Ben repairs the roof.").best) == {1, 3}


CASES = [
    ("All nine lamps are broken.", "Two of the nine lamps are broken.", "part_for_whole"),
    ("全部の電球が切れています。", "電球は9個のうち2個が切れています。", "part_for_whole"),
    ("The fee is 8 euros.", "The fee rises from 8 to 12 euros.", "old_value"),
    ("料金は8ユーロです。", "料金は8ユーロから12ユーロに上がります。", "old_value"),
    ("It opens on 3 May.", "It opens on 3 June.", "other_date"),
    ("開店は5月3日です。", "開店は6月3日です。", "other_date"),
    ("The lamp is not broken.", "The lamp is broken.", "other_negation"),
    ("ランプは壊れていません。", "ランプは壊れています。", "other_negation"),
    ("The lamp is not broken.", "The lamp is not broken at all.", "same_negation"),
    ("The flat is not empty.", "The flat is occupied.", "same_negation"),
    ("Ten lamps work.", "Four lamps work.", "number_replaced"),
    ("Six of the lamps fail.", "There are 10 lamps, 4 work.", "number_derived"),
    ("The mechanic sings a cheerful opera.", "The mechanic repairs lamps.", "missing_nouns"),
]


@pytest.mark.parametrize(("claim", "evidence", "name"), CASES)
def test_feature_is_found_and_does_not_occur_in_the_evidence_itself(
    claim: str, evidence: str, name: str
) -> None:
    index = EvidenceIndex([evidence])
    assert claim_features(claim, index).get(name)
    if name not in SUPPORTING:
        assert not claim_features(evidence, index).get(name)


def test_number_of_other_words_has_a_negative_margin() -> None:
    index = EvidenceIndex(["The lamp costs 15, and the chair costs 40."])
    assert claim_features("The lamp costs 15.", index)["number_context"] > 0
    wrong = claim_features("The lamp costs 40.", index)
    assert wrong["number_context"] < 0
    assert wrong["number_of_other_words"]


def test_later_change_of_the_subject_is_found() -> None:
    first = "The fitting is on Monday in the studio."
    later = "Update: the fitting moved to the theatre."
    claim = "The fitting is on Monday in the studio."
    assert claim_features(claim, EvidenceIndex([first, later])).get("updated_later")
    assert not claim_features(claim, EvidenceIndex([first])).get("updated_later")
    moved = "The fitting is in the theatre."
    assert not claim_features(moved, EvidenceIndex([first, later])).get("updated_later")


def test_claim_without_words_is_covered_by_its_numbers() -> None:
    index = EvidenceIndex(["The file is J-5280."])
    assert claim_features("J-5280", index)["covered_by_best"] == 1.0
    assert not claim_features("J-6180", index).get("covered_by_best")


def test_probability_follows_the_weights() -> None:
    model = ClaimModel(bias=0.0, weights={"covered": 2.0, "other_date": -4.0})
    assert model.probability({}) == 0.5
    assert model.probability({"covered": 1.0, "unknown": 9.0}) > 0.85
    assert model.probability({"covered": 1.0, "other_date": 1.0}) < 0.15
    assert model.probability({"other_date": 1_000.0}) == 0.0


def test_empty_evidence_and_empty_claim_have_features() -> None:
    assert "covered" not in claim_features("The lamp works.", EvidenceIndex([]))
    assert "missing_nouns" not in claim_features("", EvidenceIndex(["The lamp works."]))


@pytest.mark.parametrize(
    "unit", ["1", "1.", "from 1", "a of ", "no ", "1月", "不", "、", "ない", "("]
)
def test_long_text_takes_linear_time(unit: str) -> None:
    text = (unit * 2_000)[:2_000]
    started = time.process_time()
    claim_features(text, EvidenceIndex([text[:1_000], "The lamp works."]))
    assert time.process_time() - started < 4
