"""Draw the charts of a report as SVG.

Colours are presentation attributes for a white page. A page with a dark scheme replaces them with
the rules of `palette_css`, so one drawing serves both schemes, files and print.
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, tostring

from acc.adapters.reports.charts import (
    SMOOTHING_RADIUS,
    Chart,
    GroupPlot,
    Series,
    TurnPlot,
    bar_text,
    show_hidden,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStyle:
    """Style of one agent: colour on a light and on a dark page, dash pattern, marker."""

    light: str
    dark: str
    dash: str
    marker: str


#: After Okabe and Ito, adjusted to a contrast of 3 to 1 against the page in both schemes.
PALETTE = tuple(
    SlotStyle(light=light, dark=dark, dash=dash, marker=marker)
    for light, dark, dash, marker in (
        ("#0072b2", "#56b4e9", "", "circle"),
        ("#d55e00", "#f58b45", "7 3", "square"),
        ("#00875f", "#2ec79c", "2 2", "triangle-up"),
        ("#6b7075", "#a9b0b7", "9 3 2 3", "diamond"),
        ("#b04a86", "#e59cc6", "4 2", "cross"),
        ("#9a6a00", "#e6b422", "1 3", "triangle-down"),
        ("#5b4fb0", "#aba0f2", "12 3", "triangle-right"),
        ("#7a4a21", "#d0a682", "5 2 1 2 1 2", "triangle-left"),
    )
)
#: Other colours of a chart, on a light and on a dark page.
INK = {
    "text": ("#3a4147", "#c9d0d6"),
    "axis": ("#8b939a", "#78818a"),
    "grid": ("#e4e7ea", "#2c3238"),
    "stress": ("#c3c9ce", "#444c54"),
    "injection": ("#454c53", "#d5dbe0"),
}
_TEXT, _AXIS, _GRID, _STRESS, _INJECTION = (colours[0] for colours in INK.values())
#: Marker outlines for a radius of 1.
_MARKERS: Mapping[str, tuple[tuple[float, float], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    "triangle-up": ((0, -1.15), (1.15, 0.95), (-1.15, 0.95)),
    "triangle-down": ((0, 1.15), (1.15, -0.95), (-1.15, -0.95)),
    "triangle-right": ((1.15, 0), (-0.95, 1.15), (-0.95, -1.15)),
    "triangle-left": ((-1.15, 0), (0.95, 1.15), (0.95, -1.15)),
    "cross": (
        *((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4)),
        *((0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
    ),
}
# All lengths are in SVG user units (pixels at the natural size).
WIDTH = 440
_PLOT_HEIGHT = 206
_MARGIN = 6
_FONT = (
    "Helvetica Neue, Helvetica, Arial, Liberation Sans, Hiragino Sans, Noto Sans CJK JP, sans-serif"
)
_FONT_SIZE = 13
_CAPTION_SIZE, _CAPTION_LINE_HEIGHT = 10.5, 13
_TITLE_SIZE = 14
_LEGEND_ROW_HEIGHT, _LEGEND_GAP, _LEGEND_SAMPLE = 19, 12, 26
_MAX_LEGEND_LABEL_WIDTH = 130
_MAX_GROUP_LABEL_WIDTH = 110
_GROUP_LABEL_ANGLE_DEGREES = -40
_TARGET_TICKS = 5
_TARGET_TURN_TICKS = 10
_MARKERS_PER_LINE = 8
_BAND_TOP, _BAND_HEIGHT = 4, 8
_MARKER_RADIUS = 4.2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Area:
    """The rectangle of the plot, and the upper end of its vertical axis."""

    left: float
    right: float
    top: float
    bottom: float
    maximum: float

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * value / self.maximum


def palette_css() -> str:
    """Return CSS that assigns the colours of agents and charts in both schemes."""
    names = {f"agent-{slot}": (style.light, style.dark) for slot, style in enumerate(PALETTE)}
    names |= {f"ink-{name}": colours for name, colours in INK.items()}
    light, dark = (
        ";".join(f"--{name}:{colours[side]}" for name, colours in names.items()) for side in (0, 1)
    )
    rules = [
        f'.chart [{attribute}="{colours[0]}"]{{{attribute}:var(--{name})}}'
        for name, colours in names.items()
        for attribute in ("fill", "stroke")
    ]
    rules += [f".agent-{slot}{{--agent:var(--agent-{slot})}}" for slot in range(len(PALETTE))]
    media = f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return "\n".join((f":root{{{light}}}", media, *rules))


def inline_svg(chart: Chart) -> str:
    """Return a chart for an HTML page that shows title and caption itself."""
    plot, height = _draw(chart)
    svg = Element(
        "svg",
        {
            "viewBox": f"0 0 {WIDTH} {_number(height)}",
            "role": "img",
            "aria-labelledby": f"{chart.name}-title {chart.name}-desc",
            "font-family": _FONT,
            "font-size": _number(_FONT_SIZE),
        },
    )
    SubElement(svg, "title", {"id": f"{chart.name}-title"}).text = show_hidden(chart.title)
    SubElement(svg, "desc", {"id": f"{chart.name}-desc"}).text = show_hidden(chart.caption)
    svg.append(plot)
    return tostring(svg, encoding="unicode")


def standalone_svg(chart: Chart) -> str:
    """Return a chart as a file of its own, with title and caption on a white background."""
    plot, height = _draw(chart)
    lines = _wrap(show_hidden(chart.caption), WIDTH - 2 * _MARGIN, _CAPTION_SIZE)
    head = 26 + _CAPTION_LINE_HEIGHT * len(lines) + 6
    total = head + height
    svg = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": str(WIDTH),
            "height": _number(total),
            "viewBox": f"0 0 {WIDTH} {_number(total)}",
            "font-family": _FONT,
            "font-size": _number(_FONT_SIZE),
        },
    )
    SubElement(svg, "title").text = show_hidden(chart.title)
    SubElement(svg, "desc").text = show_hidden(chart.caption)
    SubElement(svg, "rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    title = _text(svg, chart.title, _MARGIN, 19)
    title.set("font-size", str(_TITLE_SIZE))
    title.set("font-weight", "bold")
    for number, line in enumerate(lines):
        text = _text(svg, line, _MARGIN, 36 + _CAPTION_LINE_HEIGHT * number)
        text.set("font-size", _number(_CAPTION_SIZE))
    plot.set("transform", f"translate(0 {_number(head)})")
    svg.append(plot)
    return tostring(svg, encoding="unicode")


def text_width(text: str, size: float = _FONT_SIZE) -> float:
    """Return the approximate width of a text; wide East Asian characters count as one em."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return size * (wide + 0.54 * (len(text) - wide))


