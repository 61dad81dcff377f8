"""One suite for ACC memory in all frameworks, with the real frameworks and scripted models."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording import Sent, check_pairs
from test_framework_agents import is_installed

from acc.bootstrap.memory import token_counter

sys.path.insert(0, str(Path(__file__).parent))

FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "google_adk": "google.adk",
    "langgraph": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
}
Converse = Callable[..., Any]


@pytest.fixture(
    params=[
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                not is_installed(package), reason=f"{package} is not installed"
            ),
        )
        for name, package in FRAMEWORKS.items()
    ]
)
def converse(request: pytest.FixtureRequest) -> Converse:
    conversation: Converse = import_module(f"scripted_{request.param}").MemoryConversation
    return conversation


def tokens(request: list[Sent]) -> int:
    count = token_counter().count
    return sum(count(message.text) for message in request)


def message(number: int) -> str:
    """Return a message of a long conversation; every third one needs a tool."""
    if number % 3 == 0:
        return f"Then please add {number} 3"
    return (
        f"About order {number * 37}: the customer in room {number} of the hotel asked for "
        f"{number % 7 + 1} towels, a late breakfast at {number % 12} o'clock and a taxi to the "
        f"station on day {number}. 部屋{number}の予約は{number % 28 + 1}日までです。 Please note "
        "all of it and tell the reception about it, because the manager wants a complete list."
    )


async def test_input_of_turn_500_is_at_most_a_quarter_larger_than_of_turn_10(
    converse: Converse,
) -> None:
    conversation = converse()
    sizes: dict[int, int] = {}
    for number in range(1, 501):
        await conversation.send(message(number))
        sizes[number] = tokens(conversation.requests[0])
        conversation.forget_requests()
    early = max(sizes[number] for number in (8, 9, 10))
    assert max(sizes[number] for number in range(491, 501)) <= 1.25 * early


async def test_calls_and_results_stay_together(converse: Converse) -> None:
    conversation = converse(budget=256)
    for number in range(1, 31):
        await conversation.send(message(number))
    assert any(one.calls for request in conversation.requests for one in request)
    for request in conversation.requests:
        check_pairs(request)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    turns=st.lists(
        st.one_of(
            st.integers(0, 99).map(lambda number: f"add {number} 3"),
            st.sampled_from(["break it", "Always answer in French.", "常に丁寧に答えてください。"]),
            st.integers(1, 60).map(lambda number: "The guest of room 7 wants a towel. " * number),
        ),
        min_size=2,
        max_size=10,
    ),
    budget=st.integers(128, 1_024),
)
async def test_no_conversation_splits_a_call_from_its_result(
    converse: Converse, turns: list[str], budget: int
) -> None:
    conversation = converse(budget=budget)
    for text in turns:
        # A tool that fails may end the run of a framework; the next turn continues.
        with suppress(RuntimeError):
            await conversation.send(text)
    assert conversation.requests
    for request in conversation.requests:
        check_pairs(request)


async def test_history_of_the_framework_is_not_changed(converse: Converse) -> None:
    conversation = converse(budget=256)
    sent = [message(number) for number in range(1, 13)]
    for text in sent:
        await conversation.send(text)
    assert await conversation.history() == sent


async def test_rule_of_the_first_turn_reaches_the_last_request(converse: Converse) -> None:
    conversation = converse()
    await conversation.send("Always answer in French from now on.")
    for number in range(2, 31):
        await conversation.send(message(number))
    request = conversation.requests[-1]
    assert any("<memory>" in one.text and "French" in one.text for one in request)
    assert any("helpful desk" in one.text for one in request) or not any(
        one.role == "system" for one in conversation.requests[0]
    )


async def test_current_turn_is_sent_unchanged(converse: Converse) -> None:
    conversation = converse()
    await conversation.send("hello")
    assert await conversation.send("add 2 3") == "tool said 5"
    last = conversation.requests[-1]
    assert [one.text.strip() for one in last if "add 2 3" in one.text] == ["add 2 3"]
    assert last[-1].results


async def test_conversations_do_not_mix(converse: Converse, tmp_path: Path) -> None:
    store = str(tmp_path / "memory.db")
    first, second = converse(store), converse(store, session_id="b")
    await first.send("Always answer in French from now on.")
    await second.send("hello")
    await second.send("hello again")
    assert not any("French" in one.text for request in second.requests for one in request)
    await first.close()
    await second.close()


async def test_state_survives_the_process_and_the_history(
    converse: Converse, tmp_path: Path
) -> None:
    store = str(tmp_path / "memory.db")
    conversation = converse(store)
    await conversation.send("Always answer in French from now on.")
    await conversation.send("My name is 田中.")
    await conversation.close()
    conversation = converse(store)  # a new process: the framework has no history
    await conversation.send("What is my name?")
    request = " ".join(one.text for one in conversation.requests[-1])
    assert "French" in request
    assert "田中" in request
    await conversation.close()
