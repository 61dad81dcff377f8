"""Lists of callbacks, error callbacks and plugins."""

from typing import Any

import pytest
from agent_support import WHO, Does, results, says, turn

from acc import (
    Agent,
    AgentFailed,
    BudgetExceeded,
    EventKind,
    InvalidInput,
    InvalidTree,
    ModelRequest,
    ModelResponse,
    Plugin,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    approve,
    tool,
)
from acc.domain.value_objects.base import replace
from acc.testing import ScriptedModel, call


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_first_before_callback_with_a_value_decides() -> None:
    called: list[str] = []

    def quiet(ctx: RunContext) -> None:
        called.append("quiet")

    async def answers(ctx: RunContext) -> str:
        called.append("answers")
        return "instead"

    def never(ctx: RunContext) -> str:
        called.append("never")
        return "no"

    agent = Agent(name="a", model=ScriptedModel(), before_agent_callback=[quiet, answers, never])
    assert (await turn(agent)).text == "instead"
    assert called == ["quiet", "answers"]


async def test_after_callbacks_get_what_the_ones_before_returned() -> None:
    agent = Agent(
        name="a",
        model=ScriptedModel("x"),
        after_agent_callback=[lambda c, t: f"{t}1", lambda c, t: None, lambda c, t: f"{t}2"],
    )
    assert (await turn(agent)).text == "x12"


async def test_model_callbacks_may_be_lists() -> None:
    def shout(ctx: RunContext, prompt: ModelRequest) -> ModelRequest:
        return replace(prompt, instruction=prompt.instruction + "!")

    model = ScriptedModel("x")
    agent = Agent(
        name="a",
        model=model,
        instruction="go",
        before_model_callback=[shout, shout],
        after_model_callback=[lambda c, r: f"{r.text}1", lambda c, r: f"{r.text}2"],
    )
    assert (await turn(agent)).text == "x12"
    assert model.requests[0].instruction == "go!!"


async def test_tool_callbacks_may_be_lists() -> None:
    agent = Agent(
        name="a",
        model=ScriptedModel(call("add", a=1, b=2), "done"),
        tools=[add],
        before_tool_callback=[lambda t, a, c: None, lambda t, a, c: None],
        after_tool_callback=[lambda t, a, c, r: r.content + 10, lambda t, a, c, r: r.content * 2],
    )
    assert results(await turn(agent)) == [26]


@pytest.mark.parametrize("callbacks", [3, [3], ["x"], (len, None)])
def test_callbacks_must_be_functions(callbacks: Any) -> None:
    with pytest.raises(InvalidTree, match="a function or a list of functions"):
        Agent(name="a", before_model_callback=callbacks)


def fail(ctx: RunContext) -> str:
    raise LookupError("broken")


async def test_agent_error_callback_may_answer() -> None:
    seen: list[str] = []

    def handle(ctx: RunContext, error: Exception) -> str:
        seen.append(f"{ctx.agent.name}: {error}")
        return "sorry"

    failing = Does(name="a", do=fail, on_agent_error_callback=handle)
    tree = SequentialAgent(name="s", sub_agents=[failing, says("b", "next")])
    result = await turn(tree)
    assert [e.text for e in result.events if e.kind is EventKind.MESSAGE][1:] == ["sorry", "next"]
    assert seen == ["a: agent 'a' failed: LookupError: broken"]


async def test_error_is_raised_if_no_callback_answers() -> None:
    seen: list[str] = []
    failing = Does(name="a", do=fail, on_agent_error_callback=lambda ctx, error: seen.append("a"))
    with pytest.raises(AgentFailed, match="LookupError") as error:
        await turn(failing)
    assert seen == ["a"] and isinstance(error.value.__cause__, LookupError)


@pytest.mark.parametrize("result", [1 / 4, RuntimeError("in the callback")])
async def test_failure_of_an_error_callback_is_an_error_of_the_agent(result: object) -> None:
    async def fail(ctx: RunContext) -> str:
        raise ValueError("first")

    def handle(ctx: RunContext, error: Exception) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    failing = Does(name="a", do=fail, on_agent_error_callback=handle)
    with pytest.raises(AgentFailed, match="in the callback|handle returned float; expected str"):
        await turn(failing)


