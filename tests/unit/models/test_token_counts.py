"""Token counts compared with a reference implementation."""

import random

import bpe_openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.bootstrap.memory import token_counter

PARTS = ["a", "Z9", "don't", "日本", "カ", "。", ".", "/", "'s", "é", "-", "x" * 401]
SEAMS = [" ", "  ", "\t", "\r", "\u3000", "\n", "\n\n", "|", " | ", " |\n", ": ", " : ", "\ngoal: "]
REFERENCE = bpe_openai.get_encoding("o200k_base")
COUNTER = token_counter()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(PARTS + SEAMS), min_size=250, max_size=350))
def test_long_text_has_reference_count(pieces: list[str]) -> None:
    text = "".join([*pieces, "x" * 200])
    assert COUNTER.count(text) == len(REFERENCE.encode_ordinary(text))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(max_size=12) | st.sampled_from(PARTS + SEAMS), min_size=250, max_size=350),
    st.randoms(use_true_random=False),
)
def test_text_with_known_items_has_the_same_count(pieces: list[str], order: random.Random) -> None:
    known: dict[str, int] = {}
    for _ in range(3):
        text = " | ".join("".join(pieces[first : first + 5]) for first in range(0, 250, 5))
        assert COUNTER.count_items(text, known) == COUNTER.count(text)
        order.shuffle(pieces)


def test_known_items_are_not_counted_again() -> None:
    items = [f"fact {number}: " + "x" * 40 for number in range(20)]
    known: dict[str, int] = {}
    total = COUNTER.count_items(" | ".join(items), known)
    assert known.keys() == set(items[1:-1])
    known[items[5]] += 100
    assert COUNTER.count_items(" | ".join(items), known) == total + 100


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=120))
def test_any_text_has_reference_count(text: str) -> None:
    assert COUNTER.count(text) == len(REFERENCE.encode_ordinary(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<|endoftext|> is ordinary text",
        "a'\u017f'LLa",
        "def f(x: int) -> int:\n\treturn x  # 数える\n",
        "👩\u200d👩\u200d👧\u200d👦 🇯🇵 1\ufe0f\u20e3",
        "か\u3099 が ﾊﾟ \u0301",
        "a\ud800b",
        "\ud83d\ude00 is a pair of surrogates",
    ],
)
def test_unusual_text_has_reference_count(text: str) -> None:
    assert COUNTER.count(text) == len(REFERENCE.encode_ordinary(text))
