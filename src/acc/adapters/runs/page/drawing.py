"""Charts drawn without a browser or a network: for the page, and as files of their own."""

import re
from collections.abc import Iterable
from html import escape

import vl_convert

from acc.adapters.runs.charts import HEIGHT, WIDTH, Chart
from acc.adapters.runs.line_file import write_whole
from acc.adapters.runs.run_directory import RunDirectory
from acc.domain.errors import StorageFailed


def standalone_svg(chart: Chart) -> str:
    """Return a chart with its title on white, to be shown outside the page."""
    words = chart.caption.split()
    lines: list[str] = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 74:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    title = {"text": chart.title, "subtitle": lines}
    height = HEIGHT + 30 + 13 * len(lines)
    spec = {**(chart.spec or {}), "title": title, "background": "#ffffff", "height": height}
    return str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))


def inline_svg(chart: Chart) -> str:
    """Return a chart to stand in the page, which gives it its colours and its width."""
    spec = {**(chart.spec or {}), "background": None}
    svg = str(vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]))
    box = re.search(r'viewBox="([^"]*)"', svg)
    body = re.sub(r"^.*?<svg[^>]*>", "", svg, count=1, flags=re.DOTALL)
    # Identifiers are global to the page.
    body = re.sub(r'\bid="', f'id="{chart.name}-', body)
    body = body.replace("url(#", f"url(#{chart.name}-")
    size = box[1] if box else f"0 0 {WIDTH} {HEIGHT}"
    return (
        f'<svg viewBox="{size}" role="img" aria-labelledby="{chart.name}-title {chart.name}-desc">'
        f'<title id="{chart.name}-title">{escape(chart.title)}</title>'
        f'<desc id="{chart.name}-desc">{escape(chart.caption)}</desc>{body}'
    )


def write_charts(run: RunDirectory, charts: Iterable[Chart]) -> None:
    """Write each chart as SVG and PNG into the run's folder `charts`."""
    folder = run.path / "charts"
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StorageFailed(f"cannot write {folder}: {error.strerror or error}") from error
    for chart in charts:
        if chart.spec is not None:
            svg = standalone_svg(chart)
            write_whole(folder / f"{chart.name}.svg", svg.encode())
            write_whole(folder / f"{chart.name}.png", vl_convert.svg_to_png(svg, scale=2))
