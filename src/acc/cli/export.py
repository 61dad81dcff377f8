"""`acc export`: all turns of a run as one table."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from acc.bootstrap import reports
from acc.cli.output import console


def export(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    format: Annotated[Literal["csv", "parquet"], Parameter(help="The format of the table.")] = (
        "csv"
    ),
    out: Annotated[
        Path | None, Parameter(help="The file to write. [default: RUN/turns.FORMAT]")
    ] = None,
) -> int:
    """Write a table with one row for each agent and turn of a run.

    It has the columns of records.csv (scores, S, U, V, O and K, findings), the query, the answer,
    the prompt with the memory that the model got, the time, the tokens and the cost.

    Example: acc export runs/my-run --format parquet
    """
    path = out or directory / f"turns.{format}"
    count = reports.export_run(reports.open_run(directory), path, format)
    console().print(f"wrote {count} rows to {path}", markup=False)
    return 0
