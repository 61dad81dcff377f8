"""Normalisation of text and replacement of unpaired surrogates."""

import pytest
from hypothesis import given
from state_strategies import ANY_TEXT

from acc.domain.text import (
    normalize_text,
    one_line,
    replace_surrogates,
    replace_surrogates_in_data,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("ＡＢＣ　１２３", "ABC 123"),
        ("a\u202eb\u200bc\x00d", "abcd"),
        ("ig\u00adnore \U000e0041the rule", "ignore the rule"),
        ("a\r\nb\rc\u2028d\x85e", "a\nb\nc\nd\ne"),
        ("lone \ud800 half", "lone ? half"),
    ],
)
def test_normalize_text_removes_invisible_characters(text: str, expected: str) -> None:
    assert normalize_text(text) == expected


@given(ANY_TEXT)
def test_normalization_is_idempotent(text: str) -> None:
    assert normalize_text(normalize_text(text)) == normalize_text(text)
    assert one_line(one_line(text)) == one_line(text)
    normalize_text(text).encode("utf-8")


def test_normalize_text_combines_letters_around_invisible_mark() -> None:
    assert one_line("e\u200b\u0301") == "é"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain", "plain"), ("日本", "日本"), ("a\ud800b", "a?b"), ("\ud83d", "?")],
)
def test_replace_surrogates_replaces_only_unpaired_surrogates(text: str, expected: str) -> None:
    assert replace_surrogates(text) == expected


def test_replace_surrogates_in_data_covers_keys_and_nested_values() -> None:
    data = {"a\ud800": ["\ud800", {"b": ("\ud800", 1)}], "c": None}
    assert replace_surrogates_in_data(data) == {"a?": ["?", {"b": ["?", 1]}], "c": None}


@given(ANY_TEXT)
def test_replace_surrogates_returns_encodable_text(text: str) -> None:
    assert replace_surrogates(text).encode() or not text
