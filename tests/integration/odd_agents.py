"""Agents that misbehave in their second turn, for `python:odd_agents:NAME`."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable

from acc import AgentTurnResponse, BaseAgent, RunContext


class Odd:
    """Answers, except in the second turn."""

    def __init__(self, misbehave: Callable[[], object]) -> None:
        self._misbehave = misbehave
        self.turns = 0

    async def run_turn(self, query: object, canonical_memory: object) -> AgentTurnResponse:
        self.turns += 1
        if query.turn_id == 2:  # type: ignore[attr-defined]
            result = self._misbehave()
            if isinstance(result, AgentTurnResponse):
                return result
        return AgentTurnResponse(agent_name="odd", response_text=f"turn {self.turns}")


def _raise() -> None:
    raise RuntimeError("broken")


class Raises(Odd):
    def __init__(self) -> None:
        super().__init__(_raise)


class Exits(Odd):
    def __init__(self) -> None:
        super().__init__(lambda: sys.exit(3))


class Blocks(Odd):
    def __init__(self) -> None:
        super().__init__(lambda: time.sleep(3600))


class EndsProcess(Odd):
    def __init__(self) -> None:
        super().__init__(lambda: os._exit(7))


class KillsProcess(Odd):
    def __init__(self) -> None:
        super().__init__(lambda: os.kill(os.getpid(), signal.SIGKILL))


class KillsGroup(Odd):
    def __init__(self) -> None:
        super().__init__(lambda: os.killpg(0, signal.SIGKILL))


class Nests(Odd):
    def __init__(self) -> None:
        trace: dict[str, object] = {}
        for _ in range(100_000):
            trace = {"in": trace}
        response = AgentTurnResponse(agent_name="odd", response_text="[" * 100_000, trace=trace)
        super().__init__(lambda: response)


class Floods(Odd):
    def __init__(self) -> None:
        super().__init__(
            lambda: AgentTurnResponse(agent_name="odd", response_text="word " * 2_000_000)
        )


class AlwaysFails:
    async def run_turn(self, query: object, canonical_memory: object) -> AgentTurnResponse:
        await asyncio.sleep(0)
        raise RuntimeError("never works")


class OddTree(BaseAgent):
    """An agent tree; it shares the process of its episode."""

    def __init__(self, name: str, misbehave: Callable[[], object]) -> None:
        super().__init__(name=name)
        self._misbehave = misbehave

    async def run(self, ctx: RunContext) -> str:
        if "turn 2" in ctx.message:
            self._misbehave()
        return "answered"


def ending_tree() -> BaseAgent:
    return OddTree("ending", lambda: os._exit(9))


def blocking_tree() -> BaseAgent:
    return OddTree("blocking", lambda: time.sleep(3600))


def good_tree() -> BaseAgent:
    return OddTree("good", lambda: None)
