"""Analysis of which state keys exist when an agent starts, without running the tree."""

import dis
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from acc.application.agents.base import BaseAgent
from acc.application.agents.callbacks import (
    AGENT_CALLBACKS,
    MODEL_AND_TOOL_CALLBACKS,
    as_callbacks,
)
from acc.application.agents.graph import GraphAgent
from acc.application.agents.instructions import placeholders
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent
from acc.application.tools.function_tool import FunctionTool
from acc.application.tools.tool import BaseTool

#: Agent classes whose `run` method is part of acc. Other classes run code of the user.
BUILT_IN_AGENTS = (LlmAgent, SequentialAgent, LoopAgent, ParallelAgent, RouterAgent, GraphAgent)
Keys = frozenset[str]
NO_KEYS: Keys = frozenset()


#: How deep calls of other functions are followed.
_MAX_DEPTH = 4
_UPDATES = frozenset({"update", "setdefault", "__setitem__"})


class MissingKind(StrEnum):
    """Why a key may not exist when it is read."""

    NEVER_WRITTEN = "never written"
    WRITTEN_LATER = "written later"
    MAYBE_WRITTEN = "maybe written"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRead:
    """A key in the instruction of an agent that may not exist."""

    agent: str
    key: str
    kind: MissingKind
    writers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """The keys that exist in every run, and those that exist in some runs."""

    certain: Keys = NO_KEYS
    possible: Keys = NO_KEYS

    def add(self, certain: Iterable[str] = (), possible: Iterable[str] = ()) -> "KnownKeys":
        """Return these keys and further keys."""
        all_certain = self.certain.union(certain)
        return KnownKeys(all_certain, self.possible.union(all_certain, possible))


