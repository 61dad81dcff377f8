"""The live episode, as the Phase 4 design asks for it."""

import asyncio
import contextlib
import time
from collections.abc import Mapping

import pytest

from acc.application.runtime.pausable_timeout import pause_deadlines
from acc.application.use_cases import live_multi_agent_evaluation
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.domain.errors import InvalidInput, InvalidTurnOrder, JudgeContractBroken
from acc.domain.value_objects.evaluation import TurnStatus
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeTurnResult,
)
from acc.testing import ScriptedAgent, ScriptedJudge, queries


def two_agents() -> tuple[ScriptedAgent, ScriptedAgent]:
    return ScriptedAgent("baseline", ["b1", "b2", "b3"]), ScriptedAgent("acc", ["a1", "a2", "a3"])


async def test_every_agent_gets_a_record_for_every_turn() -> None:
    agents = two_agents()
    use_case = LiveMultiAgentEvaluationUseCase(agents=agents, judge=ScriptedJudge())
    result = await use_case.run_episode(queries("one", "two", "three"))
    assert {name: len(records) for name, records in result.records.items()} == {
        "baseline": 3,
        "acc": 3,
    }
    assert [r.turn_id for r in result.records["acc"]] == [1, 2, 3]
    assert [query.query for query in agents[0].queries] == ["one", "two", "three"]


async def test_summaries_are_grouped_by_agent() -> None:
    use_case = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=ScriptedJudge())
    result = await use_case.run_episode(queries("one", "two"))
    assert list(result.summaries) == ["baseline", "acc"]
    summary = result.summaries["acc"]
    assert summary.scored_turns == 2
    assert summary.outcome["relevance"] is not None
    assert summary.outcome["relevance"].mean == 8.0
    assert summary.drift is not None
    assert summary.drift.count == 1, "drift is not defined in turn 1"


async def test_canonical_memory_is_passed_to_the_next_turn() -> None:
    agents, judge = two_agents(), ScriptedJudge()
    use_case = LiveMultiAgentEvaluationUseCase(agents=agents, judge=judge)
    result = await use_case.run_episode(queries("one", "two"))
    assert [sorted(memory) for memory in agents[1].canonical_memories] == [[], ["turn 1"]]
    assert [sorted(memory) for memory in judge.canonical_memories] == [[], ["turn 1"]]
    assert sorted(result.canonical_memory) == ["turn 1", "turn 2"]


async def test_agent_that_changes_its_copy_does_not_affect_others() -> None:
    class Vandal(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            for value in canonical_memory.values():
                assert isinstance(value, dict)
                value["query"] = "overwritten"
            return await super().run_turn(query, canonical_memory)

    vandal, witness = Vandal("vandal", ["v"] * 3), ScriptedAgent("witness", ["w"] * 3)
    judge = ScriptedJudge()
    use_case = LiveMultiAgentEvaluationUseCase(agents=[vandal, witness], judge=judge)
    result = await use_case.run_episode(queries("one", "two", "three"))
    assert witness.canonical_memories[1] == {"turn 1": {"query": "one"}}
    assert judge.canonical_memories[2] == {"turn 1": {"query": "one"}, "turn 2": {"query": "two"}}
    assert result.canonical_memory["turn 1"] == {"query": "one"}


async def test_memory_with_objects_is_copied() -> None:
    class Note:
        def __init__(self) -> None:
            self.lines = ["one"]

    class NotingJudge(ScriptedJudge):
        note = Note()

        async def evaluate_turn(self, query, canonical_memory, responses):  # type: ignore[no-untyped-def]
            result = await super().evaluate_turn(query, canonical_memory, responses)
            return type(result)(
                canonical_memory={"note": self.note}, evaluations=result.evaluations
            )

    agent = ScriptedAgent("a", ["x", "y"])
    await LiveMultiAgentEvaluationUseCase(agents=[agent], judge=NotingJudge()).run_episode(
        queries("one", "two")
    )
    copied = agent.canonical_memories[1]["note"]
    assert isinstance(copied, Note)
    assert copied is not NotingJudge.note
    assert copied.lines == ["one"]


@pytest.mark.parametrize(
    ("returned", "shown"),
    [
        (["baseline"], "['baseline']"),
        (["baseline", "acc", "ghost"], "['acc', 'baseline', 'ghost']"),
        (["baseline", "ghost"], "['baseline', 'ghost']"),
        (["baseline", "acc", "acc"], "['acc', 'acc', 'baseline']"),
    ],
)
async def test_judge_that_returns_wrong_names_ends_the_episode(
    returned: list[str], shown: str
) -> None:
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=two_agents(), judge=ScriptedJudge(names=returned)
    )
    with pytest.raises(JudgeContractBroken) as caught:
        await use_case.run_episode(queries("one"))
    assert "['acc', 'baseline']" in str(caught.value)
    assert shown in str(caught.value)


