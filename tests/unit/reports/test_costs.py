"""Costs of an evaluation: files, summary fields, and rows of the page."""

from pathlib import Path
from typing import Any

import pytest

from acc.adapters.reports.costs import CostFile
from acc.adapters.reports.page_data import cost_rows, unmetered
from acc.application.evaluation.results import account_from_fields, cost_fields
from acc.cli.eval_view import describe_cost
from acc.domain.cost import Accounts, CostCategory, ModelCall
from acc.domain.errors import RunDamaged, StorageFailed

CALL = ModelCall(category=CostCategory.AGENT, agent="acc", model="m", input_tokens=3, cost=0.5)


def test_file_is_created_by_first_call_and_read_back(tmp_path: Path) -> None:
    file = CostFile(tmp_path / "costs" / "one.jsonl")
    with file.appending():
        pass
    assert not file.path.parent.exists()
    assert file.read() == []
    with file.appending() as record:
        record.append(CALL)
        record.append(ModelCall(category=CostCategory.JUDGE, failed=True))
    with file.appending() as record:
        record.append(CALL)
    assert file.read() == [CALL, ModelCall(category=CostCategory.JUDGE, failed=True), CALL]


def test_truncated_last_line_is_removed_and_other_damage_raises(tmp_path: Path) -> None:
    file = CostFile(tmp_path / "costs" / "one.jsonl")
    with file.appending() as record:
        record.append(CALL)
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + b'{"category":"agent","cost":99')
    assert file.read() == [CALL]
    with file.appending() as record:
        record.append(CALL)
    assert file.path.read_bytes() == whole * 2
    file.path.write_bytes(b'{"category":"nobody"}\n' + whole)
    with pytest.raises(RunDamaged, match="line 1"):
        file.read()


def test_file_that_cannot_be_written_raises(tmp_path: Path) -> None:
    (tmp_path / "costs").write_text("in the way")
    file = CostFile(tmp_path / "costs" / "one.jsonl")
    with pytest.raises((StorageFailed, RunDamaged)), file.appending() as record:
        record.append(CALL)


def summary(*calls: ModelCall) -> dict[str, Any]:
    agents = [
        {"name": "acc", "kind": "acc"},
        {"name": "<b>theirs", "kind": "a2a:https://x"},
    ]
    cost = cost_fields(Accounts(calls), ["acc"])
    return {"configuration": {"agents": agents}, "cost": cost}


def test_cost_rows_are_split_and_state_unknown_prices() -> None:
    found = summary(
        CALL,
        ModelCall(category=CostCategory.COMPRESSOR, agent="acc", model="writer", cost=0.25),
        ModelCall(category=CostCategory.JUDGE, model="j", input_tokens=1_234),
        ModelCall(category=CostCategory.AGENT, agent="gone", cost=0.0, from_cache=True),
    )
    rows = cost_rows(found)
    assert [(row.category, row.agent, row.account.cost_text) for row in rows] == [
        (CostCategory.AGENT, "acc", "$0.5000"),
        (CostCategory.COMPRESSOR, "acc", "$0.2500"),
        (CostCategory.AGENT, "gone", "$0.0000"),
        (CostCategory.JUDGE, "", "price not known"),
    ]
    assert unmetered(found) == ["<b>theirs"]
    total = account_from_fields(found["cost"]["total"])
    assert total.cost_text == "$0.7500 and 1 call of unknown price"


def test_evaluation_without_model_calls_has_no_cost_rows() -> None:
    assert cost_rows({}) == []


def test_account_round_trips_through_summary_fields() -> None:
    accounts = Accounts([CALL, ModelCall(category=CostCategory.JUDGE, input_tokens=7)])
    fields = cost_fields(accounts, [])
    assert account_from_fields(fields["total"]) == accounts.total
    assert account_from_fields(fields["spent"][1]) == accounts.by_spender[CostCategory.JUDGE, ""]


def test_progress_shows_tokens_instead_of_an_unknown_price() -> None:
    unpriced = ModelCall(category=CostCategory.AGENT, model="m", input_tokens=3, cost=None)
    line = "price not known (agents price not known; 3 tokens in, 0 out)"
    assert describe_cost(Accounts([unpriced]), None) == line
    assert describe_cost(Accounts([CALL]), 2.0).startswith("$0.5000 of $2.0000 spent (agents")
