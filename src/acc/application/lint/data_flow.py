"""Which state keys are there when an agent begins, told from the tree alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from types import CodeType
from typing import Any

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import GraphAgent
from acc.application.agents.llm import LlmAgent, placeholders
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent
from acc.application.tools.tool import FunctionTool, Tool

#: The kinds whose `run` is ours; any other holds code of the user's.
OURS = (LlmAgent, SequentialAgent, LoopAgent, ParallelAgent, RouterAgent, GraphAgent)


def everyone(root: BaseAgent) -> tuple[BaseAgent, ...]:
    """Return the agents of a tree, top down, with those that are used as tools."""
    return tuple(root.everyone())


def tools_of(agent: BaseAgent) -> tuple[Tool, ...]:
    """Return an agent's own tools."""
    return tuple(agent.own_tools.values()) if isinstance(agent, LlmAgent) else ()


def callbacks_of(agent: BaseAgent) -> tuple[Callable[..., Any], ...]:
    """Return an agent's callbacks that run after its instruction has been read."""
    found = [agent.after_agent_callback]
    if isinstance(agent, LlmAgent):
        found += [
            agent.before_model_callback,
            agent.after_model_callback,
            agent.before_tool_callback,
            agent.after_tool_callback,
        ]
    return tuple(callback for callback in found if callback is not None)


def own_code(agent: BaseAgent) -> tuple[Callable[..., Any], ...]:
    """Return all functions of the user's that an agent itself holds."""
    found = [tool.func for tool in tools_of(agent) if isinstance(tool, FunctionTool)]
    if agent.before_agent_callback is not None:
        found.append(agent.before_agent_callback)
    if not isinstance(agent, OURS):
        found.append(type(agent).run)
    return (*found, *callbacks_of(agent))


