"""Tests of input requests of custom agents and of long-running tools."""

from functools import partial
from typing import Any

import pytest
from runner_harness import Storage, check_record, scripted_agent

from acc import BaseAgent, RunContext, ToolContext, approve, deny, tool
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.approval import ApprovalDecision, RequestKind
from acc.testing import ScriptedModel, call


def results(model: ScriptedModel, question: int = -1) -> list[Any]:
    """Return the tool results in a request of the model."""
    return [
        part.result.content
        for message in model.requests[question].messages
        for part in message.parts
        if part.result is not None
    ]


class AsksTwoQuestions(BaseAgent):
    """Asks for a name and a colour, one after the other."""

    async def run(self, ctx: RunContext) -> str:
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        name = await ctx.request_input("Who?", schema={"type": "string"}, expires_after=60)
        if name.verdict is not ApprovalDecision.APPROVE:
            return f"no name: {name.verdict.value}"
        colour = await ctx.request_input(f"Which colour, {name.value}?")
        return f"{name.value} likes {colour.value}"


async def test_custom_agent_continues_with_each_answer(
    storage: Storage,
) -> None:
    harness = storage.harness(AsksTwoQuestions(name="asking"))
    (who,) = (await harness.say("hi")).requests
    assert (who.kind, who.schema) == (RequestKind.INPUT, {"type": "string"})
    (colour,) = (await harness.restarted().answer(approve(who.id, value="Bo"))).requests
    assert colour.message == "Which colour, Bo?"
    done = await harness.restarted().answer(approve(colour.id, value={"rgb": [1, 2]}))
    assert done.text == "Bo likes {'rgb': [1, 2]}"
    assert done.state == {"asked": 1}
    assert await harness.state() == {"asked": 1}


async def test_custom_agent_receives_expired_verdict(storage: Storage) -> None:
    harness = storage.harness(AsksTwoQuestions(name="asking"))
    await harness.say("hi")
    storage.clock.time += 60
    assert (await harness.answer()).text == "no name: expired"


class AsksForNumber(BaseAgent):
    """Asks for a number."""

    async def run(self, ctx: RunContext) -> str:
        schema = {"type": "integer", "minimum": 1}
        answer = await ctx.request_input("How many?", schema=schema)
        return f"{answer.verdict.value} {answer.value!r}"


@pytest.mark.parametrize("value", ["abc", None, 0, 1.5, {"n": 1}, "0", "null", "[" * 20_000])
async def test_answer_that_does_not_match_schema_leaves_request_pending(
    storage: Storage, value: Any
) -> None:
    harness = storage.harness(AsksForNumber(name="counting"))
    (request,) = (await harness.say("hi")).requests
    with pytest.raises(InvalidInput, match=f"{request.id}.* does not match its schema: "):
        await harness.answer(approve(request.id, value=value))
    with pytest.raises(InvalidInput, match="still pending"):
        await harness.answer(approve(request.id, arguments={"n": 3}))
    assert (await harness.restarted().answer(approve(request.id, value=3))).text == "approve 3"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (partial(approve, value=3), "approve 3"),
        (partial(approve, value=" 3 "), "approve 3"),
        (deny, "deny None"),
    ],
)
async def test_answer_may_be_value_or_its_json_text(
    storage: Storage, answer: Any, text: str
) -> None:
    harness = storage.harness(AsksForNumber(name="counting"))
    (request,) = (await harness.say("hi")).requests
    assert (await harness.answer(answer(request.id))).text == text


async def test_approval_ttl_does_not_apply_to_outcome_requests(storage: Storage) -> None:
    model = ScriptedModel(call("export", what="x"), "done")
    harness = storage.harness(scripted_agent(model, export([])), approval_ttl=60)
    (request,) = (await harness.say("hi")).requests
    assert request.kind is RequestKind.OUTCOME and request.expires_at is None
    storage.clock.time += 3600
    await harness.answer(approve(request.id, value={"rows": 7}))
    assert results(model)[-1] == {"rows": 7}


def export(started: list[str], **options: Any) -> Any:
    @tool(name="export", long_running=True, **options)
    def start(what: str, ctx: ToolContext) -> dict[str, str]:
        started.append(what)
        ctx.state["started"] = len(started)
        ctx.save_artifact("ticket.txt", what)
        return {"job": f"job-{len(started)}"}

    return start


async def test_long_running_tool_result_is_supplied_on_resume(storage: Storage) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "exported")
    harness = storage.harness(scripted_agent(model, export(started)))
    (request,) = (await harness.say("export")).requests
    assert (request.kind, request.arguments) == (RequestKind.OUTCOME, {"ticket": {"job": "job-1"}})
    done = await harness.restarted().answer(approve(request.id, value={"rows": 7}))
    assert (done.text, started, done.state) == ("exported", ["all"], {"started": 1})
    assert results(model) == [{"rows": 7}]


async def test_long_running_tool_with_confirm_asks_for_approval_first(storage: Storage) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "exported")
    harness = storage.harness(scripted_agent(model, export(started, confirm=True)))
    (may,) = (await harness.say("export")).requests
    assert started == []
    (outcome,) = (await harness.restarted().answer(approve(may.id))).requests
    assert (outcome.kind, started) == (RequestKind.OUTCOME, ["all"])
    done = await harness.restarted().answer(approve(outcome.id, value="7 rows"))
    assert (done.text, started, results(model)) == ("exported", ["all"], ["7 rows"])
    check_record(await harness.events())


async def test_denied_outcome_becomes_denied_result(storage: Storage) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "failed")
    harness = storage.harness(scripted_agent(model, export(started)))
    (request,) = (await harness.say("export")).requests
    await harness.answer(deny(request.id, "disk full"))
    assert results(model) == [{"status": "denied", "reason": "disk full"}]