class StateFlow:
    """Follows the state through a tree in the order in which its agents run."""

    def __init__(self, root: BaseAgent) -> None:
        self.agents = tuple(root.walk_all())
        #: Those of the global instruction, which every agent with a model reads.
        self._global_placeholders = placeholders(root.global_instruction)
        self.read_keys = {
            key for agent in self.agents for key, _ in placeholders(_text_instruction(agent))
        }
        self.read_keys.update(key for key, _ in self._global_placeholders)
        self._written_in_code = {
            agent.name: self._keys_in_code(own_code(agent)) for agent in self.agents
        }
        #: Whether code writes state keys that this analysis cannot determine.
        self.has_unknown_writes = any(map(self._has_unknown_writes, self.agents))
        self._missing: dict[tuple[str, str], MissingRead] = {}
        self._follow(root, KnownKeys())

    @property
    def missing(self) -> tuple[MissingRead, ...]:
        """Return the reads that may fail."""
        return tuple(self._missing.values())

    def written_by(self, agent: BaseAgent) -> Keys:
        """Return the keys that an agent itself may write."""
        key = output_key(agent)
        return self._written_in_code[agent.name] | ({key} if key else NO_KEYS)

    def written_below(self, agent: BaseAgent) -> Keys:
        """Return the keys that an agent and all agents it runs may write."""
        return frozenset().union(*(self.written_by(found) for found in agent.walk_all()))

    def writers(self, key: str) -> tuple[str, ...]:
        """Return the names of the agents that may write a key."""
        return tuple(agent.name for agent in self.agents if key in self.written_by(agent))

    def _keys_in_code(self, functions: Iterable[Callable[..., Any]]) -> Keys:
        texts = [text for function in functions for text in read_code(function).texts]
        return frozenset(self.read_keys).intersection(texts)

    def _has_unknown_writes(self, agent: BaseAgent) -> bool:
        """Return True if code may write keys to the state that are not in the code."""
        if not isinstance(agent, BUILT_IN_AGENTS) and not self._written_in_code[agent.name]:
            return True
        return any(
            "state" in code.names
            and (code.writes_variable_keys or not code.texts.intersection(self.read_keys))
            for code in map(read_code, own_code(agent))
        )

    def _follow(self, agent: BaseAgent, known: KnownKeys) -> KnownKeys:
        """Return the keys that are known after an agent has run."""
        if agent.before_agent_callback is not None:
            known = known.add(self._keys_in_code(as_callbacks(agent.before_agent_callback)))
        if isinstance(agent, LlmAgent):
            return self._follow_llm(agent, known)
        if isinstance(agent, SequentialAgent | LoopAgent):
            for child in agent.sub_agents:
                known = self._follow(child, known)
            return known
        if isinstance(agent, ParallelAgent | RouterAgent):
            ends = [self._follow(child, known) for child in agent.sub_agents]
            certain = [end.certain for end in ends]
            all_run = isinstance(agent, ParallelAgent)
            return KnownKeys(
                frozenset().union(*certain) if all_run else frozenset.intersection(*certain),
                frozenset().union(*(end.possible for end in ends)),
            )
        if isinstance(agent, GraphAgent):
            return self._follow_graph(agent, known)
        written = self._written_in_code[agent.name]
        after = known.add(written, self.written_below(agent))
        for child in agent.sub_agents:
            self._follow(child, after)
        return after

    def _follow_llm(self, agent: LlmAgent, known: KnownKeys) -> KnownKeys:
        for key, is_optional in (*self._global_placeholders, *placeholders(agent.instruction)):
            if key not in known.certain and not is_optional:
                self._add_missing(agent, key, known)
        below = self.written_below(agent)
        for callee in (*agent.agent_tools, *agent.sub_agents):
            self._follow(callee, known.add(possible=below))
        certain = set(self._keys_in_code(callbacks_of(agent)))
        if agent.output_key and not any(True for _ in agent.transfer_targets()):
            certain.add(agent.output_key)
        return known.add(certain, below)

    def _follow_graph(self, graph: GraphAgent, known: KnownKeys) -> KnownKeys:
        """Iterate to a fixed point: a node has the keys that all paths to it provide."""
        nodes = {agent.name: agent for agent in graph.sub_agents}
        below = self.written_below(graph)
        ends: dict[str, Keys] = dict.fromkeys(nodes, known.certain | below)
        missing_before = dict(self._missing)
        while True:
            self._missing = dict(missing_before)
            next_ends: dict[str, Keys] = {}
            for name, agent in nodes.items():
                possible = (self.written_below(nodes[other]) for other in _ancestors(graph, name))
                before = KnownKeys(
                    _certain_before(graph, name, known, ends), known.possible.union(*possible)
                )
                next_ends[name] = ends[name] & self._follow(agent, before).certain
            if next_ends == ends:
                break
            ends = next_ends
        last = [ends[name] for name in nodes if _may_be_last(graph, name)]
        return known.add(frozenset.intersection(*(last or ends.values())), below)

    def _add_missing(self, agent: BaseAgent, key: str, known: KnownKeys) -> None:
        writers = self.writers(key)
        if key in known.possible:
            kind = MissingKind.MAYBE_WRITTEN
        else:
            kind = MissingKind.WRITTEN_LATER if writers else MissingKind.NEVER_WRITTEN
        read = MissingRead(agent=agent.name, key=key, kind=kind, writers=writers)
        self._missing[agent.name, key] = read


def tools_of(agent: BaseAgent) -> tuple[BaseTool, ...]:
    """Return the agent's own tools."""
    return tuple(agent.own_tools.values()) if isinstance(agent, LlmAgent) else ()


def output_key(agent: BaseAgent) -> str:
    """Return the state key of the agent's answer, or an empty string."""
    return agent.output_key if isinstance(agent, LlmAgent) else ""


def callbacks_of(agent: BaseAgent) -> tuple[Callable[..., Any], ...]:
    """Return the callbacks of an agent that run after its instruction was rendered."""
    names = [name for name in AGENT_CALLBACKS if name != "before_agent_callback"]
    if isinstance(agent, LlmAgent):
        names += MODEL_AND_TOOL_CALLBACKS
    return tuple(callback for name in names for callback in as_callbacks(getattr(agent, name)))


def own_code(agent: BaseAgent) -> tuple[Callable[..., Any], ...]:
    """Return the functions of the user that an agent calls."""
    functions: list[Callable[..., Any]] = [
        tool.func for tool in tools_of(agent) if isinstance(tool, FunctionTool)
    ]
    functions += as_callbacks(agent.before_agent_callback)
    if not isinstance(agent, BUILT_IN_AGENTS):
        functions.append(type(agent).run)
    return (*functions, *callbacks_of(agent))


def can_end_loop(agent: BaseAgent) -> bool:
    """Return True if an agent or a descendant can end the loop that contains it."""
    if isinstance(agent, LoopAgent):
        return False  # an escalation inside ends only the inner loop
    escalation = {"escalate", "escalated"}
    if any(escalation & read_code(function).names for function in own_code(agent)):
        return True
    return any(can_end_loop(child) for child in agent.sub_agents)


