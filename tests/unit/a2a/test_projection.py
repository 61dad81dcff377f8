"""What the world outside is told of a run, and that the answer is the answer in the end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

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
    """Says its words with time between them."""

    def __init__(self, clock: FrozenClock, *answers: Any, step: float = 0.03) -> None:
        super().__init__(*answers)
        self._clock = clock
        self._step = step

    async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        async for piece in super().stream(prompt):
            self._clock.time += self._step
            yield piece


def speaker(name: str, model: Any, **fields: Any) -> Agent:
    return Agent(name=name, model=model, memory=None, **fields)


@tool
def look(what: str) -> str:
    """Look something up."""
    return f"{what} found"


async def streamed(harness: ServerHarness, agent: BaseAgent) -> tuple[list[str], Task]:
    async with harness.open(agent) as serve:
        stream = await serve.stream(ANN, send_request("go"))
        items = await read_stream(stream)
        task = await serve.get(ANN, GetRequest(id=stream.task_id))
    return summarize(items), task


async def test_pieces_are_sent_together_and_make_up_the_answer(harness: ServerHarness) -> None:
    text = "one two three four five six seven"
    items, task = await streamed(harness, speaker("a", SlowModel(harness.clock, text)))
    pieces = [item.removeprefix("answer ") for item in items if item.startswith("answer")]
    assert 2 < len(pieces) < 7
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")
    assert answer_text(task) == text
    assert items[-1] == "completed"


async def test_a_long_text_is_sent_although_no_time_passes(harness: ServerHarness) -> None:
    text = "word " * 1000 + "end"
    items, task = await streamed(harness, speaker("a", ScriptedModel(text)))
    assert sum(item.startswith("answer") for item in items) == 3
    assert answer_text(task) == text


async def test_who_does_not_stream_gets_the_answer_in_one(harness: ServerHarness) -> None:
    async with harness.open(speaker("a", SlowModel(harness.clock, "one two three"))) as serve:
        task = await send(serve, "go")
        assert answer_text(task) == "one two three"
        assert task.seq == 4


async def test_the_answer_replaces_what_was_said_before_a_tool(harness: ServerHarness) -> None:
    answer = ModelResponse(
        text="let me look that up for you", calls=(call("look", what="it"),), usage=Usage()
    )
    numbered = ModelResponse(
        text=answer.text,
        calls=tuple(type(c)(id="c1", name=c.name, arguments=c.arguments) for c in answer.calls),
    )
    model = SlowModel(harness.clock, numbered, "it was found in the end")
    items, task = await streamed(harness, speaker("a", model, tools=[look]))
    assert answer_text(task) == "it was found in the end"
    assert any(item.startswith("answer let me") for item in items)


@pytest.mark.parametrize("second", ["short", "one two three four five six", ""])
async def test_of_two_in_sequence_the_last_word_is_the_answer(
    harness: ServerHarness, second: str
) -> None:
    first = speaker("a", SlowModel(harness.clock, "one two three four five six"))
    if second:
        last: BaseAgent = speaker("b", SlowModel(harness.clock, second))
    else:
        last = CommandAgent(name="b")
    agent = SequentialAgent(name="both", sub_agents=[first, last])
    items, task = await streamed(harness, agent)
    assert answer_text(task) == (second or "echo: go")
    assert "working one two three four five six" in items


async def test_branches_are_told_and_joined(harness: ServerHarness) -> None:
    agents = [speaker(name, SlowModel(harness.clock, f"{name} says this")) for name in "ab"]
    items, task = await streamed(harness, ParallelAgent(name="both", sub_agents=agents))
    assert answer_text(task) == "a: a says this\nb: b says this"
    assert {"working a says this", "working b says this"} <= set(items)
    assert sum(item.startswith("answer") for item in items) == 1


async def test_an_answer_of_nothing_takes_back_what_was_streamed(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class Mute(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            await ctx.run_agent(self.sub_agents[0])

    inner = speaker("a", SlowModel(harness.clock, "one two three four five six"))
    items, task = await streamed(harness, Mute(name="mute", sub_agents=[inner]))
    assert answer_text(task) == ""
    assert items[-3:] == ["working one two three four five six", "answer", "completed"]


async def test_what_was_said_before_a_question_is_told(any_harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class Talker(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say("here is a draft")
            answer = await ctx.request_input("Fine?")
            return f"final: {answer.value}"

    async with any_harness.open(Talker(name="talker")) as serve:
        task = await send(serve, "go")
        assert [text_of(m.parts) for m in task.history] == ["go", "here is a draft"]
        assert task.history[1].metadata == {"agent": "talker"}
        assert answer_text(await send(serve, "yes", task=task)) == "final: yes"


async def test_progress_is_told_and_an_agent_may_answer_nothing(
    harness: ServerHarness, agent_under_test: CommandAgent
) -> None:
    async with harness.open(agent_under_test) as serve:
        items = await read_stream(await serve.stream(ANN, send_request("progress 10% 50%")))
        assert summarize(items)[1:4] == ["working", "working 10%", "working 50%"]
        task = await send(serve, "quiet")
        assert (task.state, task.artifacts) == (S.COMPLETED, ())


async def test_files_come_with_what_they_hold(any_harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class Filer(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save("report.md", "# 報告", media_type="text/markdown; x=y")
            await ctx.artifacts.save("old.txt", "報告".encode("shift_jis"), media_type="text/plain")
            await ctx.artifacts.save("dot.png", b"\x89PNG", media_type="image/png")
            await ctx.artifacts.save("answer", "not the answer")
            await ctx.artifacts.publish("link", Part(url="https://example.com/a"))
            return "done"

    async with any_harness.open(Filer(name="filer")) as serve:
        made = {a.artifact_id: a.parts[0] for a in (await send(serve, "go")).artifacts}
        report = made["report.md"]
        assert (report.text, report.media_type) == ("# 報告", "text/markdown")
        assert made["old.txt"].raw == "報告".encode("shift_jis")
        assert (made["dot.png"].raw, made["dot.png"].filename) == (b"\x89PNG", "dot.png")
        assert made["answer-file"].text == "not the answer"
        assert made["answer"].text == "done"
        assert made["link"].url == "https://example.com/a"


async def test_what_is_called_like_the_answer_has_an_id_of_its_own(
    any_harness: ServerHarness,
) -> None:
    @dataclass(kw_only=True, eq=False)
    class Publisher(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            for name in ("answer", "answer-file", "answer-file-file", "answers"):
                await ctx.artifacts.publish(name, f"published as {name}")
            return "done"

    async with any_harness.open(Publisher(name="publisher")) as serve:
        made = (await send(serve, "go")).artifacts
        assert [(one.artifact_id, one.name, one.parts[0].text) for one in made] == [
            ("answer-file", "answer", "published as answer"),
            ("answer-file-file", "answer-file", "published as answer-file"),
            ("answer-file-file-file", "answer-file-file", "published as answer-file-file"),
            ("answers", "answers", "published as answers"),
            ("answer", "answer", "done"),
        ]


async def test_a_file_that_is_gone_is_told_as_empty(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class Filer(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.save("a.txt", "x")
            return "done"

    async def nothing(*_: object, **__: object) -> None:
        return None

    async with harness.open(Filer(name="filer")) as serve:
        harness.artifacts.load = nothing  # type: ignore[method-assign]
        task = await send(serve, "go")
        assert task.artifacts[0].parts[0].text == ""


@dataclass(kw_only=True, eq=False)
class Writer(BaseAgent):
    """Answers with what it is told to, which may be JSON."""

    output_modes = ("text/plain", "application/json")

    async def run(self, ctx: RunContext) -> str:
        return ctx.message


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ('{"a": [1, "二"]}', {"data": {"a": [1, "二"]}}),
        ("null", {"is_null": True}),
        ('Here it is:\n```json\n{"a": 1}\n```', {"data": {"a": 1}}),
        ("not json", {"text": "not json"}),
        ("[" * 5000, {"text": "[" * 5000}),
        ("NaN", {"text": "NaN"}),
    ],
)
async def test_data_is_answered_as_data_where_it_is(
    any_harness: ServerHarness, text: str, held: dict[str, Any]
) -> None:
    async with any_harness.open(Writer(name="writer")) as serve:
        task = await send(serve, text, accepted_output_modes=("application/json",))
        part = task.artifacts[0].parts[0]
        for name, value in held.items():
            assert getattr(part, name) == value
        plain = await send(serve, text)
        assert plain.artifacts[0].parts[0].text == text


async def test_data_is_not_told_in_pieces(harness: ServerHarness) -> None:
    class Structured(Agent):
        output_modes = ("application/json",)

    model = SlowModel(harness.clock, '{"a": 1, "b": 2, "c": 3, "d": 4}')
    agent = Structured(name="a", model=model, memory=None)
    items, task = await streamed(harness, agent)
    assert items == ["task submitted", "working", "answer", "completed"]
    assert task.artifacts[0].parts[0].data == {"a": 1, "b": 2, "c": 3, "d": 4}


@dataclass(kw_only=True, eq=False)
class Replier(BaseAgent):
    """Replies at once, or not."""

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
async def test_an_agent_may_reply_with_a_message_alone(
    any_harness: ServerHarness, wait: bool
) -> None:
    async with any_harness.open(Replier(name="replier")) as serve:
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


async def test_a_reply_is_streamed_as_the_only_word(any_harness: ServerHarness) -> None:
    async with any_harness.open(Replier(name="replier"), heartbeat=0.1) as serve:
        assert summarize(await read_stream(await serve.stream(ANN, send_request("hi")))) == [
            "message hello yourself"
        ]
        items = await read_stream(await serve.stream(ANN, send_request("work")))
        heard = [item for item in summarize(items) if item != "alive"]
        assert heard[:3] == ["task submitted", "working", "working working on it"]
        assert heard[-2:] == ["answer too late for that", "completed"]
        assert answer_text(await send(serve, "answer")) == "an answer"
        task = await start(serve, "work")
        assert task.id
        alive = await read_stream(await serve.stream(ANN, send_request("wait")), most=1)
        assert summarize(alive) == ["alive"]
        assert (await send(serve, "wrong")).state is S.FAILED


async def test_what_was_written_for_who_asked_is_told(harness: ServerHarness) -> None:
    @dataclass(kw_only=True, eq=False)
    class Spender(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            raise BudgetExceeded("token_budget", 5, "spender")

    async with harness.open(Spender(name="spender")) as serve:
        task = await send(serve, "go")
        told_as = "spender: the run reached its limit of token_budget (5) (budget_exceeded)"
        assert status_text(task) == told_as


async def test_a_rejected_run_rejects_its_task(harness: ServerHarness) -> None:
    agent = CommandAgent(name="doer", confirm="Go?")
    async with harness.open(agent) as serve:
        task = await send(serve, "No, never", task=await send(serve, "hello"))
        assert task.state is S.REJECTED
        assert "No, never" in status_text(task)


@pytest.mark.parametrize(
    ("fault", "told_as"),
    [
        (lambda: RuntimeError("the password is x"), "agent_failed"),
        (lambda: InvalidInput("the password is x"), "invalid_input"),
    ],
)
async def test_what_an_agent_raises_stays_inside(
    any_harness: ServerHarness, fault: Callable[[], Exception], told_as: str
) -> None:
    @dataclass(kw_only=True, eq=False)
    class Failing(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.say("so far")
            raise fault()

    async with any_harness.open(Failing(name="failing")) as serve:
        task = await send(serve, "go")
        assert task.state is S.FAILED
        assert status_text(task) == f"the agent could not finish this task ({told_as})"
        assert "password" not in repr(task)
        assert text_of(task.history[-1].parts) == "so far"


async def test_pieces_of_an_outcome_are_joined_and_nothing_is_no_piece(
    any_harness: ServerHarness,
) -> None:
    @dataclass(kw_only=True, eq=False)
    class Publisher(BaseAgent):
        async def run(self, ctx: RunContext) -> str:
            await ctx.artifacts.publish("table", "head", last=False)
            await ctx.artifacts.publish("table", " line", append=True, last=False)
            await ctx.artifacts.publish("table", Part(data={"row": 1}), append=True)
            await ctx.artifacts.publish("table")
            return "never said"

    async with any_harness.open(Publisher(name="publisher")) as serve:
        task = await send(serve, "go")
        assert task.state is S.FAILED
        assert task.metadata["code"] == "invalid_input"
        (made,) = task.artifacts
        assert [part.text or part.data for part in made.parts] == ["head line", {"row": 1}]


async def test_a_memory_that_is_still_empty_is_reported_as_0_and_none_not_at_all(
    harness: ServerHarness,
) -> None:
    for memory, first in (("transcript", {"tokens": 0}), (None, None)):
        agent = Agent(name="desk", model=ScriptedModel("one", "two"), memory=memory)
        async with harness.open(agent) as serve:
            task = await send(serve, "hello")
            assert task.metadata.get(MEMORY_FOOTPRINT) == first
            later = await send(serve, "and now?", context=task.context_id)
            then = later.metadata.get(MEMORY_FOOTPRINT)
            assert (then is None) is (first is None)
            assert then is None or then["tokens"] > 0
