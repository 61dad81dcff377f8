"""Tests of values that cannot be stored, for every store."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from runner_harness import Storage, check_record, scripted_agent

from acc import (
    BaseAgent,
    CallContext,
    ModelResponse,
    RunContext,
    ToolCall,
    ToolContext,
    Usage,
    tool,
)
from acc.domain.errors import InvalidInput, ModelFailed
from acc.domain.value_objects.content import Part
from acc.domain.value_objects.event import EventKind
from acc.testing import ScriptedModel, call

SURROGATE = "\ud800"


@dataclass(kw_only=True, eq=False)
class Does(BaseAgent):
    """Agent that calls a function with its context."""

    do: Callable[[RunContext], Awaitable[Any]]

    async def run(self, ctx: RunContext) -> str:
        await self.do(ctx)
        return "done"


async def _writes(ctx: RunContext) -> None:
    ctx.state[SURROGATE] = 1


ODD: dict[str, tuple[Callable[[RunContext], Awaitable[Any]], str]] = {
    "a question that is no text": (
        lambda ctx: ctx.request_input(3),  # type: ignore[arg-type]
        "the request of 'odd' cannot be stored",
    ),
    "a question with an object": (
        lambda ctx: ctx.request_input("?", schema={"a": object()}),
        "the request of 'odd' cannot be stored",
    ),
    "a question of no kind": (
        lambda ctx: ctx.request_input("?", kind="nope"),  # type: ignore[arg-type]
        "the request of 'odd' cannot be stored",
    ),
    "an event with an object": (
        lambda ctx: ctx.emit(EventKind.MEMORY, detail={"a": object()}),
        "memory event of 'odd' cannot be stored",
    ),
    "an event of no kind": (lambda ctx: ctx.emit("nope"), "emit expects an EventKind"),  # type: ignore[arg-type]
    "an event of letters": (
        lambda ctx: ctx.emit(EventKind.MESSAGE, parts="abc"),  # type: ignore[arg-type]
        "a tuple of Parts",
    ),
    "unpaired surrogate as a key": (_writes, "unpaired surrogate"),
    "a file that is data": (
        lambda ctx: ctx.artifacts.save("n", {"a": 1}),  # type: ignore[arg-type]
        "artifact 'n': expected str or bytes, got dict",
    ),
    "a file that is nothing": (
        lambda ctx: ctx.artifacts.save("n", None),  # type: ignore[arg-type]
        "got NoneType",
    ),
    "a file with an unpaired surrogate": (
        lambda ctx: ctx.artifacts.save("n", SURROGATE),
        "artifact 'n' cannot be stored",
    ),
    "a file whose name is no text": (
        lambda ctx: ctx.artifacts.save(3, "x"),  # type: ignore[arg-type]
        "invalid artifact name 3",
    ),
    "a file whose media type is no text": (
        lambda ctx: ctx.artifacts.save("n", "x", media_type=3),  # type: ignore[arg-type]
        "artifact 'n': invalid media type 3",
    ),
    "a file of another version": (
        lambda ctx: ctx.artifacts.load("n", "1"),  # type: ignore[arg-type]
        "expected a name and a version number",
    ),
    "an outcome with an object": (
        lambda ctx: ctx.artifacts.publish("n", Part(data=object())),
        "artifact 'n' cannot be stored",
    ),
}


@pytest.mark.parametrize("case", ODD)
async def test_value_that_cannot_be_stored_is_rejected_and_session_continues(
    storage: Storage, case: str
) -> None:
    do, reason = ODD[case]
    harness = storage.harness(Does(name="odd", do=do))
    with pytest.raises(InvalidInput, match=reason):
        await harness.say("go")
    ended = (await harness.events())[-1]
    assert ended.detail["code"] in ("invalid_input", "state_not_storable")
    assert (
        await harness.runner.services.artifacts.names(harness.runner.session_key("ann", "s1")) == ()
    )
    again = harness.restarted(scripted_agent(ScriptedModel("ok")))
    assert (await again.say("again")).text == "ok"
    check_record(await again.events())


async def test_tool_that_saves_an_invalid_file_gets_an_error(storage: Storage) -> None:
    @tool
    async def save(ctx: ToolContext) -> str:
        """Save."""
        await ctx.artifacts.save("n", {"a": 1})  # type: ignore[arg-type]
        return "saved"

    @tool
    def save_later(ctx: ToolContext) -> str:
        """Save when the tool is done."""
        ctx.save_artifact("n", {"a": 1})  # type: ignore[arg-type]
        return "saved"

    model = ScriptedModel([call("save"), call("save_later")], "reported")
    result = await storage.harness(scripted_agent(model, save, save_later)).say("go")
    assert result.text == "reported"
    found = [event.result for event in result.events if event.result is not None]
    assert [one.is_error for one in found] == [True, True]
    assert all("got dict" in one.content["error"] for one in found)


async def test_bytearray_is_saved_as_artifact(storage: Storage) -> None:
    async def save(ctx: RunContext) -> None:
        assert await ctx.artifacts.save("n", bytearray(b"ab")) == 1  # type: ignore[arg-type]

    harness = storage.harness(Does(name="odd", do=save))
    await harness.say("go")
    found = await harness.runner.load_artifact("n", user_id="ann", session_id="s1")
    assert found is not None
    assert found.data == b"ab"


@pytest.mark.parametrize("odd", [1, None, SURROGATE])
def test_call_context_rejects_values_that_are_not_text(odd: Any) -> None:
    for name in ("request_id", "trace_id", "caller"):
        fields = {"request_id": "r", "trace_id": "追跡", "caller": "c", name: odd}
        with pytest.raises(InvalidInput, match="must be valid str"):
            CallContext(**fields)
    assert CallContext(request_id="r", trace_id="追跡", caller="c").trace_id == "追跡"


@pytest.mark.parametrize(
    "usage",
    [{"input_tokens": 1.5}, {"output_tokens": "x"}, {"cached_tokens": 0.5}, {"cost": "much"}],
)
async def test_usage_that_is_not_numeric_fails_the_model(
    storage: Storage, usage: dict[str, Any]
) -> None:
    harness = storage.harness(
        scripted_agent(ScriptedModel(ModelResponse(text="x", usage=Usage(**usage))))
    )
    with pytest.raises(ModelFailed, match="text must be str"):
        await harness.say("go")


async def test_missing_token_count_is_zero(storage: Storage) -> None:
    usage = Usage(input_tokens=None, output_tokens=3)  # type: ignore[arg-type]
    harness = storage.harness(scripted_agent(ScriptedModel(ModelResponse(text="x", usage=usage))))
    spent = (await harness.say("go")).usage
    assert (spent.input_tokens, spent.output_tokens, spent.cached_tokens) == (0, 3, 0)


async def test_unpaired_surrogate_in_call_id_does_not_fail_the_run(storage: Storage) -> None:
    odd = ModelResponse(calls=(ToolCall(id=SURROGATE, name="f"),))
    harness = storage.harness(scripted_agent(ScriptedModel(odd, "ok")))
    assert (await harness.say("go")).text == "ok"
    assert len(await harness.events()) > 2
