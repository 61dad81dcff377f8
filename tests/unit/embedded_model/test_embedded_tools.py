"""Tool calls, transfers, loops and results in the embedded model."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_prompts import agent_message, ask, called_tool, specs, tool_exchange, transfer

from acc.adapters.embedded_model.model import EmbeddedModel
from acc.adapters.embedded_model.tools import describe_results
from acc.application.agents.llm import LlmAgent
from acc.application.tools.function_tool import exit_loop
from acc.application.tools.tool import AgentTool
from acc.domain.value_objects.content import ChatMessage, Part, ToolCall, ToolResult
from acc.ports.outbound.model_ports import ModelRequest, ModelResponse, ToolSpec


def validate_email(email: str) -> dict[str, Any]:
    """Check whether an e-mail address is valid.

    Args:
        email: The address to check.
    """
    raise NotImplementedError


def refund_order(order_id: str, amount: int) -> dict[str, Any]:
    """Pay money back for an order."""
    raise NotImplementedError


def current_weather(city: str) -> str:
    """Return the weather in a city right now."""
    raise NotImplementedError


def weather_forecast(city: str, days: int = 3) -> str:
    """Return the weather forecast of a city for the coming days."""
    raise NotImplementedError


def add(a: float, b: float) -> float:
    """Add two numbers."""
    raise NotImplementedError


def search_manual(question: str) -> str:
    """Search the product manual for an answer."""
    raise NotImplementedError


def book_room(check_in: str, nights: int, guests: int, smoking: bool = False) -> str:
    """Book a hotel room.

    Args:
        check_in: The date of arrival.
    """
    raise NotImplementedError


def set_priority(ticket_id: str, priority: Literal["low", "medium", "high"]) -> str:
    """Set the priority of a support ticket."""
    raise NotImplementedError


def server_time() -> str:
    """Return the time on the server."""
    raise NotImplementedError


def send_invoice(customer: str, amount: int, email: str) -> str:
    """請求書をメールで送る。

    Args:
        customer: 顧客名
        amount: 金額
        email: メールアドレス
    """
    raise NotImplementedError


def track_parcel(order_id: str) -> str:
    """注文の配送状況を調べる。

    Args:
        order_id: 注文番号
    """
    raise NotImplementedError


def weather(city: str) -> str:
    """都市の天気を調べる。"""
    raise NotImplementedError


def cancel_booking(booking_id: str, notify: bool) -> str:
    """予約を取り消す。

    Args:
        booking_id: 予約番号
        notify: 通知
    """
    raise NotImplementedError


ENGLISH = specs(
    validate_email, refund_order, current_weather, add, search_manual, book_room, server_time
)
JAPANESE = specs(send_invoice, track_parcel, weather, cancel_booking)


# --- choosing a tool and reading its arguments --------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "Is ann.lee@example.org a valid address?",
            ("validate_email", {"email": "ann.lee@example.org"}),
        ),
        (
            "Please refund order A-1001, the amount is $30.",
            ("refund_order", {"order_id": "A-1001", "amount": 30}),
        ),
        (
            "refund_order order_id=77 amount=1,200",
            ("refund_order", {"order_id": "77", "amount": 1200}),
        ),
        ("What is the weather in Paris?", ("current_weather", {"city": "Paris"})),
        ('How is the weather in "New York" now?', ("current_weather", {"city": "New York"})),
        ("Add 3.5 and 4.", ("add", {"a": 3.5, "b": 4})),
        (
            "What does the manual say about a blinking red light?",
            ("search_manual", {"question": "What does the manual say about a blinking red light?"}),
        ),
        (
            "Book a room from 2026-11-20 for 3 nights and 2 guests.",
            ("book_room", {"check_in": "2026-11-20", "nights": 3, "guests": 2}),
        ),
        (
            "Book a room. check_in: 2026-12-01, nights: 1, guests: 4, smoking: yes",
            ("book_room", {"check_in": "2026-12-01", "nights": 1, "guests": 4, "smoking": True}),
        ),
        ("What time is it on the server?", ("server_time", {})),
        (
            "Please call validate_email for bob@example.com.",
            ("validate_email", {"email": "bob@example.com"}),
        ),
    ],
)
async def test_matching_tool_is_called(query: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert called_tool(await ask(query, tools=ENGLISH)) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("注文番号 B-77 の配送状況を教えてください。", ("track_parcel", {"order_id": "B-77"})),
        ("東京の天気はどうですか。", ("weather", {"city": "東京"})),
        ("「札幌」の天気を調べてください。", ("weather", {"city": "札幌"})),
        (
            "山田商事さんに12,000円の請求書を送ってください。宛先は keiri@example.jp です。",
            (
                "send_invoice",
                {"customer": "山田商事", "amount": 12000, "email": "keiri@example.jp"},
            ),
        ),
        (
            "請求書を送る。顧客名は青木、金額は３００、メールアドレスは aoki@example.jp",
            ("send_invoice", {"customer": "青木", "amount": 300, "email": "aoki@example.jp"}),
        ),
        (
            "予約番号は R-55 です。予約を取り消してください。通知: はい",
            ("cancel_booking", {"booking_id": "R-55", "notify": True}),
        ),
    ],
)
async def test_japanese_request_calls_matching_tool(
    query: str, expected: tuple[str, dict[str, Any]]
) -> None:
    assert called_tool(await ask(query, tools=JAPANESE)) == expected


@pytest.mark.parametrize(
    "query",
    [
        "Please refund my order.",  # neither the order nor the amount is known
        "Book a room for 2 guests.",
        "Is the address valid?",
        "Good morning.",
        "My name is Ann.",
    ],
)
async def test_no_tool_is_called_if_argument_is_unknown_or_nothing_matches(query: str) -> None:
    answer = await ask(query, tools=ENGLISH)
    assert called_tool(answer) is None
    assert answer.text


@pytest.mark.parametrize("query", ["配送状況を教えてください。", "おはようございます。"])
async def test_no_tool_is_called_for_unmatched_japanese_query(query: str) -> None:
    answer = await ask(query, tools=JAPANESE)
    assert called_tool(answer) is None
    assert answer.text


async def test_arguments_are_read_from_instruction() -> None:
    instruction = "You check customers. Always call validate_email. The email is eve@example.net."
    found = called_tool(await ask("Go ahead.", instruction=instruction, tools=ENGLISH))
    assert found == ("validate_email", {"email": "eve@example.net"})


async def test_instruction_can_forbid_tool() -> None:
    instruction = "Never call current_weather."
    answer = await ask(
        "What is the weather in Paris?", instruction=instruction, tools=specs(current_weather)
    )
    assert called_tool(answer) is None


async def test_enum_argument_is_one_of_its_members() -> None:
    tools = specs(set_priority)
    query = "Set the priority of ticket T-9 to HIGH."
    assert called_tool(await ask(query, tools=tools)) == (
        "set_priority",
        {"ticket_id": "T-9", "priority": "high"},
    )
    assert called_tool(await ask("Set the priority of ticket T-9.", tools=tools)) is None


async def test_more_specific_tool_is_called() -> None:
    tools = specs(current_weather, weather_forecast)
    found = called_tool(await ask("Give me the weather forecast for Oslo, days: 5", tools=tools))
    assert found == ("weather_forecast", {"city": "Oslo", "days": 5})
    assert called_tool(await ask("What is the weather in Oslo?", tools=tools)) == (
        "current_weather",
        {"city": "Oslo"},
    )


async def test_agent_tool_gets_whole_query() -> None:
    helper = LlmAgent(name="translator", description="Translates a text into French.")
    query = "Translate the text about the harbour into French."
    found = called_tool(await ask(query, tools=(AgentTool(agent=helper).spec,)))
    assert found == ("translator", {"request": query})


# --- after a result -----------------------------------------------------------------------------


async def test_answer_contains_result_data() -> None:
    answer = await ask(
        "Is ann@example.org valid?",
        tools=ENGLISH,
        following=tool_exchange(
            "validate_email", {"is_valid": True, "domain": "example.org"}, email="ann@example.org"
        ),
    )
    assert answer.calls == ()
    assert "is_valid: true" in answer.text
    assert "domain: example.org" in answer.text


async def test_text_result_is_the_answer() -> None:
    answer = await ask(
        "What is the weather in Paris?",
        tools=specs(current_weather, weather_forecast),
        following=tool_exchange("current_weather", "Sunny, 21 degrees.", city="Paris"),
    )
    assert answer.text == "Sunny, 21 degrees."


async def test_answer_has_language_of_query() -> None:
    answer = await ask(
        "注文番号 B-77 の配送状況を教えてください。",
        tools=JAPANESE,
        following=tool_exchange(
            "track_parcel", {"status": "denied", "reason": ""}, is_error=True, order_id="B-77"
        ),
    )
    assert answer.calls == ()
    assert "track_parcel" in answer.text
    assert "ませんでした" in answer.text


async def test_answer_reports_errors_and_denials() -> None:
    failed = await ask(
        "Refund order A-1, amount: 30",
        tools=ENGLISH,
        following=tool_exchange(
            "refund_order",
            {"error": "refund_order failed: ValueError: no such order"},
            is_error=True,
            order_id="A-1",
            amount=30,
        ),
    )
    assert failed.calls == ()
    assert "no such order" in failed.text
    denied = await ask(
        "Refund order A-1, amount: 30",
        tools=ENGLISH,
        following=tool_exchange(
            "refund_order",
            {"status": "denied", "reason": "too late in the month"},
            is_error=True,
            order_id="A-1",
            amount=30,
        ),
    )
    assert "refund_order" in denied.text
    assert "too late in the month" in denied.text


def find_order(customer_email: str) -> dict[str, Any]:
    """Find the newest order of a customer."""
    raise NotImplementedError


async def test_next_tool_uses_previous_result() -> None:
    tools = specs(find_order, refund_order)
    query = "Find the newest order of ann@example.org and pay the money back."
    assert called_tool(await ask(query, tools=tools)) == (
        "find_order",
        {"customer_email": "ann@example.org"},
    )
    first = tool_exchange(
        "find_order", {"order_id": "A-7", "amount": 45}, customer_email="ann@example.org"
    )
    assert called_tool(await ask(query, tools=tools, following=first)) == (
        "refund_order",
        {"order_id": "A-7", "amount": 45},
    )
    second = tool_exchange("refund_order", {"refunded": True}, order_id="A-7", amount=45)
    last = await ask(query, tools=tools, following=(*first, *second))
    assert last.calls == ()
    assert "refunded: true" in last.text


async def test_tools_are_called_in_order_of_instruction() -> None:
    instruction = "First call validate_email, then server_time. The email is x@example.com."
    tools = specs(server_time, validate_email)
    first = await ask("Start.", instruction=instruction, tools=tools)
    assert called_tool(first) == ("validate_email", {"email": "x@example.com"})
    after = tool_exchange("validate_email", {"is_valid": True}, email="x@example.com")
    second = await ask("Start.", instruction=instruction, tools=tools, following=after)
    assert called_tool(second) == ("server_time", {})


# --- handing over -------------------------------------------------------------------------------


DESKS = transfer(
    billing="Handles invoices, payments and refunds.",
    support="Solves technical problems with devices.",
)
DESKS_JAPANESE = transfer(
    keiri="請求書、支払い、返金を担当します。",
    gijutsu="機器の故障や技術的な問題を担当します。",
)


@pytest.mark.parametrize(
    ("query", "tools", "target"),
    [
        ("There is a mistake in my invoice.", DESKS, "billing"),
        ("My device has a problem with the display.", DESKS, "support"),
        ("Let me talk to billing, please.", DESKS, "billing"),
        ("請求書の金額が間違っています。", DESKS_JAPANESE, "keiri"),
        ("機器が故障しました。", DESKS_JAPANESE, "gijutsu"),
    ],
)
async def test_query_is_transferred_to_matching_agent(
    query: str, tools: ToolSpec, target: str
) -> None:
    answer = await ask(query, instruction="You are the front desk.", tools=(tools,))
    assert called_tool(answer) == ("transfer_to_agent", {"agent_name": target})


async def test_instruction_decides_transfer_target() -> None:
    desks = transfer(alpha="The first team.", beta="The second team.")
    instruction = "Greet people. Send questions about parking to beta, and about food to alpha."
    answer = await ask("Where is the parking lot?", instruction=instruction, tools=(desks,))
    assert called_tool(answer) == ("transfer_to_agent", {"agent_name": "beta"})


@pytest.mark.parametrize(
    ("query", "instruction"),
    [
        ("Hello there.", "You are the front desk."),
        ("I want a refund for my broken device.", "You handle refunds and payments for devices."),
        ("What are your opening hours?", "The opening hours are 9 to 5."),
    ],
)
async def test_no_transfer_without_clearly_better_agent(query: str, instruction: str) -> None:
    answer = await ask(query, instruction=instruction, tools=(DESKS,))
    assert answer.calls == ()
    assert answer.text


async def test_no_transfer_back_to_transferring_agent() -> None:
    desks = transfer(
        desk="Answers questions about invoices first.", support="Solves technical problems."
    )
    handed = ChatMessage(
        role="assistant",
        author="desk",
        parts=(
            Part(call=ToolCall(id="1", name="transfer_to_agent", arguments={"agent_name": "x"})),
        ),
    )
    answer = await ask("A question about invoices.", tools=(desks,), following=(handed,))
    assert answer.calls == ()


async def test_result_of_transfer_is_the_answer() -> None:
    answer = await ask(
        "There is a mistake in my invoice.",
        tools=(DESKS,),
        following=tool_exchange(
            "transfer_to_agent", "The invoice has been corrected.", agent_name="billing"
        ),
    )
    assert answer.text == "The invoice has been corrected."


# --- loops --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instruction", "last", "ends"),
    [
        ("Call exit_loop when the draft is good.", "The draft is good now.", True),
        ("Call exit_loop when the draft is good.", "The draft is not good yet.", False),
        ("Call exit_loop when the draft is good.", "The second chapter needs work.", False),
        ("Review the draft.", "The draft is good now.", False),
        ('Call exit_loop once the words contain "SHIP IT".', "All green. SHIP IT", True),
        ('Call exit_loop once the words contain "SHIP IT".', "It is good.", False),
        ("原稿が完成したら exit_loop を呼んでください。", "原稿は完成しました。", True),
        ("原稿が完成したら exit_loop を呼んでください。", "原稿はまだ完成していません。", False),
    ],
)
async def test_exit_loop_is_called_if_last_message_meets_condition(
    instruction: str, last: str, ends: bool
) -> None:
    answer = await ask(
        "Write a poem.",
        instruction=instruction,
        tools=(exit_loop.spec,),
        following=(agent_message("writer", last),),
    )
    assert called_tool(answer) == (("exit_loop", {}) if ends else None)


# --- messages of other agents -------------------------------------------------------------------


async def test_answer_uses_newest_message_of_other_agents() -> None:
    words = (
        agent_message("a", "The harbour opens at 8:00."),
        agent_message("b", "The harbour opens at 9:00 now."),
    )
    answer = await ask("When does the harbour open?", following=words)
    assert answer.text == "The harbour opens at 9:00 now."


async def test_request_without_question_returns_newest_message() -> None:
    words = (
        agent_message("a", "Draft one."),
        agent_message("b", "The trip takes two days and goes by train."),
    )
    answer = await ask("Plan a trip to the coast.", following=words)
    assert answer.text == "The trip takes two days and goes by train."


async def test_rules_apply_to_results() -> None:
    answer = await ask(
        "What is the weather in Paris?",
        instruction='End every answer with "Desk out."',
        tools=specs(current_weather),
        following=tool_exchange("current_weather", "Sunny.", city="Paris"),
    )
    assert answer.text == "Sunny.\nDesk out."


# --- streaming ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "memory"),
    [
        ("Who is the lead?", "user: The lead is Mara Lindqvist of the harbour office."),
        ("障害統括は誰ですか。", "user: 障害統括は佐伯さんで、連絡先は内線の四番です。"),
    ],
)
async def test_stream_yields_pieces_then_complete_response(query: str, memory: str) -> None:
    prompt = ModelRequest.of(query, memory=memory)
    pieces = [piece async for piece in EmbeddedModel().stream(prompt)]
    last = pieces.pop()
    assert isinstance(last, ModelResponse)
    assert last == await EmbeddedModel().complete(prompt)
    assert len(pieces) > 2
    assert "".join(str(piece) for piece in pieces) == last.text


WORDS = st.text(max_size=120)


@given(WORDS, WORDS, WORDS)
async def test_any_prompt_gives_deterministic_answer(query: str, words: str, result: str) -> None:
    prompt = ModelRequest.of(
        query=query,
        instruction=words,
        tools=(*ENGLISH, *JAPANESE, DESKS, exit_loop.spec),
        following=(agent_message("a", words), *tool_exchange("add", {"x": result})),
    )
    first = await EmbeddedModel().complete(prompt)
    assert first == await EmbeddedModel().complete(prompt)
    assert first.text or first.calls


# --- descriptions of results


def look_up(question: str) -> str:
    """Look something up."""
    raise NotImplementedError


def describe(content: Any, *, is_error: bool = False, japanese: bool = False) -> list[str]:
    result = ToolResult(call_id="1", name="count", content=content, is_error=is_error)
    return describe_results([result], japanese=japanese)


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (None, ["count is done."]),
        ("  ", ["count is done."]),
        (8, ["count: 8"]),
        (True, ["count: true"]),
        (["red", "blue"], ["count: red, blue"]),
        (
            {"ok": False, "tags": ["a", 1], "of": {"x": None}},
            ["ok: false", "tags: a, 1", 'of: {"x": null}'],
        ),
    ],
)
def test_result_data_is_described_in_short_lines(content: Any, lines: list[str]) -> None:
    assert describe(content) == lines


def test_long_results_are_truncated() -> None:
    assert len(describe({"text": "x" * 5_000})[0]) < 500
    assert len(describe({str(n): n for n in range(100)})) == 8


def test_errors_are_described_in_both_languages() -> None:
    assert describe({"error": "no line"}, is_error=True) == ["count failed: no line"]
    assert describe("no line", is_error=True, japanese=True) == [
        "count は完了できませんでした: no line"
    ]
    assert describe(None, japanese=True) == ["count は完了しました。"]


async def test_greeting_does_not_call_tool_named_in_instruction() -> None:
    tools, instruction = specs(look_up), "You can use look_up."
    assert called_tool(await ask("Good morning.", tools=tools, instruction=instruction)) is None
    found = called_tool(await ask("Who built the tower?", tools=tools, instruction=instruction))
    assert found == ("look_up", {"question": "Who built the tower?"})


async def test_no_call_after_failed_call() -> None:
    answer = await ask(
        "Who built the tower? Look it up.",
        tools=specs(look_up),
        following=tool_exchange("other", {"error": "other failed: gone"}, is_error=True),
    )
    assert answer.text == "Other failed: gone."