async def test_error_that_ends_the_run_cannot_be_replaced() -> None:
    seen: list[str] = []

    def handle(ctx: RunContext, error: Exception) -> str:
        seen.append(type(error).__name__)
        return "all is well"

    agent = Agent(
        name="a",
        model=ScriptedModel(call("add", a=1, b=2), repeat=True),
        tools=[add],
        on_agent_error_callback=handle,
    )
    with pytest.raises(BudgetExceeded):
        await turn(agent, config=RunConfig(max_llm_calls=2))
    assert seen == ["BudgetExceeded"]


async def test_pause_and_rejection_are_not_errors() -> None:
    async def ask(ctx: RunContext) -> str:
        return str((await ctx.request_input("Which?")).value)

    agent = Does(name="a", do=ask, on_agent_error_callback=lambda ctx, error: "sorry")
    runner = Runner(agent)
    paused = await runner.run(**WHO, message="go")
    done = await runner.resume(**WHO, answers=approve(paused.requests[0].id, value="this"))
    assert done.text == "this"


class Audit(Plugin):
    """Records every callback."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def before_agent_callback(self, ctx: RunContext) -> None:
        self.log.append(f"before {ctx.agent.name}")

    async def before_model_callback(self, ctx: RunContext, prompt: ModelRequest) -> None:
        self.log.append(f"model of {ctx.agent.name}")

    def after_tool_callback(self, tool: Any, arguments: Any, ctx: RunContext, result: Any) -> None:
        self.log.append(f"{tool.name} = {result.content}")

    def on_agent_error_callback(self, ctx: RunContext, error: Exception) -> None:
        self.log.append(f"{ctx.agent.name} failed")


async def test_plugin_applies_to_all_agents_before_their_own_callbacks() -> None:
    audit = Audit()
    tree = SequentialAgent(
        name="s",
        sub_agents=[
            Agent(
                name="a",
                model=ScriptedModel(call("add", a=1, b=2), "x"),
                tools=[add],
                before_agent_callback=lambda ctx: audit.log.append("own"),
            ),
            Does(name="b", do=fail),
        ],
    )
    with pytest.raises(AgentFailed):
        await Runner(tree, plugins=[audit]).run(**WHO, message="go")
    assert audit.log == [
        "before s",
        "before a",
        "own",
        "model of a",
        "add = 3",
        "model of a",
        "before b",
        "b failed",
        "s failed",
    ]


async def test_plugin_may_replace_answers_and_responses() -> None:
    class Redact(Plugin):
        def after_agent_callback(self, ctx: RunContext, text: str) -> str:
            return text.replace("secret", "[redacted]")

        def after_model_callback(self, ctx: RunContext, response: ModelResponse) -> str:
            return f"{response.text} and secret"

    runner = Runner(Agent(name="a", model=ScriptedModel("secret")), plugins=[Redact()])
    events = [event async for event in runner.stream(**WHO, message="go")]
    assert not [event for event in events if event.kind is EventKind.DELTA]
    assert events[-1].text == "[redacted] and [redacted]"


async def test_any_object_with_a_callback_is_a_plugin() -> None:
    class Canned:
        def before_model_callback(self, ctx: RunContext, prompt: ModelRequest) -> str:
            return "canned"

    plugins: Any = [Canned()]
    runner = Runner(Agent(name="a", model=ScriptedModel()), plugins=plugins)
    assert (await runner.run(**WHO, message="go")).text == "canned"


class Misspelled(Plugin):
    def before_agents_callback(self, ctx: RunContext) -> None:
        pass


@pytest.mark.parametrize(
    ("plugins", "message"),
    [
        ([object()], "plugin object has no callback; callbacks are before_agent_callback"),
        ([Plugin()], "plugin Plugin has no callback"),
        ([Misspelled()], "unknown method before_agents_callback"),
        (Audit(), "plugins must be a list"),
    ],
)
def test_invalid_plugins_are_rejected(plugins: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Runner(Agent(name="a", model=ScriptedModel()), plugins=plugins)
