"""Tests of the run context: progress, artifacts, grants, transfers, streams and logs."""

import asyncio
import logging
from typing import Any

import pytest
from agent_support import texts_of_other_agents
from runner_harness import USER, PaymentTool, Storage, check_record, scripted_agent

from acc import (
    BaseAgent,
    Grant,
    ModelRequest,
    ParallelAgent,
    RunConfig,
    RunContext,
    RunStatus,
    SequentialAgent,
    TurnSignal,
    approve,
)
from acc.application.memory.messages import part_text
from acc.domain.errors import AgentFailed, StateNotGranted
from acc.domain.value_objects.ccs import CompressedCognitiveState
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.memory import ConversationTurn, TurnTrace
from acc.domain.value_objects.run import CallContext
from acc.ports.outbound.memory_ports import MemoryView
from acc.testing import ScriptedModel, call

PAY = call("pay", amount=5)


class ReportsContext(BaseAgent):
    """Answers with the user, state keys, permissions and caller it has."""

    async def run(self, ctx: RunContext) -> str:
        await ctx.progress("half way", detail={"percent": 50})
        permissions = ctx.call.permissions
        current = "all" if permissions is None else ",".join(sorted(permissions))
        return f"{ctx.user_id or 'nobody'} {sorted(ctx.state)} {current} {ctx.call.caller}"


async def test_progress_is_streamed_but_not_stored(storage: Storage) -> None:
    harness = storage.harness(ReportsContext(name="sees"))
    done = await harness.say("hi")
    shown = [(e.text, e.detail, e.seq) for e in done.events if e.kind is EventKind.PROGRESS]
    assert shown == [("half way", {"percent": 50}, 0)]
    assert EventKind.PROGRESS not in {event.kind for event in await harness.events()}
    assert done.run_id == done.events[0].run_id


