"""Live evaluation: several agents answer the same turns and a judge scores each turn."""

import asyncio
import copy
import marshal
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from acc.application.runtime.pausable_timeout import PausableTimeout
from acc.application.tracing.evaluation_spans import EvaluatedTurn, trace_turn
from acc.application.use_cases.agent_judge_evaluation import AgentJudgeEvaluationUseCase
from acc.domain.call_options import explains_call
from acc.domain.errors import InvalidInput, InvalidTurnOrder, JudgeContractBroken
from acc.domain.value_objects.evaluation import AgentTurnEvaluationRecord, TurnStatus
from acc.domain.value_objects.live_evaluation import (
    TIMEOUT_ERROR,
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
    LiveEvaluationEpisodeResult,
    TurnResult,
)
from acc.ports.outbound.live_evaluation_ports import (
    AgentRunnerPort,
    JudgeEvaluatorPort,
    QuerySourcePort,
    ReplayableAgentPort,
)
from acc.ports.outbound.tracing_ports import TracerPort

#: Time that an agent has to stop after its timeout, before its task is abandoned.
CANCELLATION_GRACE_SECONDS = 2.0

_AgentTask = asyncio.Task[AgentTurnResponse]


@explains_call()
class LiveMultiAgentEvaluationUseCase:
    """Runs agents through the same turns and has a judge score each turn.

    The agents of a turn run concurrently. An agent that raises, times out or returns nothing has a
    failed turn; the timeout is paused while its models wait for rate limits. A judge that raises is
    called up to `judge_attempts` times. After that the turn is unscored and the canonical memory
    does not change. With a `tracer`, the turn of each agent is a span with the scores.
    """

    def __init__(
        self,
        *,
        agents: Sequence[AgentRunnerPort],
        judge: JudgeEvaluatorPort,
        agent_timeout: float | None = None,
        judge_attempts: int = 3,
        tracer: TracerPort | None = None,
    ) -> None:
        names = [agent.agent_name for agent in agents]
        if not names:
            raise InvalidInput("an episode needs at least one agent")
        if len(set(names)) < len(names):
            raise InvalidInput(f"agent names must be unique, got {names}")
        if judge_attempts < 1:
            raise InvalidInput(f"judge_attempts must be at least 1, got {judge_attempts}")
        self._agents = tuple(agents)
        self._judge = judge
        self._agent_timeout = agent_timeout
        self._judge_attempts = judge_attempts
        self._tracer = tracer

    async def run_episode(
        self,
        queries: Sequence[EvaluationTurnQuery] | QuerySourcePort,
        *,
        earlier: Sequence[TurnResult] = (),
    ) -> LiveEvaluationEpisodeResult:
        """Run the turns in order and return all records with their summaries."""
        turns = list(earlier)
        async with aclosing(self.turns(queries, earlier=earlier)) as new_turns:
            async for turn in new_turns:
                turns.append(turn)
        records: dict[str, list[AgentTurnEvaluationRecord]] = {
            agent.agent_name: [] for agent in self._agents
        }
        for turn in turns:
            for record in turn.records:
                records[record.agent_name].append(record)
        all_records = [record for by_agent in records.values() for record in by_agent]
        return LiveEvaluationEpisodeResult(
            turns=len(turns),
            records={name: tuple(by_agent) for name, by_agent in records.items()},
            summaries=AgentJudgeEvaluationUseCase().summarize(all_records),
            canonical_memory=copy_memory(turns[-1].canonical_memory) if turns else {},
        )

    async def turns(
        self,
        queries: Sequence[EvaluationTurnQuery] | QuerySourcePort,
        *,
        earlier: Sequence[TurnResult] = (),
    ) -> AsyncGenerator[TurnResult, None]:
        """Yield each new turn; the next turn starts when the caller requests it.

        Turns in `earlier` were recorded before: agents replay them, and neither agents nor judge
        are called.
        """
        if isinstance(queries, Sequence):
            check_turn_order(queries)
        memory: Mapping[str, object] = {}
        turn_id = 0
        for turn in earlier:
            await self._replay(turn, memory)
            memory, turn_id = turn.canonical_memory, turn.query.turn_id
        while (query := await _next_query(queries, turn_id + 1, memory)) is not None:
            names = [agent.agent_name for agent in self._agents]
            with trace_turn(self._tracer, names, turn_id=query.turn_id) as traced:
                result = await self._run_turn(query, memory, traced)
                traced.add_records(result.records)
            memory, turn_id = result.canonical_memory, query.turn_id
            yield result

    async def _run_turn(
        self, query: EvaluationTurnQuery, memory: Mapping[str, object], traced: EvaluatedTurn
    ) -> TurnResult:
        new_copy = _memory_copier(memory)
        stuck: set[_AgentTask] = set()
        seconds: dict[str, float] = {}
        try:
            async with asyncio.TaskGroup() as group:
                tasks: dict[_AgentTask, PausableTimeout] = {}
                for agent in self._agents:
                    timeout = PausableTimeout(self._agent_timeout)
                    answer = self._timed(agent, query, new_copy(), timeout, seconds)
                    span = traced.span_of(agent.agent_name)
                    context = None if span is None else span.new_context()
                    tasks[group.create_task(answer, context=context)] = timeout
                if self._agent_timeout is not None:
                    stuck = await _wait_for_agents(tasks)
                    for task in stuck:
                        _abandon(task)
        except* RuntimeError:
            # An abandoned task ends with RuntimeError. Errors of agents are caught in _answer.
            if not stuck:
                raise
        responses = tuple(
            self._abandoned_response(agent) if task in stuck else task.result()
            for agent, task in zip(self._agents, tasks, strict=True)
        )
        answered = tuple(response for response in responses if not response.error)
        verdicts, error = await self._evaluate(query, memory, answered)
        if verdicts is not None:
            memory = verdicts.canonical_memory
        return TurnResult(
            query=query,
            responses=responses,
            records=tuple(
                _record(query.turn_id, response, verdicts, error) for response in responses
            ),
            canonical_memory=copy_memory(memory),
            seconds=seconds,
        )

    async def _timed(
        self,
        agent: AgentRunnerPort,
        query: EvaluationTurnQuery,
        memory: Mapping[str, object],
        timeout: PausableTimeout,  # noqa: ASYNC109 - a timeout object that can be paused
        seconds: dict[str, float],
    ) -> AgentTurnResponse:
        """Answer and note the time that it took."""
        started = time.perf_counter()
        try:
            return await self._answer(agent, query, memory, timeout)
        finally:
            seconds[agent.agent_name] = round(time.perf_counter() - started, 6)

    async def _answer(
        self,
        agent: AgentRunnerPort,
        query: EvaluationTurnQuery,
        memory: Mapping[str, object],
        timeout: PausableTimeout,  # noqa: ASYNC109 - a timeout object that can be paused
    ) -> AgentTurnResponse:
        name = agent.agent_name
        error = ""
        response: object = None
        try:
            async with timeout:
                response = await agent.run_turn(query, memory)
                timeout.check()
        except TimeoutError:
            error = f"{TIMEOUT_ERROR} {self._agent_timeout} s"
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as exception:
            task = asyncio.current_task()
            is_cancelled = task is not None and task.cancelling() > 0
            if isinstance(exception, asyncio.CancelledError) and is_cancelled:
                raise
            error = f"{type(exception).__name__}: {exception}"
        if not error and not isinstance(response, AgentTurnResponse):
            error = f"returned {type(response).__name__}, expected AgentTurnResponse"
        if error or not isinstance(response, AgentTurnResponse):
            return AgentTurnResponse(agent_name=name, response_text="", error=error)
        if response.agent_name != name:
            error = f"answered with the agent name {response.agent_name!r}, expected {name!r}"
        elif not response.error and not response.response_text.strip():
            error = "returned an empty answer"
        if not error:
            return response
        return AgentTurnResponse(
            agent_name=name,
            response_text=response.response_text,
            memory_tokens=response.memory_tokens,
            error=error,
        )

    def _abandoned_response(self, agent: AgentRunnerPort) -> AgentTurnResponse:
        error = f"{TIMEOUT_ERROR} {self._agent_timeout} s, and the agent ignored cancellation"
        return AgentTurnResponse(agent_name=agent.agent_name, response_text="", error=error)

    async def _evaluate(
        self,
        query: EvaluationTurnQuery,
        memory: Mapping[str, object],
        answered: tuple[AgentTurnResponse, ...],
    ) -> tuple[JudgeTurnResult | None, str]:
        """Return the verdicts of the judge, or None and the error of its last attempt."""
        reason = ""
        for _ in range(self._judge_attempts):
            try:
                result: object = await self._judge.evaluate_turn(
                    query, copy_memory(memory), answered
                )
            except JudgeContractBroken:
                raise
            # A judge is third-party code. Its failure must never become a score of 0.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                reason = f"judge: {type(error).__name__}: {error}"
                continue
            if not isinstance(result, JudgeTurnResult):
                reason = f"judge: returned {type(result).__name__}, expected JudgeTurnResult"
                continue
            expected = {response.agent_name for response in answered}
            returned = [verdict.agent_name for verdict in result.evaluations]
            returned += result.unscored
            if set(returned) != expected or len(returned) != len(expected):
                raise JudgeContractBroken(query.turn_id, expected, returned)
            return result, ""
        return None, f"{reason} ({self._judge_attempts} attempts)"

    async def _replay(self, turn: TurnResult, memory: Mapping[str, object]) -> None:
        by_name = {response.agent_name: response for response in turn.responses}
        for agent in self._agents:
            if not isinstance(agent, ReplayableAgentPort):
                raise InvalidInput(
                    f"agent {agent.agent_name!r} cannot continue an interrupted episode: it has "
                    "no replay_turn; define it, or start a new episode"
                )
            response = by_name[agent.agent_name]
            await agent.replay_turn(turn.query, copy_memory(memory), response)


