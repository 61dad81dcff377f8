"""What is refused before anything is done with it."""

from dataclasses import dataclass
from typing import Any

import pytest
from serving_world import Doer, S, World, answer_of, send

from acc import Agent, BaseAgent, RunContext
from acc.application.a2a.executor import trace_id_of
from acc.application.a2a.intake import media_type, output_modes, reads, wants_data
from acc.application.a2a.requests import ServerLimits
from acc.domain.errors import ContentTypeNotSupported, InvalidInput
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.task import Message, Role
from acc.testing import ScriptedModel


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"role": Role.AGENT}, "role of the user"),
        ({"id": " "}, "messageId: must not be empty"),
        ({"id": "x" * 257}, "messageId: at most 256"),
        ({"id": "a\nb"}, "messageId"),
        ({"context": "x" * 257}, "contextId"),
        ({"task": "\x00"}, "taskId"),
        ({"text": []}, "at least one part"),
        ({"text": [Part(text="a")] * 4}, "at most 3 parts"),
        ({"text": "x" * 11}, "at most 10 characters"),
    ],
)
async def test_a_message_that_is_wrong_or_too_large_is_refused(
    world: World, doer: Doer, fields: dict[str, Any], fault: str
) -> None:
    async with world.open(doer, parts=3, text=10) as serve:
        text = fields.pop("text", "hello")
        with pytest.raises(InvalidInput, match=fault):
            await send(serve, text, **fields)
        assert doer.log == []


@pytest.mark.parametrize(
    "part",
    [
        Part(raw=b"x"),
        Part(url="https://example.com/a"),
        Part(raw=b"x", media_type="IMAGE/PNG; q=1"),
        Part(text="x", media_type="application/xml"),
    ],
)
async def test_what_the_agent_cannot_read_is_refused(world: World, doer: Doer, part: Part) -> None:
    async with world.open(doer) as serve:
        with pytest.raises(ContentTypeNotSupported, match="it reads text/plain, application/json"):
            await send(serve, [Part(text="a"), part])
        assert doer.log == []


@pytest.mark.parametrize(
    "parts",
    [
        [Part(text="x", media_type="text/markdown; charset=utf-8")],
        [Part(data={"a": 1}), Part(text="b")],
        [Part(is_null=True)],
    ],
)
async def test_what_the_agent_reads_is_taken(world: World, doer: Doer, parts: list[Part]) -> None:
    async with world.open(doer) as serve:
        assert (await send(serve, parts)).state is S.COMPLETED


@dataclass(kw_only=True, eq=False)
class Any_(BaseAgent):
    input_modes = ("image/*",)

    async def run(self, ctx: RunContext) -> str:
        return media_type(ctx.run.request.message[0])


async def test_a_family_of_media_types_can_be_read(world: World) -> None:
    async with world.open(Any_(name="any")) as serve:
        task = await send(serve, [Part(raw=b"x", media_type="image/png")])
        assert answer_of(task) == "image/png"
        with pytest.raises(ContentTypeNotSupported):
            await send(serve, "text")


@pytest.mark.parametrize(
    ("accepted", "modes", "as_data"),
    [
        ((), ("text/plain",), False),
        ((), ("application/json", "text/plain"), True),
        (("text/plain",), ("application/json", "text/plain"), False),
        (("application/json",), ("text/plain", "application/json"), True),
        (("text",), ("application/json", "text/plain"), False),
        (("*",), ("text/plain",), False),
        (("*/*; q=0.5",), ("application/json",), True),
        (("image/png", "TEXT/*"), ("text/plain",), False),
        (("application/json",), ("application/*",), False),
    ],
)
def test_the_answer_is_of_a_kind_that_both_know(
    accepted: tuple[str, ...], modes: tuple[str, ...], as_data: bool
) -> None:
    assert wants_data(accepted, modes) is as_data


async def test_a_client_that_takes_nothing_of_ours_is_refused(world: World, doer: Doer) -> None:
    async with world.open(doer) as serve:
        with pytest.raises(ContentTypeNotSupported, match="takes only image/png"):
            await send(serve, "hello", accepted_output_modes=("image/png",))
        for modes in (("text/plain",) * 101, ("t" * 257,)):
            with pytest.raises(InvalidInput, match="acceptedOutputModes"):
                await send(serve, "hello", accepted_output_modes=modes)
        assert doer.log == []


def test_structured_answers_are_json_first() -> None:
    agent = Agent(name="a", model=ScriptedModel("x"), output_schema=dict[str, int])
    assert output_modes(agent) == ("application/json", "text/plain")
    assert reads("text/html", ("text/plain",))
    assert not reads("text/html", ("application/json",))


@pytest.mark.parametrize("value", [0, -1, True, "5", float("nan"), None])
def test_a_limit_is_a_number_above_zero(value: Any) -> None:
    with pytest.raises(InvalidInput, match="limit parts must be"):
        ServerLimits(parts=value)


@pytest.mark.parametrize(
    ("metadata", "trace"),
    [
        ({}, "otherwise"),
        ({"traceId": "t1"}, "t1"),
        ({"trace_id": "t2"}, "t2"),
        ({"traceId": 5}, "otherwise"),
        ({"traceId": ""}, "otherwise"),
        ({"traceId": "x" * 129}, "otherwise"),
    ],
)
def test_a_message_may_say_which_trace_it_belongs_to(metadata: dict[str, Any], trace: str) -> None:
    message = Message(message_id="m", role=Role.USER, parts=(), metadata=metadata)
    assert trace_id_of(message, "otherwise") == trace
