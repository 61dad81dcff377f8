"""Runs a Python agent in a process of its own, so that it can fail only its own turn."""

import asyncio
import json
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from acc.adapters.evaluation.agent_process import HEADER, MAX_REPLY_SIZE
from acc.domain.value_objects.live_evaluation import (
    PROCESS_ERROR,
    AgentTurnResponse,
    EvaluationTurnQuery,
)

_MODULE = "acc.adapters.evaluation.agent_process"
_EXIT_GRACE_SECONDS = 2.0
#: Time to load an agent; TimeoutError is an OSError.
_START_SECONDS = 60.0


class IsolatedAgentRunner:
    """Sends turns to the process of an agent and kills it if a turn is cancelled.

    A process that ended is started again in the next turn. If the agent has a state, the turns that
    it answered are replayed first.
    """

    def __init__(self, agent_name: str, reference: str, *, has_state: bool) -> None:
        self._agent_name = agent_name
        self._reference = reference
        self._has_state = has_state
        self._process: asyncio.subprocess.Process | None = None
        self._answered: list[tuple[EvaluationTurnQuery, Mapping[str, object], AgentTurnResponse]]
        self._answered = []

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent_name

    async def start(self) -> None:
        """Start the process and load the agent; a failure is the error of the first turn."""
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._process = await self._start()
                await self._exchange(self._process, "load", ())
        except (OSError, EOFError, ValueError):
            await self._end()

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Let the process answer one turn."""
        reply = await self._request("run", (query, canonical_memory))
        response = self._response(reply)
        if self._has_state and not response.error:
            self._answered.append((query, canonical_memory, response))
        return response

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Let the process replay a recorded turn."""
        await self._request("replay", (query, canonical_memory, response))
        if self._has_state and not response.error:
            self._answered.append((query, canonical_memory, response))

    async def aclose(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            async with asyncio.timeout(_EXIT_GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            await _kill(process)

    def _response(self, reply: Mapping[str, Any]) -> AgentTurnResponse:
        tokens = reply.get("memory_tokens")
        trace = reply.get("trace")
        return AgentTurnResponse(
            agent_name=self._agent_name,
            response_text=reply.get("text", ""),
            memory_tokens=tokens if isinstance(tokens, int) and tokens >= 0 else None,
            trace=trace if isinstance(trace, dict) else {},
            error=reply.get("error", ""),
        )

    async def _request(self, operation: str, arguments: tuple[object, ...]) -> dict[str, Any]:
        try:
            if self._process is None:
                self._process = await self._start()
                for earlier in self._answered:
                    await self._exchange(self._process, "replay", earlier)
            return await self._exchange(self._process, operation, arguments)
        except asyncio.CancelledError:
            await self._end()
            raise
        except (OSError, EOFError, ValueError):
            status = await self._end()
            return {"error": f"{PROCESS_ERROR} {status}"}

    async def _start(self) -> asyncio.subprocess.Process:
        path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _MODULE,
            self._reference,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
            # Its own group, so that processes of the agent end with it.
            start_new_session=True,
        )

    async def _exchange(
        self, process: asyncio.subprocess.Process, operation: str, arguments: tuple[object, ...]
    ) -> dict[str, Any]:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        request = pickle.dumps((operation, arguments))
        process.stdin.write(HEADER.pack(len(request)) + request)
        await process.stdin.drain()
        (size,) = HEADER.unpack(await process.stdout.readexactly(HEADER.size))
        if size > MAX_REPLY_SIZE:
            raise ValueError(f"a reply of {size} bytes is too large")
        reply: dict[str, Any] = json.loads(await process.stdout.readexactly(size))
        return reply

    async def _end(self) -> int | None:
        """Kill the process, and return its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        await _kill(process)
        return process.returncode


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        try:
            # A process that ended by itself keeps its own exit status.
            async with asyncio.timeout(0.05):
                await process.wait()
        except TimeoutError:
            pass
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