def check_turn_order(queries: Sequence[EvaluationTurnQuery]) -> None:
    """Raise InvalidTurnOrder unless the turn ids are 1..T, in order."""
    for expected, query in enumerate(queries, start=1):
        if query.turn_id != expected:
            raise InvalidTurnOrder(expected, query.turn_id)


def copy_memory(memory: Mapping[str, object]) -> dict[str, object]:
    """Return a deep copy of a canonical memory."""
    return _memory_copier(memory)()


def _memory_copier(memory: Mapping[str, object]) -> Callable[[], dict[str, object]]:
    """Return a function that creates copies and reads the original only once.

    Plain data is copied with marshal, which is several times faster than a deep copy.
    """
    try:
        data = marshal.dumps(dict(memory))
    except ValueError:
        return lambda: copy.deepcopy(dict(memory))

    def load() -> dict[str, object]:
        copied: dict[str, object] = marshal.loads(data)  # noqa: S302 - written above
        return copied

    return load


async def _next_query(
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort,
    turn_id: int,
    memory: Mapping[str, object],
) -> EvaluationTurnQuery | None:
    if isinstance(queries, Sequence):
        return queries[turn_id - 1] if turn_id <= len(queries) else None
    query = await queries.next_query(turn_id, copy_memory(memory))
    if query is not None and query.turn_id != turn_id:
        raise InvalidTurnOrder(turn_id, query.turn_id)
    return query


