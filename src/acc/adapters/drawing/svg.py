"""A tree of agents as an SVG, laid out and drawn by Vega without a browser."""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any

import vl_convert

from acc.adapters.drawing.picture import Box, Line, Picture, picture_of
from acc.application.agents.base import BaseAgent

Spec = dict[str, Any]

_FONT = "Helvetica Neue, Helvetica, Arial, Noto Sans CJK JP, Hiragino Sans, Yu Gothic, sans-serif"
_NAME_SIZE, _TEXT_SIZE = 13, 11
_LINE_HEIGHT = 15
_PADDING = 9
_MOST_WIDTH = 250
_COLUMN_GAP, _ROW_GAP = 76, 16
_ARC_GAP = 46
#: Each colour on a light page, and what it becomes on a dark one.
_INK = {
    "page": ("#ffffff", "#14181c"),
    "text": ("#1d2329", "#eef1f4"),
    "quiet": ("#4f5860", "#b3bcc4"),
    "line": ("#7d868e", "#8a949d"),
    "transfer": ("#b04a00", "#f58b45"),
    "tool": ("#00745f", "#2ec79c"),
    "edge": ("#0068a3", "#56b4e9"),
    "agent": ("#e8f1f8", "#1d3040"),
    "flow": ("#eceef0", "#292f35"),
    "choice": ("#f8ecdf", "#3d2d1d"),
    "own": ("#eeeaf7", "#2f2a42"),
}
_FILLS = {"agent": "agent", "router": "choice", "sequence": "flow", "parallel": "flow"} | {
    "loop": "flow",
    "graph": "flow",
}
_STROKES = {
    Line.RUNS: ("line", [1, 0]),
    Line.TRANSFER: ("transfer", [5, 3]),
    Line.PEER: ("transfer", [5, 3]),
    Line.TOOL: ("tool", [2, 2]),
    Line.EDGE: ("edge", [1, 0]),
}
_MEANINGS = {
    Line.RUNS: "runs",
    Line.TRANSFER: "may transfer",
    Line.TOOL: "uses as a tool",
    Line.EDGE: "leads to, if the condition holds",
}


def svg(root: BaseAgent) -> str:
    """Return a drawing of a tree; its colours follow the page's light or dark scheme."""
    picture = picture_of(root)
    drawn = str(vl_convert.vega_to_svg(specification(picture), allowed_base_urls=[]))
    head, end, body = drawn.partition(">")
    return f"{head}{end}<title>{_plain(root.name)}</title>{_dark_scheme()}{body}"


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def _dark_scheme() -> str:
    """Return the rules that give every colour its other one on a dark page."""
    rules = [
        f'[{part}="{light}"]{{{part}:{dark}}}'
        for light, dark in _INK.values()
        for part in ("fill", "stroke")
    ]
    return f"<style>@media (prefers-color-scheme:dark){{{''.join(rules)}}}</style>"


def width_of(text: str, size: int = _TEXT_SIZE) -> float:
    """Return about how wide a text is drawn, and rather too much than too little."""
    wide = sum(unicodedata.east_asian_width(sign) in "WFA" for sign in text)
    return size * (1.04 * wide + 0.6 * (len(text) - wide))


