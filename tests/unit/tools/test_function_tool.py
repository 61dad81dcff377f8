"""Functions as tools: schemas, docstrings and conversion of arguments."""

import inspect
import math
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, Optional, TypedDict

import msgspec
import pytest
from agent_support import WHO, approve_all, results, turn
from pydantic import BaseModel, ConfigDict, Field, create_model

from acc import Agent, AgentTool, BaseAgent, FunctionTool, Runner, ToolContext, tool
from acc.domain.errors import InvalidTree
from acc.testing import ScriptedModel, call


class Level(Enum):
    LOW = "low"
    HIGH = "high"


@dataclass
class Address:
    street: str
    city: str = "Rome"


class Size(TypedDict):
    width: int
    height: int


def properties(made: FunctionTool) -> dict[str, Any]:
    found: dict[str, Any] = made.spec.parameters["properties"]
    return found


def test_tool_has_name_description_and_schema_of_function() -> None:
    @tool
    def book(city: str, nights: int, breakfast: bool = False) -> str:
        """Book a hotel.

        It is binding.

        Args:
            city: Where to stay.
            nights (int): For how long,
                counted in nights.
            breakfast: Whether to eat.
            stranger: Not an argument.

        Returns:
            city: A confirmation.
        """
        return f"{nights} nights in {city}, {breakfast}"

    assert book.spec.name == "book"
    assert book.spec.description == "Book a hotel.\n\nIt is binding."
    assert book.spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where to stay."},
            "nights": {"type": "integer", "description": "For how long, counted in nights."},
            "breakfast": {"type": "boolean", "default": False, "description": "Whether to eat."},
        },
        "required": ["city", "nights"],
        "additionalProperties": False,
    }
    assert book("Rome", nights=2) == "2 nights in Rome, False"
    assert inspect.getdoc(book) == inspect.getdoc(book.func)


def test_rest_docstrings_describe_arguments() -> None:
    @tool
    def add(x: int, y: int) -> int:
        """Add two numbers.

        :param x: The first,
            a whole number.
        :type x: int
        :param int y: The second.
        :returns: The sum.
        """
        return x + y

    assert add.spec.description == "Add two numbers."
    assert properties(add) == {
        "x": {"type": "integer", "description": "The first, a whole number."},
        "y": {"type": "integer", "description": "The second."},
    }


@pytest.mark.parametrize("colon", [":", "："])
def test_japanese_docstrings_describe_arguments(colon: str) -> None:
    def 予約(city: str, nights: int) -> str:
        return city * nights

    予約.__doc__ = "\n".join(
        [
            "ホテルを予約する。",
            f"引数{colon}",
            f"    city{colon} 都市名",
            f"    nights（整数）{colon} 泊数",
            f"戻り値{colon}",
            "    確認番号",
        ]
    )
    made = tool(予約)
    assert (made.spec.name, made.spec.description) == ("予約", "ホテルを予約する。")
    described = {name: each["description"] for name, each in properties(made).items()}
    assert described == {"city": "都市名", "nights": "泊数"}


def test_paragraph_after_arguments_is_description() -> None:
    @tool
    def find(day: str) -> str:
        """Find it.

        Args:
            day: The day.
                Example: 2024-01-01

        It may take a while.
        """
        return day

    assert find.spec.description.split() == ["Find", "it.", "It", "may", "take", "a", "while."]


def test_supported_types_have_schemas() -> None:
    @tool
    def order(
        item: Annotated[str, msgspec.Meta(description="What.", max_length=20)],
        kind: Literal["new", "used"],
        level: Level,
        size: Size,
        address: Address,
        note: str | None = None,
        tags: list[str] = ["a"],  # noqa: B006 - that is the point
        extra: dict[str, float] = {},  # noqa: B006
        *,
        count: Annotated[int, msgspec.Meta(ge=1)] = 1,
    ) -> str:
        """Order something.

        Args:
            item: Less than the annotation.
        """
        return f"{item} {kind} {level} {size} {address} {note} {tags} {extra} {count}"

    schema = order.spec.parameters
    assert schema["required"] == ["item", "kind", "level", "size", "address"]
    assert properties(order) == {
        "item": {"type": "string", "maxLength": 20, "description": "What."},
        "kind": {"enum": ["new", "used"]},
        "level": {"$ref": "#/$defs/Level"},
        "size": {"$ref": "#/$defs/Size"},
        "address": {"$ref": "#/$defs/Address"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "tags": {"type": "array", "items": {"type": "string"}},
        "extra": {"type": "object", "additionalProperties": {"type": "number"}},
        "count": {"type": "integer", "minimum": 1, "default": 1},
    }
    assert set(schema["$defs"]) == {"Level", "Size", "Address"}
    assert schema["$defs"]["Level"]["enum"] == ["high", "low"]
    assert schema["$defs"]["Size"]["required"] == ["height", "width"]


def test_arguments_are_converted_to_declared_types() -> None:
    @tool
    def order(level: Level, size: Size, address: Address, note: str | None = None) -> None:
        """Order."""

    taken = order.validate(
        {"level": "high", "size": {"width": 1, "height": 2}, "address": {"street": "Via Po"}}
    )
    assert taken == {
        "level": Level.HIGH,
        "size": {"width": 1, "height": 2},
        "address": Address("Via Po", "Rome"),
        "note": None,
    }


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "missing required field `n`"),
        ({"n": "1"}, "Expected `int`, got `str`"),
        ({"n": 0}, "Expected `int` >= 1"),
        ({"n": 1, "m": 2}, "unknown field `m`"),
    ],
)
def test_invalid_arguments_raise_validation_error(arguments: dict[str, Any], fault: str) -> None:
    @tool
    def take(n: Annotated[int, msgspec.Meta(ge=1)]) -> None:
        """Take."""

    with pytest.raises(msgspec.ValidationError, match=fault):
        take.validate(arguments)


