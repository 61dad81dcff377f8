"""Inputs that their JSON schema allows, but not the declared type, are rejected before a call."""

import enum
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, TypedDict

import httpx
import pytest
from pydantic import BaseModel

from acc import BaseAgent, InvalidInput, RunContext
from acc.a2a import create_app
from acc.application.contracts.remote_intents import parse_inputs
from acc.contracts import Field, IntentAgent, InvalidInputs, ToolNode, ToolSchema, intent


class Color(enum.Enum):
    RED = "red"


@dataclass
class Item:
    quantity: int
    color: Color = Color.RED


class Booking(TypedDict):
    day: date


class Payment(BaseModel):
    day: date


executed: list[Any] = []


@intent
def typed(
    item: Item | None = None,
    day: date | None = None,
    at: datetime | None = None,
    key: uuid.UUID | None = None,
    price: Decimal | None = None,
    data: bytes | None = None,
) -> str:
    """Take values of types that JSON does not have."""
    executed.append((item, day, at, key, price, data))
    return "done"


@intent
def book(inputs: Booking) -> dict[str, Any]:
    """Book a day."""
    executed.append(inputs)
    return {}


@intent(inputs=Payment)
def pay(inputs: dict[str, Any]) -> dict[str, Any]:
    """Pay on a day."""
    executed.append(inputs)
    return {}


class PlanSchema(ToolSchema):
    name = "plan"
    inputs = {"day": Field(type=date), "note": Field(type=str, default=None)}


class PlanNode(ToolNode):
    schema_class = PlanSchema

    def run(self, inputs: dict[str, Any], memory: Any, context: dict[str, Any]) -> dict[str, Any]:
        executed.append(inputs)
        return {"note": inputs["note"]}


class Ledger(BaseAgent):
    async def run(self, ctx: RunContext) -> dict[str, Any]:
        executed.append(ctx.message)
        return {}


@pytest.mark.parametrize(
    ("name", "inputs", "field"),
    [
        ("typed", {"item": {"quantity": 1e30}}, "item.quantity"),
        ("typed", {"day": "2026-13-01"}, "day"),
        ("typed", {"at": "yesterday"}, "at"),
        ("typed", {"key": "1"}, "key"),
        ("typed", {"price": "a lot"}, "price"),
        ("typed", {"data": "!"}, "data"),
        ("book", {"day": "soon"}, "day"),
        ("pay", {"day": "soon"}, "day"),
        ("plan", {"day": "soon"}, "day"),
        ("ledger", {"day": "soon"}, "day"),
    ],
)
async def test_value_of_the_wrong_type_is_rejected_and_leaves_no_task(
    name: str, inputs: dict[str, Any], field: str
) -> None:
    executed.clear()
    ledger = Ledger(name="ledger", input_schema=Booking)
    agent = IntentAgent(name="desk", intents=[typed, book, pay, PlanNode(), ledger])
    app = create_app(agent, public_url="http://desk", anonymous_listing=True)
    transport = httpx.ASGITransport(app)
    async with (
        app.lifespan(),
        httpx.AsyncClient(transport=transport, base_url="http://desk") as client,
    ):
        response = await client.post("/run", json={"intent": name, "inputs": inputs})
        assert response.status_code == 400, response.text
        assert f"'{field}'" in response.json()["error"]["message"]
        listed = await client.get("/tasks", headers={"A2A-Version": "1.0"})
        assert listed.json()["totalSize"] == 0
    assert executed == []


def test_valid_values_are_converted() -> None:
    executed.clear()
    key = uuid.uuid4()
    inputs = {
        "item": {"quantity": 2.0, "color": "red"},
        "day": "2026-01-31",
        "at": "2026-01-31T09:00:00Z",
        "key": str(key),
        "price": "1.50",
        "data": "aGk=",
    }
    assert typed.run(inputs, {}, {}) == {"result": "done"}
    moment = datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert executed == [(Item(2), date(2026, 1, 31), moment, key, Decimal("1.50"), b"hi")]


def test_parameter_and_field_may_have_the_default_none() -> None:
    @intent
    def note(text: str = None) -> str:  # type: ignore[assignment]
        """Return a note."""
        return f"note {text}"

    assert note.run({}, {}, {}) == {"result": "note None"}
    assert PlanNode().run({"day": "2026-01-31"}, {}, {}) == {"note": None}
    with pytest.raises(InvalidInputs):
        note.run({"text": 3}, {}, {})


def test_default_of_another_type_is_an_error_of_the_schema() -> None:
    with pytest.raises(InvalidInput, match="'limit'"):

        @intent(inputs={"limit": Field(type=int, default="ten")})
        def search(inputs: dict[str, Any]) -> dict[str, Any]:
            """Search."""
            return {}


def test_name_of_a_typed_intent_may_have_dots() -> None:
    @intent(name="shop.order")
    def order(item: str) -> str:
        """Order an item."""
        return item

    assert order.contract.name == "shop.order"
    assert order.run({"item": "tea"}, {}, {}) == {"result": "tea"}


def test_text_of_a_command_is_taken_literally_for_a_string_that_may_be_none() -> None:
    @intent(inputs={"note": Field(type=str, default=None), "limit": Field(type=int, default=None)})
    def search(inputs: dict[str, Any]) -> dict[str, Any]:
        """Search."""
        return {}

    pairs = ["note=12", "limit=12"]
    assert parse_inputs(pairs, search.contract) == {"note": "12", "limit": 12}
    nothing = ["note=null", "limit=null"]
    assert parse_inputs(nothing, search.contract) == {"note": None, "limit": None}
