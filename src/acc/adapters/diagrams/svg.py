"""Draw an agent tree as SVG: a tidy tree from left to right, with edges between siblings.

Colours are presentation attributes for a light page; a style element replaces them in a dark one.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from xml.etree.ElementTree import Element, SubElement, tostring

from acc.adapters.diagrams.graph import AgentGraph, CrossEdge, EdgeKind, Node, build_graph
from acc.application.agents.base import BaseAgent
from acc.application.console.active_steps import AgentDrawing, Place

# All lengths are in SVG user units (pixels at the natural size).
_FONT = "Helvetica Neue, Helvetica, Arial, Noto Sans CJK JP, Hiragino Sans, Yu Gothic, sans-serif"
_NAME_SIZE, _TEXT_SIZE = 13, 11
_LINE_HEIGHT = 15
_PADDING = 9
_MAX_TEXT_WIDTH = 250
_COLUMN_GAP, _ROW_GAP, _SUBTREE_GAP = 76, 16, 30
_MARGIN = 18
_LEGEND_HEIGHT, _LEGEND_SAMPLE = 34, 26
#: Horizontal distance of the innermost cross edge from its boxes, and between cross edges.
_LANE_OFFSET, _LANE_WIDTH = 26, 16
_ARROW_LENGTH, _ARROW_HALF_WIDTH = 7, 3.5
#: Distance of the ends of cross edges from the middle of a box: outgoing and incoming.
_OUTGOING_OFFSET, _INCOMING_OFFSET = 9, 4
#: Each colour on a light and on a dark page.
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
_FILLS = {
    "agent": "agent",
    "router": "choice",
    "sequence": "flow",
    "parallel": "flow",
    "loop": "flow",
    "graph": "flow",
}
#: Colour and dash pattern of each kind of edge.
_STROKES = {
    EdgeKind.RUNS: ("line", ""),
    EdgeKind.TRANSFER: ("transfer", "5 3"),
    EdgeKind.PEER: ("transfer", "5 3"),
    EdgeKind.TOOL: ("tool", "2 2"),
    EdgeKind.EDGE: ("edge", ""),
}
_LEGEND = {
    EdgeKind.RUNS: "runs",
    EdgeKind.TRANSFER: "may transfer",
    EdgeKind.TOOL: "uses as a tool",
    EdgeKind.EDGE: "leads to, if the condition is true",
}


@dataclass(slots=True, kw_only=True)
class Box:
    """The rectangle of a node and its texts."""

    node: Node
    depth: int
    heading: list[str]
    lines: list[str]
    width: float
    height: float
    left: float = 0.0
    top: float = 0.0
    children: list["Box"] = field(default_factory=list)

    @property
    def right(self) -> float:
        """Return the x coordinate of the right side."""
        return self.left + self.width

    @property
    def middle(self) -> float:
        """Return the y coordinate of the centre."""
        return self.top + self.height / 2


@dataclass(slots=True, kw_only=True)
class Lane:
    """A cross edge, drawn as a curve to the right of its boxes at `offset` from them."""

    edge: CrossEdge
    source: Box
    target: Box
    offset: float = 0.0
    label_y: float = 0.0

    @property
    def ends(self) -> tuple[float, float]:
        """Return the y coordinates of the start and the end."""
        sign = -1 if self.target.middle < self.source.middle else 1
        start = self.source.middle + sign * _OUTGOING_OFFSET
        return start, self.target.middle - sign * _INCOMING_OFFSET


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The position of every box and cross edge, and the size of the drawing without margins."""

    boxes: list[Box]
    lanes: list[Lane]
    width: float
    height: float


def svg(root: BaseAgent) -> str:
    """Return a drawing of an agent tree that follows the light or dark scheme of its page."""
    return draw_agents(root).svg


def draw_agents(root: BaseAgent) -> AgentDrawing:
    """Return the drawing of an agent tree with the place of each agent."""
    layout = lay_out(build_graph(root))
    kinds = _legend_kinds(layout)
    legend_width = sum(_legend_item_width(kind) for kind in kinds)
    width = max(layout.width, legend_width) + 2 * _MARGIN
    height = layout.height + 2 * _MARGIN + (_LEGEND_HEIGHT if kinds else 0)
    drawing = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": _number(width),
            "height": _number(height),
            "viewBox": f"{-_MARGIN} {-_MARGIN} {_number(width)} {_number(height)}",
            "font-family": _FONT,
            "font-size": str(_TEXT_SIZE),
        },
    )
    SubElement(drawing, "title").text = root.name
    SubElement(drawing, "style").text = _dark_scheme()
    background = {"x": str(-_MARGIN), "y": str(-_MARGIN), "width": "100%", "height": "100%"}
    SubElement(drawing, "rect", {**background, "fill": _INK["page"][0]})
    boxes = {box.node.id: box for box in layout.boxes}
    for box in layout.boxes:
        if box.node.parent:
            _draw_tree_edge(drawing, boxes[box.node.parent], box)
    for lane in layout.lanes:
        _draw_cross_edge(drawing, lane)
    for box in layout.boxes:
        _draw_box(drawing, box)
    for lane in layout.lanes:
        _draw_label(drawing, lane)
    x = 0.0
    for kind in kinds:
        _draw_legend_item(drawing, kind, x, layout.height + _LEGEND_HEIGHT - 6)
        x += _legend_item_width(kind)
    places: dict[str, list[Place]] = {}
    for box in layout.boxes:
        place = Place(box.left, box.top, box.width, box.height)
        places.setdefault(box.node.name, []).append(place)
    return AgentDrawing(
        svg=tostring(drawing, encoding="unicode"),
        view_box=drawing.attrib["viewBox"],
        width=round(width, 2),
        height=round(height, 2),
        places=places,
    )


