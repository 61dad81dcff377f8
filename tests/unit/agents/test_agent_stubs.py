"""Debug mode, stubs, snapshots and logs, also in resumed runs."""

import logging
from pathlib import Path
from typing import Any

import pytest
from agent_support import (
    WHO,
    Does,
    Writes,
    approve_all,
    counts,
    events_of_kind,
    messages,
    says,
    turn,
)

from acc import (
    Agent,
    BaseAgent,
    CallContext,
    EventKind,
    Grant,
    InvalidInput,
    ParallelAgent,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    approve,
    tool,
)
from acc.domain.errors import AgentFailed
from acc.testing import ScriptedModel, call

NEVER = ScriptedModel()


def tree() -> SequentialAgent:
    agents = [Agent(name=name, model=NEVER, memory=None) for name in ("a", "b")]
    both = ParallelAgent(name="p", sub_agents=agents)
    return SequentialAgent(name="s", sub_agents=[both, Agent(name="c", model=NEVER, memory=None)])


async def test_debug_mode_replaces_agents_and_shows_the_path() -> None:
    result = await turn(tree(), "how far?", config=RunConfig(debug=True))
    assert messages(result) == [
        ("a", "[debug] a would answer: how far?"),
        ("b", "[debug] b would answer: how far?"),
        ("c", "[debug] c would answer: how far?"),
    ]
    assert (NEVER.requests, result.usage.llm_calls) == ([], 0)


async def test_debug_mode_runs_the_root() -> None:
    helper = says("helper", description="Helps.")
    model = ScriptedModel(call("helper", request="x"), "done")
    root = Agent(name="root", model=model, tools=[helper], memory=None)
    result = await turn(root, config=RunConfig(debug=True))
    assert messages(result) == [("helper", "[debug] helper would answer: x"), ("root", "done")]


async def test_stubs_answer_for_named_agents() -> None:
    def measured(ctx: RunContext) -> str:
        ctx.state["heard"] = ctx.message
        return f"{ctx.agent.name} stands in"

    config = RunConfig(stubs={"a": "fixed"}, debug=True)
    alone = await turn(SequentialAgent(name="s", sub_agents=[says("a"), says("b")]), config=config)
    assert [text for _, text in messages(alone)] == ["fixed", "[debug] b would answer: hello"]
    whole = await turn(tree(), config=RunConfig(stubs={"p": measured, "c": "end"}))
    assert messages(whole) == [("p", "p stands in"), ("c", "end")]
    assert whole.state == {"heard": "hello"}


async def test_stub_may_be_async_and_its_error_is_that_of_the_agent() -> None:
    async def looked_up(ctx: RunContext) -> str:
        return str(ctx.state["price"])

    steps = [Writes(name="a", values={"price": 5}), says("b")]
    config = RunConfig(stubs={"b": looked_up})
    result = await turn(SequentialAgent(name="s", sub_agents=steps), config=config)
    assert result.text == "5"
    with pytest.raises(AgentFailed, match="agent 'b' failed: KeyError: 'price'"):
        await turn(SequentialAgent(name="s", sub_agents=[says("b")]), config=config)


async def test_stub_for_unknown_agent_is_rejected() -> None:
    ran: list[str] = []
    inner = Does(name="inner", description="Works.", do=lambda ctx: ran.append("inner"))
    used = SequentialAgent(name="used", description="Helps.", sub_agents=[inner])
    model = ScriptedModel(call("used", request="x"), "done")
    root = Agent(name="root", model=model, tools=[used], memory=None)
    wrong = RunConfig(stubs={"iner": "fixed"})
    actual = "iner; the agents under 'root' are inner, root, used"
    with pytest.raises(InvalidInput, match=actual):
        Runner(root, config=wrong)
    runner = Runner(root)
    with pytest.raises(InvalidInput, match=actual):
        await runner.run(**WHO, message="go", config=wrong)
    with pytest.raises(InvalidInput, match=actual):
        await runner.resume(**WHO, config=wrong)
    right = RunConfig(stubs={"inner": "fixed"})
    result = await runner.run(**WHO, message="go", config=right)
    assert (messages(result), ran) == ([("inner", "fixed"), ("root", "done")], [])


async def test_snapshots_contain_state_before_and_after_each_agent() -> None:
    steps = [counts("a", "n"), counts("b", "n")]
    runner = Runner(SequentialAgent(name="s", sub_agents=steps))
    result = await runner.run(
        user_id="u", session_id="s", message="go", config=RunConfig(snapshots=True)
    )
    shown = [event.detail for event in events_of_kind(result, EventKind.SNAPSHOT)]
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


