"""An agent tree as nodes and edges, and as Mermaid text."""

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
from acc.domain.value_objects.endpoint import redact_secrets

#: With more sub-agents, transfers between all of them are stated as text instead of edges.
_MAX_PEERS_DRAWN = 3
_MAX_CONDITION_LENGTH = 48
_KINDS: dict[type[BaseAgent], str] = {
    SequentialAgent: "sequence",
    ParallelAgent: "parallel",
    LoopAgent: "loop",
    RouterAgent: "router",
    GraphAgent: "graph",
    LlmAgent: "agent",
}


class EdgeKind(StrEnum):
    """Meaning of an edge between two nodes."""

    RUNS = "runs"
    TRANSFER = "transfer"
    TOOL = "tool"
    EDGE = "edge"
    PEER = "peer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An agent and its place in the tree; `parent` is empty for the root."""

    id: str
    parent: str
    kind: str
    name: str
    role: str = ""
    lines: tuple[str, ...] = ()
    #: Relation to the parent.
    edge: EdgeKind = EdgeKind.RUNS
    both_ways: bool = False

    @property
    def heading(self) -> str:
        """Return the text above the name."""
        return f"{self.role} · {self.kind}" if self.role else self.kind

    @property
    def base_kind(self) -> str:
        """Return the kind without its parameters."""
        return self.kind.split()[0].rstrip(",")


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEdge:
    """An edge between two nodes that are not parent and child."""

    source: str
    target: str
    kind: EdgeKind
    label: str = ""
    both_ways: bool = False


@dataclass(slots=True)
class AgentGraph:
    """All nodes, parents first, and the edges between nodes other than parent and child."""

    nodes: list[Node] = field(default_factory=list)
    cross_edges: list[CrossEdge] = field(default_factory=list)


def build_graph(root: BaseAgent) -> AgentGraph:
    """Return the nodes and edges of an agent tree."""
    graph = AgentGraph()
    _add(graph, root, parent="", role="", edge=EdgeKind.RUNS, parent_agent=None)
    return graph


def _add(
    graph: AgentGraph,
    agent: BaseAgent,
    *,
    parent: str,
    role: str,
    edge: EdgeKind,
    parent_agent: BaseAgent | None,
) -> None:
    node_id = f"n{len(graph.nodes)}"
    graph.nodes.append(
        Node(
            id=node_id,
            parent=parent,
            kind=_kind(agent),
            name=agent.name,
            role=role,
            lines=tuple(_lines(agent)),
            edge=edge,
            both_ways=edge is EdgeKind.TRANSFER and _may_transfer(agent, parent_agent),
        )
    )
    ids: dict[str, str] = {}
    for number, child in enumerate(agent.sub_agents, start=1):
        ids[child.name] = f"n{len(graph.nodes)}"
        kind = EdgeKind.TRANSFER if _may_transfer(agent, child) else EdgeKind.RUNS
        child_role = _role(agent, child, number)
        _add(graph, child, parent=node_id, role=child_role, edge=kind, parent_agent=agent)
    for tool in agent.own_tools.values() if isinstance(agent, LlmAgent) else ():
        if isinstance(tool, AgentTool):
            role = "tool, asks first" if tool.confirm else "tool"
            kind = EdgeKind.TOOL
            _add(graph, tool.agent, parent=node_id, role=role, edge=kind, parent_agent=agent)
    graph.cross_edges += _cross_edges(agent, ids)


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
            memory = redact_secrets(agent.memory) if isinstance(agent.memory, str) else "own"
            yield f"memory: {memory}"
        yield from _tool_lines(agent)
        if agent.output_key:
            yield f"writes: {agent.output_key}"
        if agent.returns_control:
            yield "hands back"
    elif isinstance(agent, RouterAgent) and agent.by == "model":
        yield f"model: {_model_name(agent.model)}"
    if _all_peers_transfer(agent):
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
    return redact_secrets(model) if isinstance(model, str) else type(model).__name__


def _may_transfer(agent: BaseAgent, target: BaseAgent | None) -> bool:
    return isinstance(agent, LlmAgent) and any(one is target for one in agent.transfer_targets())


def _peers(agent: BaseAgent) -> Iterator[tuple[BaseAgent, BaseAgent, bool]]:
    """Yield source and target of transfers between sub-agents, and True if both ways."""
    for first, second in combinations(agent.sub_agents, 2):
        there, back = _may_transfer(first, second), _may_transfer(second, first)
        if there:
            yield first, second, back
        elif back:
            yield second, first, False


