"""`runner.sessions`: list, get, delete, fork and rewind, in both stores."""

from typing import Any

import pytest
from runner_harness import PaymentTool, Storage

from acc import (
    Agent,
    BaseAgent,
    EventKind,
    InvalidInput,
    NothingPending,
    RunContext,
    RunStatus,
    approve,
    make_memory,
    tool,
)
from acc.testing import ScriptedModel, call

USER = "ann"


class Counter(BaseAgent):
    """Counts its turns in the session and over all sessions of the user."""

    async def run(self, ctx: RunContext) -> str:
        ctx.state["turns"] = ctx.state.get("turns", 0) + 1
        ctx.state["user:turns"] = ctx.state.get("user:turns", 0) + 1
        await ctx.artifacts.save("log", ctx.message)
        return str(ctx.state["turns"])


async def test_list_and_get_return_the_sessions_of_a_user(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    sessions = harness.runner.sessions
    assert await sessions.list(user_id=USER) == ()
    assert await sessions.get("s1", user_id=USER) is None
    await harness.say("one")
    storage.clock.time += 1
    await harness.say("one", session="s2")
    found = await sessions.list(user_id=USER)
    assert [(s.session_id, s.turns, s.status) for s in found] == [
        ("s2", 1, RunStatus.COMPLETED),
        ("s1", 1, RunStatus.COMPLETED),
    ]
    session = await sessions.get("s1", user_id=USER)
    assert session is not None
    assert session.state["turns"] == 1


async def test_rewind_continues_from_a_turn_with_its_state(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    for text in ("one", "two", "three"):
        await harness.say(text)
    session = await harness.runner.sessions.rewind("s1", turn=1, user_id=USER)
    assert (session.turns, session.state["turns"], session.state["user:turns"]) == (1, 1, 3)
    artifact = await harness.runner.load_artifact("log", user_id=USER, session_id="s1")
    assert artifact is not None
    assert (artifact.version, artifact.text) == (1, "one")
    result = await harness.say("two again")
    assert (result.text, result.state["user:turns"]) == ("2", 4)
    turns = [e.text for e in await harness.events() if e.author == "user"]
    assert turns == ["one", "two again"]


async def test_rewind_to_turn_zero_keeps_what_was_written_before(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.runner.update_state({"turns": 10}, user_id=USER, session_id="s1")
    await harness.say("one")
    session = await harness.runner.sessions.rewind("s1", turn=0, user_id=USER)
    assert (session.turns, session.state["turns"]) == (0, 10)
    assert (await harness.say("one")).text == "11"


async def test_rewind_to_the_last_turn_changes_nothing(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.say("one")
    events = await harness.events()
    await harness.runner.sessions.rewind("s1", turn=1, user_id=USER)
    assert await harness.events() == events


@pytest.mark.parametrize("turn", [-1, 2, True, "1", None])
async def test_rewind_to_an_invalid_turn_is_rejected(storage: Storage, turn: Any) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.say("one")
    with pytest.raises(InvalidInput, match="turn must be a number from 0 to 1"):
        await harness.runner.sessions.rewind("s1", turn=turn, user_id=USER)


async def test_unknown_session_is_reported_with_the_known_ones(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.say("one")
    sessions = harness.runner.sessions
    for change in (
        sessions.rewind("s9", turn=0, user_id=USER),
        sessions.fork("s9", user_id=USER),
        sessions.delete("s9", user_id=USER),
    ):
        with pytest.raises(InvalidInput, match="no session 's9'; sessions: 's1'"):
            await change


async def test_fork_copies_the_turns_up_to_one_and_both_continue(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    for text in ("one", "two", "three"):
        await harness.say(text)
    sessions = harness.runner.sessions
    fork = await sessions.fork("s1", turn=2, new_session_id="s2", user_id=USER)
    assert (fork.session_id, fork.turns, fork.state["turns"]) == ("s2", 2, 2)
    assert (await harness.say("three", session="s2")).text == "3"
    assert (await harness.say("four")).text == "4"
    whole = await sessions.fork("s1", user_id=USER)
    assert (whole.turns, len(whole.session_id) > 8) == (4, True)
    with pytest.raises(InvalidInput, match="'s2' already exists"):
        await sessions.fork("s1", new_session_id="s2", user_id=USER)


async def test_deleted_session_starts_again(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.say("one")
    await harness.runner.sessions.delete("s1", user_id=USER)
    assert await harness.runner.sessions.list(user_id=USER) == ()
    assert (await harness.say("one")).text == "1"


MEMORIES = ["transcript", "retrieval", "acc"]


def remembering(memory: Any) -> tuple[Agent, ScriptedModel]:
    model = ScriptedModel("ok", repeat=True)
    return Agent(name="a", model=model, memory=memory), model


def seen(model: ScriptedModel) -> str:
    return repr(model.requests[-1])


@pytest.mark.parametrize("memory", MEMORIES)
async def test_memory_does_not_see_turns_dropped_by_a_rewind(storage: Storage, memory: str) -> None:
    agent, model = remembering(memory)
    harness = storage.harness(agent)
    await harness.say("The office is in Kyoto.")
    await harness.say("The office is in Nara.")
    await harness.runner.sessions.rewind("s1", turn=1, user_id=USER)
    for current in (harness, storage.harness(agent)):  # the cached memory, and a restored one
        await current.say("Where is the office?")
        assert "Kyoto" in seen(model)
        assert "Nara" not in seen(model)


@pytest.mark.parametrize("memory", MEMORIES)
async def test_memory_of_another_process_does_not_see_dropped_turns(
    storage: Storage, memory: str
) -> None:
    agent, model = remembering(memory)
    harness, other = storage.harness(agent), storage.harness(agent)
    await harness.say("The office is in Kyoto.")
    await harness.say("The office is in Nara.")
    await other.runner.sessions.rewind("s1", turn=1, user_id=USER)
    await other.say("The office has a room in Osaka.")
    await harness.say("Where is the office?")
    assert "Kyoto" in seen(model)
    assert "Osaka" in seen(model)
    assert "Nara" not in seen(model)


@pytest.mark.parametrize("memory", MEMORIES)
async def test_memory_of_a_fork_sees_its_own_turns(storage: Storage, memory: str) -> None:
    agent, model = remembering(memory)
    harness = storage.harness(agent)
    await harness.say("The office is in Kyoto.")
    await harness.say("The office is in Nara.")
    await harness.runner.sessions.fork("s1", turn=1, new_session_id="s2", user_id=USER)
    await harness.say("Where is the office?", session="s2")
    assert "Kyoto" in seen(model)
    assert "Nara" not in seen(model)
    await harness.say("Where is the office?")
    assert "Nara" in seen(model)


async def test_rewind_with_a_memory_object_is_rejected(storage: Storage) -> None:
    agent, _ = remembering(make_memory("transcript"))
    harness = storage.harness(agent)
    await harness.say("one")
    with pytest.raises(InvalidInput, match="pass a function that creates a memory"):
        await harness.runner.sessions.rewind("s1", turn=0, user_id=USER)
    session = await harness.runner.sessions.get("s1", user_id=USER)
    assert session is not None
    assert session.turns == 1


@tool(confirm=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def payer() -> Agent:
    return Agent(name="a", model=ScriptedModel("hi", call("pay", amount=1), "paid"), tools=[pay])


async def test_rewind_cancels_a_pending_request_of_a_dropped_turn(storage: Storage) -> None:
    harness = storage.harness(payer())
    await harness.say("hello")
    paused = await harness.say("pay")
    session = await harness.runner.sessions.rewind("s1", turn=1, user_id=USER)
    assert session.status is RunStatus.COMPLETED
    assert await harness.pending() == ()
    with pytest.raises(NothingPending):
        await harness.answer(approve(paused.requests[0].id))
    assert [e.kind for e in await harness.events()][-1] is EventKind.REWOUND


async def test_fork_does_not_carry_over_a_pending_approval(storage: Storage) -> None:
    payment = PaymentTool()
    model = ScriptedModel(call("pay", amount=5), "paid", "hello")
    agent = Agent(name="a", model=model, tools=[payment.tool()])
    harness = storage.harness(agent)
    paused = await harness.say("pay")
    fork = await harness.runner.sessions.fork("s1", new_session_id="s2", user_id=USER)
    assert fork.status is RunStatus.CANCELED
    with pytest.raises(NothingPending):
        await harness.answer(approve(paused.requests[0].id), session="s2")
    await harness.approve_all(paused.requests)
    with pytest.raises(NothingPending):
        await harness.answer(approve(paused.requests[0].id), session="s2")
    assert payment.paid == [5]
    await harness.say("what happened?", session="s2")
    earlier = model.requests[-1].earlier
    assert "was not started: nobody approved it" in str(earlier[-2].results[0].content)
    assert "was copied" in earlier[-1].text


async def test_fork_during_an_approved_call_does_not_repeat_it(storage: Storage) -> None:
    paid: list[int] = []

    @tool(confirm=True)
    async def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        if len(paid) == 1:
            await harness.runner.sessions.fork("s1", new_session_id="s2", user_id=USER)
        return "paid"

    agent = Agent(name="a", model=ScriptedModel(call("pay", amount=5), "ok"), tools=[pay])
    harness = storage.harness(agent)
    await harness.approve_all((await harness.say("pay")).requests)
    with pytest.raises(NothingPending):
        await harness.answer(session="s2")
    assert paid == [5]


async def test_rewind_of_a_paused_session_to_its_last_turn_still_executes_once(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    model = ScriptedModel(call("pay", amount=5), "paid")
    harness = storage.harness(Agent(name="a", model=model, tools=[payment.tool()]))
    paused = await harness.say("pay")
    session = await harness.runner.sessions.rewind("s1", turn=1, user_id=USER)
    assert session.status is RunStatus.INPUT_REQUIRED
    await harness.approve_all(paused.requests)
    with pytest.raises(NothingPending):
        await harness.approve_all(paused.requests)
    assert payment.paid == [5]


async def test_delete_cancels_a_pending_request(storage: Storage) -> None:
    harness = storage.harness(payer())
    await harness.say("hello")
    await harness.say("pay")
    await harness.runner.sessions.delete("s1", user_id=USER)
    assert await harness.pending() == ()


async def test_state_of_a_session_that_has_not_begun_has_the_shared_keys(storage: Storage) -> None:
    harness = storage.harness(Counter(name="c"))
    await harness.say("one")
    values = {"app:motto": "hi", "own": 1}
    await harness.runner.update_state(values, user_id=USER, session_id="s1")
    state = await harness.runner.state(user_id=USER, session_id="new")
    assert state == {"user:turns": 1, "app:motto": "hi"}
    assert await harness.runner.sessions.get("new", user_id=USER) is None
