"""A model judge that writes the queries."""

import json

import pytest
from judging_model import JudgingModel

from acc.adapters.evaluation.judge_prompts import SchemaAsker
from acc.adapters.evaluation.model_judge import MAX_QUERY_LENGTH, ModelQueryWriter
from acc.adapters.evaluation.scenarios import load_template
from acc.domain.errors import ModelOutputInvalid
from acc.domain.value_objects.scenario import Scenario
from acc.domain.value_objects.stress_topic import INSTRUCTIONS, StressTopic
from acc.testing import ScriptedModel


def scenario(reference: str = "it-operations") -> Scenario:
    return load_template(reference).render(0)


def query_json(text: str) -> str:
    return json.dumps({"query": text}, ensure_ascii=False)


async def test_query_is_written_from_topic_and_memory_until_the_scenario_ends() -> None:
    model = JudgingModel()
    writer = ModelQueryWriter(SchemaAsker(model), scenario(), turns=2)
    memory = {"facts": {"F1.1": {"text": "The fan is loud.", "quote": "loud", "turn": 1}}}
    query = await writer.next_query(2, memory)
    assert query is not None
    assert (query.turn_id, query.query) == (2, "Depot number 2 holds 2 crates.")
    assert "The fan is loud." in model.requests[0].query
    assert "Turn 2 of 2" in model.requests[0].query
    assert await writer.next_query(3, memory) is None


async def test_prompt_contains_no_annotation() -> None:
    model = JudgingModel()
    script = scenario()
    await ModelQueryWriter(SchemaAsker(model), script).next_query(1, {})
    assert script.turns[0].query not in model.requests[0].query
    assert not any(
        fact.text in model.requests[0].query for turn in script.turns for fact in turn.facts
    )


async def test_query_in_the_wrong_language_is_repaired() -> None:
    model = ScriptedModel(query_json("The stock is low."), query_json("在庫は3箱です。"))
    writer = ModelQueryWriter(SchemaAsker(model), scenario("it-operations-ja"))
    query = await writer.next_query(1, {})
    assert query is not None
    assert query.query == "在庫は3箱です。"
    assert "must be in Japanese" in model.requests[1].messages[-1].text


@pytest.mark.parametrize(
    "text", ["", "   ", "x" * (MAX_QUERY_LENGTH + 1), "在庫は3箱です。", "12345"]
)
async def test_invalid_query_fails_after_the_repairs(text: str) -> None:
    writer = ModelQueryWriter(SchemaAsker(ScriptedModel(query_json(text), repeat=True)), scenario())
    with pytest.raises(ModelOutputInvalid) as caught:
        await writer.next_query(1, {})
    assert caught.value.agent == "the judge that drives"


def test_every_topic_has_a_description() -> None:
    assert set(INSTRUCTIONS) == set(StressTopic)
