"""More requests as people word them, at work and at home."""

from datetime import date
from typing import Any, Literal

import pytest
from model_prompts import ask, called, specs

from acc.ports.outbound.model_ports import ToolSpec


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


EN = specs(
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


JA = specs(register_leave, search_docs, convert_yen, approve_expense)
CASES: list[tuple[str, tuple[ToolSpec, ...], tuple[str, dict[str, Any]] | None]] = [
    (
        "Open a ticket: the printer on floor 3 is broken, priority P1",
        EN,
        (
            "open_ticket",
            {
                "priority": "P1",
                "summary": "Open a ticket: the printer on floor 3 is broken, priority P1",
            },
        ),
    ),
    ("What is the balance of account 4711-22?", EN, ("get_balance", {"account_number": "4711-22"})),
    (
        "Transfer 100 dollars from account AB-1 to account CD-2.",
        EN,
        ("transfer_money", {"from_account": "AB-1", "to_account": "CD-2", "amount": 100}),
    ),
    (
        "Book a flight from Oslo to Rome on 2027-01-15",
        EN,
        ("book_flight", {"origin": "Oslo", "destination": "Rome", "departure": "2027-01-15"}),
    ),
    ('Read the file "notes/todo.txt".', EN, ("read_file", {"path": "notes/todo.txt"})),
    ('Calculate "3*(4+5)"', EN, ("calculate", {"expression": "3*(4+5)"})),
    (
        "How many vacation days does employee 88 have left?",
        EN,
        ("vacation_days", {"employee_id": 88}),
    ),
    ("Restart the service, please.", EN, None),
    (
        "Restart. service: nginx, reason: memory leak",
        EN,
        ("restart_service", {"service": "nginx", "reason": "memory leak"}),
    ),
    ("I went on vacation last year.", EN, None),
    ("Nice to meet you, I am Bob.", EN, None),
    (
        "開始日は2026-12-01、終了日は2026-12-05です。有給休暇を申請してください。",
        JA,
        ("register_leave", {"start": "2026-12-01", "end": "2026-12-05", "kind": "有給"}),
    ),
    (
        "出張規程について社内文書を検索してください。",
        JA,
        ("search_docs", {"query": "出張規程について社内文書を検索してください。"}),
    ),
    ("5,000円は何ドルですか。換算してください。", JA, ("convert_yen", {"amount": 5000})),
    (
        "経費番号 EX-12、金額 8,000円を承認してください。",
        JA,
        ("approve_expense", {"expense_id": "EX-12", "amount": 8000}),
    ),
    ("経費を承認してください。", JA, None),
    ("お疲れ様です。", JA, None),
]


@pytest.mark.parametrize(("q", "tools", "want"), CASES, ids=[case[0] for case in CASES])
async def test_the_tool_that_is_meant_is_called(
    q: str, tools: tuple[ToolSpec, ...], want: tuple[str, dict[str, Any]] | None
) -> None:
    assert called(await ask(q, tools=tools)) == want
