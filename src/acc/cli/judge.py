"""`acc judge check`: how often a judge sees things as people do."""

import asyncio
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter
from rich.progress import Progress
from rich.table import Table

from acc.application.use_cases.calibrate_judge import Figures, Reading, figures_of
from acc.bootstrap import judges
from acc.bootstrap.cost import CostTracker
from acc.cli.eval_view import (
    OUT_OF_MONEY,
    console,
    error_console,
    live_words,
    print_error,
    print_json,
)
from acc.cli.event_view import shown
from acc.domain.errors import InvalidInput

app = App(name="judge", group="Evaluate agents", help="Hold a judge against labelled examples.")


@Parameter(name="*", group="The model that judges")
@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a model judges, and what it costs."""

    judge_votes: Annotated[int, Parameter(help="How often a model is asked.")] = 1
    force_judge: Annotated[
        bool, Parameter(help="Let a model judge that is known to be too small.", negative=())
    ] = False
    cache: Annotated[
        Path | None,
        Parameter(
            help="A folder where answers are kept: what was asked before is not asked again. "
            "[default: what ACC_MODEL_CACHE names, or none]"
        ),
    ] = None
    price: Annotated[
        tuple[str, ...],
        Parameter(
            help="MODEL=IN/OUT, US dollars for a million tokens read and written.",
            negative=(),
            consume_multiple=False,
        ),
    ] = ()
    max_cost: Annotated[
        float | None,
        Parameter(
            help="The most that the check may cost, in US dollars: no further example begins once "
            "it is spent, and the exit status is 4. With --cache a higher limit goes on."
        ),
    ] = None


@app.command
def check(
    file: Annotated[
        Path | None,
        Parameter(help="A .toml file of labelled examples, or a folder. [default: ours]"),
    ] = None,
    /,
    *,
    judge: Annotated[str, Parameter(help="rubric, model:NAME or python:MODULE:NAME.")] = "rubric",
    how: ModelOptions | None = None,
    show_wrong: Annotated[int, Parameter(help="How many wrong cases to print.")] = 10,
    json: Annotated[bool, Parameter(help="Print everything as JSON.", negative=())] = False,
) -> int:
    """Run a judge on labelled examples and say where it differs from people.

    Exit status: 0; 1 where an example could not be scored or the model refuses; 2 for bad use; 4
    where --max-cost ended it.

    Example: acc judge check --judge rubric --show-wrong 20
    """
    if show_wrong < 0:
        raise InvalidInput(f"--show-wrong must be 0 or more, not {show_wrong}")
    how = how or ModelOptions()
    spending = CostTracker(limit=how.max_cost)
    readings, left = _readings(file, judge, how, spending)
    if json:
        print_json(msgspec.json.format(msgspec.json.encode(_as_data(judge, readings)), indent=2))
    else:
        _show(judge, readings, show_wrong)
    unscored = sum(not reading.scored for reading in readings)
    if unscored:
        first = next(reading for reading in readings if not reading.scored)
        print_error(
            f"{unscored} of {len(readings)} examples are unscored, the first: {first.reason}"
        )
    if left:
        print_error(f"{spending.why_stopped()}; {left} cases were not judged")
        return OUT_OF_MONEY
    return 1 if unscored else 0


def _readings(
    file: Path | None, judge: str, how: ModelOptions, spending: CostTracker
) -> tuple[list[Reading], int]:
    """Return what a judge says, and how many cases the money was not enough for."""
    options = judges.JudgeOptions(votes=how.judge_votes, force=how.force_judge)
    accounts = spending.accounts
    screen = error_console()
    bar = Progress(console=screen, transient=True, disable=not screen.is_terminal)
    task = bar.add_task("judging", total=None)

    left = 0

    def on_case(done: int, total: int) -> None:
        nonlocal left
        left = total - done
        bar.update(task, completed=done, total=total)

    means = judges.CheckMeans(cache=how.cache, prices=how.price, spending=spending, on_case=on_case)
    try:
        # What a judge prints is not our output.
        with bar, redirect_stdout(sys.stderr):
            return asyncio.run(judges.check_judge(file, judge, options, means)), left
    finally:
        if accounts.total.kept or accounts.total.calls > accounts.total.failed:
            print_error(live_words(accounts, spending.limit))


def _split(readings: Sequence[Reading]) -> dict[str, list[Reading]]:
    parts = {
        "claims": [reading for reading in readings if reading.item.is_claim],
        "constraints": [reading for reading in readings if not reading.item.is_claim],
    }
    return {name: found for name, found in parts.items() if found}


def _groups(readings: Sequence[Reading]) -> dict[str, dict[str, list[Reading]]]:
    found: dict[str, dict[str, list[Reading]]] = {"language": {}, "domain": {}, "kind": {}}
    for reading in readings:
        for group, value in (
            ("language", reading.case.language),
            ("domain", reading.case.domain),
            ("kind", reading.item.kind),
        ):
            found[group].setdefault(value, []).append(reading)
    return found


def _as_data(judge: str, readings: Sequence[Reading]) -> dict[str, Any]:
    return {
        "judge": judge,
        "all": figures_of(readings),
        **{
            part: {
                "figures": figures_of(found),
                **{
                    group: {value: figures_of(some) for value, some in values.items()}
                    for group, values in _groups(found).items()
                },
            }
            for part, found in _split(readings).items()
        },
        "wrong": [
            {
                "id": reading.item.id,
                "kind": reading.item.kind,
                "label": reading.item.label,
                "said": reading.said,
                "reason": reading.reason,
                "text": reading.item.text,
                "context": reading.case.context,
            }
            for reading in readings
            if reading.scored and not reading.right
        ],
    }


def _show(judge: str, readings: Sequence[Reading], show_wrong: int) -> None:
    screen = console()
    screen.print(shown(f"judge: {judge}, examples: {len(readings)}\n"))
    for part, found in _split(readings).items():
        screen.print(_figures_table(part, found), "")
        screen.print(_confusion_table(part, figures_of(found)), "")
    wrong = [reading for reading in readings if reading.scored and not reading.right]
    scored = sum(reading.scored for reading in readings)
    screen.print(f"wrong: {len(wrong)} of {scored}", markup=False)
    for reading in wrong[:show_wrong]:
        said = reading.said + (f": {reading.reason}" if reading.reason else "")
        item = reading.item
        screen.print(shown(f"\n{item.id} ({item.kind}): {item.label}, judged {said}"))
        screen.print(shown(f"  context: {' / '.join(reading.case.context)}"))
        screen.print(shown(f"  answer:  {item.answer}"))
    if len(wrong) > show_wrong:
        screen.print(f"\n--show-wrong {len(wrong)} shows all of them", style="dim")


def _plain_table(*titles: str) -> Table:
    table = Table(header_style="bold", box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for place, title in enumerate(titles):
        table.add_column(title, justify="right" if place else "left")
    return table


def _figures_table(part: str, readings: Sequence[Reading]) -> Table:
    table = _plain_table(part, "examples", "unscored", "accuracy", "kappa")
    table.add_row("all", *_cells(figures_of(readings)))
    for group, values in _groups(readings).items():
        for value, some in sorted(values.items()):
            table.add_row(shown(f"{group}: {value}"), *_cells(figures_of(some)))
    return table


def _cells(figures: Figures) -> tuple[str, str, str, str]:
    return (
        str(figures.examples),
        str(figures.unscored),
        "-" if figures.accuracy is None else f"{100 * figures.accuracy:.1f} %",
        "-" if figures.kappa is None else f"{figures.kappa:.2f}",
    )


def _confusion_table(part: str, figures: Figures) -> Table:
    said = sorted({name for row in figures.confusion.values() for name in row})
    table = _plain_table(f"{part}: label, then what the judge said", *said)
    for label, row in figures.confusion.items():
        table.add_row(label, *(str(row.get(name, 0)) for name in said))
    return table
