"""Classes of pydantic's as what a model answers, and as what tools take and return."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model
from small_agents import WHO, approved, results, turn

from acc import Agent, Runner, tool
from acc.domain.errors import InvalidTree
from acc.testing import ScriptedModel, call


class Guest(BaseModel):
    name: str
    born: date | None = None


class Table(BaseModel):
    model_config = ConfigDict(strict=True)

    number: int = Field(alias="no", ge=1)
    guests: list[Guest] = []


@dataclass
class Room:
    tables: list[Table]
    name: str = "hall"


ANN = {"name": "Ann", "born": "2001-02-03"}


async def test_an_answer_that_fits_a_pydantic_model_is_kept_as_data() -> None:
    model = ScriptedModel(
        '{"no": 0}', '{"no": 1, "guests": [{"name": "Ann", "born": "2001-02-03"}]}'
    )
    agent = Agent(name="a", model=model, output_schema=Table, output_key="table", memory=None)
    result = await turn(agent)
    assert result.state == {"table": {"no": 1, "guests": [ANN]}}
    told = model.asked[1].messages[-1].parts[0].text
    assert told is not None
    assert "greater than or equal to 1" in told
    assert model.asked[0].output_schema == Table.model_json_schema()


async def test_pydantic_models_may_stand_within_other_types() -> None:
    model = ScriptedModel('{"tables": [{"no": 2}]}')
    agent = Agent(name="a", model=model, output_schema=Room, output_key="room", memory=None)
    assert (await turn(agent)).state == {
        "room": {"tables": [{"no": 2, "guests": []}], "name": "hall"}
    }
    assert agent.json_schema is not None
    assert set(agent.json_schema["$defs"]) == {"Guest", "Room"}


async def test_a_tool_takes_and_returns_pydantic_models() -> None:
    seated: list[Any] = []

    @tool(confirm=True)
    def seat(table: Table, host: Guest = Guest(name="Bo")) -> Table:  # noqa: B008
        """Seat guests."""
        seated.append((table, host))
        return table

    model = ScriptedModel(
        call("seat", table={"no": 0}), call("seat", table={"no": 1, "guests": [ANN]}), "done"
    )
    runner = Runner(Agent(name="a", model=model, tools=[seat], memory=None))
    waiting = await runner.run(**WHO, message="go")
    assert "invalid arguments for seat" in results(waiting)[0]["error"]
    (request,) = waiting.requests
    table = {"no": 1, "guests": [ANN]}
    assert request.arguments == {"table": table, "host": {"name": "Bo", "born": None}}
    assert results(await approved(runner, waiting)) == [table]
    guest = Guest(name="Ann", born=date(2001, 2, 3))
    assert seated == [(Table(no=1, guests=[guest]), Guest(name="Bo"))]


def test_two_classes_of_one_name_are_refused() -> None:
    other = create_model("Other", guest=create_model("Guest", number=(int, ...)))
    with pytest.raises(InvalidTree, match="Guest"):
        Agent(name="a", output_schema=tuple[Table, other])  # type: ignore[valid-type]


def test_a_type_that_cannot_be_read_is_refused_with_those_that_can() -> None:
    reason = "output_schema: Runner cannot be decoded"
    with pytest.raises(InvalidTree, match=reason):
        Agent(name="a", output_schema=list[Runner])
