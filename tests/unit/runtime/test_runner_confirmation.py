"""Tests of approvals: approve, deny, edited arguments, expiry and several requests."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from runner_harness import PaymentTool, RunnerHarness, Storage, check_record, scripted_agent

from acc import (
    Agent,
    BaseTool,
    RunContext,
    RunStatus,
    SequentialAgent,
    Toolset,
    approve,
    deny,
    tool,
)
from acc.application.memory.messages import part_text
from acc.domain.errors import AgentFailed, InvalidInput, NothingPending, SessionWaiting
from acc.domain.value_objects.approval import ApprovalDecision, InputAnswer, RequestKind
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=12_000)


def results(model: ScriptedModel, question: int = -1) -> list[Any]:
    """Return the tool results in a request of the model."""
    return [
        part.result.content
        for message in model.requests[question].messages
        for part in message.parts
        if part.result is not None
    ]


async def test_tool_with_confirm_pauses_the_run(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    waiting = await harness.say("pay the rent")
    assert (waiting.status, waiting.text, payment.paid) == (RunStatus.INPUT_REQUIRED, "", [])
    (request,) = waiting.requests
    assert request == (await harness.pending())[0]
    assert (request.kind, request.agent, request.tool) == (
        RequestKind.CONFIRMATION,
        "clerk",
        "pay",
    )
    assert request.arguments == {"amount": 12_000}
    assert request.schema["properties"]["amount"]["type"] == "integer"
    assert request.message == "May pay be called?"


async def test_approval_executes_the_tool_once(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    waiting = await harness.say("pay the rent")
    done = await harness.approve_all(waiting.requests)
    assert (done.status, done.text, payment.paid) == (RunStatus.COMPLETED, "done", [12_000])
    assert done.run_id == waiting.run_id
    assert await harness.pending() == ()
    check_record(await harness.events())


async def test_denied_tool_does_not_run_and_model_gets_the_denial(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "then not")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    waiting = await harness.say("pay the rent")
    done = await harness.answer(deny(waiting.requests[0].id, "too much", by="boss"))
    assert (done.text, payment.paid) == ("then not", [])
    assert results(model) == [{"status": "denied", "reason": "too much"}]
    answered = [e.answer for e in await harness.events() if e.kind is EventKind.INPUT]
    assert [(a.verdict, a.by) for a in answered if a] == [(ApprovalDecision.DENY, "boss")]


async def test_denial_without_reason_has_a_default_reason(storage: Storage) -> None:
    model = ScriptedModel(PAY, "then not")
    harness = storage.harness(scripted_agent(model, PaymentTool().tool()))
    waiting = await harness.say("pay")
    await harness.answer(deny(waiting.requests[0].id))
    assert results(model) == [{"status": "denied", "reason": "a person denied this call"}]


async def test_tool_gets_edited_arguments(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done", "paid")
    harness = storage.harness(scripted_agent(model, payment.tool(), memory="transcript"))
    waiting = await harness.say("pay the rent")
    await harness.answer(approve(waiting.requests[0].id, arguments={"amount": 9}))
    assert payment.paid == [9]
    await harness.say("and now?")
    for request in model.requests[1:]:
        (result,) = [result for message in request.messages for result in message.results]
        assert part_text(Part(result=result)).startswith(
            '[A person changed the arguments to {"amount":9'
        )


@pytest.mark.parametrize("wrong", [{"amount": "much"}, {}, {"amount": 1, "to": "me"}])
async def test_invalid_edited_arguments_leave_request_pending(
    storage: Storage, wrong: dict[str, Any]
) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "sorry")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    waiting = await harness.say("pay the rent")
    (request,) = waiting.requests
    recorded_before = await harness.events()
    with pytest.raises(InvalidInput, match=f"for pay are invalid: .*{request.id}"):
        await harness.answer(approve(request.id, arguments=wrong))
    assert await harness.events() == recorded_before
    assert await harness.pending() == (request,)
    done = await harness.answer(approve(request.id, arguments={"amount": 9}))
    assert (done.text, payment.paid) == ("sorry", [9])


async def test_value_for_a_confirmation_is_rejected_and_the_tool_is_not_called(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    harness = storage.harness(scripted_agent(ScriptedModel(PAY, "sorry"), payment.tool()))
    waiting = await harness.say("pay the rent")
    (request,) = waiting.requests
    with pytest.raises(InvalidInput, match="takes no value"):
        await harness.answer(approve(request.id, value="5"))
    assert payment.paid == []
    assert await harness.pending() == (request,)


async def test_invalid_edited_arguments_are_rejected_in_agent_tool(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    inner = scripted_agent(
        ScriptedModel(PAY, "paid"), payment.tool(), name="inner", description="Pays."
    )
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("inner", request="rent"), "done"), inner)
    )
    (request,) = (await harness.say("pay the rent")).requests
    with pytest.raises(InvalidInput, match=f"for pay are invalid: .*{request.id}"):
        await harness.answer(approve(request.id, arguments={"amount": "much"}))
    assert (await harness.approve_all([request])).text == "done"
    assert payment.paid == [12_000]


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
async def test_approved_tool_gets_arguments_and_defaults(
    storage: Storage, given: dict[str, Any], shown: dict[str, Any] | None, ran: tuple[Any, ...]
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

    harness = storage.harness(scripted_agent(ScriptedModel(call("pay", **given), "done"), pay))
    (request,) = (await harness.say("pay")).requests
    assert request.arguments == (given if shown is None else shown)
    done = await harness.restarted().approve_all([request])
    assert (done.text, paid) == ("done", [ran])


async def test_mapping_keys_are_converted_after_approval(storage: Storage) -> None:
    seated: list[Any] = []

    @tool(confirm=True)
    def seat(guests: dict[int, str], rows: dict[int, dict[date, int]] = {3: {}}) -> str:  # noqa: B006
        """Seat guests."""
        seated.append((guests, rows))
        return "seated"

    guests = {"1": "Ann", "2": "Bo"}
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("seat", guests=guests), "done"), seat)
    )
    (request,) = (await harness.say("seat them")).requests
    assert request.arguments == {"guests": guests, "rows": {"3": {}}}
    edited = {"guests": {"7": "Cy"}, "rows": {"1": {"2026-11-16": 2}}}
    await harness.restarted().answer(approve(request.id, arguments=edited))
    assert seated == [({7: "Cy"}, {1: {date(2026, 11, 16): 2}})]


async def test_dataclass_default_may_be_infinite(storage: Storage) -> None:
    ordered: list[Order] = []

    @tool(confirm=True)
    def buy(order: Order) -> str:
        """Buy."""
        ordered.append(order)
        return "bought"

    harness = storage.harness(
        scripted_agent(ScriptedModel(call("buy", order={"item": "ink"}), "done"), buy)
    )
    waiting = await harness.say("ink")
    assert (await harness.restarted().approve_all(waiting.requests)).text == "done"
    assert ordered == [Order(item="ink")]


class FixedToolset(Toolset):
    """Toolset whose tools are listed only while an agent runs."""

    name = "counter"

    def __init__(self, *tools: BaseTool) -> None:
        self._tools = tools

    async def list_tools(self, ctx: RunContext) -> Sequence[BaseTool]:
        return self._tools


async def test_invalid_edit_for_toolset_tool_creates_new_request(
    storage: Storage,
) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(
        Agent(name="clerk", model=model, tools=[FixedToolset(payment.tool())])
    )
    (first,) = (await harness.say("pay the rent")).requests
    again = await harness.answer(approve(first.id, arguments={"amount": "much"}))
    assert again.status is RunStatus.INPUT_REQUIRED
    (second,) = again.requests
    assert second.id != first.id
    assert second.message.startswith("The edited arguments for pay are invalid: Expected `int`")
    assert second.message.endswith("\nMay pay be called?")
    assert second.arguments == {"amount": 12_000}
    done = await harness.restarted().answer(approve(second.id, arguments={"amount": 9}))
    assert (done.text, payment.paid) == ("done", [9])
    check_record(await harness.events())


@pytest.mark.parametrize(("amount", "asked"), [(9_999, False), (10_000, True)])
async def test_confirm_predicate_receives_the_arguments(
    storage: Storage, amount: int, asked: bool
) -> None:
    payment, model = PaymentTool(), ScriptedModel(call("pay", amount=amount), "done")
    pay = payment.tool(confirm=lambda arguments: arguments["amount"] >= 10_000)
    result = await storage.harness(scripted_agent(model, pay)).say("pay")
    assert (result.status is RunStatus.INPUT_REQUIRED) is asked
    assert payment.paid == ([] if asked else [amount])


async def test_async_confirm_predicate_is_called_once(
    storage: Storage,
) -> None:
    asked: list[int] = []

    async def once(arguments: dict[str, Any]) -> bool:
        asked.append(arguments["amount"])
        return len(asked) == 1

    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=once)))
    await harness.approve_all((await harness.say("pay")).requests)
    assert (asked, payment.paid) == ([12_000], [12_000])


async def test_failing_confirm_predicate_requires_approval(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    pay = payment.tool(confirm=lambda arguments: arguments["sum"] > 1)
    waiting = await storage.harness(scripted_agent(model, pay)).say("pay")
    assert (waiting.status, payment.paid) == (RunStatus.INPUT_REQUIRED, [])


async def test_confirm_text_is_the_request_message(storage: Storage) -> None:
    model = ScriptedModel(PAY)
    waiting = await storage.harness(
        scripted_agent(model, PaymentTool().tool(confirm="Really?"))
    ).say("pay")
    assert [request.message for request in waiting.requests] == ["Really?"]


async def test_approval_after_expiry_does_not_execute_the_tool(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "too late")
    harness = storage.harness(scripted_agent(model, payment.tool(confirm_expires=60.0)))
    waiting = await harness.say("pay")
    assert waiting.requests[0].expires_at == storage.clock.time + 60
    storage.clock.time += 60
    done = await harness.approve_all(waiting.requests)
    assert (done.text, payment.paid) == ("too late", [])
    assert results(model) == [{"status": "expired", "reason": "the approval expired"}]


async def test_approval_before_expiry_executes_the_tool(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool()), approval_ttl=60.0)
    waiting = await harness.say("pay")
    storage.clock.time += 59.9
    await harness.approve_all(waiting.requests)
    assert payment.paid == [12_000]


async def test_request_expires_without_an_answer(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "too late")
    harness = storage.harness(scripted_agent(model, payment.tool()), approval_ttl=60.0)
    await harness.say("pay")
    still = await harness.answer()
    assert (still.status, len(still.requests)) == (RunStatus.INPUT_REQUIRED, 1)
    storage.clock.time += 61
    assert (await harness.answer()).text == "too late"
    assert payment.paid == []


async def harness_with_three_payments(
    storage: Storage,
) -> tuple[RunnerHarness, PaymentTool, ScriptedModel]:
    payment = PaymentTool()
    model = ScriptedModel([call("pay", amount=n) for n in (1, 2, 3)], "done")
    return storage.harness(scripted_agent(model, payment.tool())), payment, model


async def test_requests_can_be_answered_together(storage: Storage) -> None:
    harness, payment, model = await harness_with_three_payments(storage)
    waiting = await harness.say("pay all")
    first, second, third = waiting.requests
    assert len({request.id for request in waiting.requests}) == 3
    done = await harness.answer(approve(third.id), deny(second.id), approve(first.id))
    assert (done.text, sorted(payment.paid)) == ("done", [1, 3])
    assert [r if isinstance(r, str) else r["status"] for r in results(model)] == [
        "paid 1",
        "denied",
        "paid 3",
    ]


async def test_requests_can_be_answered_one_by_one(storage: Storage) -> None:
    harness, payment, model = await harness_with_three_payments(storage)
    first, second, third = (await harness.say("pay all")).requests
    again = await harness.answer(approve(second.id))
    assert (again.requests, payment.paid) == ((first, third), [2])
    assert await harness.pending() == (first, third)
    again = await harness.restarted().answer(deny(first.id))
    assert (again.requests, payment.paid) == ((third,), [2])
    done = await harness.restarted().answer(approve(third.id))
    assert (done.status, payment.paid) == (RunStatus.COMPLETED, [2, 3])
    assert [r if isinstance(r, str) else r["status"] for r in results(model)] == [
        "denied",
        "paid 2",
        "paid 3",
    ]
    check_record(await harness.events())


async def test_unconfirmed_calls_run_once_beside_confirmed_call(
    storage: Storage,
) -> None:
    payment, looked = PaymentTool(), list[str]()

    def look(what: str) -> str:
        looked.append(what)
        return what

    model = ScriptedModel([call("look", what="a"), PAY, call("look", what="b")], "done")
    harness = storage.harness(scripted_agent(model, payment.tool(), look))
    waiting = await harness.say("go")
    assert sorted(looked) == ["a", "b"]
    await harness.restarted().approve_all(waiting.requests)
    assert (sorted(looked), payment.paid) == (["a", "b"], [12_000])
    assert results(model) == ["a", "paid 12000", "b"]


@pytest.mark.parametrize("given", ["unknown", "", "id-0-1"])
async def test_answer_to_unknown_request_is_rejected_without_effect(
    storage: Storage, given: str
) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    waiting = await harness.say("pay")
    before = await harness.events()
    with pytest.raises(NothingPending, match="is not pending"):
        await harness.answer(approve(given))
    assert await harness.events() == before
    await harness.approve_all(waiting.requests)
    assert payment.paid == [12_000]


async def test_two_answers_to_one_request_are_rejected(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(scripted_agent(ScriptedModel(PAY, "done"), payment.tool()))
    (request,) = (await harness.say("pay")).requests
    with pytest.raises(NothingPending):
        await harness.answer(deny(request.id), approve(request.id))
    assert payment.paid == []
    assert await harness.pending() == (request,)


async def test_answered_request_cannot_be_answered_again(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(scripted_agent(ScriptedModel(PAY, "done"), payment.tool()))
    (request,) = (await harness.say("pay")).requests
    await harness.answer(approve(request.id))
    with pytest.raises(NothingPending, match="completed"):
        await harness.answer(approve(request.id))
    assert payment.paid == [12_000]


async def test_unused_session_has_no_pending_request(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel()))
    assert await harness.pending() == ()
    with pytest.raises(NothingPending):
        await harness.answer()
    with pytest.raises(NothingPending):
        await harness.abandon()


async def test_paused_session_rejects_messages_until_abandoned(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(scripted_agent(ScriptedModel(PAY, "hello again"), payment.tool()))
    (request,) = (await harness.say("pay")).requests
    with pytest.raises(SessionWaiting):
        await harness.say("hello?")
    assert await harness.pending() == (request,)
    await harness.restarted().abandon("changed my mind")
    with pytest.raises(NothingPending):
        await harness.answer(approve(request.id))
    assert (await harness.say("hello?")).text == "hello again"
    assert await harness.ends() == [
        RunStatus.INPUT_REQUIRED,
        RunStatus.CANCELED,
        RunStatus.COMPLETED,
    ]
    assert "changed my mind" in [event.text for event in await harness.events()]
    assert payment.paid == []
    check_record(await harness.events())


async def test_agent_with_confirm_runs_after_approval(storage: Storage) -> None:
    model = ScriptedModel("published")
    harness = storage.harness(scripted_agent(model, confirm="Publish it?"))
    waiting = await harness.say("go")
    assert ([r.message for r in waiting.requests], model.requests) == (["Publish it?"], [])
    done = await harness.restarted().approve_all(waiting.requests)
    assert (done.text, len(model.requests)) == ("published", 1)


async def test_denied_agent_ends_the_run_as_rejected(storage: Storage) -> None:
    model = ScriptedModel("never mind")
    harness = storage.harness(scripted_agent(model, confirm=lambda ctx: "go" in ctx.message))
    waiting = await harness.say("go")
    assert waiting.requests[0].message == "May 'clerk' go ahead?"
    done = await harness.answer(deny(waiting.requests[0].id, "not today"))
    assert (done.status, done.text, model.requests) == (
        RunStatus.REJECTED,
        "rejected: clerk: not today",
        [],
    )
    assert (await harness.say("something else")).text == "never mind"
    check_record(await harness.events())


async def test_expired_agent_approval_rejects_the_run(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(), confirm=True), approval_ttl=5)
    await harness.say("go")
    storage.clock.time += 6
    assert (await harness.answer()).text == "rejected: clerk: expired"


async def test_request_contains_arguments_changed_by_callback(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "done")

    def halve(_tool: Any, arguments: dict[str, Any], _ctx: Any) -> None:
        arguments["amount"] //= 2

    harness = storage.harness(scripted_agent(model, payment.tool(), before_tool_callback=halve))
    waiting = await harness.say("pay")
    assert waiting.requests[0].arguments == {"amount": 6_000}
    await harness.restarted().approve_all(waiting.requests)
    assert payment.paid == [6_000]


async def test_answer_may_have_any_verdict(storage: Storage) -> None:
    payment, model = PaymentTool(), ScriptedModel(PAY, "no")
    harness = storage.harness(scripted_agent(model, payment.tool()))
    (request,) = (await harness.say("pay")).requests
    await harness.answer(
        InputAnswer(request_id=request.id, verdict=ApprovalDecision.EXPIRED, reason="closed")
    )
    assert results(model) == [{"status": "expired", "reason": "closed"}]


async def test_failing_confirm_predicate_of_agent_fails_the_run(
    storage: Storage,
) -> None:
    unsure = scripted_agent(
        ScriptedModel(), name="pay", confirm=lambda ctx: ctx.state["amount"] > 10_000
    )
    harness = storage.harness(SequentialAgent(name="s", sub_agents=[unsure]))
    with pytest.raises(AgentFailed, match="agent 'pay' failed: KeyError: 'amount'"):
        await harness.say("go")
    ended = (await harness.events())[-1]
    assert (ended.text, ended.detail["code"]) == (
        "agent 'pay' failed: KeyError: 'amount'",
        "agent_failed",
    )
