"""`acc bench-memory`: memories on recorded conversations with questions."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from acc.application.evaluation.memory_benchmark import (
    Result,
    Summary,
    measure_memories,
    summarize,
)
from acc.bootstrap.memory import make_memory, read_recorded
from acc.bootstrap.models import check_model_ready, make_model
from acc.cli.output import console, error_console, print_json
from acc.domain.errors import InvalidInput, StorageFailed

_BUDGETS = (256, 512, 1_024)
_MEMORIES = ("acc", "bm25", "retrieval", "last-n")


def bench_memory(
    source: Annotated[
        str,
        Parameter(
            help="The path of a file, or its form: locomo, longmemeval or conversations. Data sets "
            "are not part of acc."
        ),
    ],
    file: Annotated[Path | None, Parameter(help="The path of the file, after a form.")] = None,
    /,
    *,
    memories: Annotated[
        str, Parameter(help="Names of memories, separated by commas.", show_default=True)
    ] = ",".join(_MEMORIES),
    budgets: Annotated[
        str, Parameter(help="Tokens of the view, separated by commas.", show_default=True)
    ] = ",".join(map(str, _BUDGETS)),
    model: Annotated[
        str,
        Parameter(
            help="A model that answers the questions from the view; the words of its answers are "
            "compared."
        ),
    ] = "",
    limit: Annotated[int, Parameter(help="Read only the first conversations; 0 is all.")] = 0,
    output: Annotated[
        Path | None, Parameter(help="Write one JSON line for each question to this file.")
    ] = None,
    json: Annotated[bool, Parameter(help="Print JSON instead of a table.", negative=())] = False,
) -> int:
    """Measure how much of the evidence for questions the memories show, and what they cost.

    Every memory gets each conversation turn by turn. Then it gets each question, and the share of
    the evidence in its view is measured, by type of question and budget, with 95 % intervals over
    conversations.

    Example: acc bench-memory locomo locomo10.json --budgets 512
    """
    names = list(dict.fromkeys(name.strip() for name in memories.split(",") if name.strip()))
    sizes = _parse_budgets(budgets)
    if not names:
        raise InvalidInput("--memories must name at least one memory, such as acc,bm25")
    if limit < 0:
        raise InvalidInput(f"--limit must be at least 0, got {limit}")
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        raise InvalidInput(f"--output {output} cannot be written: it must be a file in a folder")
    conversations = read_recorded(source, file)[: limit or None]
    total = sum(len(one.questions) for one in conversations) * len(names) * len(sizes)
    if model:
        check_model_ready(model)
    answering = make_model(model) if model else None
    results: list[Result] = []
    lines = _ResultFile(output)

    async def measure() -> None:
        progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=error_console(),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        with progress:
            task = progress.add_task("questions", total=total)
            async for result in measure_memories(
                conversations, memories=names, budgets=sizes, create=make_memory, model=answering
            ):
                results.append(result)
                lines.add(result)
                progress.update(
                    task, advance=1, description=f"{result.memory}, {result.budget} tokens"
                )

    asyncio.run(measure())
    summaries = summarize(results)
    if json:
        print_json(msgspec.json.encode(summaries))
    else:
        console().print(_table(summaries, has_answers=bool(model)))
    lines.check()
    return 0


class _ResultFile:
    """Writes each result to a file; an error must not prevent that the table is printed."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._failure = ""
        self._write(b"", "wb")
        self.check()

    def add(self, result: Result) -> None:
        self._write(msgspec.json.encode(result) + b"\n", "ab")

    def check(self) -> None:
        """Raise StorageFailed if something could not be written."""
        if self._failure:
            raise StorageFailed(f"cannot write {self._path}: {self._failure}")

    def _write(self, content: bytes, mode: Literal["wb", "ab"]) -> None:
        if self._path is None or self._failure:
            return
        try:
            with self._path.open(mode) as file:
                file.write(content)
        except OSError as error:
            self._failure = error.strerror or str(error)


def _parse_budgets(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise InvalidInput(f"--budgets must be positive numbers separated by commas, got {text!r}")
    return list(dict.fromkeys(map(int, parts)))


def _table(summaries: list[Summary], *, has_answers: bool) -> Table:
    table = Table(title="Evidence in the view, by memory and type of question")
    for title in ("memory", "budget", "questions of type"):
        table.add_column(title)
    headings = ["number", "evidence", "95 % interval"]
    headings += ["answer F1", "95 % interval"] if has_answers else []
    for title in (*headings, "tokens", "ms"):
        table.add_column(title, justify="right")
    last = ""
    for one in summaries:
        if last and one.memory != last:
            table.add_section()
        last = one.memory
        cells = [_number(one.recall), _range(one.recall_interval)]
        cells += [_number(one.f1), _range(one.f1_interval)] if has_answers else []
        table.add_row(
            one.memory,
            f"{one.budget:,}",
            one.kind,
            f"{one.questions:,}",
            *cells,
            f"{one.tokens:,.0f}",
            f"{one.milliseconds:.1f}",
        )
    return table


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _range(interval: tuple[float, float] | None) -> str:
    return "none" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
