"""Watch the agent trees of an episode, which share one worker process.

The worker sends beats: which trees are in a turn, and that its event loop still runs. A tree can
block the event loop or end the process. From the beats, the pool knows which tree it was. Another
worker continues the episode, and only the turn of that tree fails.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from acc.application.runtime.pausable_timeout import pause_deadlines
from acc.domain.value_objects.evaluation_run import EpisodeJob
from acc.domain.value_objects.live_evaluation import AgentTurnResponse, EvaluationTurnQuery

if TYPE_CHECKING:
    from acc.adapters.evaluation.agents import RuntimeAgentRunner

#: Time between two beats of a tree that is in a turn.
BEAT_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedJob:
    """An episode for a worker, with the turns that ended earlier workers of this episode."""

    job: EpisodeJob
    #: Errors of the turns that ended a worker, by agent and turn. These turns are not run again.
    failures: Mapping[tuple[str, int], str] = field(default_factory=dict)
    #: Run the trees of each turn one after the other, so that the cause of a failure is known.
    one_by_one: bool = False

    def with_failure(self, agent: str, turn: int, error: str) -> "WatchedJob":
        """Return the job with one more failed turn."""
        failures = {**self.failures, (agent, turn): error}
        return replace(self, failures=failures, one_by_one=False)


@dataclass(frozen=True, slots=True)
class AgentBeat:
    """A report of a worker: an agent tree begins, continues or ends its turn.

    Each report also shows that the event loop of the worker runs.
    """

    agent: str
    turn: int
    is_running: bool = True


class AgentWatch:
    """The worker's side: reports the turns of agent trees."""

    def __init__(self, watched: WatchedJob, send: Callable[[AgentBeat], None]) -> None:
        self._watched = watched
        self._send = send
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._lock = asyncio.Lock() if watched.one_by_one else None

    def failure(self, agent: str, turn: int) -> str:
        """Return the error of a turn that ended an earlier worker, or an empty text."""
        return self._watched.failures.get((agent, turn), "")

    @asynccontextmanager
    async def turn(self, agent: str, turn: int) -> AsyncGenerator[None, None]:
        """Report that a tree is in its turn while the block runs."""
        if self._lock is not None:
            with pause_deadlines():  # the timeout of a tree does not count the turns of others
                await self._lock.acquire()
        beat = AgentBeat(agent, turn)
        self._beat(beat)
        try:
            yield
        finally:
            self._timers.pop(agent).cancel()
            self._send(replace(beat, is_running=False))
            if self._lock is not None:
                self._lock.release()

    def _beat(self, beat: AgentBeat) -> None:
        """Report now, and again while the event loop runs."""
        self._send(beat)
        timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat, beat)
        self._timers[beat.agent] = timer


class WatchedAgentRunner:
    """Runs the turns of an agent tree under a watch."""

    def __init__(self, agent: "RuntimeAgentRunner", watch: AgentWatch) -> None:
        self._agent = agent
        self._watch = watch

    @property
    def agent_name(self) -> str:
        """Return the name under which the answers are recorded."""
        return self._agent.agent_name

    async def run_turn(
        self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
    ) -> AgentTurnResponse:
        """Run the turn; if it ended an earlier worker, return its error instead."""
        name = self.agent_name
        async with self._watch.turn(name, query.turn_id):
            error = self._watch.failure(name, query.turn_id)
            if not error:
                return await self._agent.run_turn(query, canonical_memory)
            failed = AgentTurnResponse(agent_name=name, response_text="", error=error)
            await self._agent.replay_turn(query, canonical_memory, failed)
            return failed

    async def replay_turn(
        self,
        query: EvaluationTurnQuery,
        canonical_memory: Mapping[str, object],
        response: AgentTurnResponse,
    ) -> None:
        """Replay a recorded turn; if it ended an earlier worker, replay it as a failed turn."""
        if error := self._watch.failure(self.agent_name, query.turn_id):
            response = replace(response, response_text="", error=error)
        async with self._watch.turn(self.agent_name, query.turn_id):
            await self._agent.replay_turn(query, canonical_memory, response)