def axis_ticks(maximum: float, count: int = _TARGET_TICKS) -> list[float]:
    """Return about `count` round values from 0 to at least `maximum`."""
    raw = maximum / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    # The bounds are the geometric means of neighbouring steps.
    bounds = ((50**0.5, 10), (10**0.5, 5), (2**0.5, 2))
    step = magnitude * next((m for bound, m in bounds if raw / magnitude >= bound), 1)
    return [round(n * step, 10) for n in range(math.ceil(maximum / step - 1e-9) + 1)]


def _draw(chart: Chart) -> tuple[Element, float]:
    """Return the drawing without title and caption, and its height."""
    group = Element("g")
    if chart.plot is None:
        return group, 0.0
    is_turns = isinstance(chart.plot, TurnPlot)
    agents = (
        {series.agent: series.slot for series in chart.plot.series}
        if isinstance(chart.plot, TurnPlot)
        else chart.plot.agents
    )
    ticks = axis_ticks(chart.top)
    labels = [_tick_label(chart, value, ticks[1]) for value in ticks]
    left = _MARGIN + _FONT_SIZE + 8 + max(map(text_width, labels)) + 6
    top = _draw_legend(group, agents, left=left, with_lines=is_turns)
    area = _Area(
        left=left,
        right=WIDTH - _MARGIN - 4,
        top=top,
        bottom=top + _PLOT_HEIGHT,
        maximum=ticks[-1],
    )
    _draw_y_axis(group, area, chart.y_title, list(zip(ticks, labels, strict=True)))
    if isinstance(chart.plot, TurnPlot):
        height = _draw_turns(group, area, chart, chart.plot)
    else:
        height = _draw_groups(group, area, chart, chart.plot)
    return group, height


def _tick_label(chart: Chart, value: float, step: float) -> str:
    if chart.unit == "share":
        return f"{100 * value:.{0 if step >= 0.01 else 1}f} %"
    return f"{value:,.0f}"


def _draw_legend(
    parent: Element, agents: Mapping[str, int], *, left: float, with_lines: bool
) -> float:
    """Draw the legend in rows, and return the y coordinate below it."""
    sample = _LEGEND_SAMPLE if with_lines else 12
    x, y = left, _MARGIN + 8.0
    for agent, slot in agents.items():
        label = _truncate(show_hidden(agent), _MAX_LEGEND_LABEL_WIDTH)
        width = sample + 5 + text_width(label)
        if x > left and x + width > WIDTH - _MARGIN:
            x, y = left, y + _LEGEND_ROW_HEIGHT
        if with_lines:
            _line(parent, (x, y), (x + sample, y), slot)
        _marker(parent, x + sample / 2, y, slot)
        _text(parent, label, x + sample + 5, y + 4)
        x += width + _LEGEND_GAP
    return y + 22