def test_default_values_are_valid_arguments() -> None:
    @tool
    def pay(
        amount: int,
        note: str = None,  # type: ignore[assignment]
        share: Annotated[float, msgspec.Meta(le=1)] = None,  # type: ignore[assignment]
        most: int = math.inf,  # type: ignore[assignment]
        parts: list[float] = [math.nan],  # noqa: B006
    ) -> str:
        """Pay."""
        return "paid"

    assert properties(pay)["note"] == {
        "anyOf": [{"type": "string"}, {"type": "null"}],
        "default": None,
    }
    assert properties(pay)["most"] == {"type": "integer"}
    assert "default" not in properties(pay)["parts"]
    given = {"amount": 1, "note": None, "share": None}
    assert pay.validate(given).items() >= {**given, "most": math.inf}.items()


def test_mutable_default_is_copied_per_call() -> None:
    @tool
    def take(items: list[list[int]] = [[1]]) -> None:  # noqa: B006 - that is the point
        """Take."""

    take.validate({})["items"][0].append(2)
    take.validate({})["items"].append([3])
    assert take.validate({}) == {"items": [[1]]}


def test_tool_context_is_not_an_argument() -> None:
    @tool
    def by_type(n: int, anything: ToolContext) -> None:
        """One."""

    @tool
    def by_name(tool_context, n: int) -> None:  # type: ignore[no-untyped-def] # that is the point
        """Two."""

    @tool
    def text(context: str) -> None:
        """Three."""

    @tool
    def at_will(n: int, ctx: ToolContext | None = None) -> None:
        """Four."""

    @tool
    def with_a_note(n: int, ctx: Annotated[Optional[ToolContext], "the run"]) -> None:  # noqa: UP045
        """Five."""

    assert list(properties(by_type)) == list(properties(by_name)) == ["n"]
    assert list(properties(at_will)) == list(properties(with_a_note)) == ["n"]
    assert list(properties(text)) == ["context"]


def test_tool_without_arguments_has_empty_schema() -> None:
    @tool
    def now() -> str:
        return "now"

    assert now.spec.parameters["properties"] == {}
    assert now.spec.description == ""


def test_tool_decorator_accepts_options() -> None:
    @tool(name="pay_out", description="Pays.", confirm=True, requires="pay", timeout=3)
    def pay(amount: int) -> None:
        """Not this."""

    assert (pay.spec.name, pay.spec.description) == ("pay_out", "Pays.")
    assert (pay.confirm, pay.requires, pay.timeout) == (True, "pay", 3)


def test_methods_functions_and_agents_can_be_tools() -> None:
    class Shop:
        def price(self, item: str) -> int:
            """Return a price."""
            return len(item)

    agent = Agent(
        name="a",
        tools=[
            Shop().price,
            BaseAgent(name="helper", description="Helps."),
            AgentTool(agent=BaseAgent(name="b"), name="second", description="Also."),
        ],
    )
    assert list(agent.own_tools) == ["price", "helper", "second"]
    assert agent.own_tools["second"].spec.description == "Also."
    assert agent.own_tools["helper"].spec.parameters["required"] == ["request"]


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


async def test_pydantic_output_is_stored_as_data() -> None:
    model = ScriptedModel(
        '{"no": 0}', '{"no": 1, "guests": [{"name": "Ann", "born": "2001-02-03"}]}'
    )
    agent = Agent(name="a", model=model, output_schema=Table, output_key="table", memory=None)
    result = await turn(agent)
    assert result.state == {"table": {"no": 1, "guests": [ANN]}}
    actual = model.requests[1].messages[-1].parts[0].text
    assert actual is not None
    assert "greater than or equal to 1" in actual
    assert model.requests[0].output_schema == Table.model_json_schema()


async def test_pydantic_models_may_be_nested() -> None:
    model = ScriptedModel('{"tables": [{"no": 2}]}')
    agent = Agent(name="a", model=model, output_schema=Room, output_key="room", memory=None)
    assert (await turn(agent)).state == {
        "room": {"tables": [{"no": 2, "guests": []}], "name": "hall"}
    }
    assert agent.json_schema is not None
    assert set(agent.json_schema["$defs"]) == {"Guest", "Room"}


async def test_tool_accepts_and_returns_pydantic_models() -> None:
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
    assert results(await approve_all(runner, waiting)) == [table]
    guest = Guest(name="Ann", born=date(2001, 2, 3))
    assert seated == [(Table(no=1, guests=[guest]), Guest(name="Bo"))]


def test_different_models_of_same_name_are_rejected() -> None:
    other = create_model("Other", guest=create_model("Guest", number=(int, ...)))
    with pytest.raises(InvalidTree, match="Guest"):
        Agent(name="a", output_schema=tuple[Table, other])  # type: ignore[valid-type]


def test_unsupported_output_type_is_rejected() -> None:
    reason = "output_schema: Runner cannot be decoded"
    with pytest.raises(InvalidTree, match=reason):
        Agent(name="a", output_schema=list[Runner])