async def test_snapshots_of_an_agent_contain_what_it_may_read() -> None:
    tree = SequentialAgent(
        name="s",
        sub_agents=[counts("secret", "card"), counts("worker", "n")],
        grants={"worker": Grant(read=("*", "!card"))},
    )
    result = await Runner(tree).run(
        user_id="u", session_id="s", message="go", config=RunConfig(snapshots=True)
    )
    shown = [event.detail for event in events_of_kind(result, EventKind.SNAPSHOT)]
    states = {(d["path"], d["when"]): d["state"] for d in shown}
    assert states["/s/worker", "before"] == {}
    assert states["/s/worker", "after"] == {"n": 1}
    assert states["/s", "after"] == {"card": 1, "n": 1}


async def test_snapshots_are_disabled_by_default() -> None:
    assert events_of_kind(await turn(says("a")), EventKind.SNAPSHOT) == []


SECRET = "the code of the safe"


def fields(record: logging.LogRecord) -> dict[str, Any]:
    names = ("trace_id", "request_id", "run_id", "caller", "agent", "path", "branch", "tool")
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


async def test_logs_contain_identifiers_and_no_content(
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
    assert SECRET not in "".join(str(record.__dict__) for record in records)


async def test_nothing_is_logged_below_info_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="acc.run"):
        await turn(says("a"))
    assert caplog.records == []


async def test_last_message_precedes_snapshot() -> None:
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


async def ask(ctx: RunContext) -> None:
    await ctx.request_input("Go on?")


def pretend(ctx: RunContext) -> str:
    return "pretended"


def steps(done: list[str], kind: type[Any] = SequentialAgent) -> BaseAgent:
    """Return an agent that asks, between two that do what cannot be taken back."""
    first, last = (
        Does(name=name, do=lambda ctx: done.append(ctx.agent.name)) for name in ("first", "last")
    )
    agent: BaseAgent = kind(name="steps", sub_agents=[first, Does(name="asks", do=ask), last])
    return agent


STUBBED = RunConfig(stubs={"first": pretend, "last": pretend})


@pytest.mark.parametrize("kind", [SequentialAgent, ParallelAgent])
async def test_stub_function_applies_after_resume(kind: type[Any]) -> None:
    done: list[str] = []
    runner = Runner(steps(done, kind), config=STUBBED)
    result = await approve_all(runner, await runner.run(**WHO, message="go"))
    assert (result.text.splitlines()[-1].removeprefix("last: "), done) == ("pretended", [])


async def test_stub_function_applies_in_another_process(
    tmp_path: Path,
) -> None:
    def tree() -> BaseAgent:
        inner = steps(done)
        return SequentialAgent(name="whole", sub_agents=[inner, Does(name="again", do=ask)])

    done: list[str] = []
    store = tmp_path / "sessions.db"
    result = await Runner(tree(), store=store, config=STUBBED).run(**WHO, message="go")
    for _ in range(2):
        result = await approve_all(Runner(tree(), store=store, config=STUBBED), result)
    assert (result.text, done) == ("again done", [])


async def test_resume_without_stub_functions_fails() -> None:
    done: list[str] = []
    runner = Runner(steps(done))
    paused = await runner.run(**WHO, message="go", config=STUBBED)
    answer = approve(paused.requests[0].id)
    with pytest.raises(InvalidInput, match="functions for first, last.*the run still waits"):
        await runner.resume(**WHO, answers=answer)
    assert await runner.pending(**WHO) == paused.requests
    result = await runner.resume(**WHO, answers=answer, config=STUBBED)
    assert (result.text, done) == ("pretended", [])


async def test_recorded_stub_text_takes_precedence() -> None:
    done: list[str] = []
    runner = Runner(steps(done), config=STUBBED)
    mixed = RunConfig(stubs={"first": pretend, "last": "as it was"})
    paused = await runner.run(**WHO, message="go", config=mixed)
    assert ((await approve_all(runner, paused)).text, done) == ("as it was", [])


async def test_agent_without_stub_before_pause_runs_after_it() -> None:
    done: list[str] = []
    runner = Runner(steps(done), config=STUBBED)
    paused = await runner.run(**WHO, message="go", config=RunConfig())
    assert ((await approve_all(runner, paused)).text, done) == (
        "last done",
        ["first"] * 2 + ["last"],
    )
