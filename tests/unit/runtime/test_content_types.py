"""Images, files and data of users, tools and agents reach the model."""

import pytest
from agent_support import WHO

from acc import Agent, Part, RunContext, Runner, SequentialAgent, ToolContext, tool
from acc.application.a2a.media_modes import input_modes
from acc.bootstrap.agents import make_services
from acc.domain.errors import ContentTypeNotSupported
from acc.testing import ScriptedModel, call

IMAGE = Part(raw=b"\x89PNG....", media_type="image/png", filename="plan.png")
DATA = Part(data={"order": 17, "state": "open"})


class TextModel(ScriptedModel):
    """A model that accepts texts only."""

    input_types: tuple[str, ...] = ()


class ImageModel(ScriptedModel):
    """A model that accepts images."""

    input_types: tuple[str, ...] = ("image/",)


async def test_parts_of_user_are_in_their_turn_and_in_later_turns() -> None:
    model = ScriptedModel("a plan", "still a plan")
    runner = Runner(Agent(name="a", model=model))
    await runner.run(**WHO, message=[Part(text="What is this?"), IMAGE, DATA])
    await runner.run(**WHO, message="And now?")
    first, second = model.requests
    assert first.messages[0].parts[1:] == (IMAGE, DATA)
    assert second.messages[0].parts[1:] == (IMAGE, DATA)
    assert [message.role for message in second.messages] == ["user", "assistant", "user"]


async def test_image_is_rejected_before_it_is_sent_and_the_kind_is_named() -> None:
    model = TextModel("unused")
    runner = Runner(Agent(name="a", model=model))
    with pytest.raises(ContentTypeNotSupported, match="image/png"):
        await runner.run(**WHO, message=[Part(text="What is this?"), IMAGE])
    assert model.requests == []


async def test_embedded_model_rejects_images_and_reads_data() -> None:
    runner = Runner(Agent(name="a", model="embedded"))
    with pytest.raises(ContentTypeNotSupported, match="image/png"):
        await runner.run(**WHO, message=[Part(text="What is this?"), IMAGE])
    stated = Part(data="The lead of the project is Bo Lund.")
    answer = await runner.run(**WHO, message=[stated, Part(text="Who is the lead of the project?")])
    assert "Bo Lund" in answer.text


@pytest.mark.parametrize("media_type", ["text/plain", "TEXT/Markdown; charset=utf-8"])
async def test_embedded_model_reads_text_files(media_type: str) -> None:
    content = b"The lead of the project is Bo Lund."
    file = Part(raw=content, media_type=media_type, filename="notes.txt")
    runner = Runner(Agent(name="a", model="embedded"))
    answer = await runner.run(**WHO, message=[file, Part(text="Who is the lead of the project?")])
    assert "Bo Lund" in answer.text


@pytest.mark.parametrize("media_type", ["application/json", "image/svg+xml"])
async def test_json_and_svg_files_are_accepted_as_text(media_type: str) -> None:
    file = Part(raw=b"{}", media_type=media_type, filename="plan")
    model = TextModel("read")
    await Runner(Agent(name="a", model=model)).run(**WHO, message=[Part(text="Read it."), file])
    assert model.requests[0].messages[0].parts[1] == file


async def test_rejected_image_does_not_block_the_session() -> None:
    runner = Runner(Agent(name="a", model=TextModel("fine")))
    with pytest.raises(ContentTypeNotSupported):
        await runner.run(**WHO, message=[Part(text="What is this?"), IMAGE])
    assert (await runner.run(**WHO, message="Hello")).text == "fine"


async def test_image_of_tool_is_part_of_its_result_now_and_later() -> None:
    @tool
    def draw() -> list[object]:
        """Draw a plan."""
        return ["the plan", IMAGE]

    model = ScriptedModel(call("draw"), "drawn", "later")
    runner = Runner(Agent(name="a", model=model, tools=[draw]))
    await runner.run(**WHO, message="draw")
    await runner.run(**WHO, message="again?")
    for request in model.requests[1:]:
        (result,) = [result for message in request.messages for result in message.results]
        assert (result.content, result.files) == ("the plan", (IMAGE,))


async def test_file_of_tool_that_the_model_does_not_accept_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    def draw() -> list[object]:
        """Draw a plan."""
        return ["the plan", IMAGE]

    @tool
    def wait() -> str:
        """Wait."""
        return "waited"

    model = TextModel(call("draw"), call("wait"), "drawn", "later")
    runner = Runner(Agent(name="a", model=model, tools=[draw, wait]))
    with caplog.at_level("WARNING", logger="acc.run"):
        await runner.run(**WHO, message="draw")
        await runner.run(**WHO, message="again?")
    (record,) = [r.getMessage() for r in caplog.records if "draw" in r.getMessage()]
    assert "returned a file of type image/png, which the model does not accept" in record


async def test_published_file_is_shown_to_later_agents_and_in_later_turns() -> None:
    @tool
    async def publish(ctx: ToolContext) -> str:
        """Do nothing."""
        return "ok"

    class Painter(Agent):
        async def run(self, ctx: RunContext) -> None:  # type: ignore[override] # context only
            await ctx.artifacts.publish("plan", IMAGE)
            await ctx.say("here it is")

    model = ScriptedModel("seen", "seen again")
    critic = Agent(name="critic", model=model)
    painter = Painter(name="painter", model=ScriptedModel(), tools=[publish])
    runner = Runner(SequentialAgent(name="s", sub_agents=[painter, critic]))
    await runner.run(**WHO, message="paint")
    await runner.run(**WHO, message="again")
    first, second = model.requests
    assert IMAGE in first.messages[1].parts
    assert any(IMAGE in message.parts for message in second.earlier)


@pytest.mark.parametrize(
    ("models", "expected"),
    [
        ((TextModel("x"),), ("text/plain", "application/json")),
        ((ImageModel("x"),), ("text/plain", "application/json", "image/*")),
        ((ImageModel("x"), TextModel("x")), ("text/plain", "application/json")),
    ],
)
def test_served_agent_declares_only_types_that_all_models_accept(
    models: tuple[ScriptedModel, ...], expected: tuple[str, ...]
) -> None:
    agents = [Agent(name=f"a{n}", model=model) for n, model in enumerate(models)]
    root = SequentialAgent(name="s", sub_agents=agents)
    assert input_modes(root, make_services()) == expected
