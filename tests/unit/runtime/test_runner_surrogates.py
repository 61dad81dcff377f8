"""Half a character, which nothing can store, comes to the same in every store."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from runner_harness import Storage, check_record, scripted_agent

from acc import BaseAgent, ParallelAgent, RunContext, RunStatus, tool
from acc.domain.errors import AccError, AgentFailed, InvalidInput, ModelFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

HALF = "bad \ud800"


@dataclass(kw_only=True, eq=False)
class Half(BaseAgent):
    """Does something with an unpaired surrogate; what that returns is its answer."""

    do: Callable[[RunContext], Any]

    async def run(self, ctx: RunContext) -> str:
        return str(self.do(ctx))


def fails(name: str = "half") -> Half:
    def fail(ctx: RunContext) -> None:
        raise ValueError(HALF)

    return Half(name=name, do=fail)


@dataclass(kw_only=True, eq=False)
class Emits(BaseAgent):
    """Puts a part on record by itself."""

    part: Part

    async def run(self, ctx: RunContext) -> str:
        await ctx.emit(EventKind.MESSAGE, parts=(self.part,))
        return "done"


@pytest.mark.parametrize("message", [HALF, Part(text=HALF), [Part(data={"a": HALF})]])
async def test_a_message_with_half_a_character_is_refused_before_the_run(
    storage: Storage, message: Any
) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("ok")))
    with pytest.raises(InvalidInput, match="message"):
        await harness.say(message)
    assert await harness.events() == ()
    assert (await harness.say("木を見て森も見る 🌳")).text == "ok"


async def test_unpaired_surrogate_in_answer_becomes_question_mark(
    storage: Storage,
) -> None:
    harness = storage.harness(Half(name="half", do=lambda ctx: HALF))
    result = await harness.say("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "bad ?")
    assert [event.text for event in await harness.events()] == ["go", "bad ?", "bad ?"]
    check_record(await harness.events())


async def test_what_a_callback_says_instead_is_made_whole_too(storage: Storage) -> None:
    agent = scripted_agent(ScriptedModel("ok"), before_agent_callback=lambda ctx: HALF)
    assert (await storage.harness(agent).say("go")).text == "bad ?"


async def test_an_agent_that_fails_with_half_a_character_has_its_own_error_on_record(
    storage: Storage,
) -> None:
    harness = storage.harness(fails())
    with pytest.raises(AgentFailed) as failed:
        await harness.say("go")
    assert str(failed.value) == "agent 'half' failed: ValueError: bad ?"
    ended = (await harness.events())[-1]
    assert (ended.text, ended.detail["code"]) == (str(failed.value), "agent_failed")
    again = harness.restarted(scripted_agent(ScriptedModel("ok")))
    assert (await again.say("again")).text == "ok"
    assert await again.ends() == [RunStatus.FAILED, RunStatus.COMPLETED]


async def test_a_model_that_fails_with_half_a_character_has_its_own_error_on_record(
    storage: Storage,
) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(ValueError(HALF))))
    with pytest.raises(ModelFailed, match=r"bad \?"):
        await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]


async def test_a_reason_with_half_a_character_ends_the_run_as_rejected(storage: Storage) -> None:
    harness = storage.harness(Half(name="half", do=lambda ctx: ctx.reject(HALF)))
    result = await harness.say("go")
    assert (result.status, result.text) == (RunStatus.REJECTED, "rejected: half: bad ?")
    assert await harness.ends() == [RunStatus.REJECTED]


async def test_a_branch_that_fails_with_half_a_character_leaves_the_others_be(
    storage: Storage,
) -> None:
    fine = Half(name="fine", do=lambda ctx: "fine")
    tree = ParallelAgent(name="both", sub_agents=[fails("bad"), fine], on_error="collect")
    harness = storage.harness(tree)
    result = await harness.say("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "fine: fine")
    faults = [event.text for event in await harness.events() if event.kind is EventKind.FAULT]
    assert faults == ["agent 'bad' failed: ValueError: bad ?"]


async def test_tool_error_with_unpaired_surrogate_becomes_error_result(
    storage: Storage,
) -> None:
    @tool
    def look() -> str:
        """Look."""
        raise ValueError(HALF)

    harness = storage.harness(scripted_agent(ScriptedModel(call("look"), "told"), look))
    assert (await harness.say("go")).text == "told"
    found = [event.result for event in await harness.events() if event.result is not None]
    assert [one.content["error"].endswith("bad ?") for one in found] == [True]


@pytest.mark.parametrize("part", [Part(text=HALF), Part(data={"a": HALF})])
async def test_parts_that_an_agent_puts_on_record_itself_are_refused_by_every_store(
    storage: Storage, part: Part
) -> None:
    harness = storage.harness(Emits(name="half", part=part))
    with pytest.raises(InvalidInput, match="message event of 'half' cannot be stored"):
        await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]


def test_an_error_can_be_stored_and_printed_whatever_it_tells() -> None:
    assert str(AccError(HALF)) == "bad ?"
    assert str(AccError("木 🌳")) == "木 🌳"
