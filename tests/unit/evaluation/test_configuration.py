"""Choosing a judge by name."""

from pathlib import Path

import pytest

from acc.adapters.evaluation.model_judge import ModelJudge, judge_configuration
from acc.adapters.evaluation.rubric_judge import RubricJudge
from acc.application.evaluation.configuration import (
    EvaluationRequest,
    JudgeOptions,
    budget_text,
    judge_reference,
    memory_budgets,
    run_name,
)
from acc.application.evaluation.cost import CostTracker, ModelResources
from acc.bootstrap import models
from acc.bootstrap.evaluation import (
    load_calibration_cases,
    make_calibration,
    make_configurator,
    open_judge,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import JudgeConfig
from acc.testing import ScriptedJudge, ScriptedModel

CONFIGURATOR = make_configurator()


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


def test_rubric_judge_has_no_configuration() -> None:
    assert CONFIGURATOR.judge("rubric") is None
    assert isinstance(open_judge("rubric", None), RubricJudge)


@pytest.mark.parametrize(
    ("judge", "options", "fault"),
    [
        ("someone", JudgeOptions(), "unknown judge"),
        ("model:", JudgeOptions(), "requires the name"),
        ("model:embedded", JudgeOptions(force=True), "embedded model cannot judge"),
        ("model:local", JudgeOptions(), "--force-judge"),
        ("model:local:small", JudgeOptions(), "--force-judge"),
        ("model:a:b|c:d", JudgeOptions(), "a judge must be one model"),
        ("model:a:b?temperature=hot", JudgeOptions(), "temperature must be a number"),
        ("rubric", JudgeOptions(votes=3), "require a model judge"),
        ("rubric", JudgeOptions(drives=True), "require a model judge"),
        ("rubric", JudgeOptions(votes=0), "--judge-votes"),
        ("model:openai:a,model:openai:a", JudgeOptions(), "must differ"),
        ("rubric", JudgeOptions(probabilities=True), "require a model judge"),
        ("model:anthropic:a", JudgeOptions(probabilities=True), "token probabilities"),
        ("model:openai:a,model:openai:b,model:openai:c", JudgeOptions(votes=2), "at least 3"),
        ("model:openai:a,model:", JudgeOptions(), "requires the name"),
        ("model:openai:a,model:local", JudgeOptions(), "rejected as a judge"),
        ("rubric", JudgeOptions(votes=99), "--judge-votes"),
        ("rubric", JudgeOptions(temperature=-1.0), "--judge-temperature"),
        ("python:no_such_module_here:x", JudgeOptions(), "there is no module"),
        ("python:acc.testing:queries", JudgeOptions(), "must be a judge"),
        ("python:acc.testing:FrozenClock", JudgeOptions(), "must be a judge"),
        ("python:acc.testing:verdict", JudgeOptions(), "cannot create"),
    ],
)
def test_invalid_judge_is_rejected(judge: str, options: JudgeOptions, fault: str) -> None:
    with pytest.raises(InvalidInput, match=fault):
        CONFIGURATOR.judge(judge, options)


def test_local_models_are_rejected_as_judges() -> None:
    assert CONFIGURATOR.judge_objection("local")
    assert CONFIGURATOR.judge_objection("local:path.gguf")
    assert not CONFIGURATOR.judge_objection("localai:big")
    assert not CONFIGURATOR.judge_objection("anyone:large")


def test_temperature_is_part_of_the_model_name(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make(name: str) -> ScriptedModel:
        made.append(name)
        return ScriptedModel()

    monkeypatch.setattr(models, "make_model", make)
    configured = CONFIGURATOR.judge("model:host:large", JudgeOptions(votes=3, drives=True))
    assert configured is not None
    assert (configured.model, configured.temperature) == ("host:large?temperature=0", 0)
    assert (configured.votes, configured.drives) == (3, True)
    own = CONFIGURATOR.judge("model:host:large?seed=1&temperature=0.3")
    assert own is not None
    assert (own.model, own.temperature) == ("host:large?seed=1&temperature=0.3", 0.3)
    more = CONFIGURATOR.judge("model:host:large?seed=1")
    assert more is not None
    assert more.model == "host:large?seed=1&temperature=0"
    forced = CONFIGURATOR.judge("model:local", JudgeOptions(force=True))
    assert forced is not None
    assert (forced.model, forced.temperature) == ("local", None)
    assert isinstance(open_judge("model:local", forced), ModelJudge)
    assert made[-1] == "local"


def test_python_judge_and_python_model_are_accepted() -> None:
    assert CONFIGURATOR.judge("python:acc.testing:ScriptedJudge") is None
    assert isinstance(open_judge("python:acc.testing:ScriptedJudge", None), ScriptedJudge)
    configured = CONFIGURATOR.judge("python:acc.testing:ScriptedModel", JudgeOptions(votes=2))
    assert isinstance(configured, JudgeConfig)
    assert isinstance(open_judge("python:acc.testing:ScriptedModel", configured), ModelJudge)


def test_judge_configuration_contains_a_prompt_digest() -> None:
    one = judge_configuration("any")
    assert one == judge_configuration("any")
    assert len(one.prompts) == 16
    with pytest.raises(ValueError, match="votes must be at least 1"):
        JudgeConfig(
            model="any",
            temperature=None,
            votes=0,
            both_orders=False,
            drives=False,
            repairs=0,
            timeout=1,
            prompts="",
            schema=1,
        )


async def test_shipped_examples_are_the_default() -> None:
    calibration = make_calibration("rubric", None, resources=ModelResources(), cost=CostTracker())
    results = [one async for some in calibration.run(load_calibration_cases()) for one in some]
    assert len(results) >= 400
    assert all(result.is_scored for result in results)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "at least one agent"),
        ("a b=acc", "must consist of letters"),
        ("=acc", "must consist of letters"),
        ("nobody", "unknown agent 'nobody'"),
        ("acc,acc", "must be unique"),
        ("mine=python:no_such_module_here:x", "there is no module"),
        ("far=a2a:not a url", "not a url"),
        ("own=acc:no_model", "no_model"),
        ("bm25@5", "at least 32 tokens"),
        ("bm25@many", "must be a number of tokens, such as bm25@512, got 'many'"),
        ("akk", "did you mean 'acc'"),
        ("mine=my_module:agent", "did you mean mine=python:my_module:agent"),
        ("mine=agents.py:agent", "did you mean mine=python:agents.py:agent"),
        ("python:my_module:agent", "did you mean NAME=python:my_module:agent"),
        ("far=http://127.0.0.1:1", "did you mean far=a2a:http://127.0.0.1:1"),
        ("oracle@512", "has no token budget"),
    ],
)
def test_invalid_agents_are_rejected(text: str, error: str) -> None:
    with pytest.raises(InvalidInput, match=error):
        CONFIGURATOR.agents(text)


