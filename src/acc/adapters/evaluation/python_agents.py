"""Agents written by anyone, named as `python:MODULE:NAME`."""

import asyncio
import importlib
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from acc.adapters.evaluation.runtime_agents import check_is_fresh
from acc.application.agents.base import BaseAgent
from acc.domain.errors import AccError, InvalidInput
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery
from acc.ports.outbound.live_evaluation_ports import AgentRunnerPort


def load_object(reference: str) -> Any:
    """Return the object that `MODULE:NAME` names; the current folder is searched too."""
    module_name, colon, name = reference.partition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{reference!r} must be MODULE:NAME")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InvalidInput(f"cannot import {module_name!r}: {error}") from error
    except AccError:
        raise
    except Exception as error:
        raise InvalidInput(f"cannot load {reference}: {with_place(error)}") from error
    if not hasattr(module, name):
        raise InvalidInput(f"{module_name!r} has no {name!r}")
    return getattr(module, name)


def with_place(error: Exception) -> str:
    """Return what went wrong in anyone's module, in one line, with its place."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({last.filename}, line {last.lineno})"


def make_runner(
    agent_name: str, reference: str, *, run_agent: Callable[[str, BaseAgent], AgentRunnerPort]
) -> AgentRunnerPort:
    """Return a runner for an agent of acc, a class with `run_turn`, or a function to an answer.

    A class is made anew for every episode, and so is what a function without arguments returns. A
    function from query to answer is called as it is, and may be async. `run_agent` takes agents.
    """
    target = load_object(reference)
    if isinstance(target, BaseAgent):
        check_is_fresh(target, reference)
    elif inspect.isclass(target) or _makes_agents(target):
        try:
            target = target()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
            raise InvalidInput(f"cannot make {reference}: {fault}") from error
    if isinstance(target, BaseAgent):
        return run_agent(agent_name, target)
    answer = getattr(target, "run_turn", None)
    if answer is None and not callable(target):
        raise InvalidInput(
            f"{reference!r} is neither an agent of acc, nor a function, nor a class with run_turn"
        )
    return PythonAgentRunner(agent_name, target, takes_turn=answer is not None)


def _makes_agents(target: object) -> bool:
    """Tell whether an object is a function that takes nothing, so that it can answer nothing."""
    if not inspect.isfunction(target) or inspect.iscoroutinefunction(target):
        return False
    return not inspect.signature(target).parameters


class PythonAgentRunner:
    """Gives anyone's object the name it has in the run."""

    def __init__(self, agent_name: str, target: Any, *, takes_turn: bool) -> None:
        self._agent_name = agent_name
        self._call: Callable[..., Any] = target.run_turn if takes_turn else target
        self._takes_turn = takes_turn
        self._replay: Callable[..., Any] | None = getattr(target, "replay_turn", None)

    @property
    def agent_name(self) -> str:
        """Return the name under which its answers are recorded."""
        return self._agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Ask the object."""
        arguments = (query, canonical_memory) if self._takes_turn else (query.query,)
        if inspect.iscoroutinefunction(self._call):
            found = await self._call(*arguments)
        else:
            # A plain function may block; in a thread it holds up neither the others nor the clock.
            found = await asyncio.to_thread(self._call, *arguments)
            if inspect.isawaitable(found):
                found = await found
        if isinstance(found, AgentTurnResponse):
            return replace(found, agent_name=self._agent_name)
        if not isinstance(found, str):
            raise TypeError(f"returned {type(found).__name__}, not text")
        return AgentTurnResponse(agent_name=self._agent_name, response_text=found)

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Let the object replay the turn; one that cannot is asked again, so that it remembers."""
        if self._replay is not None:
            await self._replay(query, canonical_memory, response)
        elif not response.error:
            await self.run_turn(query, canonical_memory)
