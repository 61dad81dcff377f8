"""All turns of a run as a Parquet file; this module imports pyarrow."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from acc.adapters.reports.export import EXPORT_FIELDS, export_rows
from acc.adapters.reports.results import COUNT_FIELDS
from acc.adapters.reports.run_directory import EvaluationDirectory
from acc.domain.metrics import METRIC_NAMES

_ROWS_PER_GROUP = 2_000
_FLOATS = frozenset((*METRIC_NAMES, "seconds", "cost"))
_INTEGERS = frozenset((*COUNT_FIELDS, "seed", "turn", "calls", "input_tokens", "output_tokens"))


def write_parquet(run: EvaluationDirectory, path: Path) -> int:
    """Write the table and return the number of rows."""
    schema = pyarrow.schema([(name, _column_type(name)) for name in EXPORT_FIELDS])
    count = 0
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []
        for row in export_rows(run):
            rows.append(row)
            count += 1
            if len(rows) == _ROWS_PER_GROUP:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    return count


def _column_type(name: str) -> Any:
    if name in _FLOATS:
        return pyarrow.float64()
    return pyarrow.int64() if name in _INTEGERS else pyarrow.string()
