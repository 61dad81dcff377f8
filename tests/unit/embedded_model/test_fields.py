"""Tool selection and argument extraction by the embedded model."""

from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from model_prompts import ask, ask_for_object, called_tool, specs, tool_exchange, transfer

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
    """Return True if a number is prime."""
    raise NotImplementedError


def summarize_url(url: str) -> str:
    """Summarize a web page."""
    raise NotImplementedError


def divide(a: float, b: float) -> float:
    """Divide a by b."""
    raise NotImplementedError


EVERYDAY_TOOLS = specs(
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
EVERYDAY_TOOLS_JAPANESE = specs(check_inventory, reserve_table, exchange_rate)
EVERYDAY_REQUESTS: list[tuple[str, tuple[ToolSpec, ...], tuple[str, dict[str, Any]] | None]] = [
    ("What is the stock price of ACME?", EVERYDAY_TOOLS, ("get_stock_price", {"ticker": "ACME"})),
    (
        "Convert 250 USD to EUR, from_currency: USD, to_currency: EUR",
        EVERYDAY_TOOLS,
        ("convert_currency", {"amount": 250, "from_currency": "USD", "to_currency": "EUR"}),
    ),
    (
        'Create a reminder "Call the dentist" for 2026-12-24.',
        EVERYDAY_TOOLS,
        ("create_reminder", {"title": "Call the dentist", "due": "2026-12-24"}),
    ),
    ('List the files in the folder "docs".', EVERYDAY_TOOLS, ("list_files", {"folder": "docs"})),
    ("list all files", EVERYDAY_TOOLS, ("list_files", {})),
    ("Delete the user with user_id 42.", EVERYDAY_TOOLS, ("delete_user", {"user_id": 42})),
    ("Delete user 42.", EVERYDAY_TOOLS, ("delete_user", {"user_id": 42})),
    (
        'Translate "Good night" into German.',
        EVERYDAY_TOOLS,
        ("translate", {"text": "Good night", "language": "German"}),
    ),
    (
        'Send Maria the message "I am late".',
        EVERYDAY_TOOLS,
        ("send_message", {"recipient": "Maria", "message": "I am late"}),
    ),
    ("Roll the dice!", EVERYDAY_TOOLS, ("roll_dice", {})),
    ("Roll a dice with 20 sides.", EVERYDAY_TOOLS, ("roll_dice", {"sides": 20})),
    (
        "Open a pro account for zed@example.com",
        EVERYDAY_TOOLS,
        ("create_account", {"email": "zed@example.com", "plan": "pro"}),
    ),
    ("Is 97 a prime number?", EVERYDAY_TOOLS, ("is_prime", {"number": 97})),
    (
        "Summarize https://example.com/a?b=1 please",
        EVERYDAY_TOOLS,
        ("summarize_url", {"url": "https://example.com/a?b=1"}),
    ),
    ("Divide 10 by 4", EVERYDAY_TOOLS, ("divide", {"a": 10, "b": 4})),
    ("How are you?", EVERYDAY_TOOLS, None),
    ("Thanks, that was helpful.", EVERYDAY_TOOLS, None),
    ("I like French food.", EVERYDAY_TOOLS, None),
    ("Who wrote the report?", EVERYDAY_TOOLS, None),
    (
        "商品名: 消しゴム、数量: 30 の在庫を確認してください。",
        EVERYDAY_TOOLS_JAPANESE,
        ("check_inventory", {"product": "消しゴム", "quantity": 30}),
    ),
    (
        "「ノート」の在庫が５０個あるか確認してほしい",
        EVERYDAY_TOOLS_JAPANESE,
        ("check_inventory", {"product": "ノート", "quantity": 50}),
    ),
    (
        "田中さんの名前で4人、2026年12月3日にレストランを予約してください。",
        EVERYDAY_TOOLS_JAPANESE,
        ("reserve_table", {"name": "田中", "people": 4, "day": "2026-12-03"}),
    ),
    ("USDの為替レートは？", EVERYDAY_TOOLS_JAPANESE, ("exchange_rate", {"currency": "USD"})),
    ("こんにちは", EVERYDAY_TOOLS_JAPANESE, None),
    ("ありがとうございました。", EVERYDAY_TOOLS_JAPANESE, None),
    ("会議は3時からです。", EVERYDAY_TOOLS_JAPANESE, None),
]


@pytest.mark.parametrize(
    ("q", "tools", "want"), EVERYDAY_REQUESTS, ids=[case[0] for case in EVERYDAY_REQUESTS]
)
async def test_everyday_request_calls_expected_tool(
    q: str, tools: tuple[ToolSpec, ...], want: tuple[str, dict[str, Any]] | None
) -> None:
    assert called_tool(await ask(q, tools=tools)) == want


async def test_conditional_tool_is_called_if_result_meets_condition() -> None:
    ins = (
        "Validate the user. If the account is open, call send_message. "
        'recipient: ops, message: "opened"'
    )
    q = "Open a free account for a@b.example"
    t = specs(create_account, send_message)
    assert called_tool(await ask(q, tools=t, instruction=ins)) == (
        "create_account",
        {"email": "a@b.example", "plan": "free"},
    )
    m = tool_exchange("create_account", {"account": "open"}, email="a@b.example", plan="free")
    assert called_tool(await ask(q, tools=t, instruction=ins, following=m)) == (
        "send_message",
        {"recipient": "ops", "message": "opened"},
    )
    m = tool_exchange(
        "create_account",
        {"error": "create_account failed: ValueError: taken"},
        is_error=True,
        email="a@b.example",
        plan="free",
    )
    r = await ask(q, tools=t, instruction=ins, following=m)
    assert not r.calls
    assert "taken" in r.text


DESKS = transfer(
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
async def test_request_is_transferred_to_matching_desk(q: str, want: str | None) -> None:
    got = called_tool(
        await ask(
            q, tools=(DESKS,), instruction="You greet employees and send them to the right desk."
        )
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


async def test_fields_are_read_from_request() -> None:
    assert await ask_for_object(
        'Make a ticket "Printer is on fire" with high priority, due 2026-01-05.', Ticket
    ) == {"title": "Printer is on fire", "priority": "high", "due": "2026-01-05"}


async def test_fields_are_read_from_pairs() -> None:
    assert await ask_for_object("name: Kim, age: 31, city: Oslo", Person) == {
        "name": "Kim",
        "age": 31,
        "city": "Oslo",
    }


async def test_fields_are_read_from_sentences() -> None:
    r = await ask_for_object("Her name is Kim Berg. Her age is 31. tags: red, blue", Person)
    assert r == {"name": "Kim Berg", "age": 31, "tags": ["red", "blue"]}


async def test_number_is_read_from_japanese_sentence() -> None:
    r = await ask_for_object(
        "名前は木村、年齢は41歳です。", Person, instruction="name は名前、age は年齢。"
    )
    assert r["age"] == 41


async def test_greeting_fills_no_field() -> None:
    assert await ask_for_object("Hello.", Person) == {"name": "", "age": 0}


def open_ticket(summary: str, priority: Literal["P1", "P2", "P3"] = "P3") -> str:
    """Open a ticket in the help desk system."""
    raise NotImplementedError


def restart_service(service: str, reason: str) -> str:
    """Restart a service on the cluster."""
    raise NotImplementedError


def get_balance(account_number: str) -> dict[str, Any]:
    """Look up the balance of a bank account."""
    raise NotImplementedError


def transfer_money(from_account: str, to_account: str, amount: float) -> str:
    """Transfer money between two accounts."""
    raise NotImplementedError


def book_flight(origin: str, destination: str, departure: date) -> str:
    """Book a flight from one city to another."""
    raise NotImplementedError


def read_file(path: str) -> str:
    """Read a file from disk."""
    raise NotImplementedError


def calculate(expression: str) -> float:
    """Calculate an arithmetic expression."""
    raise NotImplementedError


def vacation_days(employee_id: int) -> int:
    """Return how many vacation days an employee has left."""
    raise NotImplementedError


OFFICE_TOOLS = specs(
    open_ticket,
    restart_service,
    get_balance,
    transfer_money,
    book_flight,
    read_file,
    calculate,
    vacation_days,
)


def register_leave(start: date, end: date, kind: Literal["有給", "病欠"]) -> str:
    """休暇を申請する。

    Args:
        start: 開始日
        end: 終了日
        kind: 種類
    """
    raise NotImplementedError


def search_docs(query: str) -> str:
    """社内文書を検索する。"""
    raise NotImplementedError


def convert_yen(amount: int) -> float:
    """円をドルに換算する。"""
    raise NotImplementedError


def approve_expense(expense_id: str, amount: int) -> str:
    """経費を承認する。

    Args:
        expense_id: 経費番号
        amount: 金額
    """
    raise NotImplementedError


OFFICE_TOOLS_JAPANESE = specs(register_leave, search_docs, convert_yen, approve_expense)
OFFICE_REQUESTS: list[tuple[str, tuple[ToolSpec, ...], tuple[str, dict[str, Any]] | None]] = [
    (
        "Open a ticket: the printer on floor 3 is broken, priority P1",
        OFFICE_TOOLS,
        (
            "open_ticket",
            {
                "priority": "P1",
                "summary": "Open a ticket: the printer on floor 3 is broken, priority P1",
            },
        ),
    ),
    (
        "What is the balance of account 4711-22?",
        OFFICE_TOOLS,
        ("get_balance", {"account_number": "4711-22"}),
    ),
    (
        "Transfer 100 dollars from account AB-1 to account CD-2.",
        OFFICE_TOOLS,
        ("transfer_money", {"from_account": "AB-1", "to_account": "CD-2", "amount": 100}),
    ),
    (
        "Book a flight from Oslo to Rome on 2027-01-15",
        OFFICE_TOOLS,
        ("book_flight", {"origin": "Oslo", "destination": "Rome", "departure": "2027-01-15"}),
    ),
    ('Read the file "notes/todo.txt".', OFFICE_TOOLS, ("read_file", {"path": "notes/todo.txt"})),
    ('Calculate "3*(4+5)"', OFFICE_TOOLS, ("calculate", {"expression": "3*(4+5)"})),
    (
        "How many vacation days does employee 88 have left?",
        OFFICE_TOOLS,
        ("vacation_days", {"employee_id": 88}),
    ),
    ("Restart the service, please.", OFFICE_TOOLS, None),
    (
        "Restart. service: nginx, reason: memory leak",
        OFFICE_TOOLS,
        ("restart_service", {"service": "nginx", "reason": "memory leak"}),
    ),
    ("I went on vacation last year.", OFFICE_TOOLS, None),
    ("Nice to meet you, I am Bob.", OFFICE_TOOLS, None),
    (
        "開始日は2026-12-01、終了日は2026-12-05です。有給休暇を申請してください。",
        OFFICE_TOOLS_JAPANESE,
        ("register_leave", {"start": "2026-12-01", "end": "2026-12-05", "kind": "有給"}),
    ),
    (
        "出張規程について社内文書を検索してください。",
        OFFICE_TOOLS_JAPANESE,
        ("search_docs", {"query": "出張規程について社内文書を検索してください。"}),
    ),
    (
        "5,000円は何ドルですか。換算してください。",
        OFFICE_TOOLS_JAPANESE,
        ("convert_yen", {"amount": 5000}),
    ),
    (
        "経費番号 EX-12、金額 8,000円を承認してください。",
        OFFICE_TOOLS_JAPANESE,
        ("approve_expense", {"expense_id": "EX-12", "amount": 8000}),
    ),
    ("経費を承認してください。", OFFICE_TOOLS_JAPANESE, None),
    ("お疲れ様です。", OFFICE_TOOLS_JAPANESE, None),
]


@pytest.mark.parametrize(
    ("q", "tools", "want"), OFFICE_REQUESTS, ids=[case[0] for case in OFFICE_REQUESTS]
)
async def test_office_request_calls_expected_tool(
    q: str, tools: tuple[ToolSpec, ...], want: tuple[str, dict[str, Any]] | None
) -> None:
    assert called_tool(await ask(q, tools=tools)) == want