def _draw_y_axis(
    parent: Element, area: _Area, title: str, ticks: Sequence[tuple[float, str]]
) -> None:
    for value, label in ticks:
        y = _number(area.y(value))
        ends = {"x1": _number(area.left), "x2": _number(area.right), "y1": y, "y2": y}
        SubElement(parent, "line", {**ends, "stroke": _GRID})
        _text(parent, label, area.left - 6, area.y(value) + 4, anchor="end")
    middle = (area.top + area.bottom) / 2
    text = _text(parent, title, 0, 0, anchor="middle")
    text.set("transform", f"translate({_number(_MARGIN + 8)} {_number(middle)}) rotate(-90)")


def _draw_turns(parent: Element, area: _Area, chart: Chart, plot: TurnPlot) -> float:
    first, last = plot.turns[0], plot.turns[-1]
    scale = (area.right - area.left) / (last - first + 1)
    xs = [area.left + (turn - first + 0.5) * scale for turn in plot.turns]
    for colour, opacities in ((_STRESS, plot.stress), (_INJECTION, plot.injection)):
        for x, opacity in zip(xs, opacities, strict=False):
            if opacity:
                y = area.bottom + _BAND_TOP
                band = _rect(parent, x - scale / 2, y, scale, _BAND_HEIGHT)
                band.attrib.update({"fill": colour, "opacity": _number(opacity)})
                band.set("shape-rendering", "crispEdges")
    axis = area.bottom + (_BAND_TOP + _BAND_HEIGHT + 3 if plot.stress else 4)
    _draw_x_axis(parent, area, axis)
    step = max(1, round(axis_ticks(last - first + 1, _TARGET_TURN_TICKS)[1]))
    for turn, x in zip(plot.turns, xs, strict=True):
        if turn % step == 0 or last - first < step:
            _tick(parent, x, axis)
            _text(parent, str(turn), x, axis + 18, anchor="middle")
    _text(parent, "turn", (area.left + area.right) / 2, axis + 35, anchor="middle")
    _draw_series(parent, area, xs, plot.series)
    for index, turn in enumerate(plot.turns):
        lines = [f"turn {turn}", *(_value_text(chart, one, index) for one in plot.series)]
        _hit(parent, area, xs[index] - scale / 2, scale, lines)
    return axis + 43


