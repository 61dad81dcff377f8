"""Write the report page: one HTML file that needs no network, and its charts as SVG files.

This module imports jinja2; `bootstrap` imports it only when a report is written.
"""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from acc.adapters.reports import page_data
from acc.adapters.reports.chart_svg import inline_svg, palette_css, standalone_svg
from acc.adapters.reports.charts import Chart, assign_slots, build_charts, chart_table, show_hidden
from acc.adapters.reports.run_directory import EvaluationDirectory, write_atomically
from acc.application.evaluation.results import describe_policy
from acc.domain.errors import StorageFailed

DEFAULT_DETAILED_EPISODES = 10
_TEMPLATE, _STYLE, _SCRIPT = "report.html", "report.css", "report.js"
_CHARTS_FOLDER = "charts"
_CHARTS_BY_TURN = ("memory-by-turn", "hallucination-by-turn", "drift-by-turn", "scores")


def write_report(
    run: EvaluationDirectory,
    summary: Mapping[str, Any],
    *,
    detail: int = DEFAULT_DETAILED_EPISODES,
) -> Path:
    """Write report.html and its charts, and return the path of the page.

    `detail` is the number of episodes whose turns the page contains.
    """
    charts = build_charts(summary)
    _write_charts(run, [chart for chart in charts if chart.plot is not None])
    return run.write("report.html", render_page(run, summary, charts, detail=detail).encode())


def render_page(
    run: EvaluationDirectory, summary: Mapping[str, Any], charts: list[Chart], *, detail: int
) -> str:
    """Return the HTML of the page."""
    environment = _environment()
    slots = assign_slots(summary["configuration"]["agents"])
    focus = page_data.focus_agent(summary)
    ceilings = page_data.ceiling_agents(summary)
    recorded = [job for job in run.jobs() if run.journal(job).has_lines()]
    episodes = ((job, run.lines(job)) for job in recorded)
    worst = page_data.find_worst_turns(episodes, focus, ceilings) if focus else []
    detailed = page_data.select_episodes(recorded, detail)
    data = page_data.browser_data(run, slots, detailed, worst)
    style = palette_css() + "\n" + _source(environment, _STYLE)
    script = _source(environment, _SCRIPT)
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
        detailed_episodes=len(detailed),
        # The style and the script are package data and the JSON is escaped for a script element.
        style=Markup(style),  # noqa: S704
        script=Markup(script),  # noqa: S704
        data=Markup(page_data.json_for_script(data)),  # noqa: S704
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
