"""Drawings of pages as SVG with attributes only, which a strict page policy allows."""

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from acc.adapters.console.event_views import visible
from acc.adapters.console.texts import translate
from acc.application.console.evaluations import TrendPoint
from acc.application.console.timeline import Span, SpanKind

_ROW, _LABEL, _PLOT, _PLOT_MARGIN = 22, 190, 560, 70
_INDENT = 12
_MAX_LABEL = 24
_MIN_WIDTH = 2.0
_TICKS = 4
_TREND_WIDTH, _TREND_HEIGHT, _TREND_LEFT, _TREND_RIGHT, _TREND_MARGIN = 820, 260, 60, 150, 24
_TREND_TICKS = 4
#: Lines differ in colour and in the pattern of dashes.
_DASHES = ("", "8 4", "2 4", "8 3 2 3", "12 6")
_COLORS = 6


def format_seconds(seconds: float) -> str:
    """Return a duration for people."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def draw_waterfall(
    spans: Sequence[Span], *, language: str, url_of: Callable[[Span], str]
) -> Markup:
    """Return the drawing of spans, with links; the table beside it has the same content.

    The time axis covers the steps; spans of agents may be longer.
    """
    steps = [span for span in spans if span.kind is not SpanKind.AGENT] or spans
    first = min((span.start for span in spans), default=0.0)
    total = max((span.end for span in steps), default=0.0) - first or 1e-9
    width, height = _LABEL + _PLOT + _PLOT_MARGIN, _ROW * (len(spans) + 1) + 6
    svg = Element("svg", {"class": "waterfall", "viewBox": f"0 0 {width} {height}"})
    svg.set("width", str(width))
    svg.set("height", str(height))
    svg.set("aria-hidden", "true")
    for tick in range(_TICKS + 1):
        x = _LABEL + _PLOT * tick / _TICKS
        line = {"x1": f"{x:.1f}", "x2": f"{x:.1f}", "y1": "16", "y2": str(height)}
        SubElement(svg, "line", {"class": "grid", **line})
        text = SubElement(svg, "text", {"x": f"{x:.1f}", "y": "11", "text-anchor": "middle"})
        text.text = format_seconds(first + total * tick / _TICKS)
    for row, span in enumerate(spans, start=1):
        # The links of the table are those for the keyboard.
        link = SubElement(svg, "a", {"href": url_of(span), "tabindex": "-1"})
        name = visible(f"{translate(span.kind.value, language)}: {span.name}")
        _draw_span(link, span, name, row * _ROW, first, total)
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _draw_span(parent: Element, span: Span, name: str, y: int, first: float, total: float) -> None:
    group = SubElement(parent, "g", {"class": f"span {span.kind.value}"})
    if span.is_error:
        group.set("class", f"span {span.kind.value} error")
    label = name if len(name) <= _MAX_LABEL else f"{name[: _MAX_LABEL - 1]}…"
    indent = (min(span.depth, 6) - 1) * _INDENT
    text = SubElement(group, "text", {"x": str(4 + indent), "y": str(y + 14)})
    text.text = label
    start = _LABEL + _PLOT * min(max(span.start - first, 0.0) / total, 1.0)
    end = _LABEL + _PLOT * min(max(span.end - first, 0.0) / total, 1.0)
    width = max(end - start, _MIN_WIDTH)
    box = {"x": f"{start:.1f}", "y": str(y + 3), "width": f"{width:.1f}", "height": "14", "rx": "2"}
    SubElement(
        SubElement(group, "rect", box), "title"
    ).text = f"{name}: {format_seconds(span.seconds)}"
    value = SubElement(group, "text", {"x": f"{start + width + 4:.1f}", "y": str(y + 14)})
    value.set("class", "quiet")
    value.text = format_seconds(span.seconds)


def draw_trend(points: Sequence[TrendPoint]) -> Markup:
    """Return the drawing; the table beside it has the same values."""
    agents = list(dict.fromkeys(agent for point in points for agent in point.values))
    known = [v for point in points for v in point.values.values() if v is not None]
    top = max(known, default=0.0) or 1.0
    svg = Element("svg", {"class": "trend", "viewBox": f"0 0 {_TREND_WIDTH} {_TREND_HEIGHT}"})
    svg.set("width", str(_TREND_WIDTH))
    svg.set("height", str(_TREND_HEIGHT))
    svg.set("aria-hidden", "true")
    bottom = _TREND_HEIGHT - _TREND_MARGIN
    for tick in range(_TREND_TICKS + 1):
        y = bottom - (bottom - _TREND_MARGIN) * tick / _TREND_TICKS
        ends = {
            "x1": str(_TREND_LEFT),
            "x2": str(_TREND_WIDTH - _TREND_RIGHT),
            "y1": f"{y:.1f}",
            "y2": f"{y:.1f}",
        }
        SubElement(svg, "line", {"class": "grid", **ends})
        label = {"x": str(_TREND_LEFT - 6), "y": f"{y + 4:.1f}", "text-anchor": "end"}
        SubElement(svg, "text", label).text = f"{top * tick / _TREND_TICKS:.4g}"
    step = (_TREND_WIDTH - _TREND_LEFT - _TREND_RIGHT - 2 * _TREND_MARGIN) / max(len(points) - 1, 1)
    for number in range(len(points)):
        x = _TREND_LEFT + _TREND_MARGIN + step * number
        place = {"x": f"{x:.1f}", "y": str(_TREND_HEIGHT - 6), "text-anchor": "middle"}
        SubElement(svg, "text", place).text = str(number + 1)
    for slot, agent in enumerate(agents):
        found = [
            (
                _TREND_LEFT + _TREND_MARGIN + step * n,
                bottom - (bottom - _TREND_MARGIN) * value / top,
            )
            for n, point in enumerate(points)
            if (value := point.values.get(agent)) is not None
        ]
        if found:
            _draw_line(svg, agent, slot, found)
    return Markup(tostring(svg, encoding="unicode"))  # noqa: S704 - escaped by ElementTree


def _draw_line(svg: Element, agent: str, slot: int, found: Sequence[tuple[float, float]]) -> None:
    group = SubElement(svg, "g", {"class": f"slot{slot % _COLORS}"})
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in found)
    dashes = _DASHES[slot % len(_DASHES)]
    line = SubElement(group, "polyline", {"points": path, "fill": "none"})
    line.set("stroke-dasharray", dashes or "none")
    for x, y in found:
        SubElement(group, "circle", {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": "3.5"})
    y = _TREND_MARGIN + 16 * slot
    key = {"x1": str(_TREND_WIDTH - _TREND_RIGHT + 8), "x2": str(_TREND_WIDTH - _TREND_RIGHT + 34)}
    sample = SubElement(group, "line", {**key, "y1": str(y), "y2": str(y)})
    sample.set("stroke-dasharray", dashes or "none")
    label = {"x": str(_TREND_WIDTH - _TREND_RIGHT + 40), "y": str(y + 4)}
    SubElement(group, "text", label).text = visible(agent)[:16]
