"""Reading a tree of agents without running it: who is in it, and what its code touches."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from types import CodeType
from typing import Any

from acc.application.agents.base import BaseAgent
from acc.application.agents.graph import GraphAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.router import RouterAgent
from acc.application.agents.tool import FunctionTool, Tool
from acc.application.agents.workflow import LoopAgent, ParallelAgent, SequentialAgent

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
