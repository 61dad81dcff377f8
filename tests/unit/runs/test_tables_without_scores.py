"""What the tables tell of an agent none of whose turns has a score."""

from typing import Any

import pytest

from acc.adapters.runs.page.sections import result_table as result_section
from acc.cli.eval_view import console, result_table
from acc.domain.metrics import METRIC_NAMES

TOKENS = {"mean": 412.0, "deviation": 0.0, "count": 1}


def summary(last_tokens: Any) -> dict[str, Any]:
    measures: dict[str, Any] = dict.fromkeys(METRIC_NAMES)
    measures |= {"last_memory_tokens": last_tokens, "scored": 0, "failed": 0, "unscored": 2}
    return {"agents": {"ours": measures}}


@pytest.mark.parametrize(("tokens", "untold"), [(TOKENS, 0), (None, 2)])
def test_tokens_that_are_on_record_are_not_called_unreported(
    tokens: Any, untold: int, capsys: pytest.CaptureFixture[str]
) -> None:
    console().print(result_table(summary(tokens)))
    shown = capsys.readouterr().out
    page = result_section(summary(tokens), {"ours": 0})
    assert shown.count("not reported") == page.count("not reported") == untold
    assert ("412" in shown) == ("412" in page) == (tokens is not None)