async def test_contract_error_of_the_judge_is_not_retried() -> None:
    judge = ScriptedJudge(faults=[JudgeContractBroken(1, ["a"], ["b"])])
    use_case = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=judge)
    with pytest.raises(JudgeContractBroken):
        await use_case.run_episode(queries("one"))


@pytest.mark.parametrize("ids", [(2, 3), (1, 3), (1, 1), (2, 1)])
async def test_turn_ids_out_of_order_fail_before_any_turn(ids: tuple[int, ...]) -> None:
    agents = two_agents()
    use_case = LiveMultiAgentEvaluationUseCase(agents=agents, judge=ScriptedJudge())
    with pytest.raises(InvalidTurnOrder):
        await use_case.run_episode([EvaluationTurnQuery(turn_id=i, query="q") for i in ids])
    assert agents[0].queries == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (RuntimeError("out of memory"), "RuntimeError: out of memory"),
        (30.0, "no answer within 0.1 s"),
        ("   ", "returned an empty answer"),
        (None, "returned NoneType, expected AgentTurnResponse"),
    ],
)
async def test_failing_agent_is_recorded_and_the_episode_continues(
    answer: str | float | Exception | None, error: str
) -> None:
    shaky = ScriptedAgent("shaky", ["fine", answer, "fine again"])
    steady = ScriptedAgent("steady", ["s1", "s2", "s3"])
    judge = ScriptedJudge()
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[shaky, steady], judge=judge, agent_timeout=0.1
    )
    result = await use_case.run_episode(queries("one", "two", "three"))
    failed = result.records["shaky"][1]
    assert (failed.status, failed.error, failed.outcome) == (TurnStatus.FAILED, error, None)
    assert judge.judged[1] == ("steady",), "there is nothing to judge of a failed turn"
    summary = result.summaries["shaky"]
    assert (summary.scored_turns, summary.failed_turns) == (2, 1)
    assert summary.outcome["relevance"] is not None
    assert summary.outcome["relevance"].mean == 8.0, "a failure is no 0"
    assert result.summaries["steady"].scored_turns == 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError("mine"), "CancelledError: mine"),
        (BaseExceptionGroup("many", [ValueError("x")]), "ExceptionGroup: many"),
    ],
)
async def test_agent_that_exits_fails_only_its_turn(fault: BaseException, error: str) -> None:
    class Leaving(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            if query.turn_id == 1:
                raise fault
            return await super().run_turn(query, canonical_memory)

    result = await LiveMultiAgentEvaluationUseCase(
        agents=[Leaving("leaving", ["", "back"])], judge=ScriptedJudge()
    ).run_episode(queries("one", "two"))
    assert result.records["leaving"][0].error.startswith(error)
    assert result.records["leaving"][1].status is TurnStatus.SCORED


async def test_agent_that_ignores_cancellation_is_abandoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            while query.turn_id == 1:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
            return await super().run_turn(query, canonical_memory)

    monkeypatch.setattr(live_multi_agent_evaluation, "CANCELLATION_GRACE_SECONDS", 0.05)
    steady = ScriptedAgent("steady", ["s1", "s2"])
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[Stubborn("stubborn", ["", "fine"]), steady],
        judge=ScriptedJudge(),
        agent_timeout=0.2,
    )
    before = asyncio.all_tasks()
    async with asyncio.timeout(10):
        result = await use_case.run_episode(queries("one", "two"))
    failed, fine = result.records["stubborn"]
    assert failed.error == "no answer within 0.2 s, and the agent ignored cancellation"
    assert fine.status is TurnStatus.SCORED
    assert [r.status for r in result.records["steady"]] == [TurnStatus.SCORED] * 2
    assert asyncio.all_tasks() == before


async def test_late_answer_is_a_timeout() -> None:
    class Late(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            if query.turn_id == 1:
                time.sleep(0.4)  # noqa: ASYNC251 - which no clock of the loop can end
            elif query.turn_id == 2:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)
            return await super().run_turn(query, canonical_memory)

    judge = ScriptedJudge()
    result = await LiveMultiAgentEvaluationUseCase(
        agents=[Late("late", ["one", "two", "three"])], judge=judge, agent_timeout=0.3
    ).run_episode(queries("one", "two", "three"))
    *late, fine = result.records["late"]
    assert [record.error for record in late] == ["no answer within 0.3 s"] * 2
    assert fine.status is TurnStatus.SCORED
    assert judge.judged == [(), (), ("late",)]


