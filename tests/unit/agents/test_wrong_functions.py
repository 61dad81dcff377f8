"""Functions, classes and parts in the wrong place: errors name the problem and the fix."""

from pathlib import Path
from typing import Any

import pytest

import acc
from acc import (
    AccError,
    Agent,
    BaseAgent,
    BaseTool,
    GraphAgent,
    InvalidInput,
    InvalidTree,
    Part,
    Plugin,
    Runner,
    Toolset,
    tool,
)
from acc.domain.errors import AgentFailed, ContentTypeNotSupported
from acc.testing import ScriptedModel

ANY: Any = acc  # mistakes that type checkers would find
IMAGE = Part(raw=b"\x89PNG", media_type="image/png", filename="plan.png")


class ImageModel(ScriptedModel):
    """A model that accepts images."""

    input_types: tuple[str, ...] = ("image/",)


class Audit(Plugin):
    """A plugin with a callback."""

    def before_agent_callback(self, ctx: Any) -> None:
        """Do nothing."""


class SyncTools(Toolset):
    """A toolset whose method is not async."""

    name = "sync"

    def list_tools(self, ctx: Any) -> Any:
        """Return no tools."""
        return []


class FunctionAsTools(Toolset):
    """A toolset that returns a function in place of a list."""

    name = "one"

    async def list_tools(self, ctx: Any) -> Any:
        """Return a function."""
        return len


class InvokeWithoutArguments(BaseTool):
    """A tool whose method takes nothing."""

    async def invoke(self) -> Any:  # type: ignore[override]
        """Return a text."""
        return "x"


class MisspelledCallback(Audit):
    """A plugin with a callback and a misspelled one."""

    def after_model_calback(self, ctx: Any, response: Any) -> None:
        """Do nothing."""


