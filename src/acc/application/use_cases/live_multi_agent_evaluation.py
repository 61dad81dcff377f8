"""One live episode: the same turns for every agent, judged as they happen."""

import asyncio
import copy
import marshal
from collections.abc import Awaitable, Callable, Mapping, Sequence

from acc.application.runtime.deadlines import PausableTimeout
from acc.application.use_cases.agent_judge_evaluation import AgentJudgeEvaluationUseCase
from acc.domain.errors import InvalidInput, InvalidTurnOrder, JudgeContractBroken
from acc.domain.value_objects.evaluation import AgentTurnEvaluationRecord, TurnStatus
from acc.domain.value_objects.live_evaluation import (
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

#: Seconds that an agent has to stop after its time is up, before it is abandoned.
_GRACE = 2.0

OnTurn = Callable[[TurnResult], Awaitable[None]]
_Answering = asyncio.Task[AgentTurnResponse]


class LiveMultiAgentEvaluationUseCase:
    """Drives several agents through the same turns and has a judge score each turn.

    Agents of one turn answer at the same time. An agent that raises, times out or returns nothing
    is recorded as failed for that turn; its time stands still while its models are held back. A
    judge that raises is asked again up to `judge_attempts` times; after that the turn is unscored
    and the canonical memory stays as it was. `check` is called before a judge is asked and once
    more after that: what it raises ends the episode, and nothing of the turn is told.
    """

    def __init__(
        self,
        *,
        agents: Sequence[AgentRunnerPort],
        judge: JudgeEvaluatorPort,
        agent_timeout: float | None = None,
        judge_attempts: int = 3,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        names = [agent.agent_name for agent in agents]
        if not names:
            raise InvalidInput("an episode needs at least one agent")
        if len(set(names)) < len(names):
            raise InvalidInput(f"agent names must differ: {names}")
        if judge_attempts < 1:
            raise InvalidInput(f"judge_attempts must be at least 1, not {judge_attempts}")
        self._agents = tuple(agents)
        self._judge = judge
        self._agent_timeout = agent_timeout
        self._judge_attempts = judge_attempts
        self._check = check

    async def run_episode(
        self,
        queries: Sequence[EvaluationTurnQuery] | QuerySourcePort,
        *,
        on_turn: OnTurn | None = None,
        earlier: Sequence[TurnResult] = (),
    ) -> LiveEvaluationEpisodeResult:
        """Run the turns in order and return every record with its summaries.

        `on_turn` is awaited after each new turn, before the next one starts. `earlier` are turns
        already recorded: they are lived through again without asking agents or judge.
        """
        if isinstance(queries, Sequence):
            check_turn_order(queries)
        records: dict[str, list[AgentTurnEvaluationRecord]] = {
            agent.agent_name: [] for agent in self._agents
        }
        memory: Mapping[str, object] = {}
        turns = 0
        for turn in earlier:
            await self._replay(turn, memory)
            memory, turns = turn.canonical_memory, turn.query.turn_id
            for record in turn.records:
                records[record.agent_name].append(record)
        while (query := await _next_query(queries, turns + 1, memory)) is not None:
            result = await self._run_turn(query, memory)
            if on_turn is not None:
                await on_turn(result)
            memory, turns = result.canonical_memory, query.turn_id
            for record in result.records:
                records[record.agent_name].append(record)
        everything = [record for listed in records.values() for record in listed]
        return LiveEvaluationEpisodeResult(
            turns=turns,
            records={name: tuple(listed) for name, listed in records.items()},
            summaries=AgentJudgeEvaluationUseCase().summarize(everything),
            canonical_memory=copy_plain(memory),
        )

    async def _run_turn(
        self, query: EvaluationTurnQuery, memory: Mapping[str, object]
    ) -> TurnResult:
        copy_of_memory = _copies(memory)
        stuck: set[_Answering] = set()
        try:
            async with asyncio.TaskGroup() as group:
                tasks: dict[_Answering, PausableTimeout] = {}
                for agent in self._agents:
                    patience = PausableTimeout(self._agent_timeout)
                    answering = self._answer(agent, query, copy_of_memory(), patience)
                    tasks[group.create_task(answering)] = patience
                if self._agent_timeout is not None:
                    stuck = await _overstaying(tasks)
                    for task in stuck:
                        _abandon(task)
        except* RuntimeError:
            # What an abandoned task ends with. An agent's own errors never get this far.
            if not stuck:
                raise
        responses = tuple(
            self._never_stopped(agent) if task in stuck else task.result()
            for agent, task in zip(self._agents, tasks, strict=True)
        )
        answered = tuple(response for response in responses if not response.error)
        self._check()
        judged, fault = await self._evaluate(query, memory, answered)
        self._check()
        if judged is not None:
            memory = judged.canonical_memory
        return TurnResult(
            query=query,
            responses=responses,
            records=tuple(
                _record(query.turn_id, response, judged, fault) for response in responses
            ),
            canonical_memory=copy_plain(memory),
        )

    async def _answer(
        self,
        agent: AgentRunnerPort,
        query: EvaluationTurnQuery,
        memory: Mapping[str, object],
        patience: PausableTimeout,
    ) -> AgentTurnResponse:
        name = agent.agent_name
        error = ""
        response: object = None
        try:
            async with patience:
                response = await agent.run_turn(query, memory)
                patience.check()
        except TimeoutError:
            error = f"no answer within {self._agent_timeout} s"
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as fault:
            if isinstance(fault, asyncio.CancelledError) and _is_cancelled():
                raise
            error = f"{type(fault).__name__}: {fault}"
        if not error and not isinstance(response, AgentTurnResponse):
            error = f"returned {type(response).__name__}, not an AgentTurnResponse"
        if error or not isinstance(response, AgentTurnResponse):
            return AgentTurnResponse(agent_name=name, response_text="", error=error)
        if response.agent_name != name:
            error = f"answered under the name {response.agent_name!r}"
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

    def _never_stopped(self, agent: AgentRunnerPort) -> AgentTurnResponse:
        error = f"no answer within {self._agent_timeout} s, and it did not stop when told to"
        return AgentTurnResponse(agent_name=agent.agent_name, response_text="", error=error)

    async def _evaluate(
        self,
        query: EvaluationTurnQuery,
        memory: Mapping[str, object],
        answered: tuple[AgentTurnResponse, ...],
    ) -> tuple[JudgeTurnResult | None, str]:
        fault = ""
        for _ in range(self._judge_attempts):
            try:
                result = _checked(
                    await self._judge.evaluate_turn(query, copy_plain(memory), answered)
                )
            except JudgeContractBroken:
                raise
            # A judge is anyone's code; its failure must never be a score of 0.
            except (Exception, SystemExit) as error:  # noqa: BLE001
                fault = f"judge: {type(error).__name__}: {error}"
                continue
            asked = {response.agent_name for response in answered}
            returned = [verdict.agent_name for verdict in result.evaluations]
            returned += result.unscored
            if set(returned) != asked or len(returned) != len(asked):
                raise JudgeContractBroken(query.turn_id, asked, returned)
            return result, ""
        return None, f"{fault} ({self._judge_attempts} attempts)"

    async def _replay(self, turn: TurnResult, memory: Mapping[str, object]) -> None:
        by_name = {response.agent_name: response for response in turn.responses}
        for agent in self._agents:
            if not isinstance(agent, ReplayableAgentPort):
                raise InvalidInput(f"agent {agent.agent_name!r} cannot take up a cut-off episode")
            response = by_name[agent.agent_name]
            await agent.replay_turn(turn.query, copy_plain(memory), response)


def _record(
    turn_id: int, response: AgentTurnResponse, judged: JudgeTurnResult | None, fault: str
) -> AgentTurnEvaluationRecord:
    """Return what is on record of one agent in one turn; without a verdict it has no score."""
    name = response.agent_name
    verdict = None
    flags: tuple[str, ...] = ()
    if judged is not None:
        verdict = next((one for one in judged.evaluations if one.agent_name == name), None)
        flags = judged.flags.get(name, ())
        fault = judged.unscored.get(name, "") or "judge: no reason given"
    if response.error or verdict is None:
        return AgentTurnEvaluationRecord(
            agent_name=name,
            turn_id=turn_id,
            status=TurnStatus.FAILED if response.error else TurnStatus.UNSCORED,
            memory_tokens=response.memory_tokens,
            error=response.error or fault,
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


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _overstaying(tasks: Mapping[_Answering, PausableTimeout]) -> set[_Answering]:
    """Wait for all tasks but those that do not stop when their time is up, and return these."""
    waiting = set(tasks)
    while waiting and (left := max(tasks[task].remaining for task in waiting) + _GRACE) > 0:
        _, waiting = await asyncio.wait(waiting, timeout=left)
    return waiting


def _abandon(task: _Answering) -> None:
    """End a task whose agent ignores cancellation: its coroutine is closed under it."""
    task.get_coro().close()
    task.cancel()


def _checked(result: object) -> JudgeTurnResult:
    if not isinstance(result, JudgeTurnResult):
        raise TypeError(f"returned {type(result).__name__}, not a JudgeTurnResult")
    return result


def check_turn_order(queries: Sequence[EvaluationTurnQuery]) -> None:
    """Raise InvalidTurnOrder unless the turn ids are 1..T, in order."""
    for expected, query in enumerate(queries, start=1):
        if query.turn_id != expected:
            raise InvalidTurnOrder(expected, query.turn_id)


async def _next_query(
    queries: Sequence[EvaluationTurnQuery] | QuerySourcePort,
    turn_id: int,
    memory: Mapping[str, object],
) -> EvaluationTurnQuery | None:
    if isinstance(queries, Sequence):
        return queries[turn_id - 1] if turn_id <= len(queries) else None
    query = await queries.next_query(turn_id, copy_plain(memory))
    if query is not None and query.turn_id != turn_id:
        raise InvalidTurnOrder(turn_id, query.turn_id)
    return query


def copy_plain(memory: Mapping[str, object]) -> dict[str, object]:
    """Return a copy that shares no changeable part with the original."""
    return _copies(memory)()


def _copies(memory: Mapping[str, object]) -> Callable[[], dict[str, object]]:
    """Return a maker of copies that reads the original once.

    Plain data goes through marshal, several times as fast as a deep copy; anything else is copied
    the slow way.
    """
    try:
        frozen = marshal.dumps(dict(memory))
    except ValueError:
        return lambda: copy.deepcopy(dict(memory))

    def thaw() -> dict[str, object]:
        copied: dict[str, object] = marshal.loads(frozen)  # noqa: S302 - our own bytes, just made
        return copied

    return thaw
