"""Results, events and streams of a run."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from agent_support import WHO, Does, Writes, events_of_kind, says, turn
from hypothesis import given
from hypothesis import strategies as st

from acc import (
    Agent,
    BaseAgent,
    Event,
    EventKind,
    GraphAgent,
    LoopAgent,
    ParallelAgent,
    Part,
    RouterAgent,
    RunContext,
    Runner,
    RunStatus,
    SequentialAgent,
    Usage,
)
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.event import EventActions
from acc.domain.value_objects.session import Scope, scope_of
from acc.testing import ScriptedModel, call


def replay(events: Iterable[Event]) -> dict[str, Any]:
    """Return the state that results from the events."""
    state: dict[str, Any] = {}
    for event in events:
        state.update(event.actions.state_delta)
        for key in event.actions.state_removed:
            state.pop(key, None)
    return state


def without_temp(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if scope_of(key) is not Scope.TEMP}


async def test_representation_of_a_result_fits_in_a_notebook() -> None:
    result = await turn(Agent(name="a", model=ScriptedModel("the answer"), memory=None), "Hi")
    assert repr(result) == (
        "RunResult(status='completed', text='the answer', state={}, events=<3 events>, "
        f"run_id='{result.run_id}')"
    )
    assert repr(Part(text="Hi")) == "Part(text='Hi')"


async def test_result_contains_text_events_state_and_usage() -> None:
    agent = Agent(name="a", model=ScriptedModel("the answer"), output_key="x", memory=None)
    result = await turn(agent, "the question")
    assert (result.text, result.status, result.requests) == ("the answer", RunStatus.COMPLETED, ())
    assert result.state == {"x": "the answer"}
    assert result.usage == Usage(llm_calls=1, output_tokens=2)
    assert [(e.seq, e.kind, e.author, e.text) for e in result.events] == [
        (1, EventKind.MESSAGE, "user", "the question"),
        (2, EventKind.MESSAGE, "a", "the answer"),
        (3, EventKind.ENDED, "a", "the answer"),
    ]
    assert result.events[0].detail == {"turn": 1}


async def test_result_events_equal_stored_events() -> None:
    runner = Runner(SequentialAgent(name="s", sub_agents=[says("a"), says("b")]))
    first = await runner.run(**WHO, message="one")
    second = await runner.run(**WHO, message="two")
    assert (*first.events, *second.events) == await runner.events(**WHO)
    assert second.events == await runner.events(**WHO, after=len(first.events))
    assert first.events[:1] == await runner.events(**WHO, limit=1)
    assert [e.seq for e in (*first.events, *second.events)] == list(range(1, 9))


async def test_stream_yields_stored_and_transient_events() -> None:
    async def work(ctx: RunContext) -> str:
        ctx.state["n"] = 1
        await ctx.progress("half")
        return "done"

    def tree() -> BaseAgent:
        agent = Agent(name="a", model=ScriptedModel("one two"), memory=None)
        return SequentialAgent(name="s", sub_agents=[agent, Does(name="w", do=work)])

    runner = Runner(tree())
    streamed = [event async for event in runner.stream(**WHO, message="go")]
    stored = [event for event in streamed if not event.partial]
    assert tuple(stored) == await runner.events(**WHO)
    passing = [(e.kind, e.author, e.text) for e in streamed if e.partial]
    assert passing == [
        (EventKind.DELTA, "a", "one "),
        (EventKind.DELTA, "a", "two"),
        (EventKind.PROGRESS, "w", "half"),
    ]
    same = await turn(tree(), "go")
    shape = [(e.kind, e.author, e.step, e.text, e.actions) for e in stored]
    assert shape == [
        (e.kind, e.author, e.step, e.text, e.actions) for e in same.events if not e.partial
    ]


async def test_event_is_stored_before_it_is_streamed() -> None:
    runner = Runner(SequentialAgent(name="s", sub_agents=[says("a"), says("b")]))
    async for event in runner.stream(**WHO, message="go"):
        assert event in await runner.events(**WHO)


async def test_message_may_have_several_parts() -> None:
    model = ScriptedModel("ok", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory=None))
    parts = [Part(text="look at "), Part(url="https://example.org/x.png"), Part(text="this")]
    result = await runner.run(**WHO, message=parts)
    assert model.requests[0].query == "look at this"
    assert result.events[0].parts == tuple(parts)
    await runner.run(**WHO, message=Part(text="one part"))
    assert model.requests[1].query == "one part"


@pytest.mark.parametrize("message", ["", "  ", [], ["text"]])
async def test_empty_message_is_rejected(message: Any) -> None:
    runner = Runner(says("a"))
    with pytest.raises(InvalidInput):
        await runner.run(**WHO, message=message)
    assert await runner.events(**WHO) == ()


async def test_unknown_session_is_empty() -> None:
    runner = Runner(says("a"))
    assert await runner.state(**WHO) == {}
    assert await runner.events(**WHO) == ()
    with pytest.raises(InvalidInput, match="user_id must be a non-empty str"):
        await runner.state(user_id="", session_id="s")


KEYS = st.sampled_from(["a", "b", "user:a", "app:a", "temp:a"])
VALUES = st.one_of(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=2))
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), VALUES)), max_size=4)
LEAVES = st.tuples(st.just("leaf"), WRITES)
KINDS = st.sampled_from(["sequence", "parallel", "loop", "router", "graph", "tool"])
TREES = st.recursive(
    LEAVES, lambda inner: st.tuples(KINDS, st.lists(inner, min_size=1, max_size=3)), max_leaves=6
)


class Names:
    def __init__(self) -> None:
        self._count = 0

    def __call__(self) -> str:
        self._count += 1
        return f"n{self._count}"


def writes(changes: list[tuple[str, Any]], name: str) -> BaseAgent:
    def change(ctx: RunContext) -> None:
        for key, value in changes:
            if value is None:
                ctx.state.pop(key, None)
            elif isinstance(ctx.state.get(key), list):
                ctx.state[key].append(value)
            else:
                ctx.state[key] = value

    return Does(name=name, do=change, description=name)


def built(tree: tuple[str, Any], name: Names) -> BaseAgent:
    kind, inside = tree
    if kind == "leaf":
        return writes(inside, name())
    children = [built(child, name) for child in inside]
    fields: dict[str, Any] = {"name": name(), "sub_agents": children, "description": "x"}
    merge: dict[str, Any] = {"*": lambda before, values: values[-1]}
    if kind == "parallel":
        return ParallelAgent(**fields, merge=merge)
    if kind == "loop":
        return LoopAgent(**fields, max_iterations=2)
    if kind == "router":
        return RouterAgent(**fields, by=lambda ctx: children[-1].name)
    if kind == "graph":
        first, rest = children[0].name, children[1:]
        return GraphAgent(**fields, edges=[(first, child.name) for child in rest], merge=merge)
    if kind == "tool":
        calls = [call(child.name, request="x") for child in children]
        model = ScriptedModel(calls, "done", calls, "done", repeat=True)
        return Agent(name=fields["name"], description="x", model=model, tools=children, memory=None)
    return SequentialAgent(**fields)


@given(st.lists(TREES, min_size=1, max_size=2))
def test_stored_events_reproduce_the_state(trees: list[tuple[str, Any]]) -> None:
    asyncio.run(_check_replay(trees))


async def _check_replay(trees: list[tuple[str, Any]]) -> None:
    name = Names()
    runner = Runner(SequentialAgent(name="root", sub_agents=[built(tree, name) for tree in trees]))
    last: dict[str, Any] = {}
    for _ in range(2):
        result = await runner.run(**WHO, message="go")
        assert replay([Event(**_began(last)), *result.events]) == result.state
        last = without_temp(result.state)
        assert await runner.state(**WHO) == last
    assert without_temp(replay(await runner.events(**WHO))) == last


def _began(state: Mapping[str, Any]) -> dict[str, Any]:
    actions = EventActions(state_delta=state)
    return {"kind": EventKind.STATE, "run_id": "", "author": "", "actions": actions}


async def test_writes_are_recorded_before_next_agent() -> None:
    class Quiet(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            ctx.state["quiet"] = True

    result = await turn(SequentialAgent(name="s", sub_agents=[Quiet(name="q"), says("a")]))
    states = events_of_kind(result, EventKind.STATE)
    assert [(e.author, e.actions.state_delta) for e in states] == [("q", {"quiet": True})]
    assert result.events.index(states[0]) == 1


async def test_run_without_models_has_no_usage() -> None:
    result = await turn(Writes(name="a", values={"x": 1}))
    assert result.usage == Usage()
