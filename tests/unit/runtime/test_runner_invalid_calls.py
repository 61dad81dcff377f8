"""Tests of the session methods of the runner."""

from typing import Any

import pytest
from runner_harness import APP, SESSION, USER, PaymentTool, Storage, scripted_agent

from acc import Agent, BaseAgent, EventKind, RunContext, Runner, approve, deny
from acc.domain.errors import InvalidInput, NothingPending
from acc.testing import ScriptedModel, call


class Writer(BaseAgent):
    async def run(self, ctx: RunContext) -> str:
        await ctx.artifacts.save("note.txt", f"for {ctx.state['who']}")
        return "written"


async def test_state_can_be_set_before_the_first_message() -> None:
    model = ScriptedModel("hello")
    runner = Runner(Agent(name="a", model=model, instruction="Greet {user:name}."))
    values = {"user:name": "Mio", "visits": [1]}
    await runner.update_state(values, user_id="u", session_id="s")
    assert await runner.state(user_id="u", session_id="s") == values
    result = await runner.run(user_id="u", session_id="s", message="hi")
    assert model.requests[0].instruction == "Greet Mio."
    assert [event.seq for event in result.events] == [2, 3, 4]
    assert (await runner.events(user_id="u", session_id="s"))[0].kind is EventKind.STATE


async def test_artifact_can_be_loaded_through_the_runner() -> None:
    runner = Runner(Writer(name="w"))
    await runner.update_state({"who": "you"}, user_id="u", session_id="s")
    await runner.run(user_id="u", session_id="s", message="write")
    stored = await runner.load_artifact("note.txt", user_id="u", session_id="s")
    assert stored is not None
    assert (stored.text, stored.version) == ("for you", 1)
    assert await runner.load_artifact("none", user_id="u", session_id="s") is None


async def test_result_names_the_answering_agent() -> None:
    runner = Runner(Agent(name="a", model=ScriptedModel("hello")))
    result = await runner.run(user_id="u", session_id="s", message="hi")
    assert result.answered_by == "a"


async def test_invalid_arguments_are_rejected_without_effect(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("pay", amount=5), "done"), payment.tool())
    )
    runner = harness.runner
    who: dict[str, Any] = {"user_id": USER, "session_id": SESSION}
    with pytest.raises(InvalidInput, match="values must be a mapping"):
        await runner.update_state(None, **who)  # type: ignore[arg-type]
    (request,) = (await harness.say("pay")).requests
    yes = approve(request.id)
    with pytest.raises(NothingPending, match=f"'{request.id}' is answered twice"):
        await harness.answer(yes, deny(request.id))
    with pytest.raises(InvalidInput, match="answers must be a list"):
        await runner.resume(**who, answers=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="a message or answers, not both"):
        await anext(runner.stream(**who, message="and?", answers=[yes]))
    assert await harness.pending() == (request,)
    assert (await runner.resume(**who, answers=yes)).text == "done"
    assert payment.paid == [5]


async def test_abandon_fails_without_a_paused_run(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("hi")))
    with pytest.raises(NothingPending, match="session 's1' does not exist"):
        await harness.abandon()
    assert await harness.runner.services.sessions.sessions(APP, USER) == ()
    with pytest.raises(NothingPending, match="session 's1' does not wait for input"):
        await harness.answer()
    await harness.say("hello")
    with pytest.raises(NothingPending, match="its last run is completed"):
        await harness.abandon()
