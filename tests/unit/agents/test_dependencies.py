"""Dependencies: `deps` of a run in tools, callbacks and instructions."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

import pytest
from agent_support import WHO, Does, events_of_kind

from acc import (
    Agent,
    AgentTool,
    EventKind,
    InvalidInput,
    InvalidTree,
    ModelRequest,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    approve,
    tool,
)
from acc.testing import ScriptedModel, call


@dataclass
class Deps:
    key: str
    seen: list[str] = field(default_factory=list)

    def __reduce__(self) -> str:
        raise AssertionError("dependencies must not be stored")


class Other:
    pass


def read_deps(ctx: RunContext[Any]) -> str:
    return str(ctx.deps.key)


@tool
async def read_key(ctx: ToolContext[Deps]) -> str:
    """Read the key."""
    ctx.deps.seen.append("tool")
    return ctx.deps.key


async def test_deps_are_available_in_tools_callbacks_and_instructions() -> None:
    def instruct(ctx: RunContext[Deps]) -> str:
        ctx.deps.seen.append("instruction")
        return f"key {ctx.deps.key}"

    def note(place: str) -> Any:
        def callback(*arguments: Any) -> None:
            context = next(each for each in arguments if isinstance(each, RunContext))
            context.deps.seen.append(place)

        return callback

    model = ScriptedModel(call("read_key"), "done")
    agent = Agent[Deps, str](
        name="a",
        model=model,
        instruction=instruct,
        tools=[read_key],
        before_agent_callback=note("before agent"),
        after_agent_callback=note("after agent"),
        before_model_callback=note("before model"),
        after_tool_callback=note("after tool"),
    )
    deps = Deps("k1")
    result = await Runner(agent).run(**WHO, message="go", deps=deps)
    assert model.requests[0].instruction == "key k1"
    assert events_of_kind(result, EventKind.TOOL_RESULT)[0].parts[0].result.content == "k1"  # type: ignore[union-attr]
    assert deps.seen == [
        "before agent",
        "instruction",
        "before model",
        "tool",
        "after tool",
        "instruction",
        "before model",
        "after agent",
    ]


async def test_all_agents_of_a_tree_share_the_deps() -> None:
    inner = Agent[Deps, str](
        name="inner",
        model=ScriptedModel(call("read_key"), "x"),
        tools=[read_key],
        description="inner",
    )
    outer = Agent(
        name="outer",
        model=ScriptedModel(call("inner", request="go"), "y"),
        tools=[AgentTool(agent=inner)],
    )
    own = Does(name="own", do=read_deps)
    deps = Deps("k")
    result = await Runner(SequentialAgent(name="s", sub_agents=[outer, own])).run(
        **WHO, message="go", deps=deps
    )
    assert (result.text, deps.seen) == ("k", ["tool"])


async def test_deps_of_the_runner_are_the_default() -> None:
    agent = Does(name="a", do=read_deps)
    runner = Runner(agent, deps=Deps("default"))
    assert (await runner.run(**WHO, message="go")).text == "default"
    assert (await runner.run(**WHO, message="go", deps=Deps("own"))).text == "own"
    events = [event async for event in runner.stream(**WHO, message="go", deps=Deps("streamed"))]
    assert events[-1].text == "streamed"


def stored_files(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_resumed_run_gets_the_deps_of_resume(tmp_path: Path) -> None:
    @tool(confirm=True)
    def pay(ctx: ToolContext[Deps]) -> str:
        """Pay."""
        return ctx.deps.key

    def make() -> Runner[Deps, str]:
        agent = Agent[Deps, str](
            name="a", model=ScriptedModel(call("pay"), lambda prompt: "done"), tools=[pay]
        )
        return Runner(agent, store=tmp_path / "s.db")

    runner = make()
    paused = await runner.run(**WHO, message="go", deps=Deps("first"))
    assert b"first" not in b"".join(map(Path.read_bytes, stored_files(tmp_path)))
    await runner.aclose()
    later = Runner(
        Agent[Deps, str](name="a", model=ScriptedModel("done"), tools=[pay]),
        store=tmp_path / "s.db",
    )
    answer = approve(paused.requests[0].id)
    with pytest.raises(InvalidInput, match="needs deps of type Deps; the run has none"):
        await later.resume(**WHO, answers=answer)
    done = await later.resume(**WHO, answers=answer, deps=Deps("second"))
    (result,) = events_of_kind(done, EventKind.TOOL_RESULT)
    assert result.result is not None and result.result.content == "second"
    await later.aclose()


@pytest.mark.parametrize(("deps", "got"), [(None, "the run has none"), (Other(), "got Other")])
async def test_run_without_the_declared_deps_is_rejected(deps: Any, got: str) -> None:
    agents: list[Agent[Any, str]] = [
        Agent[Deps, str](name="a", model=ScriptedModel("x")),
        Agent(name="a", model=ScriptedModel("x"), deps_type=Deps),
        Agent(name="a", model=ScriptedModel("x"), tools=[read_key]),
    ]
    for agent in agents:
        runner: Runner[Any, str] = Runner(agent)
        with pytest.raises(InvalidInput, match=f"needs deps of type Deps; {got}. Pass deps="):
            await runner.run(**WHO, message="go", deps=deps)


def test_tool_with_other_deps_than_its_agent_is_rejected() -> None:
    agent = Agent[Other, str](name="a", model=ScriptedModel("x"), tools=[read_key])
    with pytest.raises(InvalidTree, match="deps of type Other, .* 'read_key' needs Deps"):
        Runner(agent)


async def test_deps_types_that_isinstance_cannot_check_are_accepted() -> None:
    class Keyed(Protocol):
        key: str

    class Settings(TypedDict):
        key: str

    async def first(ctx: ToolContext[Keyed]) -> str:
        """Return the key."""
        return ctx.deps.key

    agent = Agent(name="a", model=ScriptedModel(call("first"), "x"), tools=[first])
    assert (await Runner(agent).run(**WHO, message="go", deps=Deps("k"))).text == "x"
    settings: Settings = {"key": "k"}
    other = Agent[Settings](name="a", model=ScriptedModel("x"))
    assert (await Runner(other).run(**WHO, message="go", deps=settings)).text == "x"


async def test_tool_context_has_messages_usage_and_ids_under_both_names() -> None:
    seen: list[Any] = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(ctx)
        assert (ctx.function_call_id, ctx.invocation_id) == (ctx.call_id, ctx.run_id)
        assert ctx.usage.llm_calls == 1
        assert ctx.tool_name == "look" and ctx.retry_count == 0
        return "x"

    def remember(ctx: RunContext, prompt: ModelRequest) -> None:
        requests.append(prompt)

    requests: list[ModelRequest] = []
    agent = Agent(
        name="a",
        model=ScriptedModel(call("look"), "done"),
        tools=[look],
        before_model_callback=remember,
    )
    await Runner(agent).run(**WHO, message="go")
    assert seen[0].call_id == "call-1"
    assert seen[0].messages == requests[0].messages
    assert [message.text for message in seen[0].messages] == ["go"]


async def test_tool_of_a_resumed_run_sees_the_messages_of_the_turn() -> None:
    seen: list[list[str]] = []

    @tool(confirm=True)
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append([message.role for message in ctx.messages])
        return "x"

    script = ScriptedModel(call("look"), call("look"), "done")
    runner = Runner(Agent(name="a", model=script, tools=[look]))
    result = await runner.run(**WHO, message="go")
    while result.requests:
        result = await runner.resume(**WHO, answers=approve(result.requests[0].id))
    assert seen == [["user"], ["user", "assistant", "tool"]]


async def test_run_without_deps_is_rejected_also_for_types_without_isinstance() -> None:
    class Keyed(Protocol):
        key: str

    class Settings(TypedDict):
        key: str

    async def first(ctx: ToolContext[Keyed]) -> str:
        """Return the key."""
        return ctx.deps.key

    model = ScriptedModel("x", repeat=True)
    agents: list[Agent[Any, str]] = [
        Agent(name="a", model=model, tools=[first]),
        Agent[Settings, str](name="a", model=model),
        Agent[Keyed, str](name="a", model=model),
    ]
    for agent in agents:
        with pytest.raises(InvalidInput, match="the run has none. Pass deps="):
            await Runner(agent).run(**WHO, message="go")
    assert model.requests == []
    assert (await Runner(Agent[Any, str](name="a", model=model)).run(**WHO, message="go")).text
