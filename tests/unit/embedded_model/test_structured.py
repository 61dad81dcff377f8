"""The embedded model answers in a schema with what it can read, and with nothing else."""

import json
from dataclasses import dataclass
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st
from model_prompts import ask, done, object_of

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


async def test_a_schema_is_filled_from_the_query() -> None:
    found = await object_of("Order A-12 over $250 for ann@example.org, express: yes", Order)
    assert found == {
        "order_id": "A-12",
        "amount": 250,
        "email": "ann@example.org",
        "express": True,
    }


async def test_what_is_optional_and_unknown_is_left_out() -> None:
    found = await object_of("order_id: A-12, amount: 250", Order)
    assert found == {"order_id": "A-12", "amount": 250}


async def test_what_is_required_and_unknown_is_empty_and_never_invented() -> None:
    found = await object_of("Good morning.", Order)
    assert found == {"order_id": "", "amount": 0}
    assert await object_of("Good morning.", Basket) == {"lines": []}


async def test_a_schema_is_filled_from_memory_and_results() -> None:
    found = await object_of(
        "Summarise the order.", Order, memory="user: The order id is Z-5. The amount is 99."
    )
    assert found == {"order_id": "Z-5", "amount": 99}
    found = await object_of(
        "Summarise the order.",
        Order,
        messages=done("find_order", {"order_id": "Q-1", "amount": 7}),
    )
    assert found == {"order_id": "Q-1", "amount": 7}


async def test_a_field_for_the_answer_takes_the_answer() -> None:
    found = await object_of(
        "severity: high\nHow severe is the outage?",
        Report,
        memory="user: The outage is severe in Oslo.",
    )
    assert found == {"answer": "The outage is severe in Oslo.", "severity": "high"}


async def test_a_choice_among_names_follows_their_descriptions() -> None:
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


async def test_a_japanese_schema_is_filled() -> None:
    found = await object_of(
        "注文番号は A-12、金額は4,500円です。",
        Order,
        instruction="order_id は注文番号、amount は金額。",
    )
    assert found["amount"] == 4500
    assert found["order_id"] == "A-12"


@given(WORDS, WORDS)
async def test_any_words_give_json_of_the_schema(query: str, memory: str) -> None:
    for kind in (Order, Basket, list[str], dict[str, int], int | None):
        await object_of(query, kind, memory=memory)
