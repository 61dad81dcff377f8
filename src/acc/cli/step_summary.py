"""The summary of an evaluation as Markdown, for GitHub Actions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from acc.application.evaluation.results import EvaluationResults, describe_policy
from acc.cli.eval_view import paired_table, result_table
from acc.cli.output import print_error


def append_step_summary(path: Path, results: EvaluationResults) -> None:
    """Append tables and failed gates to a file; a failure is reported and not raised."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(markdown_summary(results))
    except OSError as error:
        print_error(f"the step summary {path} cannot be written: {error.strerror or error}")


def markdown_summary(results: EvaluationResults) -> str:
    """Return the results as Markdown."""
    summary = results.summary
    lines = ["## acc eval", "", *_markdown_table(result_table(summary)), ""]
    rows: Sequence[Mapping[str, Any]] = [row for row in summary["paired"] if row["declared"]]
    if rows:
        lines += [*_markdown_table(paired_table(rows)), ""]
        if rows[0]["reason"]:
            lines += [f"No claim about other scenarios: {rows[0]['reason']}.", ""]
    for gate in results.gates:
        mark = "failed" if gate.failed else "passed"
        lines.append(f"- Gate {mark}: `{gate.gate}` ({_cell(gate.explanation)})")
    lines += ["", describe_policy(summary), ""]
    return "\n".join(lines)


def _markdown_table(table: Table) -> list[str]:
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    rows = [[_cell(cell) for cell in row] for row in zip(*columns, strict=True)]
    marks = ["---:" if column.justify == "right" else "---" for column in table.columns]
    return ["| " + " | ".join(row) + " |" for row in (rows[0], marks, *rows[1:])]


def _cell(text: str) -> str:
    """Return a text that cannot end a cell or contain markup."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split())