async def test_grant_limits_agent_and_its_branches(
    storage: Storage,
) -> None:
    grant = Grant(read=("doc_*",), write=(), permissions=frozenset({"read", "pay"}), identity=False)
    inner = ParallelAgent(
        name="inner", sub_agents=[ReportsContext(name="a"), ReportsContext(name="b")]
    )
    outer = SequentialAgent(name="outer", sub_agents=[inner])

    class WritesState(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            ctx.state.update({"doc_1": 1, "secret": 2})
            ctx.text = (await ctx.run_agent(self.sub_agents[0])).text

    tree = WritesState(name="sets", sub_agents=[outer], grants={"outer": grant})
    context = CallContext(
        request_id="r", trace_id="t", caller="user://ann", permissions=frozenset({"read", "write"})
    )
    done = await storage.harness(tree).say("go", context=context)
    line = "nobody ['doc_1'] read agent://sets"
    assert done.text == f"a: {line}\nb: {line}"


async def test_empty_grant_restricts_nothing(storage: Storage) -> None:
    tree = SequentialAgent(
        name="root", sub_agents=[ReportsContext(name="sees")], grants={"sees": Grant()}
    )
    assert (await storage.harness(tree).say("go")).text == "ann [] all agent://root"


async def test_write_that_is_not_granted_fails_after_resume(
    storage: Storage,
) -> None:
    class Writes(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            ctx.state["mine"] = 1
            await ctx.request_input("go on?")
            ctx.state["yours"] = 2
            return "never"

    tree = SequentialAgent(
        name="root", sub_agents=[Writes(name="writes")], grants={"writes": Grant(write=("mine",))}
    )
    harness = storage.harness(tree)
    (request,) = (await harness.say("go")).requests
    with pytest.raises(StateNotGranted):
        await harness.restarted().answer(approve(request.id))
    assert await harness.state() == {"mine": 1}
    check_record(await harness.events())


async def test_artifact_is_loaded_by_version(storage: Storage) -> None:
    class UsesArtifacts(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            for content in ("one", b"two"):
                await ctx.artifacts.save("note.txt", content)
            first = await ctx.artifacts.load("note.txt", 1)
            newest = await ctx.artifacts.load("note.txt")
            missing = await ctx.artifacts.load("nothing")
            assert first is not None
            assert newest is not None
            return f"{await ctx.artifacts.names()} {first.text} {newest.text} {missing}"

    done = await storage.harness(UsesArtifacts(name="files")).say("go")
    assert done.text == "('note.txt',) one two None"


async def test_artifact_that_is_not_granted_is_hidden_and_read_only(storage: Storage) -> None:
    class UsesArtifacts(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save("out.txt", "mine")
            secret = await ctx.artifacts.load("secret.txt")
            names = await ctx.artifacts.names()
            try:
                await ctx.artifacts.save("secret.txt", "changed")
            except StateNotGranted as refused:
                return f"{secret} {names} {refused.key}"
            return "never"

    class SavesSecret(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            await ctx.artifacts.save("secret.txt", "secret")
            ctx.text = (await ctx.run_agent(self.sub_agents[0])).text

    grants = {"files": Grant(artifacts=("out.*",))}
    tree = SavesSecret(name="saves", sub_agents=[UsesArtifacts(name="files")], grants=grants)
    assert (await storage.harness(tree).say("go")).text == "None ('out.txt',) artifact.secret.txt"


async def test_publishing_artifact_that_is_not_granted_fails(storage: Storage) -> None:
    class Publishes(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.publish("out.txt", "mine")
            try:
                await ctx.artifacts.publish("secret.txt", "changed")
            except StateNotGranted as refused:
                return refused.key
            return "never"

    grants = {"worker": Grant(artifacts=("out.*",))}
    tree = SequentialAgent(name="s", sub_agents=[Publishes(name="worker")], grants=grants)
    done = await storage.harness(tree).say("go")
    assert done.text == "artifact.secret.txt"
    recorded = [event.detail["name"] for event in done.events if event.kind is EventKind.ARTIFACT]
    assert recorded == ["out.txt"]


async def test_agent_without_history_gets_no_messages_but_its_answer_is_visible(
    storage: Storage,
) -> None:
    models = [ScriptedModel("first"), ScriptedModel("second"), ScriptedModel("third")]
    agents = [scripted_agent(m, name=n) for m, n in zip(models, ("a", "b", "c"), strict=True)]
    tree = SequentialAgent(name="root", sub_agents=agents, grants={"b": Grant(history=False)})
    done = await storage.harness(tree).say("go")
    received = [texts_of_other_agents(model.requests[0]) for model in models]
    assert received == [[], [], ["first", "second"]]
    assert (done.answered_by, done.text) == ("c", "third")


async def test_root_is_active_after_transfer_back(
    storage: Storage,
) -> None:
    sub = scripted_agent(
        ScriptedModel("sub speaking", call("transfer_to_agent", agent_name="root")),
        name="sub",
        description="does the work",
    )
    model = ScriptedModel(call("transfer_to_agent", agent_name="sub"), "root again", "still root")
    harness = storage.harness(scripted_agent(model, name="root", sub_agents=[sub]))
    assert (await harness.say("one")).text == "sub speaking"
    assert await harness.state() == {"_active_agent": "sub"}
    assert (await harness.restarted().say("two")).text == "root again"
    assert await harness.state() == {}
    assert (await harness.say("three")).text == "still root"


async def test_agent_below_workflow_does_not_become_active(storage: Storage) -> None:
    deep = scripted_agent(ScriptedModel("deep"), name="deep", description="does the work")
    top = scripted_agent(
        ScriptedModel(call("transfer_to_agent", agent_name="deep"), "top"),
        name="top",
        sub_agents=[deep],
    )
    harness = storage.harness(SequentialAgent(name="root", sub_agents=[top]))
    assert (await harness.say("one")).text == "deep"
    assert await harness.state() == {}
    assert (await harness.say("two")).text == "top"


@pytest.mark.parametrize("name", ["gone", "helper", 7])
async def test_root_answers_when_active_agent_is_invalid(storage: Storage, name: Any) -> None:
    """Cover a tree that changed after the transfer."""

    class SetsActiveAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            ctx.state["_active_agent"] = name
            return "claimed"

    await storage.harness(SetsActiveAgent(name="claims")).say("go")
    helper = scripted_agent(
        ScriptedModel(), name="helper", description="helps", returns_control=True
    )
    harness = storage.harness(
        scripted_agent(ScriptedModel("root"), name="root", sub_agents=[helper])
    )
    assert (await harness.say("who is there?")).text == "root"


async def test_resumed_run_streams_remaining_events(storage: Storage) -> None:
    payment = PaymentTool()
    harness = storage.harness(scripted_agent(ScriptedModel(PAY, "all paid"), payment.tool()))
    first = [e async for e in harness.runner.stream(user_id=USER, session_id="s1", message="pay")]
    (request,) = [e.request for e in first if e.request is not None]
    stream = harness.restarted().runner.stream(
        user_id=USER, session_id="s1", answers=[approve(request.id)]
    )
    rest = [event async for event in stream]
    assert payment.paid == [5]
    assert [event.text for event in rest if event.partial] == ["all ", "paid"]
    stored = [event for event in (*first, *rest) if not event.partial]
    assert stored == list(await harness.events())
    assert stored[-1].status is RunStatus.COMPLETED


async def test_timeout_error_of_stub_fails_the_agent(storage: Storage) -> None:
    def late(_: Any) -> str:
        raise TimeoutError("its own")

    harness = storage.harness(scripted_agent(ScriptedModel()), timeout=60, stubs={"clerk": late})
    with pytest.raises(AgentFailed, match="TimeoutError"):
        await harness.say("go")
    check_record(await harness.events())
    assert (await harness.ends()) == [RunStatus.FAILED]


class FailsAtSnapshots:
    """Observer that raises TimeoutError at every snapshot event."""

    wants_deltas = False

    async def on_event(self, event: Event) -> None:
        if event.kind is EventKind.SNAPSHOT:
            raise TimeoutError("its own")


async def test_timeout_error_of_observer_fails_the_agent(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel("hi")), timeout=60, snapshots=True)
    with pytest.raises(AgentFailed, match="TimeoutError"):
        await harness.say("go", observer=FailsAtSnapshots())
    assert (await harness.ends()) == [RunStatus.FAILED]


async def test_run_logs_agents_tools_and_end(
    storage: Storage, caplog: pytest.LogCaptureFixture
) -> None:
    payment = PaymentTool()
    tree = scripted_agent(ScriptedModel(PAY, "done"), payment.tool(confirm=False))
    with caplog.at_level(logging.INFO, logger="acc.run"):
        done = await storage.harness(tree).say("go", config=RunConfig())
    recorded = [
        (r.message, getattr(r, "run_id", "")) for r in caplog.records if r.name == "acc.run"
    ]
    assert recorded == [
        ("agent started", done.run_id),
        ("tool called", done.run_id),
        ("agent finished", done.run_id),
        ("run ended", done.run_id),
    ]


class TraceOnlyMemory:
    """Memory that returns a trace but has no snapshot."""

    def __init__(self) -> None:
        self.stored_items: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        trace = TurnTrace(
            turn_id=signal.turn_id,
            readings=(),
            recalled=(),
            qualified=(),
            rejected=(),
            committed=CompressedCognitiveState(),
            dropped=(),
            notes=(),
            tokens=1,
        )
        return MemoryView(text="|".join(self.stored_items), tokens=1, trace=trace)

    async def record(self, turn: ConversationTurn) -> None:
        self.stored_items += [part_text(part) for m in turn.messages for part in m.parts]


async def test_memory_with_trace_but_without_snapshot_is_rebuilt(storage: Storage) -> None:
    async def look(at: int = 0) -> Any:
        """Look."""
        return [at] if at else {"pens": 3, "cups": 2}

    payment = PaymentTool()
    model = ScriptedModel([call("look"), call("look", at=7)], PAY, "paid", "bye")
    harness = storage.harness(scripted_agent(model, look, payment.tool(), memory=TraceOnlyMemory))
    (request,) = (await harness.say("pay")).requests
    await harness.restarted().answer(approve(request.id))
    await harness.restarted().say("and now?")
    assert model.requests[-1].memory == (
        'pay|look {}|look {"at":7}|{"pens":3,"cups":2}|[7]|pay {"amount":5}|paid 5|paid'
    )
    recorded = [event.detail for event in await harness.events() if event.kind is EventKind.MEMORY]
    assert len(recorded) == 3  # before the pause, after it and in the second turn
    assert all("snapshot" not in detail for detail in recorded)


async def test_concurrent_sessions_do_not_share_memory(storage: Storage) -> None:
    """Check with a recording model that no memory reaches another session."""
    prompts: list[ModelRequest] = []

    def record(prompt: ModelRequest) -> str:
        prompts.append(prompt)
        return "noted"

    harness = storage.harness(scripted_agent(ScriptedModel(record, repeat=True), memory="acc"))
    async with asyncio.TaskGroup() as group:
        for n in range(8):
            group.create_task(harness.say(f"My code is secret{n}.", session=f"s{n}"))
    async with asyncio.TaskGroup() as group:
        for n in range(8):
            group.create_task(harness.say("What is my code?", session=f"s{n}"))
    for prompt in prompts[8:]:
        known = {f"secret{n}" for n in range(8) if f"secret{n}" in prompt.memory}
        assert len(known) == 1