def wrapped(text: str, most: float = _MOST_WIDTH) -> list[str]:
    """Return a text in lines that fit a box; only a single word may be longer."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and width_of(f"{lines[-1]} {word}") <= most:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def specification(picture: Picture) -> Spec:
    """Return the Vega specification of a picture."""
    rows = [_row(box) for box in picture.boxes]
    depths = _depths(picture.boxes)
    widths = [
        max(row["w"] for row, depth in zip(rows, depths, strict=True) if depth == level)
        for level in range(max(depths) + 1)
    ]
    arcs = [0.0] * len(widths)
    by_id = {box.id: depth for box, depth in zip(picture.boxes, depths, strict=True)}
    for link in picture.links:
        label = width_of(link.label) if link.label else 0.0
        arcs[by_id[link.source]] = max(arcs[by_id[link.source]], label + _ARC_GAP)
    columns = [
        sum(widths[:level]) + sum(arcs[:level]) + _COLUMN_GAP * level
        for level in range(len(widths))
    ]
    for row, depth in zip(rows, depths, strict=True):
        row["left"] = columns[depth]
        row["w"] = widths[depth]
    height = max(row["h"] for row in rows) + _ROW_GAP
    return {
        "$schema": "https://vega.github.io/schema/vega/v5.json",
        "background": _INK["page"][0],
        "padding": 18,
        "autosize": "pad",
        "config": {"text": {"font": _FONT, "fontSize": _TEXT_SIZE}},
        "data": [_nodes(rows, height), _tree_lines(), _links(picture)],
        "marks": [*_marks(), *_legend(picture, height)],
    }


def _depths(boxes: Sequence[Box]) -> list[int]:
    found: dict[str, int] = {}
    for box in boxes:
        found[box.id] = found[box.parent] + 1 if box.parent else 0
    return list(found.values())


def _row(box: Box) -> Spec:
    lines = [line for text in box.lines for line in wrapped(text)]
    heading = wrapped(box.heading)
    width = max(
        width_of(box.name, _NAME_SIZE) * 1.08, *(width_of(line) for line in (*lines, *heading))
    )
    kind = box.kind.split()[0].rstrip(",")
    stroke, dash = _STROKES[box.line]
    return {
        "id": box.id,
        "parent": box.parent or None,
        "name": box.name,
        "heading": heading,
        "lines": lines,
        "top": len(heading) * _LINE_HEIGHT,
        "w": width + 2 * _PADDING,
        "h": (1 + len(heading) + len(lines)) * _LINE_HEIGHT + 2 * _PADDING,
        "fill": _INK[_FILLS.get(kind, "own")][0],
        "stroke": _INK[stroke][0],
        "dash": dash,
        "arrow": box.line is not Line.RUNS,
        "both": box.both_ways,
    }


def _nodes(rows: Sequence[Spec], height: float) -> Spec:
    return {
        "name": "nodes",
        "values": list(rows),
        "transform": [
            {"type": "stratify", "key": "id", "parentKey": "parent"},
            {
                "type": "tree",
                "method": "tidy",
                "separation": False,
                "nodeSize": [height, 1],
                "as": ["mid", "level"],
            },
            {"type": "formula", "as": "right", "expr": "datum.left + datum.w"},
            {"type": "formula", "as": "upper", "expr": "datum.mid - datum.h / 2"},
        ],
    }


def _tree_lines() -> Spec:
    return {
        "name": "lines",
        "source": "nodes",
        "transform": [
            {"type": "treelinks"},
            {"type": "formula", "as": "x0", "expr": "datum.source.right"},
            {"type": "formula", "as": "y0", "expr": "datum.source.mid"},
            {"type": "formula", "as": "x1", "expr": "datum.target.left"},
            {"type": "formula", "as": "y1", "expr": "datum.target.mid"},
            {
                "type": "linkpath",
                "shape": "diagonal",
                "orient": "horizontal",
                "sourceX": "x0",
                "sourceY": "y0",
                "targetX": "x1",
                "targetY": "y1",
            },
        ],
    }


def _links(picture: Picture) -> Spec:
    """Return the lines between boxes of one column: bows at its right side, longer ones wider."""
    rows = [
        {
            "from": link.source,
            "to": link.target,
            "label": link.label,
            "stroke": _INK[_STROKES[link.line][0]][0],
            "dash": _STROKES[link.line][1],
            "both": link.both_ways,
        }
        for link in picture.links
    ]
    place = ["right", "mid"]
    up = "(datum.y1 < datum.y0)"
    return {
        "name": "links",
        "values": rows,
        "transform": [
            {
                "type": "lookup",
                "from": "nodes",
                "key": "id",
                "fields": ["from"],
                "values": place,
                "as": ["x0", "m0"],
            },
            {
                "type": "lookup",
                "from": "nodes",
                "key": "id",
                "fields": ["to"],
                "values": place,
                "as": ["x1", "m1"],
            },
            # A line leaves towards where it goes, and the ones that come in stand apart from it.
            {"type": "formula", "as": "y0", "expr": "datum.m0 + (datum.m1 < datum.m0 ? -9 : 9)"},
            {"type": "formula", "as": "y1", "expr": "datum.m1 + (datum.m1 < datum.m0 ? 4 : -4)"},
            {
                "type": "formula",
                "as": "bow",
                "expr": f"min(84, 30 + abs(datum.y1 - datum.y0) * 0.14) - ({up} ? 14 : 0)",
            },
            {
                "type": "formula",
                "as": "path",
                "expr": "'M' + datum.x0 + ',' + datum.y0 + 'C' + (datum.x0 + datum.bow) + ',' + "
                "datum.y0 + ' ' + (datum.x1 + datum.bow) + ',' + datum.y1 + ' ' + (datum.x1 + 6) + "
                "',' + datum.y1",
            },
        ],
    }


def _marks() -> Iterator[Spec]:
    yield _path("lines", "datum.target.stroke", "datum.target.dash")
    yield _path("links", "datum.stroke", "datum.dash")
    yield _arrow_head(
        "lines", "triangle-right", "datum.x1 - 4", "datum.y1", shown="datum.target.arrow"
    )
    yield _arrow_head(
        "lines", "triangle-left", "datum.x0 + 4", "datum.y0", shown="datum.target.both"
    )
    yield _arrow_head("links", "triangle-left", "datum.x1 + 4", "datum.y1", shown="true")
    yield _arrow_head("links", "triangle-left", "datum.x0 + 4", "datum.y0", shown="datum.both")
    yield {
        "type": "rect",
        "from": {"data": "nodes"},
        "encode": {
            "enter": {
                "x": {"field": "left"},
                "y": {"field": "upper"},
                "width": {"field": "w"},
                "height": {"field": "h"},
                "cornerRadius": {"value": 5},
                "fill": {"field": "fill"},
                "stroke": {"value": _INK["line"][0]},
                "strokeWidth": {"value": 1},
            }
        },
    }
    yield _text("heading", "0", size=_TEXT_SIZE, ink="quiet")
    yield _text("name", "datum.top", size=_NAME_SIZE, ink="text", weight="bold")
    yield _text("lines", f"datum.top + {_LINE_HEIGHT + 1}", size=_TEXT_SIZE, ink="text")
    yield _link_labels(halo=True)
    yield _link_labels(halo=False)


def _path(data: str, stroke: str, dash: str) -> Spec:
    return {
        "type": "path",
        "from": {"data": data},
        "encode": {
            "enter": {
                "path": {"field": "path"},
                "stroke": {"signal": stroke},
                "strokeDash": {"signal": dash},
                "strokeWidth": {"value": 1.4},
            }
        },
    }


def _arrow_head(data: str, shape: str, x: str, y: str, *, shown: str) -> Spec:
    stroke = "datum.target.stroke" if data == "lines" else "datum.stroke"
    return {
        "type": "symbol",
        "from": {"data": data},
        "encode": {
            "enter": {
                "shape": {"value": shape},
                "x": {"signal": x},
                "y": {"signal": y},
                "size": {"value": 52},
                "fill": {"signal": stroke},
                "opacity": {"signal": f"{shown} ? 1 : 0"},
            }
        },
    }


def _text(field: str, below: str, *, size: int, ink: str, weight: str = "normal") -> Spec:
    return {
        "type": "text",
        "from": {"data": "nodes"},
        "encode": {
            "enter": {
                "text": {"field": field},
                "x": {"signal": f"datum.left + {_PADDING}"},
                "y": {"signal": f"datum.upper + {_PADDING + 11} + {below}"},
                "fontSize": {"value": size},
                "fontWeight": {"value": weight},
                "lineHeight": {"value": _LINE_HEIGHT},
                "fill": {"value": _INK[ink][0]},
                "font": {"value": _FONT},
            }
        },
    }


def _link_labels(*, halo: bool) -> Spec:
    """Return the words beside the bows; a halo first, so that no line runs through them."""
    page = {"value": _INK["page"][0]}
    ink = {"stroke": page, "strokeWidth": {"value": 5}} if halo else {"fill": {"field": "stroke"}}
    return {
        "type": "text",
        "from": {"data": "links"},
        "encode": {
            "enter": {
                "text": {"field": "label"},
                "x": {"signal": "datum.x0 + datum.bow * 0.75 + 5"},
                "y": {"signal": "(datum.y0 + datum.y1) / 2"},
                "baseline": {"value": "middle"},
                "fontSize": {"value": _TEXT_SIZE},
                **ink,
                "font": {"value": _FONT},
            }
        },
    }


def _legend(picture: Picture, height: float) -> Iterator[Spec]:
    """Give a line of text for each kind of line that is used, under the tree."""
    used: set[Line] = {box.line for box in picture.boxes if box.parent}
    used |= {Line.TRANSFER if link.line is Line.PEER else link.line for link in picture.links}
    if used <= {Line.RUNS}:
        return
    bottom = "extent(pluck(data('nodes'), 'mid'))[1]"
    lowest = f"{bottom} + {height / 2 + 14}"
    x = 0.0
    for line in _MEANINGS:
        if line not in used:
            continue
        stroke, dash = _STROKES[line]
        ink = {"value": _INK[stroke][0]}
        y = {"signal": lowest}
        yield {
            "type": "rule",
            "encode": {
                "enter": {
                    "x": {"value": x},
                    "x2": {"value": x + 26},
                    "y": y,
                    "stroke": ink,
                    "strokeDash": {"value": dash},
                    "strokeWidth": {"value": 1.6},
                }
            },
        }
        yield {
            "type": "text",
            "encode": {
                "enter": {
                    "x": {"value": x + 32},
                    "y": y,
                    "text": {"value": _MEANINGS[line]},
                    "baseline": {"value": "middle"},
                    "fill": {"value": _INK["quiet"][0]},
                    "font": {"value": _FONT},
                    "fontSize": {"value": _TEXT_SIZE},
                }
            },
        }
        x += 32 + width_of(_MEANINGS[line]) + 18
