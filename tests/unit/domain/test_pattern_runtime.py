"""No text of a user may cause superlinear work."""

import time
from collections.abc import Callable

import pytest

from acc.domain.format_rules import (
    count_bullets,
    count_words,
    is_question,
    is_revocation,
    read_rule,
    violation,
)
from acc.domain.goals import states_goal
from acc.domain.language import contains_text, sentences, term_list, values
from acc.domain.quotations import direct_sentences
from acc.domain.statement_frames import frame
from acc.domain.value_objects.format_rule import FormatRule, RuleKind

LENGTH = 100_000
#: Far above what linear work takes, far below what backtracking takes.
SECONDS = 4.0
UNITS = [
    *(
        "a ",
        "a",
        " ",
        "\t",
        "\n",
        "(",
        '"',
        "“",
        "'",
        "`",
        "「",
        "『",
        "[",
        "> ",
        "- ",
        "1",
        "1.",
        "1,",
    ),
    *(
        "/",
        "@",
        "a@",
        "A'",
        "Aa. ",
        "e.g.\n",
        "e.g. ",
        "says “",
        "log from ",
        "を",
        "をからに",
        "は",
        "、共有は",
    ),
    *(
        "漢",
        "カ",
        "。",
        "from a to ",
        "set the ",
        "replaces ",
        ", the ",
        "no longer ",
        "never share ",
    ),
    *("under ", "limit a ", "箇条書き", "json keys ", "\u202e", "\ud800", "é", "😀", "\\", " | "),
]
READERS: list[Callable[[str], object]] = [
    sentences,
    direct_sentences,
    term_list,
    values,
    frame,
    read_rule,
    is_revocation,
    is_question,
    states_goal,
    count_words,
    count_bullets,
    lambda text: contains_text(text, "30 hosts"),
    lambda text: read_rule(f"JSON with the keys {text}"),
    lambda text: violation(FormatRule(kind=RuleKind.JSON), text),
]


@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_long_repetitive_text_is_read_in_linear_time(unit: str) -> None:
    text = (unit * LENGTH)[:LENGTH]
    for reader in READERS:
        began = time.process_time()
        reader(text)
        assert time.process_time() - began < SECONDS
