"""Requests as people word them: which tool the embedded model calls, and with what."""

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from model_prompts import ask, called, done, object_of, specs, transfer

from acc.ports.outbound.model_ports import ToolSpec

Code = Literal["USD", "EUR", "JPY"]


def get_stock_price(ticker: str) -> float:
    """Get the latest price of a stock.

    Args:
        ticker: Stock symbol
    """
    raise NotImplementedError


def convert_currency(amount: float, from_currency: Code, to_currency: Code) -> float:
    """Convert an amount from one currency to another."""
    raise NotImplementedError


def create_reminder(title: str, due: date) -> str:
    """Create a reminder for a date."""
    raise NotImplementedError


def list_files(folder: str = ".") -> list[str]:
    """List the files in a folder."""
    raise NotImplementedError


def delete_user(user_id: int) -> str:
    """Delete a user account for good."""
    raise NotImplementedError


def translate(text: str, language: Literal["French", "German", "Japanese"]) -> str:
    """Translate a text into another language."""
    raise NotImplementedError


def send_message(recipient: str, message: str) -> str:
    """Send a message to a colleague."""
    raise NotImplementedError


def roll_dice(sides: int = 6) -> int:
    """Roll a dice and return the number."""
    raise NotImplementedError


def check_inventory(product: str, quantity: int) -> dict[str, Any]:
    """在庫があるかどうかを確認する。

    Args:
        product: 商品名
        quantity: 数量
    """
    raise NotImplementedError


def reserve_table(name: str, people: int, day: date) -> dict[str, Any]:
    """レストランの席を予約する。

    Args:
        name: 予約者名
        people: 人数
        day: 日付
    """
    raise NotImplementedError


def exchange_rate(currency: Literal["USD", "EUR"]) -> float:
    """為替レートを調べる。"""
    raise NotImplementedError


def create_account(email: str, plan: Literal["free", "pro"]) -> dict[str, Any]:
    """Open an account for a new customer."""
    raise NotImplementedError


def is_prime(number: int) -> bool:
    """Tell whether a number is prime."""
    raise NotImplementedError


def summarize_url(url: str) -> str:
    """Summarize a web page."""
    raise NotImplementedError


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    raise NotImplementedError