def test_agents_have_the_budgets_of_their_names() -> None:
    chosen = CONFIGURATOR.agents("bm25@700,baseline@600,own=acc:embedded@800")
    assert [(agent.name, agent.kind) for agent in chosen] == [
        ("bm25-700", "bm25@700"),
        ("baseline-600", "transcript@600"),
        ("own", "acc:embedded@800"),
    ]


def test_equal_budget_is_every_memory_at_the_budget_of_acc() -> None:
    request = EvaluationRequest(scenario="it-operations", agents="equal-budget", budget=300)
    budgets = memory_budgets(CONFIGURATOR.configure(request))
    tokens = {name: budget["tokens"] for name, budget in budgets.items()}
    equal = ("transcript", "last-n", "retrieval", "bm25", "summary", "acc")
    assert tokens == {"full": None, **dict.fromkeys(equal, 300), "oracle": None}


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        ({"memory": None, "tokens": None}, "not known"),
        ({"memory": "retrieval", "tokens": None}, "5 messages"),
        ({"memory": "full", "tokens": None}, "none"),
        ({"memory": "acc", "tokens": 1024}, "1,024"),
    ],
)
def test_budget_is_stated_as_words(budget: dict[str, str | int | None], text: str) -> None:
    assert budget_text(budget) == text


def test_agents_have_names_and_kinds() -> None:
    chosen = CONFIGURATOR.agents("baseline, own=acc:embedded ,mine=python:acc.testing:queries")
    assert [(agent.name, agent.kind) for agent in chosen] == [
        ("baseline", "transcript"),
        ("own", "acc:embedded"),
        ("mine", "python:acc.testing:queries"),
    ]


def test_scenarios_must_exist_and_be_unique() -> None:
    assert len(CONFIGURATOR.scenarios("all")) == 24
    assert [one.id for one in CONFIGURATOR.scenarios("it-operations, finance-operations")] == [
        "it-operations",
        "finance-operations",
    ]
    for text, error in (
        (" , ", "at least one scenario"),
        ("it-operations,it-operations", "must be unique"),
        ("nothing", "unknown scenario 'nothing'"),
    ):
        with pytest.raises(InvalidInput, match=error):
            CONFIGURATOR.scenarios(text)


@pytest.mark.parametrize("field", ["episodes", "turns", "window", "budget", "timeout", "seed"])
def test_numbers_out_of_range_are_rejected_with_their_option(field: str) -> None:
    with pytest.raises(InvalidInput, match=f"--{field} must be at least"):
        CONFIGURATOR.configure(EvaluationRequest(**{field: -1}))  # type: ignore[arg-type]


def test_run_name_is_that_of_a_single_scenario_or_all() -> None:
    one = CONFIGURATOR.configure(EvaluationRequest(scenario="finance-operations", episodes=3))
    assert run_name(one).startswith("finance-operations-3x-")
    assert run_name(CONFIGURATOR.configure(EvaluationRequest())).startswith("all-2x-")


def test_compressor_model_must_exist() -> None:
    with pytest.raises(InvalidInput, match="no_model"):
        CONFIGURATOR.configure(EvaluationRequest(compressor="no_model"))


def test_path_of_a_local_model_is_a_judge_and_rejected_without_force() -> None:
    name = judge_reference("local:/models/small-1.5b.gguf")
    assert name == "model:local:/models/small-1.5b.gguf"
    assert judge_reference("rubric") == "rubric"
    with pytest.raises(InvalidInput, match="rejected as a judge"):
        CONFIGURATOR.judge(name)


def test_judge_of_several_models_has_a_vote_for_each() -> None:
    configured = CONFIGURATOR.judge("model:openai:large,model:openai:other", JudgeOptions())
    assert configured is not None
    assert configured.models == ("openai:large?temperature=0", "openai:other?temperature=0")
    assert configured.votes == 2
    assert judge_reference("model:openai:a,local:b.gguf") == "model:openai:a,model:local:b.gguf"
