"""Structured output of the embedded model."""

import json
from dataclasses import dataclass
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from model_prompts import ask, ask_for_object, tool_exchange

from acc.adapters.embedded_model.schemas import accepts, empty_value, resolve_schema

WORDS = st.text(max_size=120)


@dataclass
class Order:
    order_id: str
    amount: int
    email: str | None = None
    express: bool = False


@dataclass
class Line:
    name: str
    quantity: int


@dataclass
class Basket:
    lines: list[Line]
    note: str = ""


@dataclass
class Report:
    answer: str
    severity: Literal["low", "high"]


async def test_schema_is_filled_from_query() -> None:
    found = await ask_for_object("Order A-12 over $250 for ann@example.org, express: yes", Order)
    assert found == {
        "order_id": "A-12",
        "amount": 250,
        "email": "ann@example.org",
        "express": True,
    }


async def test_unknown_optional_field_is_omitted() -> None:
    found = await ask_for_object("order_id: A-12, amount: 250", Order)
    assert found == {"order_id": "A-12", "amount": 250}


async def test_unknown_required_field_is_empty() -> None:
    found = await ask_for_object("Good morning.", Order)
    assert found == {"order_id": "", "amount": 0}
    assert await ask_for_object("Good morning.", Basket) == {"lines": []}


async def test_schema_is_filled_from_memory_and_results() -> None:
    found = await ask_for_object(
        "Summarise the order.", Order, memory="user: The order id is Z-5. The amount is 99."
    )
    assert found == {"order_id": "Z-5", "amount": 99}
    found = await ask_for_object(
        "Summarise the order.",
        Order,
        following=tool_exchange("find_order", {"order_id": "Q-1", "amount": 7}),
    )
    assert found == {"order_id": "Q-1", "amount": 7}


async def test_answer_field_contains_answer() -> None:
    found = await ask_for_object(
        "severity: high\nHow severe is the outage?",
        Report,
        memory="user: The outage is severe in Oslo.",
    )
    assert found == {"answer": "The outage is severe in Oslo.", "severity": "high"}


async def test_enum_is_chosen_by_description() -> None:
    instruction = (
        "Choose who answers. Reply with one name and nothing else.\n"
        "- billing: Handles invoices and refunds.\n- support: Solves technical problems."
    )
    schema = {"type": "string", "enum": ["billing", "support"]}
    answer = await ask("My invoice is wrong.", instruction=instruction, output_schema=schema)
    assert json.loads(answer.text) == "billing"
    answer = await ask(
        "I have a technical question.", instruction=instruction, output_schema=schema
    )
    assert json.loads(answer.text) == "support"


async def test_schema_is_filled_from_japanese_query() -> None:
    found = await ask_for_object(
        "注文番号は A-12、金額は4,500円です。",
        Order,
        instruction="order_id は注文番号、amount は金額。",
    )
    assert found["amount"] == 4500
    assert found["order_id"] == "A-12"


@given(WORDS, WORDS)
async def test_any_query_gives_json_of_schema(query: str, memory: str) -> None:
    for kind in (Order, Basket, list[str], dict[str, int], int | None):
        await ask_for_object(query, kind, memory=memory)


def test_schema_variants_are_resolved() -> None:
    assert resolve_schema({"type": ["string", "null"]}, {}) == ({"type": "string"}, True)
    assert resolve_schema(True, {}) == ({}, False)  # type: ignore[arg-type] # JSON schema allows it
    assert empty_value({"type": "array", "items": {"type": "integer"}, "minItems": 2}, {}) == [0, 0]
    nested = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
    assert empty_value(nested, {}) == {"a": False}
    assert accepts(nested, {"a": True}, {})
    assert not accepts(nested, {"a": "yes"}, {})
    assert not accepts(nested, {}, {})
    assert accepts({"enum": [1, 2]}, 2, {})
    assert accepts({"type": ["integer", "null"]}, None, {})
    assert not accepts({"type": "array", "items": {"type": "string"}}, [1], {})
