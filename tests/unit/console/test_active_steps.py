"""The active steps of runs, in this process and from stored events."""

import asyncio
from typing import Any

from acc import Agent, ParallelAgent, RunConfig, Runner, SequentialAgent, ToolCall, tool
from acc.adapters.console.agent_pages import draw_steps
from acc.adapters.diagrams.svg import draw_agents
from acc.application.console.active_steps import ActiveStep, RunSteps, stored_steps
from acc.domain.value_objects.content import Part, ToolResult
from acc.domain.value_objects.event import Event, EventKind
from acc.domain.value_objects.session import SessionKey
from acc.testing import ScriptedModel

KEY = SessionKey(app_name="app", user_id="local", session_id="s")


class Watcher:
    """Notes the active steps after each event, as the console does."""

    wants_deltas = False

    def __init__(self) -> None:
        self.steps = RunSteps()
        self.seen: list[list[tuple[str, tuple[str, ...]]]] = []

    def note(self) -> None:
        now = [(step.agent, step.tools) for step in self.steps.active(KEY)]
        if not self.seen or self.seen[-1] != now:
            self.seen.append(now)

    async def on_event(self, event: Event) -> None:
        self.steps.add(event)
        self.note()


def answering(name: str, *answers: Any, **options: Any) -> Agent:
    return Agent(name=name, model=ScriptedModel(*answers), **options)


def run(agent: Any, watcher: Watcher) -> None:
    runner = Runner(agent, config=RunConfig(snapshots=True))
    asyncio.run(runner.run("hi", observer=watcher))


def test_active_step_is_the_innermost_agent_with_its_tool() -> None:
    watcher = Watcher()

    @tool
    async def look_up(order: str) -> str:
        """Return the status."""
        watcher.note()
        return "shipped"

    call = ToolCall(id="1", name="look_up", arguments={"order": "A-17"})
    team = SequentialAgent(
        name="team",
        sub_agents=[
            answering("reader", call, "read", tools=[look_up]),
            answering("writer", "written"),
        ],
    )
    run(team, watcher)
    assert watcher.seen == [
        [],
        [("team", ())],
        [("reader", ())],
        [("reader", ("look_up",))],
        [("reader", ())],
        [("team", ())],
        [("writer", ())],
        [("team", ())],
        [],
    ]


def test_branches_of_a_parallel_agent_are_active_together() -> None:
    watcher = Watcher()

    async def wait(ctx: Any) -> None:
        await asyncio.sleep(0)

    branches = [answering(name, "1", before_agent_callback=wait) for name in ("a", "b")]
    run(ParallelAgent(name="both", sub_agents=branches), watcher)
    assert [("a", ()), ("b", ())] in [sorted(steps) for steps in watcher.seen]
    assert watcher.seen[-1] == []


def test_agent_that_failed_ends_with_its_parent() -> None:
    steps = RunSteps()
    for when, path in (("before", "/a"), ("before", "/a/b"), ("after", "/a")):
        detail = {"when": when, "path": path}
        author = path.rpartition("/")[2]
        steps.add(Event(kind=EventKind.SNAPSHOT, run_id="r", author=author, detail=detail))
    assert steps.active(KEY) == []


def stored(author: str, kind: EventKind = EventKind.MESSAGE, **fields: Any) -> Event:
    return Event(kind=kind, run_id="r", author=author, **fields)


def test_step_of_another_process_follows_from_its_events() -> None:
    reader, writer = answering("reader"), answering("writer")
    team = SequentialAgent(name="team", sub_agents=[reader, writer])
    call = Part(call=ToolCall(id="1", name="look_up"))
    result = Part(result=ToolResult(call_id="1", name="look_up"))
    events = [
        stored("user"),
        stored("reader", EventKind.TOOL_CALLS, parts=(call,)),
        stored("reader", EventKind.TOOL_RESULT, parts=(result,)),
        stored("reader"),
    ]
    found = [stored_steps(team, KEY, events[:count]) for count in range(5)]
    assert [[(step.agent, step.tools) for step in steps] for steps in found] == [
        [],
        [("reader", ())],
        [("reader", ("look_up",))],
        [("reader", ())],
        [("writer", ())],
    ]


def test_parallel_branches_of_another_process_are_listed() -> None:
    agents = ParallelAgent(name="both", sub_agents=[answering("a"), answering("b")])
    call = Part(call=ToolCall(id="1", name="look_up"))
    events = [
        stored("user"),
        stored("a", EventKind.TOOL_CALLS, branch="a", parts=(call,)),
        stored("b", EventKind.MEMORY, branch="b"),
    ]
    steps = stored_steps(agents, KEY, events)
    assert [(step.agent, step.tools) for step in steps] == [("a", ("look_up",)), ("b", ())]


def test_drawing_has_a_frame_and_a_label_at_the_place_of_the_agent() -> None:
    desk = answering("窓口", sub_agents=[answering("reader", description="Reads")])
    drawing = draw_agents(desk)
    steps = [ActiveStep(KEY, "reader", ("<refund>",)), ActiveStep(KEY, "窓口", is_waiting=True)]
    overlay = str(draw_steps(drawing, steps, language="ja"))
    (place,) = drawing.places["reader"]
    assert f'x="{place.left:g}" y="{place.top:g}" width="{place.width:g}"' in overlay
    assert "&lt;refund&gt;" in overlay and "<refund>" not in overlay
    assert 'class="waiting"' in overlay and "回答待ち" in overlay
    assert drawing.view_box in overlay and drawing.view_box in drawing.svg
    assert "<rect" not in str(draw_steps(drawing, [], language="en"))


def test_step_of_an_agent_outside_the_graph_has_its_own_name() -> None:
    call = ToolCall(id="1", name="slow")
    event = Event(
        kind=EventKind.TOOL_CALLS,
        run_id="r",
        author="other",
        step="/other#0",
        parts=(Part(call=call),),
    )
    steps = stored_steps(answering("desk", "hi"), KEY, [event])
    assert steps == [ActiveStep(KEY, "other", ("slow",))]