def lay_out(graph: AgentGraph) -> Layout:
    """Return the positions of all boxes and edges: one column per level of the tree."""
    boxes: dict[str, Box] = {}
    for node in graph.nodes:
        parent = boxes.get(node.parent)
        box = boxes[node.id] = _measure(node, depth=parent.depth + 1 if parent else 0)
        if parent:
            parent.children.append(box)
    ordered = list(boxes.values())
    _place_rows(ordered[0], 0.0)
    lanes = [
        Lane(edge=edge, source=boxes[edge.source], target=boxes[edge.target])
        for edge in graph.cross_edges
    ]
    left = 0.0
    right = 0.0
    for depth in range(max(box.depth for box in ordered) + 1):
        column = [box for box in ordered if box.depth == depth]
        width = max(box.width for box in column)
        for box in column:
            box.left, box.width = left, width
        beside = _place_lanes([lane for lane in lanes if lane.source.depth == depth])
        right = max(right, left + width + beside)
        left += width + beside + _COLUMN_GAP
    height = max(box.top + box.height for box in ordered)
    return Layout(boxes=ordered, lanes=lanes, width=right, height=height)


def text_width(text: str, size: float = _TEXT_SIZE) -> float:
    """Return an upper estimate of the width of a text, including East Asian characters."""
    wide = sum(unicodedata.east_asian_width(character) in "WFA" for character in text)
    return size * (1.04 * wide + 0.6 * (len(text) - wide))