def words_in(function: Callable[..., Any]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the attributes that a function names and the texts that stand in it."""
    named: set[str] = set()
    texts: set[str] = set()
    first = getattr(function, "__code__", None) or getattr(
        type(function).__call__, "__code__", None
    )
    todo: list[CodeType] = [] if first is None else [first]
    while todo:
        code = todo.pop()
        named.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, str):
                texts.add(constant)
            elif isinstance(constant, CodeType):
                todo.append(constant)
    return frozenset(named), frozenset(texts)


def can_end_a_loop(agent: BaseAgent) -> bool:
    """Tell whether an agent, or anyone below it, can end the loop that it stands in."""
    if isinstance(agent, LoopAgent):
        return False  # what escalates in it ends it, and no other
    marks = {"escalate", "escalated"}
    if any(marks & words_in(function)[0] for function in own_code(agent)):
        return True
    return any(can_end_a_loop(child) for child in agent.sub_agents)


def has_rule(key: str, patterns: Iterator[str] | tuple[str, ...]) -> bool:
    """Tell whether one of the patterns of a merge rule covers a key."""
    return any(fnmatchcase(key, pattern) for pattern in patterns)


Keys = frozenset[str]
NO_KEYS: Keys = frozenset()


class Gap(StrEnum):
    """Why a key that is read may not be there."""

    NOBODY = "nobody"
    LATER = "later"
    MAYBE = "maybe"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRead:
    """A key that an agent's instruction asks for, and that may not be there."""

    agent: str
    key: str
    gap: Gap
    writers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Known:
    """The keys that are there for certain, and those that may be."""

    sure: Keys = NO_KEYS
    maybe: Keys = NO_KEYS

    def plus(self, sure: Iterable[str] = (), maybe: Iterable[str] = ()) -> "Known":
        """Return more."""
        certain = self.sure.union(sure)
        return Known(certain, self.maybe.union(certain, maybe))


class StateFlow:
    """Follows the state through a tree, in the order in which its agents run."""

    def __init__(self, root: BaseAgent) -> None:
        self.agents = everyone(root)
        self.read = {key for agent in self.agents for key, _ in placeholders(_instruction(agent))}
        self._code = {agent.name: _written_in_code(agent, self.read) for agent in self.agents}
        #: Whether some code writes state in a way that cannot be told from outside.
        self.opaque = any(_writes_unseen(agent, self.read) for agent in self.agents)
        self._missing: dict[tuple[str, str], MissingRead] = {}
        self._follow(root, Known())

    @property
    def missing(self) -> tuple[MissingRead, ...]:
        """Return the reads that may fail."""
        return tuple(self._missing.values())

    def written_by(self, agent: BaseAgent) -> Keys:
        """Return the keys that one agent itself may write."""
        key = output_key(agent)
        return self._code[agent.name] | ({key} if key else NO_KEYS)

    def written_below(self, agent: BaseAgent) -> Keys:
        """Return the keys that an agent and everyone it runs may write."""
        return frozenset().union(*(self.written_by(one) for one in everyone(agent)))

    def writers(self, key: str) -> tuple[str, ...]:
        """Return who may write a key."""
        return tuple(agent.name for agent in self.agents if key in self.written_by(agent))

    def _follow(self, agent: BaseAgent, known: Known) -> Known:
        if agent.before_agent_callback is not None:
            known = known.plus(words_in(agent.before_agent_callback)[1] & self.read)
        if isinstance(agent, LlmAgent):
            return self._through_model(agent, known)
        if isinstance(agent, SequentialAgent | LoopAgent):
            for child in agent.sub_agents:
                known = self._follow(child, known)
            return known
        if isinstance(agent, ParallelAgent):
            ends = [self._follow(child, known) for child in agent.sub_agents]
            return _all_of(ends)
        if isinstance(agent, RouterAgent):
            return _one_of([self._follow(child, known) for child in agent.sub_agents])
        if isinstance(agent, GraphAgent):
            return self._through_graph(agent, known)
        return self._through_code(agent, known)

    def _through_model(self, agent: LlmAgent, known: Known) -> Known:
        for key, may_be_absent in placeholders(agent.instruction):
            if key not in known.sure and not may_be_absent:
                self._note(agent, key, known)
        below = self.written_below(agent)
        for helper in agent.agent_tools:
            self._follow(helper, known.plus(maybe=below))
        for child in agent.sub_agents:
            self._follow(child, known.plus(maybe=below))
        after = [text for callback in callbacks_of(agent) for text in words_in(callback)[1]]
        sure = self.read.intersection(after)
        if agent.output_key and not any(True for _ in agent.transfer_targets()):
            sure.add(agent.output_key)
        return known.plus(sure, below)

    def _through_code(self, agent: BaseAgent, known: Known) -> Known:
        below = self.written_below(agent)
        for child in agent.sub_agents:
            self._follow(child, known.plus(self._code[agent.name], below))
        return known.plus(self._code[agent.name], below)

    def _through_graph(self, graph: GraphAgent, known: Known) -> Known:
        """Go round until nothing changes: on a way with a choice, only what all ways bring."""
        nodes = {agent.name: agent for agent in graph.sub_agents}
        below = self.written_below(graph)
        ends: dict[str, Keys] = dict.fromkeys(nodes, known.sure | below)
        noted = dict(self._missing)
        while True:
            self._missing = dict(noted)
            found: dict[str, Keys] = {}
            for name, agent in nodes.items():
                maybe = (self.written_below(nodes[other]) for other in _ways_to(graph, name))
                before = Known(_sure_before(graph, name, known, ends), known.maybe.union(*maybe))
                found[name] = ends[name] & self._follow(agent, before).sure
            if found == ends:
                break
            ends = found
        last = [ends[name] for name in nodes if _may_be_last(graph, name)]
        return known.plus(frozenset.intersection(*(last or ends.values())), below)

    def _note(self, agent: BaseAgent, key: str, known: Known) -> None:
        writers = self.writers(key)
        gap = Gap.MAYBE if key in known.maybe else Gap.LATER if writers else Gap.NOBODY
        found = MissingRead(agent=agent.name, key=key, gap=gap, writers=writers)
        self._missing[agent.name, key] = found


def output_key(agent: BaseAgent) -> str:
    """Return the key that an agent's answer goes to."""
    return agent.output_key if isinstance(agent, LlmAgent) else ""


def _instruction(agent: BaseAgent) -> str:
    found = agent.instruction if isinstance(agent, LlmAgent) else ""
    return found if isinstance(found, str) else ""


def _written_in_code(agent: BaseAgent, read: Iterable[str]) -> Keys:
    texts = [text for function in own_code(agent) for text in words_in(function)[1]]
    return frozenset(read).intersection(texts)


def _writes_unseen(agent: BaseAgent, read: Iterable[str]) -> bool:
    """Tell whether code uses the state, and none of the keys that are asked for stands in it."""
    if not isinstance(agent, OURS) and not _written_in_code(agent, read):
        return True
    seen = [words_in(function) for function in own_code(agent)]
    return any("state" in named and not texts.intersection(read) for named, texts in seen)


def _sure_before(graph: GraphAgent, name: str, known: Known, ends: Mapping[str, Keys]) -> Keys:
    ways = [ends[edge.source] for edge in graph.all_edges if edge.target == name]
    if name == graph.start:
        return known.sure.intersection(*ways)
    return frozenset().union(*ways) if name in graph.joins else frozenset.intersection(*ways)


def _ways_to(graph: GraphAgent, name: str) -> set[str]:
    """Return the nodes that an edge leads from, in one step or several."""
    found: set[str] = set()
    todo = [name]
    while todo:
        here = todo.pop()
        sources = {edge.source for edge in graph.all_edges if edge.target == here} - found
        found |= sources
        todo += sources
    return found


def _may_be_last(graph: GraphAgent, name: str) -> bool:
    leaving = [edge for edge in graph.all_edges if edge.source == name]
    return all(edge.when is not None and not edge.otherwise for edge in leaving)


def _all_of(ends: list[Known]) -> Known:
    return Known(
        frozenset().union(*(end.sure for end in ends)),
        frozenset().union(*(end.maybe for end in ends)),
    )


def _one_of(ends: list[Known]) -> Known:
    return Known(
        frozenset.intersection(*(end.sure for end in ends)),
        frozenset().union(*(end.maybe for end in ends)),
    )
