"""A tree of agents as Mermaid text, which many Markdown pages show as a drawing."""

from collections.abc import Iterator

from acc.adapters.drawing.picture import Box, Line, Picture, picture_of
from acc.application.agents.base import BaseAgent

_SHAPES = {
    "agent": ("(", ")"),
    "loop": ("{{", "}}"),
    "router": ("{", "}"),
    "parallel": ("[/", "/]"),
    "graph": ("[[", "]]"),
}
_ARROWS = {
    Line.RUNS: ("-->", "-->"),
    Line.TRANSFER: ("-.->", "<-.->"),
    Line.TOOL: ("--o", "--o"),
    Line.EDGE: ("==>", "==>"),
    Line.PEER: ("-.->", "<-.->"),
}
_LABELS = {Line.TRANSFER: "transfer", Line.PEER: "transfer", Line.TOOL: "tool"}


def mermaid(root: BaseAgent) -> str:
    """Return a Mermaid flowchart of a tree."""
    return "\n".join(_lines(picture_of(root))) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart TD"
    for box in picture.boxes:
        yield f"    {box.id}{_body(box)}"
    for box in picture.boxes:
        if box.parent:
            arrow = _arrow(box.line, box.both_ways, _LABELS.get(box.line, ""))
            yield f"    {box.parent} {arrow} {box.id}"
    for link in picture.links:
        arrow = _arrow(link.line, link.both_ways, link.label or _LABELS.get(link.line, ""))
        yield f"    {link.source} {arrow} {link.target}"


def _arrow(line: Line, both_ways: bool, label: str) -> str:
    arrow = _ARROWS[line][both_ways]
    return f'{arrow}|"{_escaped(label)}"|' if label else arrow


def _body(box: Box) -> str:
    opening, closing = _SHAPES.get(box.kind.split()[0].rstrip(","), ("[", "]"))
    texts = [f"<b>{_escaped(box.name)}</b>", f"<i>{_escaped(box.heading)}</i>"]
    texts += [_escaped(line) for line in box.lines]
    return f'{opening}"{"<br/>".join(texts)}"{closing}'


def _escaped(text: str) -> str:
    """Return text that Mermaid shows as it is: what it would read as a sign becomes an entity."""
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, entity)
    return text.replace("`", "#96;")