EN = specs(
    get_stock_price,
    convert_currency,
    create_reminder,
    list_files,
    delete_user,
    translate,
    send_message,
    roll_dice,
    create_account,
    is_prime,
    summarize_url,
    divide,
)
JA = specs(check_inventory, reserve_table, exchange_rate)
CASES: list[tuple[str, tuple[ToolSpec, ...], tuple[str, dict[str, Any]] | None]] = [
    ("What is the stock price of ACME?", EN, ("get_stock_price", {"ticker": "ACME"})),
    (
        "Convert 250 USD to EUR, from_currency: USD, to_currency: EUR",
        EN,
        ("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "EUR"}),
    ),
    (
        'Create a reminder "Call the dentist" for 2026-12-24.',
        EN,
        ("create_reminder", {"title": "Call the dentist", "due": "2026-12-24"}),
    ),
    ('List the files in the folder "docs".', EN, ("list_files", {"folder": "docs"})),
    ("list all files", EN, ("list_files", {})),
    ("Delete the user with user_id 42.", EN, ("delete_user", {"user_id": 42})),
    ("Delete user 42.", EN, ("delete_user", {"user_id": 42})),
    (
        'Translate "Good night" into German.',
        EN,
        ("translate", {"text": "Good night", "language": "German"}),
    ),
    (
        'Send Maria the message "I am late".',
        EN,
        ("send_message", {"recipient": "Maria", "message": "I am late"}),
    ),
    ("Roll the dice!", EN, ("roll_dice", {})),
    ("Roll a dice with 20 sides.", EN, ("roll_dice", {"sides": 20})),
    (
        "Open a pro account for zed@example.com",
        EN,
        ("create_account", {"email": "zed@example.com", "plan": "pro"}),
    ),
    ("Is 97 a prime number?", EN, ("is_prime", {"number": 97})),
    (
        "Summarize https://example.com/a?b=1 please",
        EN,
        ("summarize_url", {"url": "https://example.com/a?b=1"}),
    ),
    ("Divide 10 by 4", EN, ("divide", {"a": 10, "b": 4})),
    ("How are you?", EN, None),
    ("Thanks, that was helpful.", EN, None),
    ("I like French food.", EN, None),
    ("Who wrote the report?", EN, None),
    (
        "商品名: 消しゴム、数量: 30 の在庫を確認してください。",
        JA,
        ("check_inventory", {"product": "消しゴム", "quantity": 30}),
    ),
    (
        "「ノート」の在庫が５０個あるか確認してほしい",
        JA,
        ("check_inventory", {"product": "ノート", "quantity": 50}),
    ),
    (
        "田中さんの名前で4人、2026年12月3日にレストランを予約してください。",
        JA,
        ("reserve_table", {"name": "田中", "people": 4, "day": "2026-12-03"}),
    ),
    ("USDの為替レートは？", JA, ("exchange_rate", {"currency": "USD"})),
    ("こんにちは", JA, None),
    ("ありがとうございました。", JA, None),
    ("会議は3時からです。", JA, None),
]


@pytest.mark.parametrize(("q", "tools", "want"), CASES, ids=[case[0] for case in CASES])
async def test_the_tool_that_is_meant_is_called(
    q: str, tools: tuple[ToolSpec, ...], want: tuple[str, dict[str, Any]] | None
) -> None:
    assert called(await ask(q, tools=tools)) == want


async def test_a_tool_that_hangs_on_a_result_is_called_when_the_result_says_so() -> None:
    ins = (
        "Validate the user. If the account is open, call send_message. "
        'recipient: ops, message: "opened"'
    )
    q = "Open a free account for a@b.example"
    t = specs(create_account, send_message)
    assert called(await ask(q, tools=t, instruction=ins)) == (
        "create_account",
        {"email": "a@b.example", "plan": "free"},
    )
    m = done("create_account", {"account": "open"}, email="a@b.example", plan="free")
    assert called(await ask(q, tools=t, instruction=ins, messages=m)) == (
        "send_message",
        {"recipient": "ops", "message": "opened"},
    )
    m = done(
        "create_account",
        {"error": "create_account failed: ValueError: taken"},
        is_error=True,
        email="a@b.example",
        plan="free",
    )
    r = await ask(q, tools=t, instruction=ins, messages=m)
    assert not r.calls
    assert "taken" in r.text


D = transfer(
    sales="Sells new subscriptions and answers questions about prices.",
    hr="Answers staff questions about holidays and pay.",
    it="Resets passwords and fixes laptops.",
)


@pytest.mark.parametrize(
    ("q", "want"),
    [
        ("I forgot my password.", "it"),
        ("How many holidays do I have left?", "hr"),
        ("What is the price of the subscription?", "sales"),
        ("Hi!", None),
        ("My laptop is broken", "it"),
        ("Tell me a joke.", None),
    ],
)
async def test_people_are_sent_to_the_right_desk(q: str, want: str | None) -> None:
    got = called(
        await ask(q, tools=(D,), instruction="You greet employees and send them to the right desk.")
    )
    assert got == (("transfer_to_agent", {"agent_name": want}) if want else None)


@dataclass
class Ticket:
    title: str
    priority: Literal["low", "high"] | None = None
    due: date | None = None


@dataclass
class Person:
    name: str
    age: int
    city: str | None = None
    tags: list[str] | None = None


async def test_a_ticket_is_read_from_a_request() -> None:
    assert await object_of(
        'Make a ticket "Printer is on fire" with high priority, due 2026-01-05.', Ticket
    ) == {"title": "Printer is on fire", "priority": "high", "due": "2026-01-05"}


async def test_pairs_fill_a_schema() -> None:
    assert await object_of("name: Kim, age: 31, city: Oslo", Person) == {
        "name": "Kim",
        "age": 31,
        "city": "Oslo",
    }


async def test_sentences_fill_a_schema() -> None:
    r = await object_of("Her name is Kim Berg. Her age is 31. tags: red, blue", Person)
    assert r == {"name": "Kim Berg", "age": 31, "tags": ["red", "blue"]}


async def test_a_number_is_found_in_a_japanese_sentence() -> None:
    r = await object_of(
        "名前は木村、年齢は41歳です。", Person, instruction="name は名前、age は年齢。"
    )
    assert r["age"] == 41


async def test_a_greeting_fills_nothing() -> None:
    assert await object_of("Hello.", Person) == {"name": "", "age": 0}
