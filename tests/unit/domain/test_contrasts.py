"""Words that exclude each other, replaced words and numbers of another part."""

import pytest

from acc.domain.contrasts import contrast, replaced_word
from acc.domain.language import term_list


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("The cannula in the right arm was changed.", "The cannula in the left arm was changed."),
        ("The bridge after the first stream is broken.", "The bridge after the second stream is."),
        ("Antibiotics were given before the cultures.", "Cultures were taken before antibiotics."),
        ("Overtime is limited to ten hours a week.", "Overtime is capped at ten hours a month."),
        ("Price counts for 60 percent.", "Price counts for 40 percent and quality for 60 percent."),
        ("古いテレビの引き取りは有料です。", "古いテレビの引き取りは無料です。"),
        ("会議は金曜です。", "会議は木曜です。"),
        ("評価は価格6割、品質4割です。", "評価は価格4割、品質6割で行う。"),
    ],
)
def test_contrast_is_found(claim: str, sentence: str) -> None:
    assert contrast(claim, sentence)
    assert not contrast(sentence, sentence)
    assert not contrast(claim, claim)


def test_word_of_another_supporting_sentence_is_no_contrast() -> None:
    claim, first = "The shop closes at 6 on Friday.", "The shop closes at 6 on Monday."
    assert contrast(claim, first)
    assert not contrast(claim, first, ["On Friday it is the same."])


@pytest.mark.parametrize(
    ("claim", "sentence", "word"),
    [
        ("Pensioners pay half.", "Students pay half.", "pensioner, not student"),
        (
            "Marco opened ticket OPS-4471 with the vendor.",
            "Marta opened ticket OPS-4471 with the vendor.",
            "marco, not marta",
        ),
        ("最低額は東和建設の入札です。", "最低額は三和建設の入札です。", "東和, not 三和"),
        ("The firm repaired the pump.", "The firm fixed the pump.", ""),
        ("The certificate expires in May.", "The cert expires in May.", ""),
        ("Pensioners pay half.", "Pensioners pay half.", ""),
    ],
)
def test_replaced_word_is_found_unless_it_is_a_synonym(
    claim: str, sentence: str, word: str
) -> None:
    assert replaced_word(claim, sentence, frozenset(term_list(sentence))) == word


def test_word_that_the_document_has_elsewhere_replaces_nothing() -> None:
    known = frozenset(term_list("Students pay half. Pensioners get the rest."))
    assert not replaced_word("Pensioners pay half.", "Students pay half.", known)


@pytest.mark.parametrize(
    ("claim", "sentence", "is_other"),
    [
        ("Room C is reserved.", "Room B is reserved.", True),
        ("Room B is reserved.", "Rooms A and B: room B is reserved.", False),
        ("会議室Aは修理中です。", "会議室Bは修理中です。", True),
        ("会議室Bは修理中です。", "会議室Bは修理中です。", False),
        ("Costs rose in the third quarter.", "Costs rose in the second quarter.", True),
        ("More than a third of the plots are empty.", "The second list has empty plots.", False),
        ("待ち時間は長くなりました。", "待ち時間は短くなりました。", True),
    ],
)
def test_another_letter_or_exclusive_word(claim: str, sentence: str, is_other: bool) -> None:
    assert contrast(claim, sentence).startswith("another one") is is_other
