"""Draw a metric of agents over evaluation runs as SVG with attributes only."""

from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from acc.adapters.console.event_views import visible
from acc.application.console.evaluations import TrendPoint

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _MARGIN = 820, 260, 60, 150, 24
_TICKS = 4
#: Lines differ in colour and in the pattern of dashes.
_DASHES = ("", "8 4", "2 4", "8 3 2 3", "12 6")
_COLORS = 6


def draw_trend(points: Sequence[TrendPoint]) -> Markup:
    """Return the drawing; the table beside it has the same values."""
    agents = list(dict.fromkeys(agent for point in points for agent in point.values))
    known = [v for point in points for v in point.values.values() if v is not None]
    top = max(known, default=0.0) or 1.0
    svg = Element("svg", {"class": "trend", "viewBox": f"0 0 {_WIDTH} {_HEIGHT}"})
    svg.set("width", str(_WIDTH))
    svg.set("height", str(_HEIGHT))
    svg.set("aria-hidden", "true")
    bottom = _HEIGHT - _MARGIN
    for tick in range(_TICKS + 1):
        y = bottom - (bottom - _MARGIN) * tick / _TICKS
        ends = {"x1": str(_LEFT), "x2": str(_WIDTH - _RIGHT), "y1": f"{y:.1f}", "y2": f"{y:.1f}"}
        SubElement(svg, "line", {"class": "grid", **ends})
        label = {"x": str(_LEFT - 6), "y": f"{y + 4:.1f}", "text-anchor": "end"}
        SubElement(svg, "text", label).text = f"{top * tick / _TICKS:.4g}"
    step = (_WIDTH - _LEFT - _RIGHT - 2 * _MARGIN) / max(len(points) - 1, 1)
    for number in range(len(points)):
        x = _LEFT + _MARGIN + step * number
        place = {"x": f"{x:.1f}", "y": str(_HEIGHT - 6), "text-anchor": "middle"}
        SubElement(svg, "text", place).text = str(number + 1)
    for slot, agent in enumerate(agents):
        found = [
            (_LEFT + _MARGIN + step * n, bottom - (bottom - _MARGIN) * value / top)
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
    y = _MARGIN + 16 * slot
    key = {"x1": str(_WIDTH - _RIGHT + 8), "x2": str(_WIDTH - _RIGHT + 34)}
    sample = SubElement(group, "line", {**key, "y1": str(y), "y2": str(y)})
    sample.set("stroke-dasharray", dashes or "none")
    label = {"x": str(_WIDTH - _RIGHT + 40), "y": str(y + 4)}
    SubElement(group, "text", label).text = visible(agent)[:16]
