"""`acc export`: all turns of a run as CSV and Parquet."""

import csv
import json
from pathlib import Path

import pytest

from acc.cli import execute


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("export") / "run"
    options = ["--scenario", "it-operations-ja", "--episodes", "1", "--turns", "6", "--quiet"]
    agents = ["--agents", "baseline,acc,bm25,mine=python:acc.testing:queries", "--workers", "1"]
    assert execute(["eval", *options, *agents, "--out", str(out)]) == 1  # mine always fails
    return out


def csv_rows(path: Path) -> list[dict[str, str]]:
    csv.field_size_limit(10_000_000)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_csv_has_scores_counts_prompts_and_times(run: Path) -> None:
    assert execute(["export", str(run)]) == 0
    rows = csv_rows(run / "turns.csv")
    assert len(rows) == 6 * 4
    records = csv_rows(run / "records.csv")
    for row, record in zip(rows, records, strict=True):
        assert {name: row[name] for name in record} == record
    last = {row["agent"]: row for row in rows if row["turn"] == "6"}
    assert all(float(row["seconds"]) > 0 for row in last.values())
    messages = json.loads(last["baseline"]["messages"])
    earlier = [row for row in rows if row["agent"] == "baseline"][:5]
    assert messages == [
        message
        for row in earlier
        for message in (
            {"role": "user", "text": row["query"]},
            {"role": "assistant", "text": row["answer"]},
        )
    ]
    assert last["acc"]["memory"]
    assert last["bm25"]["memory"] == ""
    assert last["mine"]["messages"] == ""
    assert last["mine"]["status"] == "failed"


def test_parquet_has_the_same_rows_with_types(run: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    file = tmp_path / "turns.parquet"
    assert execute(["export", str(run), "--format", "parquet", "--out", str(file)]) == 0
    assert execute(["export", str(run), "--out", str(tmp_path / "turns.csv")]) == 0
    table = pyarrow.parquet.read_table(file)
    texts = csv_rows(tmp_path / "turns.csv")
    assert table.num_rows == len(texts)
    for name in ("supported_claims", "unsupported_claims", "violations", "omissions"):
        assert table.schema.field(name).type == pyarrow.int64()
        values = ["" if value is None else str(value) for value in table[name].to_pylist()]
        assert values == [row[name] for row in texts]
    assert table.schema.field("outcome").type == pyarrow.float64()
    assert table["answer"].to_pylist()[0] == texts[0]["answer"]


def test_same_run_again_adds_no_prompt(run: Path) -> None:
    lines = (run / "prompts" / "it-operations-ja.000000.jsonl").read_text().splitlines()
    assert [json.loads(line)["turn"] for line in lines] == [1, 2, 3, 4, 5, 6]


def test_unwritable_file_and_unknown_format_are_errors(run: Path, tmp_path: Path) -> None:
    assert execute(["export", str(run), "--out", str(tmp_path / "no" / "file.csv")]) == 1
    assert execute(["export", str(run), "--format", "xlsx"]) == 2
    assert execute(["export", str(tmp_path / "nothing")]) != 0


def test_file_name_of_another_format_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = tmp_path / "turns.parquet"
    for given in (["--format", "csv"], [], ["--format", "inspect"]):
        assert execute(["export", str(run), *given, "--out", str(wrong)]) == 2
    assert "add --format parquet" in capsys.readouterr().err
    assert not wrong.exists()
