"""The embedded model uses what the runtime offers it: tools, colleagues, other agents' words."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_prompts import ask, called, done, said, specs, transfer

from acc.adapters.embedded_model.model import EmbeddedModel
from acc.application.agents.llm import LlmAgent
from acc.application.tools.function_tool import exit_loop
from acc.application.tools.tool import AgentTool
from acc.domain.value_objects.content import Part, ToolCall
from acc.ports.outbound.model_ports import ModelAnswer, Prompt, PromptMessage, ToolSpec


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
async def test_it_calls_the_tool_that_fits(
    query: str, expected: tuple[str, dict[str, Any]]
) -> None:
    assert called(await ask(query, tools=ENGLISH)) == expected


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
async def test_it_reads_japanese_requests(query: str, expected: tuple[str, dict[str, Any]]) -> None:
    assert called(await ask(query, tools=JAPANESE)) == expected


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
async def test_it_calls_nothing_where_an_argument_is_unknown_or_nothing_fits(query: str) -> None:
    answer = await ask(query, tools=ENGLISH)
    assert called(answer) is None
    assert answer.text


@pytest.mark.parametrize("query", ["配送状況を教えてください。", "おはようございます。"])
async def test_it_calls_nothing_in_japanese_either(query: str) -> None:
    answer = await ask(query, tools=JAPANESE)
    assert called(answer) is None
    assert answer.text


async def test_it_reads_arguments_from_the_instruction_that_the_state_filled() -> None:
    instruction = "You check customers. Always call validate_email. The email is eve@example.net."
    found = called(await ask("Go ahead.", instruction=instruction, tools=ENGLISH))
    assert found == ("validate_email", {"email": "eve@example.net"})


async def test_an_instruction_can_forbid_a_tool() -> None:
    instruction = "Never call current_weather."
    answer = await ask(
        "What is the weather in Paris?", instruction=instruction, tools=specs(current_weather)
    )
    assert called(answer) is None


async def test_an_enum_takes_one_of_its_members() -> None:
    tools = specs(set_priority)
    query = "Set the priority of ticket T-9 to HIGH."
    assert called(await ask(query, tools=tools)) == (
        "set_priority",
        {"ticket_id": "T-9", "priority": "high"},
    )
    assert called(await ask("Set the priority of ticket T-9.", tools=tools)) is None


async def test_of_two_tools_the_more_exact_one_is_called() -> None:
    tools = specs(current_weather, weather_forecast)
    found = called(await ask("Give me the weather forecast for Oslo, days: 5", tools=tools))
    assert found == ("weather_forecast", {"city": "Oslo", "days": 5})
    assert called(await ask("What is the weather in Oslo?", tools=tools)) == (
        "current_weather",
        {"city": "Oslo"},
    )


async def test_an_agent_used_as_a_tool_gets_the_whole_request() -> None:
    helper = LlmAgent(name="translator", description="Translates a text into French.")
    query = "Translate the text about the harbour into French."
    found = called(await ask(query, tools=(AgentTool(agent=helper).spec,)))
    assert found == ("translator", {"request": query})


# --- after a result -----------------------------------------------------------------------------


async def test_it_answers_from_a_result() -> None:
    answer = await ask(
        "Is ann@example.org valid?",
        tools=ENGLISH,
        messages=done(
            "validate_email", {"is_valid": True, "domain": "example.org"}, email="ann@example.org"
        ),
    )
    assert answer.calls == ()
    assert "is_valid: true" in answer.text
    assert "domain: example.org" in answer.text


async def test_a_text_result_is_the_answer() -> None:
    answer = await ask(
        "What is the weather in Paris?",
        tools=specs(current_weather, weather_forecast),
        messages=done("current_weather", "Sunny, 21 degrees.", city="Paris"),
    )
    assert answer.text == "Sunny, 21 degrees."


async def test_the_answer_is_in_the_language_of_the_query() -> None:
    answer = await ask(
        "注文番号 B-77 の配送状況を教えてください。",
        tools=JAPANESE,
        messages=done(
            "track_parcel", {"status": "denied", "reason": ""}, is_error=True, order_id="B-77"
        ),
    )
    assert answer.calls == ()
    assert "track_parcel" in answer.text
    assert "ませんでした" in answer.text


async def test_errors_and_denials_are_told_plainly() -> None:
    failed = await ask(
        "Refund order A-1, amount: 30",
        tools=ENGLISH,
        messages=done(
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
        messages=done(
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


async def test_the_next_tool_takes_what_the_last_one_found() -> None:
    tools = specs(find_order, refund_order)
    query = "Find the newest order of ann@example.org and pay the money back."
    assert called(await ask(query, tools=tools)) == (
        "find_order",
        {"customer_email": "ann@example.org"},
    )
    first = done("find_order", {"order_id": "A-7", "amount": 45}, customer_email="ann@example.org")
    assert called(await ask(query, tools=tools, messages=first)) == (
        "refund_order",
        {"order_id": "A-7", "amount": 45},
    )
    second = done("refund_order", {"refunded": True}, order_id="A-7", amount=45)
    last = await ask(query, tools=tools, messages=(*first, *second))
    assert last.calls == ()
    assert "refunded: true" in last.text


async def test_tools_named_in_the_instruction_are_called_in_its_order() -> None:
    instruction = "First call validate_email, then server_time. The email is x@example.com."
    tools = specs(server_time, validate_email)
    first = await ask("Start.", instruction=instruction, tools=tools)
    assert called(first) == ("validate_email", {"email": "x@example.com"})
    after = done("validate_email", {"is_valid": True}, email="x@example.com")
    second = await ask("Start.", instruction=instruction, tools=tools, messages=after)
    assert called(second) == ("server_time", {})


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
async def test_it_hands_over_to_whom_the_query_fits(
    query: str, tools: ToolSpec, target: str
) -> None:
    answer = await ask(query, instruction="You are the front desk.", tools=(tools,))
    assert called(answer) == ("transfer_to_agent", {"agent_name": target})


async def test_an_instruction_that_says_whom_to_send_is_followed() -> None:
    desks = transfer(alpha="The first team.", beta="The second team.")
    instruction = "Greet people. Send questions about parking to beta, and about food to alpha."
    answer = await ask("Where is the parking lot?", instruction=instruction, tools=(desks,))
    assert called(answer) == ("transfer_to_agent", {"agent_name": "beta"})


@pytest.mark.parametrize(
    ("query", "instruction"),
    [
        ("Hello there.", "You are the front desk."),
        ("I want a refund for my broken device.", "You handle refunds and payments for devices."),
        ("What are your opening hours?", "The opening hours are 9 to 5."),
    ],
)
async def test_it_answers_itself_where_nobody_fits_clearly_better(
    query: str, instruction: str
) -> None:
    answer = await ask(query, instruction=instruction, tools=(DESKS,))
    assert answer.calls == ()
    assert answer.text


async def test_it_does_not_hand_back_to_whoever_has_just_handed_over() -> None:
    desks = transfer(
        desk="Answers questions about invoices first.", support="Solves technical problems."
    )
    handed = PromptMessage(
        role="agent",
        author="desk",
        parts=(
            Part(call=ToolCall(id="1", name="transfer_to_agent", arguments={"agent_name": "x"})),
        ),
    )
    answer = await ask("A question about invoices.", tools=(desks,), messages=(handed,))
    assert answer.calls == ()


async def test_what_a_colleague_gave_back_is_the_answer() -> None:
    answer = await ask(
        "There is a mistake in my invoice.",
        tools=(DESKS,),
        messages=done("transfer_to_agent", "The invoice has been corrected.", agent_name="billing"),
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
async def test_a_loop_ends_when_the_instruction_and_the_last_words_say_so(
    instruction: str, last: str, ends: bool
) -> None:
    answer = await ask(
        "Write a poem.",
        instruction=instruction,
        tools=(exit_loop.spec,),
        messages=(said("writer", last),),
    )
    assert called(answer) == (("exit_loop", {}) if ends else None)


# --- the words of others ------------------------------------------------------------------------


async def test_it_answers_from_what_other_agents_said_newest_last() -> None:
    words = (said("a", "The harbour opens at 8:00."), said("b", "The harbour opens at 9:00 now."))
    answer = await ask("When does the harbour open?", messages=words)
    assert answer.text == "The harbour opens at 9:00 now."


async def test_a_request_that_is_no_question_is_answered_with_the_newest_words() -> None:
    words = (said("a", "Draft one."), said("b", "The trip takes two days and goes by train."))
    answer = await ask("Plan a trip to the coast.", messages=words)
    assert answer.text == "The trip takes two days and goes by train."


async def test_the_rules_hold_for_results_too() -> None:
    answer = await ask(
        "What is the weather in Paris?",
        instruction='End every answer with "Desk out."',
        tools=specs(current_weather),
        messages=done("current_weather", "Sunny.", city="Paris"),
    )
    assert answer.text == "Sunny.\nDesk out."


# --- streaming and the rest ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "memory"),
    [
        ("Who is the lead?", "user: The lead is Mara Lindqvist of the harbour office."),
        ("障害統括は誰ですか。", "user: 障害統括は佐伯さんで、連絡先は内線の四番です。"),
    ],
)
async def test_a_stream_gives_pieces_and_then_the_same_answer(query: str, memory: str) -> None:
    prompt = Prompt(query=query, memory=memory)
    pieces = [piece async for piece in EmbeddedModel().stream(prompt)]
    last = pieces.pop()
    assert isinstance(last, ModelAnswer)
    assert last == await EmbeddedModel().complete(prompt)
    assert len(pieces) > 2
    assert "".join(str(piece) for piece in pieces) == last.text


WORDS = st.text(max_size=120)


@given(WORDS, WORDS, WORDS)
async def test_any_prompt_gets_the_same_answer_twice(query: str, words: str, result: str) -> None:
    prompt = Prompt(
        query=query,
        instruction=words,
        tools=(*ENGLISH, *JAPANESE, DESKS, exit_loop.spec),
        messages=(said("a", words), *done("add", {"x": result})),
    )
    first = await EmbeddedModel().complete(prompt)
    assert first == await EmbeddedModel().complete(prompt)
    assert first.text or first.calls
