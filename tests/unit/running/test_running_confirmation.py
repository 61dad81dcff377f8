"""A person's word before a tool runs: yes, no, other arguments, too late, one by one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from running_world import Desk, Till, World, check_record, clerk

from acc import Agent, RunContext, RunStatus, SequentialAgent, approve, deny, tool
from acc.application.tools.tool import Tool
from acc.domain.errors import AgentFailed, InvalidInput, NothingPending, SessionWaiting
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer, RequestKind
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=12_000)


def results(model: ScriptedModel, question: int = -1) -> list[Any]:
    """Return the tool results that the model was shown."""
    return [
        part.result.content
        for message in model.asked[question].messages
        for part in message.parts
        if part.result is not None
    ]


async def test_a_tool_that_needs_a_yes_is_not_called_before_it(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay the rent")
    assert (waiting.status, waiting.text, till.paid) == (RunStatus.INPUT_REQUIRED, "", [])
    (request,) = waiting.requests
    assert request == (await desk.pending())[0]
    assert (request.kind, request.agent, request.tool) == (
        RequestKind.CONFIRMATION,
        "clerk",
        "pay",
    )
    assert request.arguments == {"amount": 12_000}
    assert request.schema["properties"]["amount"]["type"] == "integer"
    assert request.message == "May pay be called?"


async def test_a_yes_runs_the_tool_once_and_the_run_goes_on(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay the rent")
    done = await desk.approve_all(waiting.requests)
    assert (done.status, done.text, till.paid) == (RunStatus.COMPLETED, "done", [12_000])
    assert done.run_id == waiting.run_id
    assert await desk.pending() == ()
    check_record(await desk.events())


async def test_a_no_is_told_to_the_model_and_the_tool_does_not_run(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "then not")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay the rent")
    done = await desk.answer(deny(waiting.requests[0].id, "too much", by="boss"))
    assert (done.text, till.paid) == ("then not", [])
    assert results(model) == [{"status": "denied", "reason": "too much"}]
    answered = [e.answer for e in await desk.events() if e.kind is EventKind.INPUT]
    assert [(a.verdict, a.by) for a in answered if a] == [(ApprovalDecision.DENY, "boss")]


async def test_a_no_without_a_reason_still_gives_the_model_one(world: World) -> None:
    model = ScriptedModel(PAY, "then not")
    desk = world.desk(clerk(model, Till().tool()))
    waiting = await desk.say("pay")
    await desk.answer(deny(waiting.requests[0].id))
    assert results(model) == [{"status": "denied", "reason": "a person has denied this call"}]


async def test_edited_arguments_are_what_the_tool_gets(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay the rent")
    await desk.answer(approve(waiting.requests[0].id, arguments={"amount": 9}))
    assert till.paid == [9]


@pytest.mark.parametrize("wrong", [{"amount": "much"}, {}, {"amount": 1, "to": "me"}])
async def test_edited_arguments_are_checked_again(world: World, wrong: dict[str, Any]) -> None:
    till, model = Till(), ScriptedModel(PAY, "sorry")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay the rent")
    (request,) = waiting.requests
    told = await desk.events()
    with pytest.raises(InvalidInput, match=f"for pay are invalid: .*{request.id}"):
        await desk.answer(approve(request.id, arguments=wrong))
    assert await desk.events() == told
    assert await desk.pending() == (request,)
    done = await desk.answer(approve(request.id, arguments={"amount": 9}))
    assert (done.text, till.paid) == ("sorry", [9])


async def test_edited_arguments_are_checked_for_the_tool_of_an_agent_that_is_a_tool(
    world: World,
) -> None:
    till = Till()
    inner = clerk(ScriptedModel(PAY, "paid"), till.tool(), name="inner", description="Pays.")
    desk = world.desk(clerk(ScriptedModel(call("inner", request="rent"), "done"), inner))
    (request,) = (await desk.say("pay the rent")).requests
    with pytest.raises(InvalidInput, match=f"for pay are invalid: .*{request.id}"):
        await desk.answer(approve(request.id, arguments={"amount": "much"}))
    assert (await desk.approve_all([request])).text == "done"
    assert till.paid == [12_000]


@dataclass
class Order:
    item: str
    most: float = math.inf


@pytest.mark.parametrize(
    ("given", "shown", "ran"),
    [
        ({"amount": 1}, {"amount": 1, "note": None}, (1, None, math.inf, [math.inf])),
        ({"amount": 1, "note": None, "most": 3}, None, (1, None, 3, [math.inf])),
        ({"amount": 1, "note": "x", "each": [2.0]}, None, (1, "x", math.inf, [2.0])),
    ],
)
async def test_a_tool_runs_as_approved_whatever_its_defaults_are(
    world: World, given: dict[str, Any], shown: dict[str, Any] | None, ran: tuple[Any, ...]
) -> None:
    paid: list[Any] = []

    @tool(confirm=True)
    def pay(
        amount: int,
        note: str = None,  # type: ignore[assignment]
        most: float = math.inf,
        each: list[float] = [math.inf],  # noqa: B006
    ) -> str:
        """Pay."""
        paid.append((amount, note, most, each))
        return "paid"

    desk = world.desk(clerk(ScriptedModel(call("pay", **given), "done"), pay))
    (request,) = (await desk.say("pay")).requests
    assert request.arguments == (given if shown is None else shown)
    done = await desk.restarted().approve_all([request])
    assert (done.text, paid) == ("done", [ran])


async def test_keys_that_are_no_texts_arrive_as_what_they_are(world: World) -> None:
    seated: list[Any] = []

    @tool(confirm=True)
    def seat(guests: dict[int, str], rows: dict[int, dict[date, int]] = {3: {}}) -> str:  # noqa: B006
        """Seat guests."""
        seated.append((guests, rows))
        return "seated"

    guests = {"1": "Ann", "2": "Bo"}
    desk = world.desk(clerk(ScriptedModel(call("seat", guests=guests), "done"), seat))
    (request,) = (await desk.say("seat them")).requests
    assert request.arguments == {"guests": guests, "rows": {"3": {}}}
    edited = {"guests": {"7": "Cy"}, "rows": {"1": {"2026-11-16": 2}}}
    await desk.restarted().answer(approve(request.id, arguments=edited))
    assert seated == [({7: "Cy"}, {1: {date(2026, 11, 16): 2}})]


async def test_a_class_may_have_a_default_that_no_record_can_hold(world: World) -> None:
    ordered: list[Order] = []

    @tool(confirm=True)
    def buy(order: Order) -> str:
        """Buy."""
        ordered.append(order)
        return "bought"

    desk = world.desk(clerk(ScriptedModel(call("buy", order={"item": "ink"}), "done"), buy))
    waiting = await desk.say("ink")
    assert (await desk.restarted().approve_all(waiting.requests)).text == "done"
    assert ordered == [Order(item="ink")]


class Counter:
    """Offers tools that are known only while an agent runs."""

    name = "counter"

    def __init__(self, *tools: Tool) -> None:
        self._tools = tools

    async def offered(
        self, ctx: RunContext, *, alone: bool, taken: frozenset[str]
    ) -> Sequence[Tool]:
        return self._tools


async def test_a_wrong_edit_for_a_tool_that_is_known_only_later_is_asked_again(
    world: World,
) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(Agent(name="clerk", model=model, tools=[Counter(till.tool())]))
    (first,) = (await desk.say("pay the rent")).requests
    again = await desk.answer(approve(first.id, arguments={"amount": "much"}))
    assert again.status is RunStatus.INPUT_REQUIRED
    (second,) = again.requests
    assert second.id != first.id
    assert second.message.startswith("The edited arguments for pay are wrong: Expected `int`")
    assert second.message.endswith("\nMay pay be called?")
    assert second.arguments == {"amount": 12_000}
    done = await desk.restarted().answer(approve(second.id, arguments={"amount": 9}))
    assert (done.text, till.paid) == ("done", [9])
    check_record(await desk.events())


@pytest.mark.parametrize(("amount", "asked"), [(9_999, False), (10_000, True)])
async def test_a_predicate_decides_by_the_arguments(world: World, amount: int, asked: bool) -> None:
    till, model = Till(), ScriptedModel(call("pay", amount=amount), "done")
    pay = till.tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
    result = await world.desk(clerk(model, pay)).say("pay")
    assert (result.status is RunStatus.INPUT_REQUIRED) is asked
    assert till.paid == ([] if asked else [amount])


async def test_a_predicate_may_be_async_and_is_not_asked_again_on_resuming(world: World) -> None:
    asked: list[int] = []

    async def once(arguments: dict[str, Any]) -> bool:
        asked.append(arguments["amount"])
        return len(asked) == 1

    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool(confirm=once)))
    await desk.approve_all((await desk.say("pay")).requests)
    assert (asked, till.paid) == ([12_000], [12_000])


async def test_a_predicate_that_fails_asks_a_person(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    pay = till.tool(confirm=lambda arguments: arguments["sum"] > 1)
    waiting = await world.desk(clerk(model, pay)).say("pay")
    assert (waiting.status, till.paid) == (RunStatus.INPUT_REQUIRED, [])


async def test_a_person_is_asked_with_the_words_given(world: World) -> None:
    model = ScriptedModel(PAY)
    waiting = await world.desk(clerk(model, Till().tool(confirm="Really?"))).say("pay")
    assert [request.message for request in waiting.requests] == ["Really?"]


async def test_what_nobody_approves_in_time_is_a_no(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "too late")
    desk = world.desk(clerk(model, till.tool(confirm_expires=60.0)))
    waiting = await desk.say("pay")
    assert waiting.requests[0].expires_at == world.clock.time + 60
    world.clock.time += 60
    done = await desk.approve_all(waiting.requests)
    assert (done.text, till.paid) == ("too late", [])
    assert results(model) == [{"status": "expired", "reason": "nobody approved it in time"}]


async def test_what_is_approved_just_in_time_counts(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool()), approval_ttl=60.0)
    waiting = await desk.say("pay")
    world.clock.time += 59.9
    await desk.approve_all(waiting.requests)
    assert till.paid == [12_000]


async def test_time_can_run_out_without_any_answer(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "too late")
    desk = world.desk(clerk(model, till.tool()), approval_ttl=60.0)
    await desk.say("pay")
    still = await desk.answer()
    assert (still.status, len(still.requests)) == (RunStatus.INPUT_REQUIRED, 1)
    world.clock.time += 61
    assert (await desk.answer()).text == "too late"
    assert till.paid == []


async def three_at_once(world: World) -> tuple[Desk, Till, ScriptedModel]:
    till = Till()
    model = ScriptedModel([call("pay", amount=n) for n in (1, 2, 3)], "done")
    return world.desk(clerk(model, till.tool())), till, model


async def test_several_requests_are_answered_together(world: World) -> None:
    desk, till, model = await three_at_once(world)
    waiting = await desk.say("pay all")
    first, second, third = waiting.requests
    assert len({request.id for request in waiting.requests}) == 3
    done = await desk.answer(approve(third.id), deny(second.id), approve(first.id))
    assert (done.text, sorted(till.paid)) == ("done", [1, 3])
    assert [r if isinstance(r, str) else r["status"] for r in results(model)] == [
        "paid 1",
        "denied",
        "paid 3",
    ]


async def test_several_requests_are_answered_one_by_one(world: World) -> None:
    desk, till, model = await three_at_once(world)
    first, second, third = (await desk.say("pay all")).requests
    again = await desk.answer(approve(second.id))
    assert (again.requests, till.paid) == ((first, third), [2])
    assert await desk.pending() == (first, third)
    again = await desk.restarted().answer(deny(first.id))
    assert (again.requests, till.paid) == ((third,), [2])
    done = await desk.restarted().answer(approve(third.id))
    assert (done.status, till.paid) == (RunStatus.COMPLETED, [2, 3])
    assert [r if isinstance(r, str) else r["status"] for r in results(model)] == [
        "denied",
        "paid 2",
        "paid 3",
    ]
    check_record(await desk.events())


async def test_calls_that_need_no_yes_run_beside_one_that_does_and_only_once(
    world: World,
) -> None:
    till, looked = Till(), list[str]()

    def look(what: str) -> str:
        looked.append(what)
        return what

    model = ScriptedModel([call("look", what="a"), PAY, call("look", what="b")], "done")
    desk = world.desk(clerk(model, till.tool(), look))
    waiting = await desk.say("go")
    assert sorted(looked) == ["a", "b"]
    await desk.restarted().approve_all(waiting.requests)
    assert (sorted(looked), till.paid) == (["a", "b"], [12_000])
    assert results(model) == ["a", "paid 12000", "b"]


@pytest.mark.parametrize("given", ["unknown", "", "id-0-1"])
async def test_an_answer_nobody_waits_for_is_refused_and_changes_nothing(
    world: World, given: str
) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")
    desk = world.desk(clerk(model, till.tool()))
    waiting = await desk.say("pay")
    before = await desk.events()
    with pytest.raises(NothingPending, match="is not pending"):
        await desk.answer(approve(given))
    assert await desk.events() == before
    await desk.approve_all(waiting.requests)
    assert till.paid == [12_000]


async def test_the_same_request_cannot_be_answered_twice_at_once(world: World) -> None:
    till = Till()
    desk = world.desk(clerk(ScriptedModel(PAY, "done"), till.tool()))
    (request,) = (await desk.say("pay")).requests
    with pytest.raises(NothingPending):
        await desk.answer(deny(request.id), approve(request.id))
    assert till.paid == []
    assert await desk.pending() == (request,)


async def test_an_answer_that_was_given_cannot_be_given_again(world: World) -> None:
    till = Till()
    desk = world.desk(clerk(ScriptedModel(PAY, "done"), till.tool()))
    (request,) = (await desk.say("pay")).requests
    await desk.answer(approve(request.id))
    with pytest.raises(NothingPending, match="completed"):
        await desk.answer(approve(request.id))
    assert till.paid == [12_000]


async def test_a_session_that_never_ran_waits_for_nothing(world: World) -> None:
    desk = world.desk(clerk(ScriptedModel()))
    assert await desk.pending() == ()
    with pytest.raises(NothingPending):
        await desk.answer()
    with pytest.raises(NothingPending):
        await desk.abandon()


async def test_a_session_that_waits_takes_no_message_until_it_is_given_up(world: World) -> None:
    till = Till()
    desk = world.desk(clerk(ScriptedModel(PAY, "hello again"), till.tool()))
    (request,) = (await desk.say("pay")).requests
    with pytest.raises(SessionWaiting):
        await desk.say("hello?")
    assert await desk.pending() == (request,)
    await desk.restarted().abandon("changed my mind")
    with pytest.raises(NothingPending):
        await desk.answer(approve(request.id))
    assert (await desk.say("hello?")).text == "hello again"
    assert await desk.ends() == [
        RunStatus.INPUT_REQUIRED,
        RunStatus.CANCELED,
        RunStatus.COMPLETED,
    ]
    assert "changed my mind" in [event.text for event in await desk.events()]
    assert till.paid == []
    check_record(await desk.events())


async def test_a_step_runs_once_it_is_approved(world: World) -> None:
    model = ScriptedModel("published")
    desk = world.desk(clerk(model, confirm="Publish it?"))
    waiting = await desk.say("go")
    assert ([r.message for r in waiting.requests], model.asked) == (["Publish it?"], [])
    done = await desk.restarted().approve_all(waiting.requests)
    assert (done.text, len(model.asked)) == ("published", 1)


async def test_a_step_that_is_denied_ends_the_run_as_rejected(world: World) -> None:
    model = ScriptedModel("never mind")
    desk = world.desk(clerk(model, confirm=lambda ctx: "go" in ctx.message))
    waiting = await desk.say("go")
    assert waiting.requests[0].message == "May 'clerk' go ahead?"
    done = await desk.answer(deny(waiting.requests[0].id, "not today"))
    assert (done.status, done.text, model.asked) == (
        RunStatus.REJECTED,
        "rejected: clerk: not today",
        [],
    )
    assert (await desk.say("something else")).text == "never mind"
    check_record(await desk.events())


async def test_a_step_whose_approval_ran_out_is_rejected_too(world: World) -> None:
    desk = world.desk(clerk(ScriptedModel(), confirm=True), approval_ttl=5)
    await desk.say("go")
    world.clock.time += 6
    assert (await desk.answer()).text == "rejected: clerk: expired"


async def test_the_request_for_a_yes_shows_what_will_run(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "done")

    def halve(_tool: Any, arguments: dict[str, Any], _ctx: Any) -> None:
        arguments["amount"] //= 2

    desk = world.desk(clerk(model, till.tool(), before_tool_callback=halve))
    waiting = await desk.say("pay")
    assert waiting.requests[0].arguments == {"amount": 6_000}
    await desk.restarted().approve_all(waiting.requests)
    assert till.paid == [6_000]


async def test_a_verdict_can_be_handed_in_as_it_was_stored(world: World) -> None:
    till, model = Till(), ScriptedModel(PAY, "no")
    desk = world.desk(clerk(model, till.tool()))
    (request,) = (await desk.say("pay")).requests
    await desk.answer(
        InputAnswer(request_id=request.id, verdict=ApprovalDecision.EXPIRED, reason="closed")
    )
    assert results(model) == [{"status": "expired", "reason": "closed"}]


async def test_an_agent_whose_predicate_cannot_decide_has_failed_and_says_so(world: World) -> None:
    unsure = clerk(ScriptedModel(), name="pay", confirm=lambda ctx: ctx.state["amount"] > 10_000)
    desk = world.desk(SequentialAgent(name="s", sub_agents=[unsure]))
    with pytest.raises(AgentFailed, match="agent 'pay' failed: KeyError: 'amount'"):
        await desk.say("go")
    ended = (await desk.events())[-1]
    assert (ended.text, ended.detail["code"]) == (
        "agent 'pay' failed: KeyError: 'amount'",
        "agent_failed",
    )
