"""A tree of agents as boxes and lines, before anyone decides how to draw it."""

import ast
import inspect
import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations
from typing import Any

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import Edge, GraphAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent
from acc.application.tools.tool import AgentTool

_MOST_PEERS = 3
_MOST_CONDITION = 48
_KINDS: dict[type[BaseAgent], str] = {
    SequentialAgent: "sequence",
    ParallelAgent: "parallel",
    LoopAgent: "loop",
    RouterAgent: "router",
    GraphAgent: "graph",
    LlmAgent: "agent",
}


class Line(StrEnum):
    """What a line between two boxes means."""

    RUNS = "runs"
    TRANSFER = "transfer"
    TOOL = "tool"
    EDGE = "edge"
    PEER = "peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """An agent: what it is, what stands in its box, and under whom it hangs."""

    id: str
    parent: str
    kind: str
    name: str
    role: str = ""
    lines: tuple[str, ...] = ()
    #: How it hangs under its parent.
    line: Line = Line.RUNS
    both_ways: bool = False

    @property
    def heading(self) -> str:
        """Return what stands above the name."""
        return f"{self.role} · {self.kind}" if self.role else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A line that is not one of the tree."""

    source: str
    target: str
    line: Line
    label: str = ""
    both_ways: bool = False


@dataclass(slots=True)
class Picture:
    """All boxes, parents first, and the lines between them."""

    boxes: list[Box] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)


def picture_of(root: BaseAgent) -> Picture:
    """Return the boxes and lines of a tree."""
    picture = Picture()
    _add(picture, root, parent="", role="", line=Line.RUNS, above=None)
    return picture


def _add(
    picture: Picture,
    agent: BaseAgent,
    *,
    parent: str,
    role: str,
    line: Line,
    above: BaseAgent | None,
) -> None:
    box_id = f"n{len(picture.boxes)}"
    picture.boxes.append(
        Box(
            id=box_id,
            parent=parent,
            kind=_kind(agent),
            name=agent.name,
            role=role,
            lines=tuple(_lines(agent)),
            line=line,
            both_ways=line is Line.TRANSFER and _may_transfer(agent, above),
        )
    )
    places: dict[str, str] = {}
    for number, child in enumerate(agent.sub_agents, start=1):
        places[child.name] = f"n{len(picture.boxes)}"
        hangs = Line.TRANSFER if _may_transfer(agent, child) else Line.RUNS
        child_role = _role(agent, child, number)
        _add(picture, child, parent=box_id, role=child_role, line=hangs, above=agent)
    for tool in agent.own_tools.values() if isinstance(agent, LlmAgent) else ():
        if isinstance(tool, AgentTool):
            role = "tool, asks first" if tool.confirm else "tool"
            _add(picture, tool.agent, parent=box_id, role=role, line=Line.TOOL, above=agent)
    picture.links += _links(agent, places)


def _kind(agent: BaseAgent) -> str:
    kind = next((text for cls, text in _KINDS.items() if isinstance(agent, cls)), "")
    if isinstance(agent, LoopAgent):
        return f"{kind}, at most {agent.max_iterations} rounds"
    if isinstance(agent, GraphAgent) and agent.max_steps is not None:
        return f"{kind}, at most {agent.max_steps} steps"
    if isinstance(agent, RouterAgent):
        return f"{kind} by {'rule' if callable(agent.by) else agent.by}"
    return kind or type(agent).__name__


def _role(parent: BaseAgent, child: BaseAgent, number: int) -> str:
    if isinstance(parent, SequentialAgent | LoopAgent):
        return f"step {number}"
    if isinstance(parent, ParallelAgent):
        return "branch"
    if isinstance(parent, RouterAgent):
        return "default" if child.name == parent.default else "choice"
    if isinstance(parent, GraphAgent):
        if child.name == parent.start:
            return "start"
        return "join" if child.name in parent.joins else ""
    return ""


def _lines(agent: BaseAgent) -> Iterator[str]:
    if agent.confirm:
        yield "asks a person first"
    if isinstance(agent, LlmAgent):
        yield f"model: {_model_name(agent.model)}"
        if agent.memory not in (None, "transcript"):
            yield f"memory: {agent.memory if isinstance(agent.memory, str) else 'own'}"
        yield from _tool_lines(agent)
        if agent.output_key:
            yield f"writes: {agent.output_key}"
        if agent.returns_control:
            yield "hands back"
    elif isinstance(agent, RouterAgent) and agent.by == "model":
        yield f"model: {_model_name(agent.model)}"
    if _peers_all_round(agent):
        yield "sub-agents may transfer to each other"


def _tool_lines(agent: LlmAgent) -> Iterator[str]:
    tools = [tool for tool in agent.own_tools.values() if not isinstance(tool, AgentTool)]
    free = [tool.name for tool in tools if not tool.confirm]
    asking = [tool.name for tool in tools if tool.confirm]
    if free:
        yield f"tools: {', '.join(free)}"
    if asking:
        yield f"asks first: {', '.join(asking)}"
    if agent.toolsets:
        yield f"tools from: {', '.join(source.name for source in agent.toolsets)}"


def _model_name(model: object) -> str:
    return model if isinstance(model, str) else type(model).__name__


def _may_transfer(agent: BaseAgent, target: BaseAgent | None) -> bool:
    return isinstance(agent, LlmAgent) and any(one is target for one in agent.transfer_targets())


def _peers(agent: BaseAgent) -> Iterator[tuple[BaseAgent, BaseAgent, bool]]:
    """Give the sub-agents that may transfer to each other, and whether both may."""
    for first, second in combinations(agent.sub_agents, 2):
        there, back = _may_transfer(first, second), _may_transfer(second, first)
        if there:
            yield first, second, back
        elif back:
            yield second, first, False


def _peers_all_round(agent: BaseAgent) -> bool:
    """Tell whether so many sub-agents may transfer to all others that lines would hide them."""
    count = len(agent.sub_agents)
    both = [pair for pair in _peers(agent) if pair[2]]
    return count > _MOST_PEERS and len(both) == count * (count - 1) // 2


def _links(agent: BaseAgent, places: dict[str, str]) -> Iterator[Link]:
    if isinstance(agent, GraphAgent):
        for edge in agent.all_edges:
            yield Link(
                source=places[edge.source],
                target=places[edge.target],
                line=Line.EDGE,
                label=_condition(edge),
            )
    elif not _peers_all_round(agent):
        for first, second, both in _peers(agent):
            yield Link(
                source=places[first.name],
                target=places[second.name],
                line=Line.PEER,
                both_ways=both,
            )


def _condition(edge: Edge) -> str:
    if edge.otherwise:
        return "otherwise"
    if edge.when is None:
        return ""
    name = getattr(edge.when, "__name__", type(edge.when).__name__)
    text = _lambda_text(edge.when) if name == "<lambda>" else name
    return text if len(text) <= _MOST_CONDITION else f"{text[: _MOST_CONDITION - 1]}…"


def _lambda_text(function: Callable[..., Any]) -> str:
    """Return what a lambda says, found by its place in the file it was written in."""
    code = function.__code__
    places = [(line, col) for line, _, col, _ in code.co_positions() if line and col]
    source = "".join(linecache.getlines(inspect.getfile(function)))
    try:
        module = ast.parse(source)
    except SyntaxError:
        return "condition"
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and node.lineno <= code.co_firstlineno:
            start = (node.body.lineno, node.body.col_offset)
            end = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
            if node.lineno == code.co_firstlineno and all(start <= p <= end for p in places):
                return ast.unparse(node.body)
    return "condition"
