"""Correct programs of users, which both type checkers accept in strict mode."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict, assert_type

import msgspec

from acc import (
    Agent,
    BaseAgent,
    BaseTool,
    Edge,
    GraphAgent,
    LoopAgent,
    MemoryName,
    ModelRequest,
    ModelResponse,
    ModelRetry,
    ParallelAgent,
    Plugin,
    RouterAgent,
    RunContext,
    Runner,
    SequentialAgent,
    ToolContext,
    ToolResult,
    Toolset,
    acc_memory,
    exit_loop,
    tool,
)


@dataclass
class Weather:
    city: str
    degrees: float


class Forecast(TypedDict):
    days: list[float]


class Point(msgspec.Struct):
    x: int


@dataclass
class Deps:
    key: str


@tool
async def look_up(city: str, ctx: ToolContext[Deps]) -> float:
    """Look up a temperature."""
    if not ctx.deps.key:
        raise ModelRetry("the key is missing")
    answer = await ctx.ask("Which station?", schema={"type": "string"})
    await ctx.progress(f"{city} {answer.value} {ctx.retry_count} {ctx.function_call_id}")
    return 20.0


@tool(confirm=lambda arguments: arguments["amount"] >= 10_000, retries=2)
def pay(amount: int, payee: str = "") -> dict[str, str]:
    """Pay."""
    return {"payee": payee}


def shout(text: str) -> str:
    """Return a text in capitals."""
    return text.upper()


def instruct(ctx: RunContext[Deps]) -> str:
    return f"Use {ctx.deps.key}."


async def instruct_later(ctx: RunContext) -> str:
    return ctx.message


def before_model(ctx: RunContext[Deps], prompt: ModelRequest) -> ModelRequest | None:
    return None if ctx.deps.key else prompt


async def after_model(ctx: RunContext, response: ModelResponse) -> str:
    return response.text


def before_tool(
    tool: BaseTool, arguments: dict[str, object], ctx: RunContext[Deps]
) -> dict[str, str] | None:
    return {"tool": tool.name} if arguments else None


def after_tool(
    tool: BaseTool, arguments: Mapping[str, object], ctx: RunContext, result: ToolResult
) -> object:
    return result.content


class Audit(Plugin):
    def before_agent_callback(self, ctx: RunContext) -> None:
        print(ctx.agent.name)

    async def on_model_error_callback(
        self, ctx: RunContext, prompt: ModelRequest, error: Exception
    ) -> str:
        return str(error)


class Greet(BaseTool[Deps]):
    async def invoke(self, arguments: Mapping[str, object], ctx: ToolContext[Deps]) -> str:
        return ctx.deps.key


class Greetings(Toolset[Deps]):
    name = "greetings"

    async def list_tools(self, ctx: RunContext[Deps]) -> Sequence[BaseTool]:
        return [Greet(name=ctx.deps.key, description="")]


class Counter(BaseAgent[Deps, int]):
    async def run(self, ctx: RunContext[Deps]) -> int:
        exit_loop(ctx)
        return len(ctx.deps.key)


def agents() -> None:
    assert_type(Agent(name="a"), Agent[object, str])
    assert_type(Agent(name="a", output_type=Weather), Agent[object, Weather])
    assert_type(Agent(name="a", output_schema=Weather), Agent[object, Weather])
    assert_type(Agent(name="a", output_type=Forecast), Agent[object, Forecast])
    assert_type(Agent(name="a", output_type=list[Point]), Agent[object, list[Point]])
    assert_type(Agent(name="a", output_type=Weather | Point), Agent[object, Weather | Point])
    assert_type(Agent(name="a", output_type=Weather | str), Agent[object, Weather | str])
    assert_type(Agent(name="a", output_type=Literal["x", "y"]), Agent[object, Literal["x", "y"]])
    assert_type(Agent(name="a", deps_type=Deps), Agent[Deps, str])
    assert_type(Agent(name="a", instruction=instruct, output_type=Point), Agent[Deps, Point])
    assert_type(Agent(name="a", instruction=instruct_later), Agent[object, str])
    Agent(name="a", memory="acc", tools=[shout, pay, look_up, Greetings(), Counter(name="c")])
    Agent(name="a", memory=MemoryName("acc:openai:gpt-5.2"))
    Agent(name="a", memory=lambda: acc_memory(compressor="openai:gpt-5.2"))
    Agent(name="a", memory=None, before_agent_callback=lambda ctx: ctx.message)
    Agent[Deps, Weather](
        name="a",
        output_type=Weather,
        instruction=lambda ctx: ctx.deps.key,
        tools=[look_up, Greet(name="greet", description="Greet.")],
        before_model_callback=[before_model, before_model],
        after_model_callback=after_model,
        before_tool_callback=before_tool,
        after_tool_callback=[after_tool],
        on_agent_error_callback=lambda ctx, error: f"{ctx.deps.key} {error}",
        on_tool_error_callback=lambda tool, arguments, ctx, error: {"error": tool.name},
    )


def trees(weather: Agent[Deps, Weather], text: Agent) -> None:
    SequentialAgent(name="s", sub_agents=[text, weather])
    SequentialAgent(name="s", sub_agents=[Agent(name="a"), Agent(name="b", output_type=Weather)])
    assert_type(SequentialAgent(name="s", sub_agents=[weather]), SequentialAgent[Deps, Weather])
    SequentialAgent[Deps, Weather | str](name="s", sub_agents=[text, weather])
    LoopAgent(name="l", sub_agents=[text, weather, Counter(name="c")], max_iterations=2)
    RouterAgent(name="r", sub_agents=[text, weather], by=lambda ctx: "text")
    ParallelAgent(name="p", sub_agents=[text, weather], merge={"x": "sum"})
    GraphAgent(
        name="g",
        sub_agents=[text, weather],
        edges=[Edge("text", "weather", when=lambda state: state.get("x"))],
    )
    Agent(name="root", sub_agents=[text, weather, Counter(name="c")])
    anything: list[BaseAgent] = [text, weather, Counter(name="c")]
    Runner(SequentialAgent(name="s", sub_agents=anything))


async def runs(weather: Agent[Deps, Weather], text: Agent) -> None:
    runner = Runner(weather, plugins=[Audit()], deps=Deps("default"))
    assert_type(runner, Runner[Deps, Weather])
    result = await runner.run(user_id="u", session_id="s", message="hi", deps=Deps("k"))
    assert_type(result.output, Weather)
    assert_type(result.output.degrees, float)
    if result.requests:
        resumed = await runner.resume(user_id="u", session_id="s", deps=Deps("k"))
        assert_type(resumed.output, Weather)
    async for update in runner.stream_output(user_id="u", session_id="s", message="hi"):
        assert_type(update.output, Weather | None)
        if update.result is not None:
            assert_type(update.result.output, Weather)
    assert_type((await Runner(text).run(user_id="u", session_id="s", message="hi")).output, str)
    counted = await Runner(Counter(name="c")).run(user_id="u", session_id="s", message="hi")
    assert_type(counted.output, int)
    assert_type((await runner.run("hi", deps=Deps("k"))).output, Weather)
    assert_type((await weather.run("hi", deps=Deps("k"))).output, Weather)
    assert_type((await text.run("hi")).output, str)
    assert_type((await SequentialAgent(name="s", sub_agents=[weather]).run("hi")).output, Weather)
    async for event in runner.stream("hi", deps=Deps("k")):
        print(event.text)


def runs_without_await(weather: Agent[Deps, Weather]) -> None:
    runner = Runner(weather)
    assert_type(runner.run_sync("hi", deps=Deps("k")).output, Weather)
    assert_type(runner.resume_sync(deps=Deps("k")).output, Weather)
    assert_type(weather.run_sync("hi", deps=Deps("k")).output, Weather)
    assert_type(Counter(name="c").run_sync("hi", deps=Deps("k")).output, int)


async def tools(weather: Agent[Deps, Weather]) -> None:
    assert_type(pay(amount=3), dict[str, str])
    assert_type(await look_up("Kyoto", ToolContext(RunContext_of(weather), "")), float)


def RunContext_of(agent: Agent[Deps, Weather]) -> RunContext[Deps]:
    raise NotImplementedError(agent.name)