def _text_instruction(agent: BaseAgent) -> str:
    instruction = agent.instruction if isinstance(agent, LlmAgent) else ""
    return instruction if isinstance(instruction, str) else ""


def _certain_before(
    graph: GraphAgent, name: str, known: KnownKeys, ends: Mapping[str, Keys]
) -> Keys:
    sources = [ends[edge.source] for edge in graph.all_edges if edge.target == name]
    if name == graph.start:
        return known.certain.intersection(*sources)
    return frozenset().union(*sources) if name in graph.joins else frozenset.intersection(*sources)


def _ancestors(graph: GraphAgent, name: str) -> set[str]:
    """Return the nodes from which a node can be reached."""
    ancestors: set[str] = set()
    remaining = [name]
    while remaining:
        node = remaining.pop()
        sources = {edge.source for edge in graph.all_edges if edge.target == node} - ancestors
        ancestors |= sources
        remaining += sources
    return ancestors


def _may_be_last(graph: GraphAgent, name: str) -> bool:
    edges = [edge for edge in graph.all_edges if edge.source == name]
    return all(edge.when is not None and not edge.otherwise for edge in edges)


class CodeContent(NamedTuple):
    """What a function and the functions that it calls contain.

    `writes_variable_keys` is True if they write to a mapping with keys that are not in the code.
    """

    names: frozenset[str]
    texts: frozenset[str]
    writes_variable_keys: bool


def read_code(function: Callable[..., Any]) -> CodeContent:
    """Return what the code of a function contains, with that of the user's functions it calls."""
    reader = _Reader()
    reader.read(function, depth=0)
    writes = reader.has_variable_key or bool(reader.names & _UPDATES)
    return CodeContent(frozenset(reader.names), frozenset(reader.texts), writes)


class _Reader:
    def __init__(self) -> None:
        self.names: set[str] = set()
        self.texts: set[str] = set()
        self.has_variable_key = False
        self._visited: set[int] = set()

    def read(self, target: object, *, depth: int) -> None:
        """Add the content of a function, a partial function or an object with `__call__`."""
        if isinstance(target, partial):
            for value in (*target.args, *target.keywords.values()):
                self._add_value(value, depth)
            target = target.func
        function: Any = inspect.unwrap(target) if callable(target) else target
        function = getattr(function, "__func__", function)
        if not isinstance(function, FunctionType):
            function = vars(type(function)).get("__call__")
        if not isinstance(function, FunctionType) or id(function) in self._visited:
            return
        self._visited.add(id(function))
        for code in _all_code(function.__code__):
            self._add_code(code, function.__globals__, depth)
        for cell in function.__closure__ or ():
            try:
                self._add_value(cell.cell_contents, depth)
            except ValueError:  # an empty cell
                continue

    def _add_code(self, code: CodeType, variables: dict[str, Any], depth: int) -> None:
        self.names.update(code.co_names)
        for constant in code.co_consts:
            self.texts.update(_texts_in(constant))
        for name in code.co_names:
            value = variables.get(name)
            self._add_value(value, depth)
            if isinstance(value, ModuleType):  # such as constants.KEY
                for attribute in code.co_names:
                    self._add_value(vars(value).get(attribute), depth)
        previous: dis.Instruction | None = None
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_SUBSCR" and previous is not None:
                is_constant = previous.opname == "LOAD_CONST"
                is_global = previous.opname in ("LOAD_GLOBAL", "LOAD_ATTR")
                self.has_variable_key |= not is_constant and not is_global
            if instruction.opname != "CACHE":
                previous = instruction

    def _add_value(self, value: object, depth: int) -> None:
        if isinstance(value, str):
            self.texts.add(value)
        elif isinstance(value, Mapping):  # such as default values of the state
            self.texts.update(key for key in value if isinstance(key, str))
        elif isinstance(value, FunctionType) and depth < _MAX_DEPTH and _is_of_user(value):
            self.read(value, depth=depth + 1)


def _is_of_user(function: FunctionType) -> bool:
    module = (function.__module__ or "").partition(".")[0]
    return module != "acc" and "site-packages" not in function.__code__.co_filename


def _all_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _texts_in(constant: object) -> Iterator[str]:
    """Yield the texts of a constant; the keys of a literal dictionary are a tuple."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple | frozenset):
        for item in constant:
            yield from _texts_in(item)
