"""Functions, classes and parts in the wrong place: errors name the problem and the fix."""

from pathlib import Path
from typing import Any

import pytest

import acc
from acc import (
    AccError,
    Agent,
    BaseAgent,
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
