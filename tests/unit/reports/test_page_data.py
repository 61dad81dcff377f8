"""Rows and sentences of the report page, and the result table of the terminal."""

from typing import Any

import pytest

from acc.adapters.reports.page_data import (
    Difference,
    format_difference,
    format_pair,
    join_words,
    list_best_means,
    list_comparisons,
    result_rows,
)
from acc.cli.eval_view import format_difference as format_terminal_difference
from acc.cli.eval_view import result_table
from acc.cli.output import console
from acc.domain.metrics import METRIC_NAMES

TOKENS = {"mean": 412.0, "deviation": 0.0, "count": 1}


def summary(last_tokens: Any) -> dict[str, Any]:
    measures: dict[str, Any] = dict.fromkeys(METRIC_NAMES)
    measures |= {"last_memory_tokens": last_tokens, "scored": 0, "failed": 0, "unscored": 2}
    return {"agents": {"ours": measures}}


@pytest.mark.parametrize(("tokens", "unreported"), [(TOKENS, 0), (None, 2)])
def test_recorded_tokens_of_unscored_turns_are_not_called_unreported(
    tokens: Any, unreported: int, capsys: pytest.CaptureFixture[str]
) -> None:
    console().print(result_table(summary(tokens)))
    shown = capsys.readouterr().out
    page = str(result_rows(summary(tokens)))
    assert shown.count("not reported") == page.count("not reported") == unreported
    assert ("412" in shown) == ("412" in page) == (tokens is not None)


def difference(metric: str, mean: float, *, clear: bool = True) -> dict[str, Any]:
    low, high = (mean - 0.01, mean + 0.01) if clear else (-1.0, 1.0)
    return {
        **{"metric": metric, "agent": "acc", "versus": "baseline", "mean": mean},
        **{"low": low, "high": high, "clear": clear, "pairs": 9, "scenarios": 6},
        **{"method": "t", "declared": True, "p_value": 0.01, "corrected_p": 0.03},
    }


def test_comparisons_state_better_worse_and_unclear_metrics() -> None:
    agents = [{"name": "baseline", "kind": "transcript"}, {"name": "acc", "kind": "acc"}]
    rows = [
        difference("outcome", 0.5),
        difference("hallucination", 0.02),
        difference("drift", 0.0, clear=False),
    ]
    (found,) = list_comparisons(
        {
            "agents": {"baseline": {}, "acc": {}},
            "configuration": {"agents": agents},
            "paired": rows,
        }
    )
    assert found.versus == "baseline"
    assert found.better == ("outcome (+0.50, 95 % interval +0.49 to +0.51)",)
    assert found.worse == ("hallucination (+2.0 percentage points, 95 % interval +1.0 to +3.0)",)
    assert found.unclear == ("drift",)
    assert found.missing == ("memory tokens",)


def test_size_of_the_memory_is_compared_by_its_interval() -> None:
    row = difference("memory_tokens", -1605.0) | {"clear": False, "declared": False}
    (found,) = list_comparisons(
        {
            "agents": {"baseline": {}, "acc": {}},
            "configuration": {"agents": [{"name": "acc", "kind": "acc"}]},
            "paired": [row | {"low": -1682.0, "high": -1515.0}],
        }
    )
    assert found.better == (
        "memory tokens (\N{MINUS SIGN}1,605, 95 % interval \N{MINUS SIGN}1,682 to "
        "\N{MINUS SIGN}1,515)",
    )


def test_part_of_a_measure_is_not_tested_although_its_interval_excludes_zero() -> None:
    part = difference("relevance", -0.67) | {"clear": False, "declared": False}
    assert Difference(**part).verdict == "not tested"
    unclear = difference("drift", 0.1, clear=False) | {"clear": False}
    assert Difference(**unclear).verdict == "no clear difference"


def test_best_means_exclude_the_ceiling_and_name_ties() -> None:
    means = {"a": 8.0, "b": 8.0, "c": 9.0}
    found = list_best_means(
        {
            "agents": {name: {"outcome": {"mean": mean}} for name, mean in means.items()},
            "configuration": {"agents": [{"name": "c", "kind": "oracle"}]},
        }
    )
    assert found == ["highest outcome: a and b (8.00)"]


def test_numbers_are_formatted_with_sign_and_enough_digits() -> None:
    assert format_difference("drift", -0.021) == "\N{MINUS SIGN}2.1"
    assert format_difference("outcome", 0.001) == "0.00"
    assert format_terminal_difference("drift", -0.0001) == "+0.0 pp"
    assert format_terminal_difference("memory_tokens", -1602.3) == "-1,602"
    assert format_pair("outcome", (7.5, 8.0)) == ("7.50", "8.00")
    assert format_pair("drift", (0.01001, 0.01002)) == ("1.0010 %", "1.0020 %")
    assert format_pair("outcome", (7.5001, 7.5002)) == ("7.5001", "7.5002")
    assert join_words(["a", "b", "c"]) == "a, b and c"
