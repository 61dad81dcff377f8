"""`acc label`: label a sample of the verdicts of a run in the terminal."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.bootstrap import reports
from acc.cli.event_view import safe_text
from acc.cli.output import console, print_error
from acc.domain.errors import InvalidInput
from acc.domain.labels import LabelItem, LabelKind

_QUESTIONS = {
    LabelKind.CLAIM: "Does what the user said support the claim? y yes, n no, s skip, q quit: ",
    LabelKind.RULE: "Does the answer keep the rule? y yes, n no, s skip, q quit: ",
}
_GOOD = {"y": True, "n": False, "s": None}


def label(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    rater: Annotated[str, Parameter(help="Your name; each rater has a file of labels.")],
    items: Annotated[int, Parameter(help="Number of items of the sample.")] = 60,
    seed: Annotated[int, Parameter(help="Seed of the sample, for the first rater.")] = 0,
) -> int:
    """Label claims and rule checks of a run; agents and verdicts are hidden.

    All raters of a run see the same sample. Labels are stored one by one in
    RUN/labels/RATER.jsonl, so the same command continues after `q`, Ctrl-C or a crash.

    Example: acc label runs/my-run --rater ana
    """
    if items < 1:
        raise InvalidInput(f"--items must be at least 1, got {items}")
    session = reports.open_labels(reports.open_run(directory), rater=rater, size=items, seed=seed)
    output = console()
    total = len(session.sample)
    for number, item in session.remaining():
        output.print(safe_text(f"\n{number} of {total}"), style="bold")
        for line in _item_lines(item):
            output.print(safe_text(line), soft_wrap=True)
        answer = _ask(_QUESTIONS[item.kind])
        if answer == "q":
            output.print("stopped; the same command continues", markup=False)
            return 0
        session.record(item, _GOOD[answer])
    output.print(f"\nall {total} items are labelled; see acc judge agreement", markup=False)
    return 0


def _item_lines(item: LabelItem) -> list[str]:
    lines = [f"question: {item.query}", f"answer:   {item.answer}"]
    if item.kind is LabelKind.RULE:
        return [*lines, f"rule:     {item.text}"]
    return [*(f"user:     {text}" for text in item.context), *lines, f"claim:    {item.text}"]


def _ask(question: str) -> str:
    """Return the first valid key; the end of the input is `q`."""
    while True:
        console().print(question, end="", markup=False)
        line = sys.stdin.readline()
        if not line:
            return "q"
        key = line.strip().casefold()[:1]
        if key == "q" or key in _GOOD:
            return key
        print_error("please enter y, n, s or q")
