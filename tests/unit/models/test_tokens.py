"""Counting tokens part by part gives what counting the whole gives."""

import bpe_openai
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.bootstrap.memory import token_counter

PARTS = ["a", "Z9", "don't", "日本", "カ", "。", ".", "/", "'s", "é", "-", "x" * 401]
SEAMS = [" ", "  ", "\t", "\r", "\u3000", "\n", "\n\n", "|", " | ", " |\n", ": ", " : ", "\ngoal: "]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(PARTS + SEAMS), min_size=250, max_size=350))
def test_a_long_text_has_as_many_tokens_as_its_parts(pieces: list[str]) -> None:
    text = "".join([*pieces, "x" * 200])
    whole = bpe_openai.get_encoding("o200k_base").encode_ordinary(text)
    assert token_counter().count(text) == len(whole)