async def test_waiting_for_rate_limits_does_not_count_for_the_timeout() -> None:
    class InLine(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            with pause_deadlines():
                await asyncio.sleep(0.5)
            await asyncio.sleep(60 if query.turn_id == 2 else 0)
            return await super().run_turn(query, canonical_memory)

    result = await LiveMultiAgentEvaluationUseCase(
        agents=[InLine("patient", ["one", "two"])], judge=ScriptedJudge(), agent_timeout=0.3
    ).run_episode(queries("one", "two"))
    answered, late = result.records["patient"]
    assert answered.status is TurnStatus.SCORED
    assert late.error == "no answer within 0.3 s"


async def test_stuck_agent_is_abandoned_after_waiting_agents_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stubborn(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)

    class InLine(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            with pause_deadlines():
                await asyncio.sleep(0.6)
            return await super().run_turn(query, canonical_memory)

    monkeypatch.setattr(live_multi_agent_evaluation, "CANCELLATION_GRACE_SECONDS", 0.05)
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[Stubborn("stubborn", []), InLine("patient", ["one"])],
        judge=ScriptedJudge(),
        agent_timeout=0.3,
    )
    async with asyncio.timeout(10):
        result = await use_case.run_episode(queries("one"))
    assert "ignored cancellation" in result.records["stubborn"][0].error
    assert result.records["patient"][0].status is TurnStatus.SCORED


async def test_runtime_error_outside_agents_is_raised() -> None:
    class Nameless(ScriptedAgent):
        names = 0

        @property
        def agent_name(self) -> str:
            self.names += 1
            if self.names > 3:
                raise RuntimeError("no name left")
            return "nameless"

        @agent_name.setter
        def agent_name(self, name: str) -> None: ...

    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[Nameless("nameless", ["x"])], judge=ScriptedJudge(), agent_timeout=1
    )
    with pytest.raises((ExceptionGroup, RuntimeError)):
        await use_case.run_episode(queries("one", "two", "three"))


async def test_judge_that_returns_nothing_leaves_the_turn_unscored() -> None:
    class Mute(ScriptedJudge):
        async def evaluate_turn(
            self,
            query: EvaluationTurnQuery,
            canonical_memory: Mapping[str, object],
            responses: tuple[AgentTurnResponse, ...],
        ) -> JudgeTurnResult:
            return None  # type: ignore[return-value] # a judge that breaks its contract

    result = await LiveMultiAgentEvaluationUseCase(
        agents=two_agents(), judge=Mute(), judge_attempts=2
    ).run_episode(queries("one"))
    record = result.records["acc"][0]
    assert record.status is TurnStatus.UNSCORED
    assert record.error == "judge: returned NoneType, expected JudgeTurnResult (2 attempts)"


async def test_agent_that_answers_with_another_name_fails() -> None:
    class Impostor(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            return AgentTurnResponse(agent_name="someone", response_text="hello")

    result = await LiveMultiAgentEvaluationUseCase(
        agents=[Impostor("me", [])], judge=ScriptedJudge()
    ).run_episode(queries("one"))
    assert result.records["me"][0].error == "answered with the agent name 'someone', expected 'me'"


async def test_judge_reads_the_query_if_all_agents_fail() -> None:
    judge = ScriptedJudge()
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[ScriptedAgent("a", [RuntimeError("x"), "ok"])], judge=judge
    )
    result = await use_case.run_episode(queries("one", "two"))
    assert judge.judged == [(), ("a",)]
    assert sorted(result.canonical_memory) == ["turn 1", "turn 2"]


async def test_judge_that_fails_once_is_retried() -> None:
    judge = ScriptedJudge(faults=[RuntimeError("429")])
    result = await LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=judge).run_episode(
        queries("one")
    )
    assert result.summaries["acc"].scored_turns == 1


async def test_judge_that_exits_leaves_the_turn_unscored() -> None:
    class Leaving(ScriptedJudge):
        async def evaluate_turn(
            self,
            query: EvaluationTurnQuery,
            canonical_memory: Mapping[str, object],
            responses: tuple[AgentTurnResponse, ...],
        ) -> JudgeTurnResult:
            raise SystemExit(3)

    use_case = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=Leaving())
    result = await use_case.run_episode(queries("one"))
    assert result.records["acc"][0].error == "judge: SystemExit: 3 (3 attempts)"


async def test_turn_without_verdict_is_unscored_not_zero() -> None:
    judge = ScriptedJudge(faults=[RuntimeError("down")] * 2)
    use_case = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=judge, judge_attempts=2)
    result = await use_case.run_episode(queries("one", "two"))
    first = result.records["acc"][0]
    assert first.status is TurnStatus.UNSCORED
    assert first.error == "judge: RuntimeError: down (2 attempts)"
    summary = result.summaries["acc"]
    assert (summary.scored_turns, summary.unscored_turns) == (1, 1)
    assert summary.outcome["coherence"] is not None
    assert summary.outcome["coherence"].mean == 8.0
    assert sorted(result.canonical_memory) == ["turn 2"], "nothing was learnt from turn 1"


