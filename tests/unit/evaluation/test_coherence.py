"""Coherence of answers."""

import random
import re
from pathlib import Path

import pytest

from acc.adapters.evaluation.calibration import load_cases
from acc.adapters.evaluation.coherence import coherence, has_no_grammar
from acc.domain.language import is_japanese, sentences

TEXTS = [text for case in load_cases(Path("difficult")) for text in (*case.context, case.question)]
SENTENCES = list(dict.fromkeys(one for text in TEXTS for one in sentences(text)))
ENGLISH = [text for text in SENTENCES if not is_japanese(text) and len(text.split()) >= 10]
JAPANESE = [text for text in SENTENCES if is_japanese(text)]


def test_ordinary_sentences_have_grammar() -> None:
    faults = [text for text in ENGLISH + JAPANESE if has_no_grammar(text)]
    assert len(faults) <= 0.01 * len(ENGLISH + JAPANESE)


def test_most_sentences_with_mixed_words_have_none() -> None:
    draw = random.Random(3)  # noqa: S311 - reproducible
    mixed = []
    for text in ENGLISH:
        words = re.findall(r"[\w'-]+", text)
        mixed.append(" ".join(draw.sample(words, len(words))))
    assert sum(map(has_no_grammar, mixed)) > 0.5 * len(mixed)


@pytest.mark.parametrize(
    "answer",
    [
        "Door the lead of is and chairs a the from Mara to. The of was window and the is by red.",
        "Apple river seventeen jump quickly table green mountain. Cloud seven fish paper lamp run.",
        "The lead is Mara. " * 50,
        "責任者は佐伯です。" * 50,
        "をは責任者のがを佐伯はへ。がを部屋をの窓をは。",
        "机 空 走る 青い 電車 犬 高い 山 川 海 飲む 早い 本 紙 椅子",
    ],
)
def test_word_salad_and_repetitions_are_not_coherent(answer: str) -> None:
    assert coherence(answer, []) < 0.5


def test_plain_answer_is_coherent() -> None:
    assert coherence("The lead is Mara. The call is at nine.", ["The lead is Mara"]) == 1.0
    assert coherence("責任者は佐伯です。会議は九時です。", []) == 1.0
    assert coherence("", []) == 1.0
