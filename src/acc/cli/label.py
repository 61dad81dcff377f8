"""`acc label`: label a sample of the verdicts of a run, in the terminal or on a page."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from acc.bootstrap import reports
from acc.bootstrap.console import serve_labels
from acc.cli.event_view import safe_text
from acc.cli.output import console, print_error
from acc.domain.errors import InvalidInput
from acc.domain.labels import LabelItem, LabelKind, SampleMethod

_QUESTIONS = {
    LabelKind.CLAIM: "Does what the user said support the claim? y yes, n no, s skip, q quit: ",
    LabelKind.RULE: "Does the answer keep the rule? y yes, n no, s skip, q quit: ",
}
_DEFAULT_PORT = 8766
_GOOD = {"y": True, "n": False, "s": None}


def label(
    directory: Annotated[Path, Parameter(help="The run directory.")],
    /,
    *,
    rater: Annotated[
        str, Parameter(help="Your name; each rater has a file of labels. The page asks for it.")
    ] = "",
    items: Annotated[int, Parameter(help="Number of items of the sample.")] = 60,
    seed: Annotated[int, Parameter(help="Seed of the sample, for the first rater.")] = 0,
    sample: Annotated[
        SampleMethod | None,
        Parameter(
            help="How the first rater's sample is drawn: stratified (as many items of each agent, "
            "class and verdict), uncertain (mostly unclear verdicts) or random. [default: "
            "stratified]",
            show_default=False,
        ),
    ] = None,
    page: Annotated[
        bool,
        Parameter(help="Serve a page on this machine instead of asking here.", negative=()),
    ] = False,
    port: Annotated[
        int, Parameter(help="The port of the page; 0 selects a free port.", show_default=True)
    ] = _DEFAULT_PORT,
) -> int:
    """Label claims and rule checks of an evaluation run; verdicts are hidden.

    Agents are hidden too. All raters see the same sample. Labels are stored one by one in
    RUN/labels/RATER.jsonl, so the same command continues after `q`, Ctrl-C or a crash.

    With --page, raters label in a browser, with the keys y, n, s and b (back), several of them at
    the same time.

    Example: acc label runs/my-run --rater ana
    """
    if items < 1:
        raise InvalidInput(f"--items must be at least 1, got {items}")
    if page:
        sessions = reports.open_label_sessions(
            reports.open_run(directory), size=items, seed=seed, method=sample
        )
        started = serve_labels(
            sessions, title=directory.name or "acc", port=port, on_ready=_print_url
        )
        return 0 if started else 1
    if not rater:
        raise InvalidInput("acc label requires --rater NAME, or --page")
    session = reports.open_labels(
        reports.open_run(directory), rater=rater, size=items, seed=seed, method=sample
    )
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


def _print_url(url: str) -> None:
    console().print(f"labels at {url}", markup=False, highlight=False)


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
