"""Looking into a run: stand-ins, snapshots, structured logs."""

import logging
from typing import Any

import pytest
from small_agents import WHO, Does, Writes, counts, of_kind, said, says, turn

from acc import (
    Agent,
    CallContext,
    EventKind,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    tool,
)
from acc.domain.errors import AgentFailed, InvalidInput
from acc.testing import ScriptedModel, call

NEVER = ScriptedModel()


def tree() -> SequentialAgent:
    agents = [Agent(name=name, model=NEVER, memory=None) for name in ("a", "b")]
    both = ParallelAgent(name="p", sub_agents=agents)
    return SequentialAgent(name="s", sub_agents=[both, Agent(name="c", model=NEVER, memory=None)])


async def test_in_debug_mode_nobody_is_asked_and_the_whole_way_is_shown() -> None:
    result = await turn(tree(), "how far?", config=RunConfig(debug=True))
    assert said(result) == [
        ("a", "[debug] a would answer: how far?"),
        ("b", "[debug] b would answer: how far?"),
        ("c", "[debug] c would answer: how far?"),
    ]
    assert (NEVER.asked, result.usage.llm_calls) == ([], 0)


async def test_in_debug_mode_the_root_still_works() -> None:
    helper = says("helper", description="Helps.")
    model = ScriptedModel(call("helper", request="x"), "done")
    root = Agent(name="root", model=model, tools=[helper], memory=None)
    result = await turn(root, config=RunConfig(debug=True))
    assert said(result) == [("helper", "[debug] helper would answer: x"), ("root", "done")]


async def test_stand_ins_answer_for_the_agents_they_are_named_after() -> None:
    def measured(ctx: RunContext) -> str:
        ctx.state["heard"] = ctx.message
        return f"{ctx.agent.name} stands in"

    config = RunConfig(stubs={"a": "fixed"}, debug=True)
    alone = await turn(SequentialAgent(name="s", sub_agents=[says("a"), says("b")]), config=config)
    assert [text for _, text in said(alone)] == ["fixed", "[debug] b would answer: hello"]
    whole = await turn(tree(), config=RunConfig(stubs={"p": measured, "c": "end"}))
    assert said(whole) == [("p", "p stands in"), ("c", "end")]
    assert whole.state == {"heard": "hello"}


async def test_a_stand_in_may_be_async_and_its_failure_is_that_of_its_agent() -> None:
    async def looked_up(ctx: RunContext) -> str:
        return str(ctx.state["price"])

    steps = [Writes(name="a", values={"price": 5}), says("b")]
    config = RunConfig(stubs={"b": looked_up})
    result = await turn(SequentialAgent(name="s", sub_agents=steps), config=config)
    assert result.text == "5"
    with pytest.raises(AgentFailed, match="agent 'b' failed: KeyError: 'price'"):
        await turn(SequentialAgent(name="s", sub_agents=[says("b")]), config=config)


async def test_a_stand_in_for_nobody_is_refused_before_anybody_runs() -> None:
    ran: list[str] = []
    inner = Does(name="inner", description="Works.", do=lambda ctx: ran.append("inner"))
    used = SequentialAgent(name="used", description="Helps.", sub_agents=[inner])
    model = ScriptedModel(call("used", request="x"), "done")
    root = Agent(name="root", model=model, tools=[used], memory=None)
    wrong = RunConfig(stubs={"iner": "fixed"})
    told = "iner; the agents under 'root' are inner, root, used"
    with pytest.raises(InvalidInput, match=told):
        Runner(root, config=wrong)
    runner = Runner(root)
    with pytest.raises(InvalidInput, match=told):
        await runner.run(**WHO, message="go", config=wrong)
    with pytest.raises(InvalidInput, match=told):
        await runner.resume(**WHO, config=wrong)
    right = RunConfig(stubs={"inner": "fixed"})
    result = await runner.run(**WHO, message="go", config=right)
    assert (said(result), ran) == ([("inner", "fixed"), ("root", "done")], [])


async def test_snapshots_show_the_state_before_and_after_each_agent() -> None:
    steps = [counts("a", "n"), counts("b", "n")]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps))
    result = await runner.run(
        user_id="u", session_id="s", message="go", config=RunConfig(snapshots=True)
    )
    shown = [event.detail for event in of_kind(result, EventKind.SNAPSHOT)]
    assert [(d["path"], d["when"], d["state"]) for d in shown] == [
        ("/s", "before", {}),
        ("/s/a", "before", {}),
        ("/s/a", "after", {"n": 1}),
        ("/s/b", "before", {"n": 1}),
        ("/s/b", "after", {"n": 2}),
        ("/s", "after", {"n": 2}),
    ]
    stored = await runner.events(user_id="u", session_id="s")
    assert EventKind.SNAPSHOT not in {event.kind for event in stored}


async def test_snapshots_are_off_unless_asked_for() -> None:
    assert of_kind(await turn(says("a")), EventKind.SNAPSHOT) == []


SECRET = "the pin is 4711"


def fields(record: logging.LogRecord) -> dict[str, Any]:
    names = ("trace_id", "request_id", "run_id", "caller", "agent", "path", "branch", "tool")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


async def test_logs_tell_who_ran_in_which_trace_and_nothing_of_what_was_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def look(what: str) -> str:
        """Look."""
        return SECRET

    model = ScriptedModel(call("look", what=SECRET), SECRET)
    agent = Agent(name="a", model=model, tools=[look], memory=None, output_key="said")
    root = ParallelAgent(name="p", sub_agents=[agent, Writes(name="b", values={"x": SECRET})])
    context = CallContext(request_id="req-1", trace_id="trace-1", caller="app://x")
    with caplog.at_level(logging.INFO, logger="acc.run"):
        result = await turn(root, SECRET, context=context)
    records = [record for record in caplog.records if record.name == "acc.run"]
    assert sorted((r.getMessage(), fields(r).get("agent", "")) for r in records) == [
        ("agent finished", "a"),
        ("agent finished", "b"),
        ("agent finished", "p"),
        ("agent started", "a"),
        ("agent started", "b"),
        ("agent started", "p"),
        ("run ended", ""),
        ("tool called", "a"),
    ]
    assert {(r.__dict__["trace_id"], r.__dict__["run_id"]) for r in records} == {
        ("trace-1", result.run_id)
    }
    assert fields(records[1]) == {
        "trace_id": "trace-1",
        "request_id": "req-1",
        "run_id": result.run_id,
        "caller": "app://x",
        "agent": "a",
        "path": "/p/a",
        "branch": "p.a",
    }
    assert "4711" not in "".join(str(record.__dict__) for record in records)


async def test_without_a_listener_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="acc.run"):
        await turn(says("a"))
    assert caplog.records == []


async def test_what_an_agent_says_last_is_shown_before_the_state_it_leaves() -> None:
    runner = Runner(says("a"))
    shown = [
        event.kind
        async for event in runner.stream(
            user_id="u", session_id="s", message="go", config=RunConfig(snapshots=True)
        )
    ]
    assert shown == [
        EventKind.MESSAGE,
        EventKind.SNAPSHOT,
        EventKind.MESSAGE,
        EventKind.SNAPSHOT,
        EventKind.ENDED,
    ]
