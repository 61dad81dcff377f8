"""A judge that writes the queries."""

import json

import pytest
from judging_model import JudgingModel

from acc.adapters.evaluation.judge_prompts import SchemaAsker
from acc.adapters.evaluation.model_judge import LONGEST_QUERY, TOPICS, ModelExaminer
from acc.adapters.evaluation.scenarios import load
from acc.domain.errors import ModelOutputInvalid
from acc.domain.value_objects.scenario import Scenario, StressTopic
from acc.testing import ScriptedModel


def scenario(reference: str = "it-operations") -> Scenario:
    return load(reference).render(0)


def said(text: str) -> str:
    return json.dumps({"query": text}, ensure_ascii=False)


async def test_the_next_query_follows_from_topic_and_memory_and_ends_with_the_scenario() -> None:
    model = JudgingModel()
    examiner = ModelExaminer(SchemaAsker(model), scenario(), turns=2)
    memory = {"facts": {"F1.1": {"text": "The fan is loud.", "quote": "loud", "turn": 1}}}
    query = await examiner.next_query(2, memory)
    assert query is not None
    assert (query.turn_id, query.query) == (2, "Depot number 2 holds 2 crates.")
    assert "The fan is loud." in model.asked[0].query
    assert "Turn 2 of 2" in model.asked[0].query
    assert await examiner.next_query(3, memory) is None


async def test_nothing_of_the_annotations_reaches_the_model() -> None:
    model = JudgingModel()
    script = scenario()
    await ModelExaminer(SchemaAsker(model), script).next_query(1, {})
    assert script.turns[0].query not in model.asked[0].query
    assert not any(
        fact.text in model.asked[0].query for turn in script.turns for fact in turn.facts
    )


async def test_a_japanese_scenario_is_driven_in_japanese() -> None:
    model = ScriptedModel(said("The stock is low."), said("在庫は3箱です。"))
    examiner = ModelExaminer(SchemaAsker(model), scenario("it-operations-ja"))
    query = await examiner.next_query(1, {})
    assert query is not None
    assert query.query == "在庫は3箱です。"
    assert "must be in Japanese" in model.requests[1].messages[-1].text


@pytest.mark.parametrize("text", ["", "   ", "x" * (LONGEST_QUERY + 1), "在庫は3箱です。", "12345"])
async def test_a_query_without_use_ends_the_episode_with_a_reason(text: str) -> None:
    examiner = ModelExaminer(SchemaAsker(ScriptedModel(said(text), repeat=True)), scenario())
    with pytest.raises(ModelOutputInvalid, match="the judge that drives"):
        await examiner.next_query(1, {})


def test_every_topic_has_its_brief() -> None:
    assert set(TOPICS) == set(StressTopic)
