"""`acc export`: all turns of a run as one table, or as logs of Inspect AI."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from acc.bootstrap import reports
from acc.cli.output import console, count_noun
from acc.domain.errors import InvalidInput

_TABLE_FORMATS = ("csv", "parquet")


def export(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    format: Annotated[
        Literal["csv", "parquet", "inspect"],
        Parameter(help="A table, or a log of Inspect AI for each agent."),
    ] = "csv",
    out: Annotated[
        Path | None,
        Parameter(
            help="The file to write, for inspect a folder. [default: RUN/turns.FORMAT, for inspect "
            "RUN/inspect]",
            show_default=False,
        ),
    ] = None,
) -> int:
    """Write all turns of an evaluation run as a table, or as logs of Inspect AI.

    The table has one row for each agent and turn, with the columns of records.csv (scores, S, U, V,
    O and K, findings), the query, the answer, the prompt with the memory that the model got, the
    time, the tokens and the cost.

    With --format inspect it writes AGENT.json for each agent, with one sample for each episode.

    Example: acc export runs/my-run --format parquet
    """
    suffix = out.suffix.casefold().removeprefix(".") if out is not None else ""
    if suffix in _TABLE_FORMATS and suffix != format:
        raise InvalidInput(
            f"--out {out} ends with .{suffix}, but the format is {format}: add --format {suffix}, "
            "or choose another name"
        )
    name = format if format == "inspect" else f"turns.{format}"
    path = out or directory / name
    count = reports.export_run(reports.open_run(directory), path, format)
    noun = "log" if format == "inspect" else "row"
    console().print(f"wrote {count_noun(count, noun)} to {path}", markup=False)
    return 0
