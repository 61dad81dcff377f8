"""Replay of recorded turns, in process: recorded answers, another model, another memory."""

from typing import Any

import pytest

from acc import Agent, Runner, approve, tool
from acc.bootstrap.inspection import replay_recorded
from acc.domain.errors import InvalidInput
from acc.testing import ScriptedModel, call


@tool
def price(item: str) -> str:
    """Return the price of an item."""
    return f"{item} costs 20"


def agent(*script: Any) -> Agent:
    return Agent(name="desk", model=ScriptedModel(*script), tools=[price], memory="acc")


async def recorded(root: Agent, *messages: str) -> Any:
    runner = Runner(root)
    for message in messages:
        await runner.run(message, user_id="u", session_id="s")
    return await runner.services.sessions.events(runner.session_key("u", "s"))


async def test_recorded_answers_give_the_same_turns() -> None:
    root = agent(call("price", item="lamp"), "It costs 20.", "Two cost 40.")
    events = await recorded(root, "What does the lamp cost?", "And two?")
    turns = await replay_recorded(events, agent())
    assert len(turns) == 2
    assert [turn.changed for turn in turns] == [(), ()]
    assert [turn.message for turn in turns] == ["What does the lamp cost?", "And two?"]


async def test_other_memory_and_one_run() -> None:
    root = agent("Noted.", "Yes.")
    events = await recorded(root, "From now on, answer in French.", "Do you remember?")
    turns = await replay_recorded(events, agent(), memory="transcript")
    assert len(turns) == 2
    assert turns[1].changed  # the request contains the messages instead of the state
    run_id = next(event.run_id for event in reversed(events))
    (turn,) = await replay_recorded(events, agent(), run_id=run_id)
    assert turn.changed == ()


async def test_other_model_gives_other_answers() -> None:
    events = await recorded(agent("An answer that nobody else gives."), "Hello?")
    (turn,) = await replay_recorded(events, agent(), model="embedded")
    assert "answer" in turn.changed


async def test_unknown_memory_is_rejected() -> None:
    events = await recorded(agent("Yes."), "Hello?")
    with pytest.raises(InvalidInput, match="unknown memory"):
        await replay_recorded(events, agent(), memory="akk")


@tool(confirm=True)
def refund(amount: int) -> str:
    """Refund an amount."""
    return f"refunded {amount}"


def cashier(*script: Any) -> Agent:
    return Agent(name="cashier", model=ScriptedModel(*script), tools=[refund])


async def test_paused_run_is_replayed_without_a_difference() -> None:
    events = await recorded(cashier(call("refund", amount=5)), "返金してください")
    (turn,) = await replay_recorded(events, cashier())
    assert turn.recorded.status == "input_required"
    assert turn.changed == ()


async def test_abandoned_run_is_replayed_without_a_difference() -> None:
    runner = Runner(cashier(call("refund", amount=5), "Hello."))
    await runner.run("refund", user_id="u", session_id="s")
    await runner.abandon(user_id="u", session_id="s")
    await runner.run("hello", user_id="u", session_id="s")
    events = await runner.services.sessions.events(runner.session_key("u", "s"))
    turns = await replay_recorded(events, cashier())
    assert [turn.recorded.status for turn in turns] == ["canceled", "completed"]
    assert [turn.changed for turn in turns] == [(), ()]


async def test_approved_run_is_replayed_without_a_difference() -> None:
    runner = Runner(cashier(call("refund", amount=5), "Done."))
    paused = await runner.run("refund", user_id="u", session_id="s")
    await runner.resume(approve(paused.requests[0]), user_id="u", session_id="s")
    events = await runner.services.sessions.events(runner.session_key("u", "s"))
    (turn,) = await replay_recorded(events, cashier())
    assert turn.changed == ()
