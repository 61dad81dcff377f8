"""Questions of an agent's own, and work that someone outside finishes later."""

from typing import Any

from running_world import World, check_record, clerk

from acc import BaseAgent, RunContext, ToolContext, approve, deny, tool
from acc.domain.value_objects.event import RequestKind, Verdict
from acc.testing import ScriptedModel, call


def results(model: ScriptedModel, question: int = -1) -> list[Any]:
    """Return the tool results that the model was shown."""
    return [
        part.result.content
        for message in model.asked[question].messages
        for part in message.parts
        if part.result is not None
    ]


class Asking(BaseAgent):
    """Asks for a name and a colour, one after the other."""

    async def run(self, ctx: RunContext) -> str:
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        name = await ctx.ask_person("Who?", schema={"type": "string"}, expires_after=60)
        if name.verdict is not Verdict.APPROVE:
            return f"no name: {name.verdict.value}"
        colour = await ctx.ask_person(f"Which colour, {name.value}?")
        return f"{name.value} likes {colour.value}"


async def test_an_agent_of_ones_own_asks_a_person_and_goes_on_with_the_answer(
    world: World,
) -> None:
    desk = world.desk(Asking(name="asking"))
    (who,) = (await desk.say("hi")).requests
    assert (who.kind, who.schema) == (RequestKind.INPUT, {"type": "string"})
    (colour,) = (await desk.restarted().answer(approve(who.id, value="Bo"))).requests
    assert colour.message == "Which colour, Bo?"
    done = await desk.restarted().answer(approve(colour.id, value={"rgb": [1, 2]}))
    assert done.text == "Bo likes {'rgb': [1, 2]}"
    assert done.state == {"asked": 1}
    assert await desk.state() == {"asked": 1}


async def test_an_agent_of_ones_own_hears_that_time_ran_out(world: World) -> None:
    desk = world.desk(Asking(name="asking"))
    await desk.say("hi")
    world.clock.time += 60
    assert (await desk.answer()).text == "no name: expired"


def export(started: list[str], **options: Any) -> Any:
    @tool(name="export", long_running=True, **options)
    def start(what: str, ctx: ToolContext) -> dict[str, str]:
        started.append(what)
        ctx.state["started"] = len(started)
        ctx.save_artifact("ticket.txt", what)
        return {"job": f"job-{len(started)}"}

    return start


async def test_the_outcome_of_a_long_running_tool_is_handed_in_later(world: World) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "exported")
    desk = world.desk(clerk(model, export(started)))
    (request,) = (await desk.say("export")).requests
    assert (request.kind, request.arguments) == (RequestKind.OUTCOME, {"ticket": {"job": "job-1"}})
    done = await desk.restarted().answer(approve(request.id, value={"rows": 7}))
    assert (done.text, started, done.state) == ("exported", ["all"], {"started": 1})
    assert results(model) == [{"rows": 7}]


async def test_a_long_running_tool_may_need_a_yes_first(world: World) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "exported")
    desk = world.desk(clerk(model, export(started, confirm=True)))
    (may,) = (await desk.say("export")).requests
    assert started == []
    (outcome,) = (await desk.restarted().answer(approve(may.id))).requests
    assert (outcome.kind, started) == (RequestKind.OUTCOME, ["all"])
    done = await desk.restarted().answer(approve(outcome.id, value="7 rows"))
    assert (done.text, started, results(model)) == ("exported", ["all"], ["7 rows"])
    check_record(await desk.events())


async def test_a_long_running_tool_may_come_to_nothing(world: World) -> None:
    started: list[str] = []
    model = ScriptedModel(call("export", what="all"), "failed")
    desk = world.desk(clerk(model, export(started)))
    (request,) = (await desk.say("export")).requests
    await desk.answer(deny(request.id, "disk full"))
    assert results(model) == [{"status": "denied", "reason": "disk full"}]
