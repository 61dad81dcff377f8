"""Mistakes in calls of runners and in the use of their results: errors name the fix."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import acc
from acc import AccError, BaseAgent, RunConfig, Runner, ToolContext
from acc.a2a import create_app
from acc.testing import ScriptedModel, call

ANY: Any = acc  # mistakes that type checkers would find


def agent(**options: Any) -> Any:
    return ANY.Agent(**{"name": "a", "model": ScriptedModel("ok", repeat=True), **options})


def runner() -> Any:
    return ANY.Runner(agent())


def state_not_awaited() -> None:
    runner().state()["key"]


def sessions_not_awaited() -> None:
    for _ in runner().sessions.list():
        pass


def condition_not_awaited() -> None:
    if runner().pending():
        pass


def run_of_the_class() -> None:
    asyncio.run(ANY.Runner.run(agent(), "hello"))


def event_attribute() -> None:
    agent().run_sync("hello").events[0].content.parts  # noqa: B018 - the mistake


def text_of_a_partial_output() -> None:
    async def main() -> None:
        async for partial in runner().stream_output("hello"):
            partial.text  # noqa: B018 - the mistake

    asyncio.run(main())


def attribute_of_the_state() -> None:
    class Own(BaseAgent):
        async def run(self, ctx: Any) -> str:
            return str(ctx.state.city)

    Own(name="own").run_sync("hello")


def with_runner() -> None:
    with runner():
        pass


async def asks(ctx: ToolContext) -> str:
    """Ask."""
    return str(await ctx.request_input("Which?"))  # type: ignore[attr-defined]


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "attribute of the state": (attribute_of_the_state, r"ctx.state\['city'\]"),
    "message None": (lambda: runner().run_sync(None), "a list of Parts and texts, got None$"),
    "path of an image as text": (
        lambda: runner().run_sync(ANY.Part("plan.png", media_type="image/png")),
        r"a text cannot have the type image/png: .*raw=Path\(...\).read_bytes\(\)",
    ),
    "state without await": (state_not_awaited, r"`result = await runner.state\(...\)`"),
    "sessions without await": (
        sessions_not_awaited,
        r"`asyncio.run\(runner.sessions.list\(...\)\)` elsewhere",
    ),
    "condition without await": (condition_not_awaited, r"await runner.pending\(...\)"),
    "creation of a session": (lambda: runner().sessions.create("s"), "the first message creates"),
    "run of the class": (run_of_the_class, r"write Runner\(agent\).run\(message\)"),
    "run_sync of the class": (
        lambda: ANY.Runner.run_sync(agent(), "hello"),
        r"write Runner\(agent\).run_sync\(message\)",
    ),
    "session of an agent": (
        lambda: agent().run_sync("hello", session="s"),
        "run_sync\\(...\\) has no option 'session': use session_id=",
    ),
    "run_sync of the class of an agent": (
        lambda: ANY.Agent.run_sync("hello"),
        "needs a runner: write Runner\\(agent\\)",
    ),
    "content of an event": (event_attribute, r"use .text, or .parts"),
    "result as a dictionary": (
        lambda: agent().run_sync("hello")["text"],
        r"RunResult objects have attributes, such as .text",
    ),
    "result as a tuple": (lambda: tuple(agent().run_sync("hello")), "have attributes"),
    "sessions as a dictionary": (lambda: runner().sessions["s"], r"`await .get\(...\)`"),
    "with in place of async with": (with_runner, "closed by `async with`"),
    "messages of a result": (lambda: agent().run_sync("hello").all_messages(), "use .events"),
    "tokens by another name": (
        lambda: agent().run_sync("hello").usage.prompt_tokens,
        "use .input_tokens",
    ),
    "question of a tool by another name": (
        lambda: agent(tools=[asks], model=ScriptedModel(call("asks"))).run_sync(
            "hello", config=RunConfig(raise_tool_errors=True)
        ),
        "no attribute 'request_input': use .ask",
    ),
    "path as the URL of a file": (
        lambda: runner().run_sync(ANY.Part(url="/home/ann/plan.png", media_type="image/png")),
        "'/home/ann/plan.png' is not an address on the web: .*read_bytes",
    ),
    "path of another system as the URL of a file": (
        lambda: runner().run_sync(ANY.Part(url=r"C:\plan.png", media_type="image/png")),
        "is not an address on the web",
    ),
    "URL of a local file": (
        lambda: runner().run_sync(ANY.Part(url="file:///plan.png", media_type="image/png")),
        "is not an address on the web",
    ),
    "ending as media type": (
        lambda: runner().run_sync(ANY.Part(raw=b"x", media_type="png")),
        "'png' is not a media type: write TYPE/SUBTYPE, such as image/png",
    ),
    "name of an agent to serve": (lambda: create_app(ANY.__name__), "expected an agent such as"),
    "runner to serve": (lambda: create_app(runner()), "expected an agent such as"),
    "text of a partial output": (text_of_a_partial_output, "use .data for what has arrived"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_error_names_the_problem_and_the_fix(mistake: str) -> None:
    make, advice = MISTAKES[mistake]
    with pytest.raises((AccError, AttributeError), match=advice):
        make()


async def test_runner_is_closed_at_the_end_of_its_block() -> None:
    class Closing(ScriptedModel):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    model = Closing("hi")
    async with Runner(agent(model="mine"), models={"mine": model}) as entered:
        assert (await entered.run("hello")).text == "hi"
        assert not model.closed
    assert model.closed
