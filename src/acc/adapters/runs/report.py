"""The report page: one file that needs no network, with its charts beside it."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from acc.adapters.runs import charts
from acc.adapters.runs.page import drawing, sections, spending, standing, turns
from acc.adapters.runs.page.phrasing import listed, plain
from acc.adapters.runs.run_directory import RunDirectory
from acc.adapters.runs.turn_lines import TurnLine
from acc.adapters.runs.votes import policy_of
from acc.domain.value_objects.evaluation_run import EpisodeJob


def write_report(run: RunDirectory, summary: Mapping[str, Any], *, detail: int = 10) -> Path:
    """Write report.html and its charts, and return the page's path."""
    drawn = charts.charts_of(summary)
    drawing.write_charts(run, drawn)
    return run.write("report.html", page_of(run, summary, drawn, detail=detail).encode())


def page_of(
    run: RunDirectory, summary: Mapping[str, Any], drawn: Sequence[charts.Chart], *, detail: int
) -> str:
    """Return the whole page."""
    slots = charts.slots_of(summary["configuration"]["agents"])
    focus = standing.focus_of(summary)
    apart = standing.ceilings_of(summary)
    recorded = [job for job in run.jobs() if _begun(run.journal(job).path)]
    worst = turns.worst_turns(_lines(run, recorded), focus, apart) if focus else []
    losses = standing.losses_of(summary, focus) if focus else []
    shown = turns.shown_jobs(recorded, detail)
    data = turns.browser_data(run, slots, shown, worst)
    names = listed(list(slots))
    return Template(_part("template.html")).substitute(
        title=plain(f"{names}: memories compared"),
        names=plain(names),
        style=sections.palette_css() + _part("style.css"),
        script=_part("page.js"),
        data=turns.embedded(data),
        headline=sections.headline(summary),
        warnings=sections.warnings_of(summary),
        results=sections.result_table(summary, slots),
        run=sections.run_section(summary, slots),
        policy=plain(policy_of(summary)),
        own=_own_agents(summary),
        by_turn=sections.charts_section(drawn, by_turn=True),
        by_domain=sections.charts_section(drawn, by_turn=False),
        worse=sections.worse_section(summary, losses, worst),
        losses_link=' <a href="#worse">Losses</a>' if focus else "",
        paired=sections.paired_section(summary),
        agreement=sections.agreement_section(summary),
        cost=spending.cost_section(summary, slots),
        cost_link=spending.cost_link(summary),
        shown=_shown(len(shown), len(recorded)),
    )


def _lines(
    run: RunDirectory, jobs: Sequence[EpisodeJob]
) -> Iterator[tuple[EpisodeJob, list[TurnLine]]]:
    return ((job, run.lines(job)) for job in jobs)


def _begun(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _part(name: str) -> str:
    return (files("acc.adapters.runs.page") / name).read_text(encoding="utf-8")


def _own_agents(summary: Mapping[str, Any]) -> str:
    agents = summary["configuration"]["agents"]
    own = [plain(agent["name"]) for agent in agents if agent["kind"].startswith("python:")]
    return f" {', '.join(own)}: your own code, judged like the others." if own else ""


def _shown(shown: int, recorded: int) -> str:
    if shown == recorded:
        return f"All {recorded} episodes are here, turn by turn."
    return (
        f"{shown} of {recorded} episodes are here, turn by turn; all of them are in "
        "<code>episodes/*.jsonl</code>. "
        f"<code>acc report DIR --detail {recorded}</code> shows more."
    )
