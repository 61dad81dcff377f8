"""Replacement of unpaired surrogates."""

import pytest
from hypothesis import given
from state_strategies import ANY_TEXT

from acc.domain.text import replace_surrogates, replace_surrogates_in_data


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
