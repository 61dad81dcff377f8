"""Runs that waited too long, whose process died, or that do something else when they go on."""

import pytest
from small_agents import WHO, Does, Killed, MortalStore, approved, payer, results, says, till

from acc import (
    Agent,
    AgentTool,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    ToolContext,
    approve,
    tool,
)
from acc.adapters.storage.in_memory import InMemoryArtifactStore
from acc.bootstrap.agents import make_services
from acc.domain.errors import ReplayMismatch
from acc.domain.value_objects.session import SessionKey
from acc.testing import FrozenClock, ScriptedModel, call


async def test_what_nobody_approves_in_time_is_told_to_the_model() -> None:
    pay, paid = till()
    clock = FrozenClock()
    config = RunConfig(approval_ttl=60)
    runner = Runner(payer("a", pay, 1), services=make_services(clock=clock), config=config)
    await runner.run(**WHO, message="go")
    clock.time += 60
    result = await runner.resume(**WHO)
    assert (result.text, paid) == ("done", [])
    assert results(result) == [{"status": "expired", "reason": "nobody approved it in time"}]


KEY = SessionKey(app_name="app", **WHO)


async def test_an_approved_call_in_which_the_process_died_is_not_made_again() -> None:
    paid: list[int] = []
    store = MortalStore(clock=FrozenClock())

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        store.dead = True
        return "paid"

    runner = Runner(payer("a", pay, 1), store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    result = await runner.resume(**WHO)
    assert (result.text, paid) == ("done", [1])
    assert results(result) == [
        {"error": "pay: it was begun earlier, and how it ended is not known"}
    ]


async def test_approved_calls_that_were_not_begun_when_the_process_died_are_made_afterwards() -> (
    None
):
    paid: list[int] = []
    store = MortalStore(clock=FrozenClock())

    @tool(confirm=True, parallel=False)
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        store.dead = len(paid) == 1
        return f"paid {amount}"

    runner = Runner(payer("a", pay, 1, 2, 3), store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    result = await runner.resume(**WHO)
    assert (result.text, paid) == ("done", [1, 2, 3])
    unknown = {"error": "pay: it was begun earlier, and how it ended is not known"}
    assert sorted(map(str, results(result))) == ["paid 2", "paid 3", str(unknown)]


async def test_that_a_call_was_begun_is_told_though_its_tool_is_gone() -> None:
    store = MortalStore(clock=FrozenClock())

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pay."""
        store.dead = True
        return "paid"

    model = ScriptedModel(call("pay", amount=1), "done")
    stores = (store, InMemoryArtifactStore())
    runner = Runner(Agent(name="a", model=model, tools=[pay], memory=None), store=stores)
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    later = Runner(Agent(name="a", model=model, memory=None), store=stores)
    result = await later.resume(**WHO)
    assert "it was begun earlier" in results(result)[0]["error"]
    assert (result.text, result.usage.tool_calls) == ("done", 1)


async def test_an_approved_long_running_call_is_begun_once() -> None:
    began: list[str] = []
    store = MortalStore(clock=FrozenClock())

    @tool(confirm=True, long_running=True)
    def export() -> str:
        """Export."""
        began.append("export")
        return "ticket 7"

    model = ScriptedModel(call("export"), "done")
    agent = Agent(name="a", model=model, tools=[export], memory=None)
    runner = Runner(agent, store=(store, InMemoryArtifactStore()))
    waiting = await approved(runner, await runner.run(**WHO, message="go"))
    result = await runner.resume(**WHO, answers=approve(waiting.requests[0].id, value="exported"))
    assert (result.text, results(result), began) == ("done", ["exported"], ["export"])


async def test_what_a_call_stored_before_the_process_died_stays_stored_once() -> None:
    store, files = MortalStore(clock=FrozenClock()), InMemoryArtifactStore()

    @tool(confirm=True)
    async def export(ctx: ToolContext) -> str:
        """Export."""
        await ctx.artifacts.save("export.csv", "a,b")
        store.dead = True
        return "exported"

    model = ScriptedModel(call("export"), "done")
    runner = Runner(Agent(name="a", model=model, tools=[export], memory=None), store=(store, files))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    result = await runner.resume(**WHO)
    assert "begun earlier" in results(result)[0]["error"]
    assert await files.versions(KEY, "export.csv") == (1,)


async def test_an_agent_used_as_a_tool_that_failed_before_a_pause_is_not_run_again() -> None:
    pay, paid = till()
    ran: list[str] = []

    async def write_and_fail(ctx: RunContext) -> None:
        ran.append(ctx.agent.name)
        ctx.state["half"] = "done"
        await ctx.run_agent(team)
        raise RuntimeError("broken")

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    thinks = ScriptedModel(call("look"), "one two three")
    thinker = Agent(name="thinker", model=thinks, tools=[look], memory=None)
    team = ParallelAgent(name="team", sub_agents=[thinker, says("other")])
    worker = Does(name="worker", description="W.", do=write_and_fail, sub_agents=[team])
    model = ScriptedModel([call("worker", request="x"), call("pay", amount=1)], "done")
    runner = Runner(Agent(name="boss", model=model, tools=[worker, pay], memory=None))
    result = await approved(runner, await runner.run(**WHO, message="go"))
    assert (result.text, ran, paid, result.state) == ("done", ["worker"], [1], {"half": "done"})
    assert (result.usage.llm_calls, result.usage.tool_calls) == (4, 3)
    assert result.usage.output_tokens == 4


async def test_an_approved_agent_in_which_the_process_died_goes_on() -> None:
    store = MortalStore(clock=FrozenClock())
    ran: list[str] = []

    def die_once(ctx: RunContext) -> None:
        ran.append(ctx.message)
        store.dead = len(ran) == 1

    worker = Does(name="worker", description="Works.", do=die_once)
    model = ScriptedModel(call("worker", request="x"), "done")
    boss = Agent(
        name="boss", model=model, tools=[AgentTool(agent=worker, confirm=True)], memory=None
    )
    runner = Runner(boss, store=(store, InMemoryArtifactStore()))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(Killed):
        await approved(runner, paused)
    store.dead = False
    assert (await runner.resume(**WHO)).text == "done"
    assert ran == ["x", "x"]


async def test_an_agent_that_does_something_else_when_resumed_is_found_out() -> None:
    rounds: list[int] = []

    async def fickle(ctx: RunContext) -> str:
        rounds.append(1)
        if len(rounds) == 1:
            await ctx.say("first")
        await ctx.artifacts.save("notes", "x")
        await ctx.request_input("And now?")
        return "end"

    runner = Runner(Does(name="a", do=fickle))
    paused = await runner.run(**WHO, message="go")
    with pytest.raises(ReplayMismatch, match="message is recorded, but artifact was emitted"):
        await approved(runner, paused)