class WithoutSuper(BaseAgent):
    """An agent whose constructor does not call that of its base class."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    async def run(self, ctx: Any) -> str:
        """Return a text."""
        return "x"


def agent(**options: Any) -> Any:
    return ANY.Agent(**{"name": "a", "model": ScriptedModel("ok", repeat=True), **options})


def test_texts_and_parts_can_be_mixed_in_a_message() -> None:
    model = ImageModel("a plan")
    result = Agent(name="a", model=model).run_sync(["What is this?", IMAGE])
    assert result.text == "a plan"
    assert model.requests[0].messages[0].parts == (Part(text="What is this?"), IMAGE)


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        (["a", "b"], "a list of str: join them"),
        ([IMAGE, 3], "got int"),
        (["text", {"role": "user"}], "a dict: pass the text alone"),
        (b"\x89PNG", r"bytes: for a file pass Part\(raw="),
        (Path("plan.png"), r"Path: for a file pass Part\(raw="),
        ([], "got an empty list"),
    ],
)
def test_message_of_another_type_is_explained(message: Any, advice: str) -> None:
    with pytest.raises(InvalidInput, match=advice):
        agent().run_sync(message)


@pytest.mark.parametrize("content", ["plan.png", Path("plan.png")])
def test_path_instead_of_the_content_of_a_file_is_rejected(content: Any) -> None:
    with pytest.raises(InvalidInput, match=r"raw must be bytes.*read_bytes\(\)"):
        Part(raw=content, media_type="image/png")


def test_file_without_a_type_is_rejected_with_its_probable_type() -> None:
    untyped = Part(raw=b"%PDF", filename="order.pdf")
    with pytest.raises(ContentTypeNotSupported, match='media_type="application/pdf"'):
        Agent(name="a", model=ImageModel("unused")).run_sync(["Read this.", untyped])


def test_kinds_that_a_model_accepts_are_listed_as_patterns() -> None:
    sound = Part(raw=b"RIFF", media_type="audio/wav")
    with pytest.raises(ContentTypeNotSupported, match=r"it accepts text, image/\*\. Use a model"):
        Agent(name="a", model=ImageModel("unused")).run_sync(sound)


def test_confirm_of_a_tool_needs_the_arguments() -> None:
    with pytest.raises(InvalidTree, match=r"write def confirm\(arguments\)"):

        @tool(confirm=lambda: True)  # type: ignore[misc, arg-type]
        def pay(amount: int) -> str:
            """Pay."""
            return "paid"


def test_confirm_of_an_agent_needs_the_context() -> None:
    with pytest.raises(InvalidTree, match=r"write def confirm\(ctx\)"):
        agent(confirm=lambda: True)


@pytest.mark.parametrize("name", ["transfer_to_agent", "read_tool_result", "write_plan"])
def test_reserved_name_of_a_tool_is_named(name: str) -> None:
    @tool(name=name)
    def own() -> str:
        """Do something."""
        return "x"

    with pytest.raises(InvalidTree, match=f"'{name}' is the name of a tool of acc"):
        agent(tools=[own])


def test_constructor_without_super_is_named_by_every_way_to_run() -> None:
    for start in (WithoutSuper(3).run_sync, WithoutSuper(3).run, lambda _: Runner(WithoutSuper(3))):
        with pytest.raises(AccError, match=r"must call super\(\).__init__\(name=\.\.\.\)"):
            start("hello")


def test_class_of_a_plugin_is_not_a_plugin() -> None:
    with pytest.raises(InvalidInput, match=r"got the class: write Audit\(\)"):
        ANY.Runner(agent(), plugins=[Audit])


def test_toolset_must_be_async() -> None:
    with pytest.raises(AgentFailed, match=r"SyncTools.list_tools must be `async def list_tools"):
        agent(tools=[SyncTools()]).run_sync("hello")


def test_toolset_must_return_a_list() -> None:
    with pytest.raises(InvalidInput, match=r"'one': list_tools must return a list, such as \[f"):
        agent(tools=[FunctionAsTools()]).run_sync("hello")


def test_invoke_of_a_tool_needs_its_parameters() -> None:
    with pytest.raises(InvalidTree, match=r"write `async def invoke\(self, arguments, ctx\)`"):
        InvokeWithoutArguments(name="x", description="x")


def test_misspelled_callback_of_a_plugin_is_rejected() -> None:
    with pytest.raises(InvalidInput, match="the unknown method after_model_calback; callbacks are"):
        Runner(agent(), plugins=[MisspelledCallback()])


def test_condition_of_an_edge_needs_the_state() -> None:
    nodes = [agent(name="b"), agent(name="c")]
    with pytest.raises(InvalidTree, match=r"edge b → c .*write def condition\(state\)"):
        GraphAgent(name="g", sub_agents=nodes, edges=[ANY.Edge("b", "c", lambda: True)])


def test_agent_as_start_of_a_graph_is_named() -> None:
    nodes = [agent(name="b"), agent(name="c")]
    start: Any = nodes[0]
    with pytest.raises(
        InvalidTree, match="^graph 'g': 'b' is not the name of a node; nodes: b, c$"
    ):
        GraphAgent(name="g", sub_agents=nodes, start=start)


@pytest.mark.parametrize("confirm", ["", " "])
def test_empty_question_does_not_disable_the_approval(confirm: str) -> None:
    with pytest.raises(InvalidTree, match="confirm is an empty question: write the question"):

        @tool(confirm=confirm)
        def pay(amount: int) -> str:
            """Pay."""
            return "paid"

    with pytest.raises(InvalidTree, match="question \\(not empty\\)"):
        agent(confirm=confirm)


@pytest.mark.parametrize(
    ("option", "value"),
    [("tools", [len]), ("sub_agents", []), ("output_type", int), ("output_schema", int)],
)
def test_option_that_has_no_effect_after_the_construction_cannot_be_set(
    option: str, value: object
) -> None:
    built = agent()
    with pytest.raises(InvalidTree, match=f"{option} has no effect after the agent is built"):
        setattr(built, option, value)
    built.instruction = "Answer in French."
    built.run_sync("hello")
    assert built.model.requests[0].instruction == "Answer in French."


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (Audit(), "write the class Audit"),
        ([str], r"write list\[str\]"),
        ({"city": str}, "use a dataclass, a TypedDict"),
        ("Weather", "write the class itself, without quotes"),
    ],
    ids=["object", "list", "dictionary", "text"],
)
def test_value_as_output_type_is_explained(value: object, advice: str) -> None:
    with pytest.raises(InvalidTree, match=f"is not a type: {advice}"):
        agent(output_type=value)