def _draw_series(
    parent: Element, area: _Area, xs: Sequence[float], all_series: Sequence[Series]
) -> None:
    for series in all_series:
        if series.smoothed:
            points = list(zip(xs, series.values, strict=True))
            _path(parent, area, points, series.slot, width=0.8).set("opacity", "0.35")
    marker_distance = max(1, len(xs) // _MARKERS_PER_LINE)
    for number, series in enumerate(all_series):
        points = list(zip(xs, series.smoothed or series.values, strict=True))
        _path(parent, area, points, series.slot, width=2.1)
        # Markers of different agents are at different turns, so they do not cover each other.
        for x, value in points[number % marker_distance :: marker_distance]:
            if value is not None:
                _marker(parent, x, area.y(value), series.slot)


def _value_text(chart: Chart, series: Series, index: int) -> str:
    text = chart.unit.format_value
    value = f"{series.agent}: {text(series.values[index])}"
    if not series.smoothed or series.smoothed[index] is None:
        return value
    return f"{value} (mean of {2 * SMOOTHING_RADIUS + 1} turns: {text(series.smoothed[index])})"


def _draw_groups(parent: Element, area: _Area, chart: Chart, plot: GroupPlot) -> float:
    band = (area.right - area.left) / len(plot.groups)
    offsets = {
        agent: band * (0.1 + 0.8 * (number + 0.5) / len(plot.agents))
        for number, agent in enumerate(plot.agents)
    }
    _draw_x_axis(parent, area, area.bottom)
    rotated = any(text_width(word) > band for group in plot.groups for word in group.split())
    bottom = area.bottom
    for number, group in enumerate(plot.groups):
        left = area.left + number * band
        middle = left + band / 2
        _tick(parent, middle, area.bottom)
        if rotated:
            limit = min(_MAX_GROUP_LABEL_WIDTH, (middle - _MARGIN) * 1.25)
            label = _truncate(show_hidden(group), limit)
            text = _text(parent, label, 0, 0, anchor="end")
            place = f"translate({_number(middle + 3)} {_number(area.bottom + 14)})"
            text.set("transform", f"{place} rotate({_GROUP_LABEL_ANGLE_DEGREES})")
            bottom = max(bottom, area.bottom + 20 + 0.65 * text_width(label))
        else:
            lines = _wrap(show_hidden(group), band, _FONT_SIZE)
            for row, line in enumerate(lines):
                _text(parent, line, middle, area.bottom + 18 + 15 * row, anchor="middle")
            bottom = max(bottom, area.bottom + 9 + 15 * len(lines))
        bars = [bar for bar in plot.bars if bar.group == group]
        for bar in bars:
            x = left + offsets[bar.agent]
            low, high = (x, area.y(bar.low)), (x, area.y(bar.high))
            whisker = _line(parent, low, high, bar.slot)
            whisker.attrib.pop("stroke-dasharray", None)
            whisker.attrib.update({"stroke-width": "1.6", "opacity": "0.75"})
            _marker(parent, x, area.y(bar.mean), bar.slot)
        _hit(parent, area, left, band, [group, *(f"{b.agent}: {bar_text(chart, b)}" for b in bars)])
    return bottom + _MARGIN


def _draw_x_axis(parent: Element, area: _Area, y: float) -> None:
    ends = {"x1": _number(area.left), "x2": _number(area.right)}
    SubElement(parent, "line", {**ends, "y1": _number(y), "y2": _number(y), "stroke": _AXIS})


def _tick(parent: Element, x: float, y: float) -> None:
    ends = {"x1": _number(x), "x2": _number(x), "y1": _number(y), "y2": _number(y + 5)}
    SubElement(parent, "line", {**ends, "stroke": _AXIS})


def _hit(parent: Element, area: _Area, x: float, width: float, lines: Sequence[str]) -> None:
    """Add an invisible rectangle that carries the text of a tooltip."""
    rect = _rect(parent, x, area.top - 4, width, area.bottom - area.top + 4)
    rect.attrib.update({"class": "hit", "fill": "none", "pointer-events": "all"})
    SubElement(rect, "title").text = "\n".join(map(show_hidden, lines))


def _path(
    parent: Element,
    area: _Area,
    points: Sequence[tuple[float, float | None]],
    slot: int,
    *,
    width: float,
) -> Element:
    commands: list[str] = []
    command = "M"
    for x, value in points:
        if value is None:
            command = "M"
            continue
        commands.append(f"{command}{_number(x)} {_number(area.y(value))}")
        command = "L"
    path = SubElement(parent, "path", {"d": "".join(commands), "fill": "none"})
    path.attrib.update({**_stroke(slot), "stroke-width": _number(width)})
    path.set("stroke-linejoin", "round")
    return path


def _line(
    parent: Element, start: tuple[float, float], end: tuple[float, float], slot: int
) -> Element:
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    coordinates = {name: _number(value) for name, value in ends.items()}
    return SubElement(parent, "line", {**coordinates, **_stroke(slot), "stroke-width": "2.1"})


def _stroke(slot: int) -> dict[str, str]:
    style = PALETTE[slot]
    dash = {"stroke-dasharray": style.dash} if style.dash else {}
    return {"stroke": style.light, **dash}


def _marker(parent: Element, x: float, y: float, slot: int) -> None:
    style = PALETTE[slot]
    if style.marker == "circle":
        circle = {"cx": _number(x), "cy": _number(y), "r": _number(_MARKER_RADIUS)}
        SubElement(parent, "circle", {**circle, "fill": style.light})
        return
    points = " ".join(
        f"{_number(x + _MARKER_RADIUS * dx)},{_number(y + _MARKER_RADIUS * dy)}"
        for dx, dy in _MARKERS[style.marker]
    )
    SubElement(parent, "polygon", {"points": points, "fill": style.light})


def _rect(parent: Element, x: float, y: float, width: float, height: float) -> Element:
    sides = {"x": x, "y": y, "width": width, "height": height}
    return SubElement(parent, "rect", {name: _number(value) for name, value in sides.items()})


def _text(parent: Element, text: str, x: float, y: float, *, anchor: str = "start") -> Element:
    element = SubElement(parent, "text", {"x": _number(x), "y": _number(y), "fill": _TEXT})
    if anchor != "start":
        element.set("text-anchor", anchor)
    element.text = show_hidden(text)
    return element


def _truncate(text: str, limit: float) -> str:
    if text_width(text) <= limit:
        return text
    while text and text_width(text) + text_width("…") > limit:
        text = text[:-1]
    return f"{text}…"


def _wrap(text: str, limit: float, size: float) -> list[str]:
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size) <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _number(value: float) -> str:
    return f"{round(value, 2):g}"
