"""Tests of unpaired surrogates, which no store accepts."""

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

SURROGATE = "bad \ud800"


@dataclass(kw_only=True, eq=False)
class CallsFunction(BaseAgent):
    """Agent that answers with the result of a function."""

    do: Callable[[RunContext], Any]

    async def run(self, ctx: RunContext) -> str:
        return str(self.do(ctx))


def failing_agent(name: str = "half") -> CallsFunction:
    def fail(ctx: RunContext) -> None:
        raise ValueError(SURROGATE)

    return CallsFunction(name=name, do=fail)


@dataclass(kw_only=True, eq=False)
class Emits(BaseAgent):
    """Agent that emits a part."""

    part: Part

    async def run(self, ctx: RunContext) -> str:
        await ctx.emit(EventKind.MESSAGE, parts=(self.part,))
        return "done"


@pytest.mark.parametrize(
    "message", [SURROGATE, Part(text=SURROGATE), [Part(data={"a": SURROGATE})]]
)
async def test_message_with_unpaired_surrogate_is_rejected(storage: Storage, message: Any) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("ok")))
    with pytest.raises(InvalidInput, match="message"):
        await harness.say(message)
    assert await harness.events() == ()
    assert (await harness.say("木を見て森も見る 🌳")).text == "ok"


async def test_unpaired_surrogate_in_answer_becomes_question_mark(
    storage: Storage,
) -> None:
    harness = storage.harness(CallsFunction(name="half", do=lambda ctx: SURROGATE))
    result = await harness.say("go")
    assert (result.status, result.text) == (RunStatus.COMPLETED, "bad ?")
    assert [event.text for event in await harness.events()] == ["go", "bad ?", "bad ?"]
    check_record(await harness.events())


async def test_unpaired_surrogate_of_callback_becomes_question_mark(storage: Storage) -> None:
    agent = scripted_agent(ScriptedModel("ok"), before_agent_callback=lambda ctx: SURROGATE)
    assert (await storage.harness(agent).say("go")).text == "bad ?"


async def test_agent_error_with_unpaired_surrogate_is_recorded(
    storage: Storage,
) -> None:
    harness = storage.harness(failing_agent())
    with pytest.raises(AgentFailed) as failed:
        await harness.say("go")
    assert str(failed.value) == "agent 'half' failed: ValueError: bad ?"
    ended = (await harness.events())[-1]
    assert (ended.text, ended.detail["code"]) == (str(failed.value), "agent_failed")
    again = harness.restarted(scripted_agent(ScriptedModel("ok")))
    assert (await again.say("again")).text == "ok"
    assert await again.ends() == [RunStatus.FAILED, RunStatus.COMPLETED]


async def test_model_error_with_unpaired_surrogate_is_recorded(
    storage: Storage,
) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(ValueError(SURROGATE))))
    with pytest.raises(ModelFailed, match=r"bad \?"):
        await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]


async def test_reject_reason_with_unpaired_surrogate_is_recorded(storage: Storage) -> None:
    harness = storage.harness(CallsFunction(name="half", do=lambda ctx: ctx.reject(SURROGATE)))
    result = await harness.say("go")
    assert (result.status, result.text) == (RunStatus.REJECTED, "rejected: half: bad ?")
    assert await harness.ends() == [RunStatus.REJECTED]


async def test_branch_error_with_unpaired_surrogate_does_not_affect_others(
    storage: Storage,
) -> None:
    fine = CallsFunction(name="fine", do=lambda ctx: "fine")
    tree = ParallelAgent(name="both", sub_agents=[failing_agent("bad"), fine], on_error="collect")
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
        raise ValueError(SURROGATE)

    harness = storage.harness(scripted_agent(ScriptedModel(call("look"), "reported"), look))
    assert (await harness.say("go")).text == "reported"
    found = [event.result for event in await harness.events() if event.result is not None]
    assert [one.content["error"].endswith("bad ?") for one in found] == [True]


@pytest.mark.parametrize("part", [Part(text=SURROGATE), Part(data={"a": SURROGATE})])
async def test_emitted_part_with_unpaired_surrogate_fails_the_run(
    storage: Storage, part: Part
) -> None:
    harness = storage.harness(Emits(name="half", part=part))
    with pytest.raises(InvalidInput, match="message event of 'half' cannot be stored"):
        await harness.say("go")
    assert await harness.ends() == [RunStatus.FAILED]


def test_error_text_replaces_unpaired_surrogates() -> None:
    assert str(AccError(SURROGATE)) == "bad ?"
    assert str(AccError("木 🌳")) == "木 🌳"
