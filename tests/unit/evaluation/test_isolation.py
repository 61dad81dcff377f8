"""Agents cannot see the annotations of a scenario."""

from dataclasses import replace

import pytest

from acc.adapters.evaluation.agents import MemoryAgentRunner
from acc.adapters.evaluation.rubric_judge import RubricJudge
from acc.application.use_cases.live_multi_agent_evaluation import LiveMultiAgentEvaluationUseCase
from acc.bootstrap.evaluation import make_agent, scenario_library
from acc.bootstrap.memory import make_memory
from acc.domain.value_objects.live_evaluation import EvaluationTurnQuery
from acc.domain.value_objects.scenario import AnswerKind, Scenario
from acc.domain.value_objects.stress_topic import StressTopic
from acc.testing import ScriptedModel

KINDS = ("transcript", "retrieval", "acc")


def without_annotations(scenario: Scenario) -> Scenario:
    """Return the same queries with every annotation removed or inverted."""
    return replace(
        scenario,
        turns=tuple(
            replace(
                turn,
                topic=StressTopic.SETUP,
                injected="",
                facts=(),
                updates=(),
                retracts=(),
                constraints=(),
                amends=(),
                lifts=(),
                expects=(),
                avoids=tuple(e.any_of[0] for e in turn.expects),
                answer=AnswerKind.REFUSAL,
                once=(),
            )
            for turn in scenario.turns
        ),
    )


async def answers(scenario: Scenario) -> list[tuple[str, str, int | None]]:
    use_case = LiveMultiAgentEvaluationUseCase(
        agents=[make_agent(kind, kind) for kind in KINDS],
        judge=RubricJudge(scenario),
    )
    queries = [EvaluationTurnQuery(turn_id=t.turn_id, query=t.query) for t in scenario.turns]
    return [
        (response.agent_name, response.response_text, response.memory_tokens)
        async for turn in use_case.turns(queries)
        for response in turn.responses
    ]


@pytest.mark.parametrize("name", ["it-operations", "it-operations-ja"])
async def test_answers_do_not_depend_on_annotations(name: str) -> None:
    scenario = scenario_library().render(name, 5)
    assert await answers(scenario) == await answers(without_annotations(scenario))


async def test_model_sees_only_the_memory_view_and_the_query() -> None:
    model = ScriptedModel("first", "second")
    runner = MemoryAgentRunner(agent_name="a", model=model, memory=make_memory("transcript"))
    secret = {"facts": {"x": {"text": "The judge knows this."}}}
    for turn_id, text in enumerate(("The lead is Bo.", "Who leads?"), start=1):
        query = EvaluationTurnQuery(turn_id=turn_id, query=text)
        response = await runner.run_turn(query, secret)
    assert response.response_text == "second"
    assert [prompt.query for prompt in model.requests] == ["The lead is Bo.", "Who leads?"]
    earlier = [(message.role, message.text) for message in model.requests[1].earlier]
    assert earlier == [("user", "The lead is Bo."), ("assistant", "first")]
    assert model.requests[1].memory == ""
    assert "judge" not in str(model.requests)
