"""Write the report page, a page for each episode, and the charts; no page needs a network.

This module imports jinja2; `bootstrap` imports it only when a report is written.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from acc.adapters.reports import page_data
from acc.adapters.reports.chart_svg import inline_svg, palette_css, standalone_svg
from acc.adapters.reports.charts import Chart, assign_slots, build_charts, chart_table, show_hidden
from acc.adapters.reports.finding_data import finding_data
from acc.adapters.reports.run_directory import EvaluationDirectory, write_atomically
from acc.application.evaluation.results import describe_policy
from acc.domain.errors import StorageFailed
from acc.domain.value_objects.evaluation_run import EpisodeJob

#: Episodes with a page of their own, in `turns/`.
DEFAULT_DETAILED_EPISODES = 100
#: Episodes that the report page itself contains.
_EMBEDDED_EPISODES = 2
_TURNS_FOLDER = "turns"
_TURNS_TEMPLATE, _FINDINGS_SCRIPT = "turns.html", "findings.js"
_TEMPLATE, _STYLE, _SCRIPT = "report.html", "report.css", "report.js"
_CHARTS_FOLDER = "charts"
_CHARTS_BY_TURN = ("memory-by-turn", "hallucination-by-turn", "drift-by-turn", "scores")


def write_report(
    run: EvaluationDirectory,
    summary: Mapping[str, Any],
    *,
    detail: int = DEFAULT_DETAILED_EPISODES,
) -> Path:
    """Write report.html, its charts and the pages of episodes; return the path of the page.

    `detail` is the number of episodes that get a page with every turn.
    """
    charts = build_charts(summary)
    _write_charts(run, [chart for chart in charts if chart.plot is not None])
    _write_episode_pages(run, summary, detail)
    return run.write("report.html", render_page(run, summary, charts, detail=detail).encode())


def _write_episode_pages(run: EvaluationDirectory, summary: Mapping[str, Any], detail: int) -> None:
    """Write a page for each detailed episode, and remove pages of other ones."""
    environment = _environment()
    slots = assign_slots(summary["configuration"]["agents"])
    style = palette_css() + "\n" + _source(environment, _STYLE)
    script = _source(environment, _SCRIPT)
    template = environment.get_template(_TURNS_TEMPLATE)
    folder = run.path / _TURNS_FOLDER
    _, _, detailed = _select(run, summary, detail)
    try:
        folder.mkdir(exist_ok=True)
        wanted = {f"{job.name}.html" for job in detailed}
        for path in folder.glob("*.html"):
            if path.name not in wanted:
                path.unlink()
    except OSError as error:
        raise StorageFailed(f"cannot write {folder}: {error.strerror or error}") from error
    for job in detailed:
        data = page_data.browser_data(run, slots, [job])
        page = template.render(
            episode=job.name,
            # See render_page.
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=Markup(page_data.json_for_script(data)),  # noqa: S704
            style_hash=_csp_hash(style),
            script_hash=_csp_hash(script),
        )
        write_atomically(folder / f"{job.name}.html", page.encode())


def _select(
    run: EvaluationDirectory, summary: Mapping[str, Any], detail: int
) -> tuple[list[EpisodeJob], list[page_data.WorstTurn], list[EpisodeJob]]:
    """Return the recorded episodes, the worst turns, and the episodes with pages.

    Episodes of the worst turns always have a page.
    """
    recorded = [job for job in run.jobs() if run.journal(job).has_lines()]
    focus = page_data.focus_agent(summary)
    episodes = ((job, run.lines(job)) for job in recorded)
    ceilings = page_data.ceiling_agents(summary)
    worst = page_data.find_worst_turns(episodes, focus, ceilings) if focus else []
    wanted = {job.name for job in page_data.select_episodes(recorded, detail)}
    wanted |= {turn.job.name for turn in worst}
    return recorded, worst, [job for job in recorded if job.name in wanted]


def _page_of(name: str) -> str:
    return f"{_TURNS_FOLDER}/{quote(name)}.html"


def render_page(
    run: EvaluationDirectory, summary: Mapping[str, Any], charts: list[Chart], *, detail: int
) -> str:
    """Return the HTML of the page."""
    environment = _environment()
    slots = assign_slots(summary["configuration"]["agents"])
    focus = page_data.focus_agent(summary)
    ceilings = page_data.ceiling_agents(summary)
    recorded, worst, detailed = _select(run, summary, detail)
    embedded = page_data.select_episodes(recorded, min(detail, _EMBEDDED_EPISODES))
    data = page_data.browser_data(run, slots, embedded)
    pages = {job.name: _page_of(job.name) for job in detailed}
    findings = finding_data(run, recorded, pages)
    style = palette_css() + "\n" + _source(environment, _STYLE)
    script = _source(environment, _SCRIPT) + "\n" + _source(environment, _FINDINGS_SCRIPT)
    return environment.get_template(_TEMPLATE).render(
        summary=summary,
        slots=slots,
        focus=focus,
        ceilings=ceilings,
        policy=describe_policy(summary),
        differences=page_data.list_differences(summary),
        losses=page_data.find_losses(summary, focus) if focus else [],
        worst=worst,
        charts_by_turn=[_chart_context(c) for c in charts if c.name in _CHARTS_BY_TURN],
        charts_by_domain=[_chart_context(c) for c in charts if c.name not in _CHARTS_BY_TURN],
        recorded_episodes=len(recorded),
        embedded={job.name for job in embedded},
        pages=pages,
        # The style and the script are package data and the JSON is escaped for a script element.
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        data=Markup(page_data.json_for_script(data)),  # noqa: S704
        findings=Markup(page_data.json_for_script(findings)),  # noqa: S704
        style_hash=_csp_hash(style),
        script_hash=_csp_hash(script),
    )


def _environment() -> Environment:
    def finalize(value: object) -> object:
        return value if isinstance(value, Markup) else show_hidden(str(value))

    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "metric": lambda value, metric: page_data.format_metric(metric, value),
        "difference": lambda value, metric: page_data.format_difference(metric, value),
        "join_words": page_data.join_words,
        "words": lambda text: text.replace("_", " "),
    }
    environment.globals |= {"page": page_data, "titles": page_data.METRIC_TITLES}
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None  # noqa: S101 - set by _environment
    return environment.loader.get_source(environment, name)[0]


def _csp_hash(text: str) -> str:
    return "sha256-" + b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _chart_context(chart: Chart) -> dict[str, Any]:
    # The drawing is serialized by ElementTree, which escapes its text.
    svg = Markup(inline_svg(chart)) if chart.plot is not None else None  # noqa: S704
    return {"chart": chart, "svg": svg, "table": chart_table(chart)}


def _write_charts(run: EvaluationDirectory, charts: list[Chart]) -> None:
    folder = run.path / _CHARTS_FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot write {folder}: {error.strerror or error}") from error
    for chart in charts:
        write_atomically(folder / f"{chart.name}.svg", standalone_svg(chart).encode())
