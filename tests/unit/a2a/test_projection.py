"""Projection of run events to task updates."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from server_harness import (
    ANN,
    CommandAgent,
    S,
    ServerHarness,
    answer_text,
    get,
    list_tasks,
    read_stream,
    send,
    send_request,
    start,
    status_text,
    summarize,
)

from acc import (
    Agent,
    BaseAgent,
    InvalidInput,
    ModelRequest,
    ParallelAgent,
    Part,
    RunContext,
    SequentialAgent,
    tool,
)
from acc.application.a2a.projection import MEMORY_FOOTPRINT
from acc.application.a2a.requests import GetRequest
from acc.domain.errors import BudgetExceeded, TaskNotFound
from acc.domain.value_objects.content import Usage, text_of
from acc.domain.value_objects.task import Message, Task
from acc.ports.outbound.model_ports import ModelResponse
from acc.testing import FrozenClock, ScriptedModel, call


class SlowModel(ScriptedModel):
    """A scripted model that advances the clock with every chunk."""

    def __init__(self, clock: FrozenClock, *answers: Any, step: float = 0.03) -> None:
        super().__init__(*answers)
        self._clock = clock
        self._step = step

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        async for chunk in super().stream(prompt):
            self._clock.time += self._step
            yield chunk


def llm_agent(name: str, model: Any, **fields: Any) -> Agent:
    return Agent(name=name, model=model, memory=None, **fields)


@tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} found"


async def stream_agent(harness: ServerHarness, agent: BaseAgent) -> tuple[list[str], Task]:
    async with harness.open(agent) as serve:
        stream = await serve.stream(ANN, send_request("go"))
        items = await read_stream(stream)
        task = await serve.get(ANN, GetRequest(id=stream.task_id))
    return summarize(items), task


async def test_chunks_are_batched_and_form_the_answer(harness: ServerHarness) -> None:
    text = "one two three four five six seven"
    items, task = await stream_agent(harness, llm_agent("a", SlowModel(harness.clock, text)))
    chunks = [item.removeprefix("answer ") for item in items if item.startswith("answer")]
    assert 2 < len(chunks) < 7
    assert "".join(chunks).replace(" ", "") == text.replace(" ", "")
    assert answer_text(task) == text
    assert items[-1] == "completed"


async def test_long_text_is_sent_in_chunks_without_delay(harness: ServerHarness) -> None:
    text = "word " * 1000 + "end"
    items, task = await stream_agent(harness, llm_agent("a", ScriptedModel(text)))
    assert sum(item.startswith("answer") for item in items) == 3
    assert answer_text(task) == text


async def test_answer_has_one_artifact_update_without_streaming(harness: ServerHarness) -> None:
    async with harness.open(llm_agent("a", SlowModel(harness.clock, "one two three"))) as serve:
        task = await send(serve, "go")
        assert answer_text(task) == "one two three"
        assert task.seq == 4


async def test_answer_replaces_text_streamed_before_a_tool_call(harness: ServerHarness) -> None:
    answer = ModelResponse(
        text="let me look that up for you", calls=(call("look_up", what="it"),), usage=Usage()
    )
    numbered = ModelResponse(
        text=answer.text,
        calls=tuple(type(c)(id="c1", name=c.name, arguments=c.arguments) for c in answer.calls),
    )
    model = SlowModel(harness.clock, numbered, "it was found in the end")
    items, task = await stream_agent(harness, llm_agent("a", model, tools=[look_up]))
    assert answer_text(task) == "it was found in the end"
    assert any(item.startswith("answer let me") for item in items)


@pytest.mark.parametrize("second", ["short", "one two three four five six", ""])
async def test_answer_of_a_sequence_is_the_last_message(
    harness: ServerHarness, second: str
) -> None:
    first = llm_agent("a", SlowModel(harness.clock, "one two three four five six"))
    if second:
        last: BaseAgent = llm_agent("b", SlowModel(harness.clock, second))
    else:
        last = CommandAgent(name="b")
    agent = SequentialAgent(name="both", sub_agents=[first, last])
    items, task = await stream_agent(harness, agent)
    assert answer_text(task) == (second or "echo: go")
    assert "working one two three four five six" in items


async def test_messages_of_branches_are_sent_and_joined_in_the_answer(
    harness: ServerHarness,
) -> None:
    agents = [llm_agent(name, SlowModel(harness.clock, f"{name} says this")) for name in "ab"]
    items, task = await stream_agent(harness, ParallelAgent(name="both", sub_agents=agents))
    assert answer_text(task) == "a: a says this\nb: b says this"
    assert {"working a says this", "working b says this"} <= set(items)
    assert sum(item.startswith("answer") for item in items) == 1


async def test_empty_answer_replaces_streamed_text(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class SilentAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            await ctx.run_agent(self.sub_agents[0])

    inner = llm_agent("a", SlowModel(harness.clock, "one two three four five six"))
    items, task = await stream_agent(harness, SilentAgent(name="mute", sub_agents=[inner]))
    assert answer_text(task) == ""
    assert items[-3:] == ["working one two three four five six", "answer", "completed"]


async def test_message_before_an_input_request_is_in_the_history(
    any_harness: ServerHarness,
) -> None:
    @dataclass(kw_only=True, eq=False)
    class AskingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say("here is a draft")
            answer = await ctx.request_input("Fine?")
            return f"final: {answer.value}"

    async with any_harness.open(AskingAgent(name="talker")) as serve:
        task = await send(serve, "go")
        assert [text_of(m.parts) for m in task.history] == ["go", "here is a draft"]
        assert task.history[1].metadata == {"agent": "talker"}
        assert answer_text(await send(serve, "yes", task=task)) == "final: yes"


async def test_progress_is_streamed_and_an_empty_answer_completes_the_task(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        items = await read_stream(await serve.stream(ANN, send_request("progress 10% 50%")))
        assert summarize(items)[1:4] == ["working", "working 10%", "working 50%"]
        task = await send(serve, "quiet")
        assert (task.state, task.artifacts) == (S.COMPLETED, ())


async def test_saved_files_are_artifacts_with_content(any_harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class FileAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save("report.md", "# 報告", media_type="text/markdown; x=y")
            await ctx.artifacts.save("old.txt", "報告".encode("shift_jis"), media_type="text/plain")
            await ctx.artifacts.save("dot.png", b"\x89PNG", media_type="image/png")
            await ctx.artifacts.save("answer", "not the answer")
            await ctx.artifacts.publish("link", Part(url="https://example.com/a"))
            return "done"

    async with any_harness.open(FileAgent(name="filer")) as serve:
        artifacts = {a.artifact_id: a.parts[0] for a in (await send(serve, "go")).artifacts}
        report = artifacts["report.md"]
        assert (report.text, report.media_type) == ("# 報告", "text/markdown")
        assert artifacts["old.txt"].raw == "報告".encode("shift_jis")
        assert (artifacts["dot.png"].raw, artifacts["dot.png"].filename) == (b"\x89PNG", "dot.png")
        assert artifacts["answer-file"].text == "not the answer"
        assert artifacts["answer"].text == "done"
        assert artifacts["link"].url == "https://example.com/a"


async def test_artifact_named_answer_gets_another_id(
    any_harness: ServerHarness,
) -> None:
    @dataclass(kw_only=True, eq=False)
    class PublishingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            for name in ("answer", "answer-file", "answer-file-file", "answers"):
                await ctx.artifacts.publish(name, f"published as {name}")
            return "done"

    async with any_harness.open(PublishingAgent(name="publisher")) as serve:
        artifacts = (await send(serve, "go")).artifacts
        assert [(one.artifact_id, one.name, one.parts[0].text) for one in artifacts] == [
            ("answer-file", "answer", "published as answer"),
            ("answer-file-file", "answer-file", "published as answer-file"),
            ("answer-file-file-file", "answer-file-file", "published as answer-file-file"),
            ("answers", "answers", "published as answers"),
            ("answer", "answer", "done"),
        ]


async def test_missing_file_is_sent_as_empty_text(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class FileAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save("a.txt", "x")
            return "done"

    async def load_nothing(*_: object, **__: object) -> None:
        return None

    async with harness.open(FileAgent(name="filer")) as serve:
        harness.artifacts.load = load_nothing  # type: ignore[method-assign]
        task = await send(serve, "go")
        assert task.artifacts[0].parts[0].text == ""


@dataclass(kw_only=True, eq=False)
class EchoAgent(BaseAgent):
    """An agent that answers with its message, which may be JSON."""

    output_modes = ("text/plain", "application/json")

    async def run(self, ctx: RunContext) -> str:
        return ctx.message


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"a": [1, "二"]}', {"data": {"a": [1, "二"]}}),
        ("null", {"is_null": True}),
        ('Here it is:\n```json\n{"a": 1}\n```', {"data": {"a": 1}}),
        ("not json", {"text": "not json"}),
        ("[" * 5000, {"text": "[" * 5000}),
        ("NaN", {"text": "NaN"}),
    ],
)
async def test_json_answer_is_a_data_part_when_accepted(
    any_harness: ServerHarness, text: str, fields: dict[str, Any]
) -> None:
    async with any_harness.open(EchoAgent(name="writer")) as serve:
        task = await send(serve, text, accepted_output_modes=("application/json",))
        part = task.artifacts[0].parts[0]
        for name, value in fields.items():
            assert getattr(part, name) == value
        plain = await send(serve, text)
        assert plain.artifacts[0].parts[0].text == text


async def test_json_answer_is_not_streamed_in_chunks(harness: ServerHarness) -> None:
    class Structured(Agent):
        output_modes = ("application/json",)

    model = SlowModel(harness.clock, '{"a": 1, "b": 2, "c": 3, "d": 4}')
    agent = Structured(name="a", model=model, memory=None)
    items, task = await stream_agent(harness, agent)
    assert items == ["task submitted", "working", "answer", "completed"]
    assert task.artifacts[0].parts[0].data == {"a": 1, "b": 2, "c": 3, "d": 4}


@dataclass(kw_only=True, eq=False)
class ReplyingAgent(BaseAgent):
    """An agent that replies directly, depending on the message."""

    replies_directly = True

    async def run(self, ctx: RunContext) -> str | None:
        if ctx.message == "work":
            await ctx.progress("working on it")
            await ctx.reply("too late for that")
            return None
        if ctx.message == "answer":
            return "an answer"
        if ctx.message == "wait":
            await asyncio.sleep(60)
        if ctx.message == "wrong":
            await ctx.reply(5)  # type: ignore[arg-type]
        await ctx.reply("hello yourself")
        await ctx.progress("and more")
        await ctx.artifacts.publish("more", "more")
        return "and more"


@pytest.mark.parametrize("wait", [True, False])
async def test_direct_reply_is_returned_as_a_message(
    any_harness: ServerHarness, wait: bool
) -> None:
    async with any_harness.open(ReplyingAgent(name="replier")) as serve:
        reply = await serve.send(ANN, send_request("hi", id="m1", wait=wait))
        assert isinstance(reply, Message)
        assert text_of(reply.parts) == "hello yourself"
        assert await serve.send(ANN, send_request("hi", id="m1", wait=wait)) == reply
        again = await read_stream(await serve.stream(ANN, send_request("hi", id="m1")))
        assert summarize(again) == ["message hello yourself"]
        with pytest.raises(TaskNotFound):
            await get(serve, reply.task_id)
        assert await list_tasks(serve) == []
        session = await serve.runner.events(user_id="ann", session_id=reply.context_id)
        assert session[-1].status == "completed"


async def test_direct_reply_is_the_only_stream_item(any_harness: ServerHarness) -> None:
    async with any_harness.open(ReplyingAgent(name="replier"), heartbeat=0.1) as serve:
        assert summarize(await read_stream(await serve.stream(ANN, send_request("hi")))) == [
            "message hello yourself"
        ]
        items = await read_stream(await serve.stream(ANN, send_request("work")))
        updates = [item for item in summarize(items) if item != "alive"]
        assert updates[:3] == ["task submitted", "working", "working working on it"]
        assert updates[-2:] == ["answer too late for that", "completed"]
        assert answer_text(await send(serve, "answer")) == "an answer"
        task = await start(serve, "work")
        assert task.id
        alive = await read_stream(await serve.stream(ANN, send_request("wait")), most=1)
        assert summarize(alive) == ["alive"]
        assert (await send(serve, "wrong")).state is S.FAILED


async def test_public_error_message_is_in_the_status(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class OverBudgetAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise BudgetExceeded("token_budget", 5, "spender")

    async with harness.open(OverBudgetAgent(name="spender")) as serve:
        task = await send(serve, "go")
        expected = "spender: the run reached its limit of token_budget (5) (budget_exceeded)"
        assert status_text(task) == expected


async def test_rejected_run_rejects_its_task(harness: ServerHarness) -> None:
    agent = CommandAgent(name="doer", confirm="Go?")
    async with harness.open(agent) as serve:
        task = await send(serve, "No, never", task=await send(serve, "hello"))
        assert task.state is S.REJECTED
        assert "No, never" in status_text(task)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (lambda: RuntimeError("the password is x"), "agent_failed"),
        (lambda: InvalidInput("the password is x"), "invalid_input"),
    ],
)
async def test_exception_text_of_an_agent_is_not_sent(
    any_harness: ServerHarness, fault: Callable[[], Exception], expected: str
) -> None:
    @dataclass(kw_only=True, eq=False)
    class FailingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say("so far")
            raise fault()

    async with any_harness.open(FailingAgent(name="failing")) as serve:
        task = await send(serve, "go")
        assert task.state is S.FAILED
        assert status_text(task) == f"the agent could not finish this task ({expected})"
        assert "password" not in repr(task)
        assert text_of(task.history[-1].parts) == "so far"


async def test_appended_chunks_are_joined_and_an_empty_chunk_fails(
    any_harness: ServerHarness,
) -> None:
    @dataclass(kw_only=True, eq=False)
    class PublishingAgent(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.publish("table", "head", last=False)
            await ctx.artifacts.publish("table", " line", append=True, last=False)
            await ctx.artifacts.publish("table", Part(data={"row": 1}), append=True)
            await ctx.artifacts.publish("table")
            return "never said"

    async with any_harness.open(PublishingAgent(name="publisher")) as serve:
        task = await send(serve, "go")
        assert task.state is S.FAILED
        assert task.metadata["code"] == "invalid_input"
        (artifacts,) = task.artifacts
        assert [part.text or part.data for part in artifacts.parts] == ["head line", {"row": 1}]


async def test_empty_memory_is_reported_as_0_and_no_memory_is_not_reported(
    harness: ServerHarness,
) -> None:
    cases: tuple[tuple[Literal["transcript"] | None, Any], ...] = (
        ("transcript", {"tokens": 0}),
        (None, None),
    )
    for memory, first in cases:
        agent = Agent(name="desk", model=ScriptedModel("one", "two"), memory=memory)
        async with harness.open(agent) as serve:
            task = await send(serve, "hello")
            assert task.metadata.get(MEMORY_FOOTPRINT) == first
            later = await send(serve, "and now?", context=task.context_id)
            footprint = later.metadata.get(MEMORY_FOOTPRINT)
            assert (footprint is None) is (first is None)
            assert footprint is None or footprint["tokens"] > 0
