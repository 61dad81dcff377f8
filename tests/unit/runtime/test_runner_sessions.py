"""Tests of sessions: invalid input, every kind of part and concurrent runs."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from runner_harness import (
    USER,
    PaymentTool,
    RunnerHarness,
    Storage,
    check_record,
    in_memory,
    scripted_agent,
)

from acc import (
    BaseAgent,
    InputRequest,
    Part,
    RunConfig,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
    ToolCall,
    approve,
)
from acc.bootstrap.agents import make_services
from acc.domain.errors import (
    AccError,
    InvalidInput,
    NothingPending,
    SessionConflict,
)
from acc.domain.value_objects.approval import InputAnswer
from acc.domain.value_objects.content import ToolResult
from acc.domain.value_objects.event import EventKind
from acc.domain.value_objects.run import CallContext
from acc.testing import ScriptedModel, call

ECHO = scripted_agent(
    ScriptedModel(lambda prompt: f"you said {prompt.query}", repeat=True), name="echo"
)
BAD_IDS = ["", "  ", "a\x00b", "a\nb", "x" * 257, "\u200b", "\ud800", None, 7, b"s1", ["s1"]]


@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
def test_invalid_app_name_is_rejected_by_the_runner(storage: Storage, bad: Any) -> None:
    with pytest.raises(InvalidInput, match="app_name"):
        Runner(ECHO, app_name=bad, services=storage.harness(ECHO).runner.services)


@pytest.mark.parametrize("place", ["user_id", "session_id"])
@pytest.mark.parametrize("bad", BAD_IDS, ids=repr)
async def test_invalid_id_is_rejected_by_every_method(
    storage: Storage, bad: Any, place: str
) -> None:
    ids: dict[str, Any] = {"user_id": "ann", "session_id": "s1", place: bad}
    runner = storage.harness(ECHO).runner
    with pytest.raises(InvalidInput, match=place):
        await runner.run(**ids, message="hi")
    with pytest.raises(InvalidInput, match=place):
        await runner.resume(**ids)
    with pytest.raises(InvalidInput, match=place):
        await runner.pending(**ids)
    with pytest.raises(InvalidInput, match=place):
        await runner.abandon(**ids)
    with pytest.raises(InvalidInput, match=place):
        await runner.state(**ids)
    with pytest.raises(InvalidInput, match=place):
        async for _ in runner.stream(**ids, message="hi"):
            raise AssertionError


@pytest.mark.parametrize("odd", ["'; DROP TABLE sessions; --", "会話", "../../etc", "a" * 256, "%"])
async def test_id_with_special_characters_is_accepted(storage: Storage, odd: str) -> None:
    runner = storage.harness(ECHO).runner
    for user in (odd, "bo"):
        done = await runner.run(user_id=user, session_id=odd, message=f"I am {user}")
        assert done.text == f"you said I am {user}"
        assert len(await runner.events(user_id=user, session_id=odd)) == 3


async def test_unused_session_is_empty(storage: Storage) -> None:
    harness = storage.harness(ECHO)
    assert (await harness.state(), await harness.events(), await harness.pending()) == ({}, (), ())


@pytest.mark.parametrize("bad", ["", " \n", None, 7, b"hi", [], [7], ["hi"], {}, 2.5], ids=repr)
async def test_invalid_message_is_rejected(storage: Storage, bad: Any) -> None:
    harness = storage.harness(ECHO)
    with pytest.raises(InvalidInput):
        await harness.say(bad)
    assert await harness.events() == ()
    assert (await harness.say("hi")).text == "you said hi"


PARTS: dict[str, Part] = {
    "text": Part(text="hello", metadata={"lang": "en"}),
    "long": Part(text="word " * 50_000),
    "data": Part(data={"a": [1, None, 2.5, "b"]}),
    "raw": Part(raw=bytes(range(256)), media_type="image/png", filename="a.png"),
    "url": Part(url="https://example.com/a.png"),
    "call": Part(call=ToolCall(id="1", name="pay", arguments={"amount": 1})),
    "result": Part(result=ToolResult(call_id="1", name="pay", content=[1], is_error=True)),
}


@pytest.mark.parametrize("kind", sorted(PARTS))
async def test_every_kind_of_part_is_stored(storage: Storage, kind: str) -> None:
    agent = scripted_agent(ScriptedModel("seen", "seen"), memory="transcript")
    harness = storage.harness(agent)
    await harness.say(PARTS[kind])
    await harness.restarted().say([Part(text="and "), PARTS[kind], Part(text="more")])
    first, second = [e for e in await harness.events() if e.author == "user"]
    assert first.parts == (PARTS[kind],)
    assert second.parts == (Part(text="and "), PARTS[kind], Part(text="more"))


BAD_PARTS = [
    Part(data=object()),
    Part(text="\ud800"),
    Part(text="a", metadata=None),  # type: ignore[arg-type]
    Part(text="a", filename=7),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("bad", BAD_PARTS, ids=range(len(BAD_PARTS)))
async def test_part_that_cannot_be_stored_is_rejected(storage: Storage, bad: Part) -> None:
    harness = storage.harness(ECHO)
    with pytest.raises(InvalidInput):
        await harness.say(bad)
    assert await harness.events() == ()
    assert (await harness.say("hi")).text == "you said hi"


@pytest.mark.parametrize(
    "fields",
    [{"by": 7}, {"value": object()}, {"reason": None}, {"arguments": [1]}],
    ids=["by", "value", "reason", "arguments"],
)
async def test_answer_that_cannot_be_stored_is_rejected(
    storage: Storage, fields: dict[str, Any]
) -> None:
    payment = PaymentTool()
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("pay", amount=1), "done"), payment.tool())
    )
    (request,) = (await harness.say("pay")).requests
    with pytest.raises(InvalidInput):
        await harness.answer(InputAnswer(request_id=request.id, **fields))
    with pytest.raises(InvalidInput):
        await harness.answer("yes")  # type: ignore[arg-type]
    assert await harness.pending() == (request,)
    await harness.answer(approve(request.id))
    assert payment.paid == [1]


async def test_concurrent_runs_of_one_session_are_serialized(storage: Storage) -> None:
    class Adds(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            before = ctx.state.get("sum", 0)
            await asyncio.sleep(0)
            ctx.state["sum"] = before + 1
            return str(before + 1)

    one, other = (storage.harness(Adds(name=name)) for name in ("adds", "also_adds"))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task((one, other)[n % 2].say(f"{n}")) for n in range(10)]
    assert sorted(int(task.result().text) for task in tasks) == list(range(1, 11))
    assert await one.state() == {"sum": 10}
    check_record(await one.events())


async def test_concurrent_resume_succeeds_once(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("pay", amount=1), "done"), payment.tool())
    )
    (request,) = (await harness.say("pay")).requests
    outcomes: list[str] = []

    async def resume(where: RunnerHarness) -> None:
        try:
            outcomes.append((await where.answer(approve(request.id))).text)
        except NothingPending:
            outcomes.append("too late")

    async with asyncio.TaskGroup() as group:
        for n in range(6):
            group.create_task(resume(harness if n % 2 else harness.restarted()))
    assert (sorted(outcomes), payment.paid) == (["done", *["too late"] * 5], [1])
    check_record(await harness.events())


async def test_concurrent_sessions_are_independent(storage: Storage) -> None:
    class Notes(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            ctx.state["mine"] = ctx.session_id
            await asyncio.sleep(0)
            return f"{ctx.state['mine']} {ctx.message}"

    harness = storage.harness(Notes(name="notes"))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(harness.say(f"m{n}", session=f"s{n}")) for n in range(1_000)]
    assert [task.result().text for task in tasks] == [f"s{n} m{n}" for n in range(1_000)]
    assert harness.runner.leases._queues == {}


async def test_run_fails_when_its_session_is_taken_over(storage: Storage) -> None:
    other = storage.harness(ECHO)

    async def sleep() -> str:
        storage.clock.time += 31
        await other.say("I take over")
        return "woke up"

    harness = storage.harness(scripted_agent(ScriptedModel(call("sleep"), "never"), sleep))
    with pytest.raises(SessionConflict):
        await harness.say("sleep well")
    assert (await other.say("and now?")).text == "you said and now?"
    check_record(await harness.events())


# Construction of runs


async def test_runner_rejects_agent_that_is_not_a_root() -> None:
    leaf = scripted_agent(ScriptedModel(), name="leaf")
    SequentialAgent(name="root", sub_agents=[leaf])
    with pytest.raises(InvalidInput, match="run the root"):
        Runner(leaf)
    with pytest.raises(InvalidInput, match="expected an agent"):
        Runner("leaf")  # type: ignore[arg-type]


async def test_events_contain_call_context(tmp_path: Path) -> None:
    storage = in_memory(tmp_path)
    context = CallContext(request_id="r-1", trace_id="t-1", caller="agent://boss")
    done = await storage.harness(ECHO).say("hi", context=context, config=RunConfig(max_hops=0))
    assert {(e.request_id, e.trace_id, e.caller) for e in done.events} == {
        ("r-1", "t-1", "agent://boss")
    }
    plain = await storage.harness(ECHO).say("hi")
    assert {e.caller for e in plain.events} == {"user://ann"}


async def test_events_can_be_paged(storage: Storage) -> None:
    harness = storage.harness(ECHO)
    for n in range(3):
        await harness.say(f"{n}")
    page = await harness.runner.events(user_id=USER, session_id="s1", after=2, limit=3)
    assert [event.seq for event in page] == [3, 4, 5]


async def test_model_can_be_selected_by_name(tmp_path: Path) -> None:
    model = ScriptedModel("from a name", "again")
    services = make_services(models={"mine": model})
    runner = Runner(scripted_agent("mine", name="a"), services=services)  # type: ignore[arg-type]
    ids: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}
    assert (await runner.run(**ids, message="hi")).text == "from a name"
    assert (await runner.run(**ids, message="hi")).text == "again"


async def test_request_equals_stored_request(storage: Storage) -> None:
    harness = storage.harness(
        scripted_agent(ScriptedModel(call("pay", amount=1)), PaymentTool().tool())
    )
    (request,) = (await harness.say("pay")).requests
    stored = [e.request for e in await harness.events() if e.kind is EventKind.INPUT_REQUIRED]
    assert stored == [request]
    assert isinstance(request, InputRequest)
    assert (await harness.ends()) == [RunStatus.INPUT_REQUIRED]
    assert issubclass(NothingPending, AccError)


@pytest.mark.parametrize("options", [{"after": "x"}, {"limit": "10"}, {"after": 1.5}])
async def test_events_with_a_bound_that_is_no_number_are_rejected(options: Any) -> None:
    runner = Runner(BaseAgent(name="a"))
    with pytest.raises(InvalidInput, match="must be an integer"):
        await runner.events(**options)