def wrap(text: str, limit: float = _MAX_TEXT_WIDTH) -> list[str]:
    """Return a text in lines of at most `limit`; a single longer word is not split."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and text_width(f"{lines[-1]} {word}") <= limit:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _measure(node: Node, *, depth: int) -> Box:
    lines = [line for text in node.lines for line in wrap(text)]
    heading = wrap(node.heading)
    width = max(
        text_width(node.name, _NAME_SIZE) * 1.08, *(text_width(line) for line in (*lines, *heading))
    )
    return Box(
        node=node,
        depth=depth,
        heading=heading,
        lines=lines,
        width=width + 2 * _PADDING,
        height=(1 + len(heading) + len(lines)) * _LINE_HEIGHT + 2 * _PADDING,
    )


def _place_rows(box: Box, top: float) -> float:
    """Place a subtree below `top`, the box in the middle of its children; return its end."""
    if not box.children:
        box.top = top
        return top + box.height
    end = _place_rows(box.children[0], top)
    for before, child in pairwise(box.children):
        has_subtree = before.children or child.children
        end = _place_rows(child, end + (_SUBTREE_GAP if has_subtree else _ROW_GAP))
    box.top = (box.children[0].middle + box.children[-1].middle - box.height) / 2
    if box.top < top:  # the box is taller than all of its children together
        distance = top - box.top
        _move_down(box, distance)
        end += distance
    return max(box.top + box.height, end)


def _move_down(box: Box, distance: float) -> None:
    box.top += distance
    for child in box.children:
        _move_down(child, distance)


def _place_lanes(lanes: Sequence[Lane]) -> float:
    """Place the cross edges of a column so that they do not cover each other.

    Short edges are inside. Return the width that the edges and their labels need.
    """
    occupied: list[list[tuple[float, float]]] = []
    width = 0.0
    for lane in sorted(lanes, key=lambda lane: abs(lane.ends[1] - lane.ends[0])):
        low, high = sorted(lane.ends)
        free = (
            number
            for number, spans in enumerate(occupied)
            if all(high <= start or low >= end for start, end in spans)
        )
        number = next(free, len(occupied))
        if number == len(occupied):
            occupied.append([])
        occupied[number].append((low, high))
        lane.offset = _LANE_OFFSET + number * _LANE_WIDTH
        label = text_width(lane.edge.label) + 8 if lane.edge.label else 0.0
        width = max(width, lane.offset + label)
    below = float("-inf")
    for lane in sorted(lanes, key=lambda lane: sum(lane.ends)):
        lane.label_y = sum(lane.ends) / 2
        if lane.edge.label:
            lane.label_y = below = max(lane.label_y, below + _LINE_HEIGHT)
    return width


def _draw_tree_edge(parent: Element, source: Box, target: Box) -> None:
    node = target.node
    start, end = (source.right, source.middle), (target.left, target.middle)
    middle = (start[0] + end[0]) / 2
    _path(
        parent,
        f"M{_point(*start)}C{_point(middle, start[1])} {_point(middle, end[1])} {_point(*end)}",
        node.edge,
    )
    if node.edge is not EdgeKind.RUNS:
        _arrow(parent, end[0], end[1], node.edge, direction=1)
    if node.both_ways:
        _arrow(parent, start[0], start[1], node.edge, direction=-1)


def _draw_cross_edge(parent: Element, lane: Lane) -> None:
    x = lane.source.right
    start, end = lane.ends
    # A cubic curve reaches three quarters of the way to its control points.
    control = x + lane.offset / 0.75
    _path(
        parent,
        f"M{_point(x, start)}C{_point(control, start)} {_point(control, end)} {_point(x, end)}",
        lane.edge.kind,
    )
    _arrow(parent, x, end, lane.edge.kind, direction=-1)
    if lane.edge.both_ways:
        _arrow(parent, x, start, lane.edge.kind, direction=-1)


def _draw_label(parent: Element, lane: Lane) -> None:
    if not lane.edge.label:
        return
    x = lane.source.right + lane.offset + 4
    colour = _INK[_STROKES[lane.edge.kind][0]][0]
    halo = _text(parent, lane.edge.label, x, lane.label_y + 4, colour=_INK["page"][0])
    # The halo separates the label from edges behind it.
    halo.attrib.update({"stroke": _INK["page"][0], "stroke-width": "4", "stroke-linejoin": "round"})
    halo.set("aria-hidden", "true")
    _text(parent, lane.edge.label, x, lane.label_y + 4, colour=colour)


def _draw_box(parent: Element, box: Box) -> None:
    sides = {"x": box.left, "y": box.top, "width": box.width, "height": box.height}
    rect = SubElement(parent, "rect", {name: _number(value) for name, value in sides.items()})
    fill = _INK[_FILLS.get(box.node.base_kind, "own")][0]
    rect.attrib.update({"rx": "5", "fill": fill, "stroke": _INK["line"][0]})
    x, y = box.left + _PADDING, box.top + _PADDING + 11
    for line in box.heading:
        _text(parent, line, x, y, colour=_INK["quiet"][0])
        y += _LINE_HEIGHT
    name = _text(parent, box.node.name, x, y, colour=_INK["text"][0])
    name.attrib.update({"font-size": str(_NAME_SIZE), "font-weight": "bold"})
    y += _LINE_HEIGHT + 1
    for line in box.lines:
        _text(parent, line, x, y, colour=_INK["text"][0])
        y += _LINE_HEIGHT


def _legend_kinds(layout: Layout) -> list[EdgeKind]:
    """Return the kinds of edges to explain; a tree with plain edges needs no legend."""
    used = {box.node.edge for box in layout.boxes if box.node.parent}
    used |= {lane.edge.kind for lane in layout.lanes}
    if EdgeKind.PEER in used:
        used.add(EdgeKind.TRANSFER)
    return [] if used <= {EdgeKind.RUNS} else [kind for kind in _LEGEND if kind in used]


def _legend_item_width(kind: EdgeKind) -> float:
    return _LEGEND_SAMPLE + 6 + text_width(_LEGEND[kind]) + 18


def _draw_legend_item(parent: Element, kind: EdgeKind, x: float, y: float) -> None:
    _path(parent, f"M{_point(x, y)}H{_number(x + _LEGEND_SAMPLE)}", kind)
    _text(parent, _LEGEND[kind], x + _LEGEND_SAMPLE + 6, y + 4, colour=_INK["quiet"][0])


def _path(parent: Element, commands: str, kind: EdgeKind) -> None:
    colour, dash = _STROKES[kind]
    path = SubElement(parent, "path", {"d": commands, "fill": "none", "stroke": _INK[colour][0]})
    path.set("stroke-width", "1.4")
    if dash:
        path.set("stroke-dasharray", dash)


def _arrow(parent: Element, x: float, y: float, kind: EdgeKind, *, direction: int) -> None:
    """Draw an arrow head with its tip at a point, to the right (1) or to the left (-1)."""
    base = x - direction * _ARROW_LENGTH
    corners = ((x, y), (base, y - _ARROW_HALF_WIDTH), (base, y + _ARROW_HALF_WIDTH))
    points = " ".join(_point(*corner) for corner in corners)
    SubElement(parent, "polygon", {"points": points, "fill": _INK[_STROKES[kind][0]][0]})


def _text(parent: Element, text: str, x: float, y: float, *, colour: str) -> Element:
    element = SubElement(parent, "text", {"x": _number(x), "y": _number(y), "fill": colour})
    element.text = text
    return element


def _dark_scheme() -> str:
    rules = "".join(
        f'[{attribute}="{light}"]{{{attribute}:{dark}}}'
        for light, dark in _INK.values()
        for attribute in ("fill", "stroke")
    )
    return f"@media (prefers-color-scheme:dark){{{rules}}}"


def _point(x: float, y: float) -> str:
    return f"{_number(x)},{_number(y)}"


def _number(value: float) -> str:
    return f"{round(value, 2):g}"
