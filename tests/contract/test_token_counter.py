"""Contract of TokenCounterPort."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acc.adapters.models.token_counter import BpeTokenCounter
from acc.bootstrap.memory import LazyTokenCounter
from acc.ports.outbound.model_ports import TokenCounterPort
from acc.testing import WordCounter

COUNTERS: dict[str, TokenCounterPort] = {
    "bpe": BpeTokenCounter(),
    "lazy": LazyTokenCounter(),
    "words": WordCounter(),
}


@pytest.fixture(params=COUNTERS)
def counter(request: pytest.FixtureRequest) -> TokenCounterPort:
    return COUNTERS[request.param]


def test_empty_text_has_no_tokens(counter: TokenCounterPort) -> None:
    assert counter.count("") == 0


def test_more_words_have_more_tokens(counter: TokenCounterPort) -> None:
    assert 0 < counter.count("one word") < counter.count("one word and three more")


@pytest.mark.parametrize(
    "text", ["a\ud800b", "\x00", "切り戻し", "x" * 250_000, "<|endoftext|>"], ids=ascii
)
def test_unusual_text_is_counted(counter: TokenCounterPort, text: str) -> None:
    count = counter.count(text)
    assert count == counter.count(text)
    assert count >= 0


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_count_is_a_repeatable_integer(text: str) -> None:
    for counter in COUNTERS.values():
        count = counter.count(text)
        assert isinstance(count, int)
        assert 0 <= count == counter.count(text)
