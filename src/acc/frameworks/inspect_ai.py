"""Scenarios of acc as a task of Inspect AI: dataset, solver and scorer.

`inspect_ai.eval(acc_scenarios(memory="acc"), model=...)` evaluates a memory with a model of
Inspect. The scores are those of `acc eval` with the rubric judge.
"""

from collections.abc import Sequence

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, get_model
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, Solver, TaskState, solver

    from acc.adapters.frameworks.inspect_ai import InspectModel
except ModuleNotFoundError as error:
    raise ImportError(
        f"acc.frameworks.inspect_ai needs {error.name}: install inspect-ai 0.3.285 or newer"
    ) from error

from acc.bootstrap.evaluation import make_memory_agent, open_judge, scenario_library
from acc.domain.errors import InvalidInput
from acc.domain.metrics import drift_rate, hallucination_rate
from acc.domain.value_objects.live_evaluation import (
    AgentTurnResponse,
    EvaluationTurnQuery,
    JudgeAgentEvaluation,
)

__all__ = ["acc_conversation", "acc_judge", "acc_scenarios"]

_AGENT = "agent"
_ANSWERS = "acc_answers"


@task
def acc_scenarios(
    scenario: str = "all",
    *,
    memory: str = "full",
    episodes: int = 1,
    seed: int = 0,
    turns: int | None = None,
    window: int = 4096,
    budget: int = 512,
) -> Task:
    """Return a task with one sample for each scenario and seed.

    `scenario` is a shipped id, a .toml file, a list with commas, or all. `memory` is what the model
    gets of earlier turns: full, acc or another memory of `acc eval --agents`, also MEMORY@TOKENS.
    """
    if episodes < 1 or (turns is not None and turns < 1):
        raise InvalidInput(f"episodes and turns must be at least 1, got {episodes} and {turns}")
    return Task(
        dataset=MemoryDataset(_samples(scenario, episodes, seed, turns), name="acc scenarios"),
        solver=acc_conversation(memory, window=window, budget=budget),
        scorer=acc_judge(),
    )


def _samples(scenario: str, episodes: int, seed: int, turns: int | None) -> list[Sample]:
    library = scenario_library()
    names = [name.strip() for name in scenario.split(",") if name.strip()]
    if names == ["all"]:
        names = [template.id for template in library.shipped()]
    samples: list[Sample] = []
    for name in names:
        for number in range(seed, seed + episodes):
            rendered = library.render(name, number)
            queries = [turn.query for turn in rendered.turns[:turns]]
            samples.append(
                Sample(
                    id=f"{rendered.id}.{number:06d}",
                    input=queries[0],
                    metadata={
                        "scenario": name,
                        "seed": number,
                        "domain": rendered.domain,
                        "language": rendered.language,
                        "queries": queries,
                    },
                )
            )
    return samples


@solver
def acc_conversation(memory: str = "full", *, window: int = 4096, budget: int = 512) -> Solver:
    """Return a solver that asks the model all queries of a sample, one turn after the other."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        model = get_model()
        agent = make_memory_agent(
            _AGENT, memory, model=InspectModel(model), window=window, budget=budget
        )
        state.messages.clear()
        answers: list[str] = []
        for turn_id, query in enumerate(_queries(state), start=1):
            response = await agent.run_turn(EvaluationTurnQuery(turn_id=turn_id, query=query), {})
            answers.append(response.response_text)
            state.messages.append(ChatMessageUser(content=query))
            state.messages.append(ChatMessageAssistant(content=response.response_text))
        state.output = ModelOutput.from_content(model=model.name, content=answers[-1])
        state.store.set(_ANSWERS, answers)
        return state

    return solve


def _queries(state: TaskState) -> Sequence[str]:
    queries: list[str] = state.metadata["queries"]
    return queries


@scorer(metrics={"*": [mean(), stderr()]})
def acc_judge() -> Scorer:
    """Return a scorer with the means of outcome, hallucination and drift over the turns.

    The rubric judge scores each answer by the annotations of the scenario, as in `acc eval`. The
    outcome of each turn and broken rules are in the metadata of the score.
    """

    async def score(state: TaskState, target: Target) -> Score:
        answers: list[str] = state.store.get(_ANSWERS, [])
        scenario = scenario_library().render(state.metadata["scenario"], state.metadata["seed"])
        judge = open_judge("rubric", None, scenario=scenario)
        known: dict[str, object] = {}
        verdicts: list[JudgeAgentEvaluation] = []
        for turn_id, (query, answer) in enumerate(
            zip(_queries(state), answers, strict=True), start=1
        ):
            response = AgentTurnResponse(agent_name=_AGENT, response_text=answer)
            result = await judge.evaluate_turn(
                EvaluationTurnQuery(turn_id=turn_id, query=query), known, (response,)
            )
            known = dict(result.canonical_memory)
            verdicts += result.evaluations
        findings = [
            {"turn": turn, "finding": finding.reason}
            for turn, one in enumerate(verdicts, start=1)
            for finding in one.drift.findings
        ]
        return Score(
            value={
                "outcome": _mean([one.outcome.mean for one in verdicts]),
                "hallucination": _mean([hallucination_rate(one.hallucination) for one in verdicts]),
                # Nothing can be forgotten in the first turn.
                "drift": _mean([drift_rate(one.drift) for one in verdicts[1:]]),
            },
            answer=answers[-1],
            explanation=f"means over {len(verdicts)} turns",
            metadata={"turns": [one.outcome.mean for one in verdicts], "findings": findings},
        )

    return score


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 6) if values else 0.0