def _all_peers_transfer(agent: BaseAgent) -> bool:
    """Return True if all sub-agents may transfer to each other and are too many to draw."""
    count = len(agent.sub_agents)
    both = [pair for pair in _peers(agent) if pair[2]]
    return count > _MAX_PEERS_DRAWN and len(both) == count * (count - 1) // 2


def _cross_edges(agent: BaseAgent, ids: dict[str, str]) -> Iterator[CrossEdge]:
    if isinstance(agent, GraphAgent):
        for edge in agent.all_edges:
            yield CrossEdge(
                source=ids[edge.source],
                target=ids[edge.target],
                kind=EdgeKind.EDGE,
                label=_condition(edge),
            )
    elif not _all_peers_transfer(agent):
        for first, second, both in _peers(agent):
            yield CrossEdge(
                source=ids[first.name],
                target=ids[second.name],
                kind=EdgeKind.PEER,
                both_ways=both,
            )


def _condition(edge: Edge) -> str:
    if edge.otherwise:
        return "otherwise"
    if edge.when is None:
        return ""
    name = getattr(edge.when, "__name__", type(edge.when).__name__)
    text = _lambda_text(edge.when) if name == "<lambda>" else name
    return text if len(text) <= _MAX_CONDITION_LENGTH else f"{text[: _MAX_CONDITION_LENGTH - 1]}…"


def _lambda_text(function: Callable[..., Any]) -> str:
    """Return the source of a lambda's body, found by its position in its file."""
    code = function.__code__
    positions = [(line, col) for line, _, col, _ in code.co_positions() if line and col]
    source = "".join(linecache.getlines(inspect.getfile(function)))
    try:
        module = ast.parse(source)
    except SyntaxError:
        return "condition"
    for node in ast.walk(module):
        if isinstance(node, ast.Lambda) and node.lineno <= code.co_firstlineno:
            start = (node.body.lineno, node.body.col_offset)
            end = (node.body.end_lineno or 0, node.body.end_col_offset or 0)
            if node.lineno == code.co_firstlineno and all(start <= p <= end for p in positions):
                return ast.unparse(node.body)
    return "condition"


_MERMAID_SHAPES = {
    "agent": ("(", ")"),
    "loop": ("{{", "}}"),
    "router": ("{", "}"),
    "parallel": ("[/", "/]"),
    "graph": ("[[", "]]"),
}
#: Arrow in one direction, and in both.
_MERMAID_ARROWS = {
    EdgeKind.RUNS: ("-->", "-->"),
    EdgeKind.TRANSFER: ("-.->", "<-.->"),
    EdgeKind.TOOL: ("--o", "--o"),
    EdgeKind.EDGE: ("==>", "==>"),
    EdgeKind.PEER: ("-.->", "<-.->"),
}
_MERMAID_LABELS = {
    EdgeKind.TRANSFER: "transfer",
    EdgeKind.PEER: "transfer",
    EdgeKind.TOOL: "tool",
}
_MERMAID_ENTITIES = (
    ("#", "#35;"),
    ('"', "#quot;"),
    ("<", "#lt;"),
    (">", "#gt;"),
    ("`", "#96;"),
)


def mermaid(root: BaseAgent) -> str:
    """Return a Mermaid flowchart of an agent tree."""
    return "\n".join(_mermaid_lines(build_graph(root))) + "\n"


def _mermaid_lines(graph: AgentGraph) -> Iterator[str]:
    yield "flowchart TD"
    for node in graph.nodes:
        yield f"    {node.id}{_mermaid_node(node)}"
    for node in graph.nodes:
        if node.parent:
            yield f"    {node.parent} {_mermaid_arrow(node.edge, node.both_ways)} {node.id}"
    for edge in graph.cross_edges:
        arrow = _mermaid_arrow(edge.kind, edge.both_ways, edge.label)
        yield f"    {edge.source} {arrow} {edge.target}"


def _mermaid_arrow(kind: EdgeKind, both_ways: bool, label: str = "") -> str:
    arrow = _MERMAID_ARROWS[kind][both_ways]
    text = label or _MERMAID_LABELS.get(kind, "")
    return f'{arrow}|"{_mermaid_text(text)}"|' if text else arrow


def _mermaid_node(node: Node) -> str:
    opening, closing = _MERMAID_SHAPES.get(node.base_kind, ("[", "]"))
    texts = [f"<b>{_mermaid_text(node.name)}</b>", f"<i>{_mermaid_text(node.heading)}</i>"]
    texts += [_mermaid_text(line) for line in node.lines]
    return f'{opening}"{"<br/>".join(texts)}"{closing}'


def _mermaid_text(text: str) -> str:
    for character, entity in _MERMAID_ENTITIES:
        text = text.replace(character, entity)
    return text
