"""Used models, prices, cost limits and plans."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from acc.application.agents.base import BaseAgent
from acc.application.agents.llm import LlmAgent
from acc.application.agents.workflow import SequentialAgent
from acc.application.evaluation.cost import (
    CostTracker,
    UsedModel,
    check_cost_limit,
    check_models_ready,
    check_prices_known,
    cost_limit_note,
    parse_prices,
    unmetered_participants,
    used_models,
)
from acc.application.evaluation.plan import EarlierRun, EvaluationPlanner, RecordedRun
from acc.application.evaluation.token_estimate import PromptSizes
from acc.application.runtime.agent_memory import MemoryName
from acc.bootstrap.evaluation import evaluation_sources, scenario_library
from acc.bootstrap.models import ProviderModel
from acc.cli.eval import configure
from acc.cli.eval_options import EvaluationOptions
from acc.domain.cost import Accounts, CostCategory, ModelCall, Price
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.evaluation_run import AgentChoice, EvaluationConfig, JudgeConfig

AGENT, COMPRESSOR, JUDGE = CostCategory.AGENT, CostCategory.COMPRESSOR, CostCategory.JUDGE
TREE = SequentialAgent(
    name="desk",
    sub_agents=[
        LlmAgent(name="first", model=ProviderModel("openai:held", api_key_env="KEY")),
        LlmAgent(name="second", model="openai:named", memory=MemoryName("acc:openai:writer")),
        LlmAgent(name="third"),
    ],
)


class Catalog:
    """Every model costs 1 dollar per call except `free`; `unknown` has no price."""

    def __init__(self) -> None:
        self.checked: list[str] = []

    def names(self, name: str) -> tuple[str, ...]:
        return tuple(name.split("|"))

    def object_name(self, model: object) -> str:
        return model.name if isinstance(model, ProviderModel) else ""

    def provider_name(self, name: str) -> str:
        return "" if name == "local" else name.partition("?")[0]

    def has_price(self, name: str, prices: Mapping[str, Price]) -> bool:
        return name in prices

    def cost(
        self, name: str, prices: Mapping[str, Price], *, input_tokens: int, output_tokens: int
    ) -> float | None:
        return None if name == "unknown" else 0.0 if name == "free" else 1.0

    def check_ready(self, name: str) -> None:
        self.checked.append(name)

    def check_cache(self, folder: Path) -> None:
        self.checked.append(str(folder))

    def agent_tree(self, reference: str) -> BaseAgent | None:
        return TREE if reference == "m:tree" else None


def config(*agents: tuple[str, str], **fields: object) -> EvaluationConfig:
    base = configure(EvaluationOptions(scenario="it-operations", episodes=2, turns=3))
    choices = tuple(AgentChoice(name=name, kind=kind) for name, kind in agents)
    return replace(base, agents=choices, **fields)  # type: ignore[arg-type]


def judge(**fields: object) -> JudgeConfig:
    values = {
        "model": "openai:j",
        "temperature": 0.0,
        "votes": 1,
        "both_orders": False,
        "drives": False,
        "repairs": 2,
        "timeout": 120.0,
        "prompts": "x",
        "schema": 1,
    }
    return JudgeConfig(**(values | fields))  # type: ignore[arg-type]


def call(cost: float | None, *, from_cache: bool = False, failed: bool = False) -> ModelCall:
    return ModelCall(category=AGENT, agent="a", cost=cost, from_cache=from_cache, failed=failed)


def test_used_models_are_those_of_agents_compressors_and_judge() -> None:
    used = used_models(
        config(
            ("baseline", "transcript"),
            ("acc", "acc"),
            ("own", "acc:openai:w"),
            ("far", "a2a:https://x.example"),
            model="openai:m|embedded",
            compressor="rules",
            judge="model:openai:j",
            judging=judge(),
        ),
        Catalog(),
    )
    assert [(one.category, one.agent, one.name) for one in used] == [
        (AGENT, "baseline", "openai:m"),
        (AGENT, "acc", "openai:m"),
        (AGENT, "own", "openai:m"),
        (COMPRESSOR, "own", "openai:w"),
        (JUDGE, "", "openai:j"),
    ]


def test_used_models_of_a_tree_include_objects_and_compressors() -> None:
    used = used_models(config(("tree", "python:m:tree"), ("code", "python:m:f")), Catalog())
    assert [(one.category, one.name, one.is_object) for one in used] == [
        (AGENT, "openai:held", True),
        (AGENT, "openai:named", False),
        (COMPRESSOR, "openai:writer", False),
    ]


def test_user_code_and_remote_agents_are_not_metered() -> None:
    agents = (("tree", "python:m:tree"), ("code", "python:m:f"), ("far", "a2a:https://x.example"))
    assert unmetered_participants(config(*agents), Catalog()) == ("code", "far")
    own_judge = config(("acc", "acc"), judge="python:m:judge")
    assert unmetered_participants(own_judge, Catalog()) == ("judge",)
    assert cost_limit_note(1.0, ("code", "far")).count("code, far") == 1
    assert cost_limit_note(None, ("code",)) == cost_limit_note(1.0, ()) == ""


def test_price_of_an_unused_model_is_rejected() -> None:
    used = [
        UsedModel(category=AGENT, agent="a", name=name) for name in ("local", "openai:m?seed=1")
    ]
    assert parse_prices(["openai:m=1/2"], used, Catalog()) == {"openai:m": Price(input=1, output=2)}
    with pytest.raises(InvalidInput, match="used: openai:m"):
        parse_prices(["other=1/2"], used, Catalog())
    with pytest.raises(InvalidInput, match="used: none"):
        parse_prices(["other=1/2"], used[:1], Catalog())


@pytest.mark.parametrize("limit", [0.0, -1.0, float("inf"), float("nan")])
def test_cost_limit_must_be_positive_and_finite(limit: float) -> None:
    check_cost_limit(None)
    check_cost_limit(0.01)
    with pytest.raises(InvalidInput, match="--max-cost"):
        check_cost_limit(limit)


def test_cost_limit_requires_known_prices() -> None:
    unknown = [UsedModel(category=AGENT, agent="a", name="unknown")]
    check_prices_known(None, unknown, {}, Catalog())
    check_prices_known(1.0, [UsedModel(category=JUDGE, agent="", name="free")], {}, Catalog())
    with pytest.raises(InvalidInput, match="--price unknown=IN/OUT"):
        check_prices_known(1.0, unknown, {}, Catalog())


def test_models_are_checked_once_and_with_a_cache_only_the_cache() -> None:
    used = [
        UsedModel(category=AGENT, agent="a", name="openai:m"),
        UsedModel(category=JUDGE, agent="", name="openai:m"),
        UsedModel(category=AGENT, agent="b", name="openai:own", is_object=True),
    ]
    catalog = Catalog()
    check_models_ready(used, None, catalog)
    assert catalog.checked == ["openai:m"]
    catalog = Catalog()
    check_models_ready(used, Path("cache"), catalog)
    check_models_ready([UsedModel(category=AGENT, agent="a", name="local")], Path("c"), catalog)
    assert catalog.checked == ["cache"]


def test_tracker_is_exhausted_at_the_limit_or_by_an_unpriced_call() -> None:
    free = CostTracker()
    free.record(call(None))
    assert not free.is_exhausted
    limited = CostTracker(accounts=Accounts([call(None), call(0.4)]), limit=0.5)
    limited.record(call(None, failed=True))
    limited.record(call(None, from_cache=True))
    assert not limited.is_exhausted, "recorded, failed and cached calls do not count as unpriced"
    limited.record(call(0.1))
    assert limited.is_exhausted
    assert "$0.5000" in limited.stop_reason()
    unpriced = CostTracker(limit=9.0)
    unpriced.record(call(None))
    assert unpriced.is_exhausted
    assert "1 calls is unknown" in unpriced.stop_reason()


class OneTokenPerWord:
    def count(self, text: str) -> int:
        return len(text.split())


def planner(catalog: Catalog | None = None) -> EvaluationPlanner:
    sizes = PromptSizes(
        instruction=10,
        compressor=100,
        read=50,
        audit=70,
        audit_again=60,
        score=40,
        drive=30,
        window=1_000,
        budget=512,
    )
    return EvaluationPlanner(
        catalog=catalog or Catalog(),
        scenarios=scenario_library(),
        tokens=OneTokenPerWord(),
        sizes=sizes,
    )


def test_plan_excludes_recorded_turns_and_prices_each_call() -> None:
    agents = (("baseline", "transcript"), ("acc", "acc"))
    evaluation = config(*agents, model="openai:m", compressor="openai:c")
    plan = planner().plan(evaluation, recorded=RecordedRun(turns={}), prices={})
    assert (plan.episodes, plan.turns, plan.recorded, plan.spent) == (2, 6, 0, 0.0)
    by_name = {part.name: part for part in plan.parts}
    assert list(by_name) == ["baseline", "acc", "compressor of acc"]
    assert by_name["baseline"].cost == (6.0, 6.0)
    assert by_name["compressor of acc"].cost == (6.0, 12.0)
    assert plan.cost == (18.0, 24.0)
    assert plan.total.calls == (18, 24)
    recorded = RecordedRun(turns={"it-operations.000000": 3, "it-operations.000001": 1}, cost=0.5)
    rest = planner().plan(evaluation, recorded=recorded, prices={})
    assert (rest.recorded, rest.spent) == (4, 0.5)
    assert rest.parts[0].cost == (2.0, 2.0)


def test_plan_of_complete_episodes_costs_nothing() -> None:
    evaluation = config(("baseline", "transcript"), model="openai:m")
    recorded = RecordedRun(turns={"it-operations.000000": 3, "it-operations.000001": 3})
    plan = planner().plan(evaluation, recorded=recorded, prices={})
    assert plan.cost == (0.0, 0.0)


def test_plan_uses_the_cheapest_and_the_most_expensive_alternative() -> None:
    evaluation = config(("baseline", "transcript"), model="free|openai:m")
    plan = planner().plan(evaluation, recorded=RecordedRun(turns={}), prices={})
    assert plan.parts[0].models == ("free", "openai:m")
    assert plan.parts[0].cost == (0.0, 6.0)


def test_plan_has_no_cost_for_unknown_prices_and_no_estimate_for_user_code() -> None:
    agents = (("baseline", "transcript"), ("tree", "python:m:tree"))
    evaluation = config(*agents, model="unknown")
    plan = planner().plan(evaluation, recorded=RecordedRun(turns={}), prices={})
    assert plan.parts[0].cost is None
    assert plan.parts[1].estimate is None
    assert plan.cost is None


def recorded_calls(agent: str, output: int) -> tuple[ModelCall, ...]:
    """Return a call with 100 input tokens for each of three turns."""
    return tuple(
        ModelCall(category=AGENT, agent=agent, turn=turn, input_tokens=100, output_tokens=output)
        for turn in (1, 2, 3)
    )


def test_plan_of_user_code_uses_calls_and_tokens_per_turn_of_an_earlier_run() -> None:
    evaluation = config(("tree", "python:m:tree"), model="openai:m")
    calls = recorded_calls("tree", 7) + recorded_calls("tree", 9)
    before = RecordedRun(turns={"it-operations.000000": 3}, calls=calls)
    earlier = EarlierRun(name="pilot", configuration=evaluation, recorded=before)
    plan = planner().plan(evaluation, recorded=RecordedRun(turns={}), prices={}, earlier=earlier)
    (part,) = (part for part in plan.parts if part.category is AGENT)
    assert part.is_measured
    assert part.estimate is not None
    assert part.estimate.calls == (12, 12)
    assert part.estimate.input == (1_200, 1_200)
    assert part.estimate.output == (96, 96)


def test_agent_with_another_memory_is_not_measured_but_answers_like_its_model() -> None:
    first = config(("own", "transcript"), model="openai:m")
    second = config(("own", "retrieval"), ("same", "transcript"), model="openai:m")
    before = RecordedRun(turns={"it-operations.000000": 3}, calls=recorded_calls("own", 7))
    earlier = EarlierRun(name="pilot", configuration=first, recorded=before)
    plan = planner().plan(second, recorded=RecordedRun(turns={}), prices={}, earlier=earlier)
    assert [part.is_measured for part in plan.parts] == [False, False]
    outputs = [part.estimate.output for part in plan.parts if part.estimate]
    assert outputs == [(42, 42), (42, 42)]
    required = replace(earlier, is_required=True)
    with pytest.raises(InvalidInput, match="no recorded calls"):
        planner().plan(second, recorded=RecordedRun(turns={}), prices={}, earlier=required)


def test_estimate_of_a_window_is_that_of_each_configuration() -> None:
    narrow = config(("a", "transcript"), model="openai:m", window=20)
    wide = config(("a", "transcript"), model="openai:m", window=2_000)
    before = RecordedRun(turns={"it-operations.000000": 3}, calls=recorded_calls("a", 7))
    earlier = EarlierRun(name="pilot", configuration=narrow, recorded=before)
    nothing = RecordedRun(turns={})
    same = planner().plan(narrow, recorded=nothing, prices={}, earlier=earlier).parts[0]
    more = planner().plan(wide, recorded=nothing, prices={}, earlier=earlier).parts[0]
    assert same.estimate is not None
    assert same.estimate.input == (600, 600)
    assert more.estimate is not None
    assert more.estimate.input.low > 600


@pytest.mark.parametrize(
    ("fields", "calls"), [({}, 6 * 3), ({"both_orders": True}, 6 * 4), ({"drives": True}, 6 * 5)]
)
def test_plan_of_a_model_judge_counts_its_orders(fields: dict[str, object], calls: int) -> None:
    evaluation = config(
        ("baseline", "transcript"),
        ("acc", "acc"),
        judge="model:openai:j",
        judging=judge(**fields),
    )
    plan = planner().plan(evaluation, recorded=RecordedRun(turns={}), prices={})
    (part,) = plan.parts
    assert part.estimate is not None
    assert part.estimate.calls.low == calls


def test_catalog_resolves_names_prices_and_trees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWN_MODEL", "openai:m|embedded")
    (tmp_path / "catalog_tree.py").write_text(
        "from acc import Agent\ndef tree():\n    return Agent(name='a')\nasync def late(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "catalog_tree", raising=False)
    sources = evaluation_sources()
    assert sources.names("env:OWN_MODEL") == ("openai:m", "embedded")
    assert sources.provider_name("openai:m?seed=1") == "openai:m"
    assert sources.provider_name("embedded") == ""
    prices = {"openai:m": Price(input=1, output=1)}
    assert sources.has_price("openai:m", prices)
    assert not sources.has_price("embedded", prices)
    million = {"input_tokens": 1_000_000, "output_tokens": 0}
    assert sources.cost("openai:m", prices, **million) == 1.0
    assert sources.cost("embedded", {}, **million) == 0.0
    assert sources.cost("openai-compatible:m@http://127.0.0.1:1/v1", {}, **million) is None
    assert sources.agent_tree("catalog_tree:tree") is not None
    assert sources.agent_tree("catalog_tree:late") is None
