"""Draw the spans of a run as SVG with attributes only, which a strict page policy allows."""

from collections.abc import Callable, Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from acc.adapters.console.event_views import visible
from acc.adapters.console.texts import translate
from acc.application.console.timeline import Span, SpanKind

_ROW, _LABEL, _PLOT, _MARGIN = 22, 190, 560, 70
_INDENT = 12
_MAX_LABEL = 24
_MIN_WIDTH = 2.0
_TICKS = 4


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
    width, height = _LABEL + _PLOT + _MARGIN, _ROW * (len(spans) + 1) + 6
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