async def _wait_for_agents(tasks: Mapping[_AgentTask, PausableTimeout]) -> set[_AgentTask]:
    """Return the tasks that ignored cancellation after their timeout."""
    pending = set(tasks)
    while pending:
        remaining = max(tasks[task].remaining for task in pending) + CANCELLATION_GRACE_SECONDS
        if remaining <= 0:
            break
        _, pending = await asyncio.wait(pending, timeout=remaining)
    return pending


def _abandon(task: _AgentTask) -> None:
    """End a task whose agent ignores cancellation by closing its coroutine."""
    task.get_coro().close()
    task.cancel()


def _record(
    turn_id: int, response: AgentTurnResponse, verdicts: JudgeTurnResult | None, error: str
) -> AgentTurnEvaluationRecord:
    """Return the record of one agent in one turn; without a verdict it has no score."""
    name = response.agent_name
    verdict = None
    flags: tuple[str, ...] = ()
    if verdicts is not None:
        verdict = next((one for one in verdicts.evaluations if one.agent_name == name), None)
        flags = verdicts.flags.get(name, ())
        error = verdicts.unscored.get(name, "") or "judge: no reason given"
    if response.error or verdict is None:
        return AgentTurnEvaluationRecord(
            agent_name=name,
            turn_id=turn_id,
            status=TurnStatus.FAILED if response.error else TurnStatus.UNSCORED,
            memory_tokens=response.memory_tokens,
            error=response.error or error,
            flags=flags,
        )
    return AgentTurnEvaluationRecord(
        agent_name=name,
        turn_id=turn_id,
        outcome=verdict.outcome,
        hallucination=verdict.hallucination,
        drift=verdict.drift,
        memory_tokens=response.memory_tokens,
        flags=flags,
        votes=verdict.votes,
    )