async def test_agents_of_one_turn_run_concurrently() -> None:
    """All three must be inside their turn before any may leave it."""
    inside = 0
    everyone = asyncio.Event()

    class Meeting(ScriptedAgent):
        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            nonlocal inside
            inside += 1
            if inside == 3:
                everyone.set()
            await everyone.wait()
            return await super().run_turn(query, canonical_memory)

    agents = [Meeting(name, ["met"]) for name in ("a", "b", "c")]
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=agents, judge=ScriptedJudge(), agent_timeout=5
    )
    result = await use_case.run_episode(queries("one"))
    assert {r[0].status for r in result.records.values()} == {TurnStatus.SCORED}


async def test_query_source_gets_the_canonical_memory() -> None:
    class Curious:
        async def next_query(
            self, turn_id: int, canonical_memory: Mapping[str, object]
        ) -> EvaluationTurnQuery | None:
            if turn_id == 4:
                return None
            text = f"known so far: {sorted(canonical_memory)}"
            return EvaluationTurnQuery(turn_id=turn_id, query=text)

    agent = ScriptedAgent("a", ["x"] * 3)
    result = await LiveMultiAgentEvaluationUseCase(
        agents=[agent], judge=ScriptedJudge()
    ).run_episode(Curious())
    assert result.turns == 3
    assert agent.queries[2].query == "known so far: ['turn 1', 'turn 2']"


async def test_query_source_that_skips_a_turn_fails() -> None:
    class Skipping:
        async def next_query(
            self, turn_id: int, canonical_memory: Mapping[str, object]
        ) -> EvaluationTurnQuery | None:
            return EvaluationTurnQuery(turn_id=turn_id * 2, query="q")

    use_case = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=ScriptedJudge())
    with pytest.raises(InvalidTurnOrder, match="expected 1, got 2"):
        await use_case.run_episode(Skipping())


async def test_recorded_turns_are_replayed_not_repeated() -> None:
    texts = queries("one", "two", "three")
    whole = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=ScriptedJudge())
    turns = [turn async for turn in whole.turns(texts)]
    agents, judge = two_agents(), ScriptedJudge()
    resumed = await LiveMultiAgentEvaluationUseCase(agents=agents, judge=judge).run_episode(
        texts, earlier=turns[:2]
    )
    assert agents[1].replayed == ["a1", "a2"]
    assert [query.turn_id for query in agents[1].queries] == [3]
    assert [sorted(memory) for memory in agents[1].canonical_memories] == [
        [],
        ["turn 1"],
        ["turn 1", "turn 2"],
    ]
    whole = LiveMultiAgentEvaluationUseCase(agents=two_agents(), judge=ScriptedJudge())
    assert resumed == await whole.run_episode(texts)


async def test_agent_without_replay_cannot_continue_an_episode() -> None:
    class Forgetful:
        agent_name = "forgetful"

        async def run_turn(
            self, query: EvaluationTurnQuery, canonical_memory: Mapping[str, object]
        ) -> AgentTurnResponse:
            return AgentTurnResponse(agent_name=self.agent_name, response_text="hello")

    use_case = LiveMultiAgentEvaluationUseCase(agents=[Forgetful()], judge=ScriptedJudge())
    turns = [turn async for turn in use_case.turns(queries("one", "two"))]
    with pytest.raises(InvalidInput, match="'forgetful' cannot continue"):
        await use_case.run_episode(queries("one", "two"), earlier=turns[:1])


@pytest.mark.parametrize(
    ("names", "attempts", "fault"),
    [
        ((), 1, "at least one agent"),
        (("a", "a"), 1, "must be unique"),
        (("a",), 0, "judge_attempts"),
    ],
)
def test_invalid_episode_is_rejected(names: tuple[str, ...], attempts: int, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        LiveMultiAgentEvaluationUseCase(
            agents=[ScriptedAgent(name, []) for name in names],
            judge=ScriptedJudge(),
            judge_attempts=attempts,
        )


@pytest.mark.parametrize("text", ["", "  \n "])
def test_empty_query_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="turn 1 must not be empty"):
        EvaluationTurnQuery(turn_id=1, query=text)


async def test_cancelled_episode_leaves_no_task() -> None:
    agent = ScriptedAgent("slow", [60.0])
    use_case = LiveMultiAgentEvaluationUseCase(agents=[agent], judge=ScriptedJudge())
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await use_case.run_episode(queries("one"))
    assert asyncio.all_tasks() == before
