"""LlmAgent: answers, schemas, corrections, callbacks and streams."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from agent_support import WHO, events_of_kind, messages, turn

from acc import (
    Agent,
    Event,
    EventKind,
    LlmAgent,
    ModelRequest,
    ModelResponse,
    RunConfig,
    RunContext,
    Runner,
    SequentialAgent,
    Usage,
    tool,
)
from acc.domain.errors import AgentFailed, InvalidInput, ModelFailed, ModelOutputInvalid
from acc.testing import ScriptedModel, call


@dataclass
class Ticket:
    title: str
    urgency: Literal["low", "high"] = "low"


class Point(msgspec.Struct):
    x: int
    y: int = 0


def test_agent_is_an_alias_of_llm_agent() -> None:
    assert Agent is LlmAgent


async def test_embedded_model_is_the_default() -> None:
    agent = Agent(name="a", instruction="The office opens at nine.")
    assert "nine" in (await turn(agent, "When does the office open?")).text


async def test_named_model_is_created_once() -> None:
    model = ScriptedModel("one", "two")
    agents = [Agent(name=name, model="mine", memory=None) for name in ("a", "b")]
    runner = Runner(SequentialAgent(name="s", sub_agents=agents), models={"mine": model})
    assert (await runner.run(**WHO, message="hi")).text == "two"
    assert len(model.requests) == 2


async def test_unknown_model_error_lists_names() -> None:
    with pytest.raises(InvalidInput, match="no model 'mine': choose embedded"):
        await turn(Agent(name="a", model="mine"))


async def test_answer_is_written_to_output_key() -> None:
    result = await turn(Agent(name="a", model=ScriptedModel("blue"), output_key="user:colour"))
    assert result.state == {"user:colour": "blue"}
    message = events_of_kind(result, EventKind.MESSAGE)[1]
    assert message.actions.state_delta == {"user:colour": "blue"}


@pytest.mark.parametrize(
    "answer",
    [
        '{"title": "Fire", "urgency": "high"}',
        '```json\n{"title": "Fire", "urgency": "high"}\n```',
        '```JSON\n{"title": "Fire", "urgency": "high"}\n```',
        '```\n{"title": "Fire", "urgency": "high"}\n```\n',
        '``` json\r\n{"title": "Fire", "urgency": "high"}\r\n```',
        '```json{"title": "Fire", "urgency": "high"}```',
        'Here it is:\n\n```json\n{"title": "Fire", "urgency": "high"}\n```',
        '\ufeff{"title": "Fire", "urgency": "high"}',
        '\ufeff\n```json\n{"title": "Fire", "urgency": "high"}\n```',
    ],
)
async def test_answer_matching_schema_is_stored_as_data(answer: str) -> None:
    model = ScriptedModel(answer)
    agent = Agent(name="a", model=model, output_schema=Ticket, output_key="ticket")
    result = await turn(agent)
    assert result.state == {"ticket": {"title": "Fire", "urgency": "high"}}
    assert model.requests[0].output_schema == agent.json_schema
    assert agent.json_schema is not None


async def test_code_fences_inside_json_are_preserved() -> None:
    text = '{"title": "```json\\n{}\\n```", "urgency": "low"}'
    for answer in (text, f"```json\n{text}\n```"):
        agent = Agent(
            name="a", model=ScriptedModel(answer), output_schema=Ticket, output_key="ticket"
        )
        result = await turn(agent)
        assert result.state == {"ticket": {"title": "```json\n{}\n```", "urgency": "low"}}


@pytest.mark.parametrize(
    "answer",
    [
        '```json\n{"title": "Fire"}\n```\nor\n```json\n{"title": "Smoke"}\n```',
        '```json\n{"title": "Fire"}\n```\nBut I am not sure.',
        '```json\n{"title": "Fire"}',
        'They wrote {"title": "Fire"}',
        "```",
    ],
)
async def test_ambiguous_json_is_requested_again(answer: str) -> None:
    model = ScriptedModel(answer, '{"title": "Smoke", "urgency": "low"}')
    agent = Agent(name="a", model=model, output_schema=Ticket, output_key="ticket")
    result = await turn(agent)
    assert result.state == {"ticket": {"title": "Smoke", "urgency": "low"}}
    assert len(model.requests) == 2


async def test_integer_keys_are_stored_as_text() -> None:
    model = ScriptedModel('{"1": ["Ann"]}')
    agent = Agent(name="a", model=model, output_schema=dict[int, list[str]], output_key="seats")
    assert (await turn(agent)).state == {"seats": {"1": ["Ann"]}}


async def test_schema_defaults_are_stored() -> None:
    agent = Agent(name="a", model=ScriptedModel('{"x": 1}'), output_schema=Point, output_key="p")
    assert (await turn(agent)).state == {"p": {"x": 1, "y": 0}}


async def test_nested_schema_defaults_are_stored() -> None:
    answer = '[{"a": {"title": "Fire"}}]'
    schema = list[dict[str, Ticket]]
    agent = Agent(name="a", model=ScriptedModel(answer), output_schema=schema, output_key="list")
    assert (await turn(agent)).state == {"list": [{"a": {"title": "Fire", "urgency": "low"}}]}


async def test_invalid_answer_is_corrected_with_the_error() -> None:
    bad = '{"title": "Fire", "urgency": "extreme"}'
    model = ScriptedModel(bad, "no JSON at all", '{"title": "Fire"}')
    agent = Agent(name="a", model=model, output_schema=Ticket, output_key="ticket", memory=None)
    result = await turn(agent)
    assert result.state == {"ticket": {"title": "Fire", "urgency": "low"}}
    actual = model.requests[2].following
    assert [message.role for message in actual] == ["assistant", "user", "assistant", "user"]
    assert actual[0].text == bad
    assert "JSON that matches the schema: Invalid enum value 'extreme'" in actual[1].text
    faults = events_of_kind(result, EventKind.FAULT)
    assert [fault.text for fault in faults] == [bad, "no JSON at all"]
    assert (result.usage.llm_calls, len(messages(result))) == (3, 1)


async def test_invalid_answers_fail_after_max_repairs() -> None:
    model = ScriptedModel("nonsense", repeat=True)
    agent = Agent(name="a", model=model, output_schema=Ticket)
    with pytest.raises(ModelOutputInvalid, match="returned invalid output 3 times"):
        await turn(agent, config=RunConfig(max_repairs=2))
    assert len(model.requests) == 3
    with pytest.raises(ModelOutputInvalid):
        await turn(agent, config=RunConfig(max_repairs=0))
    assert len(model.requests) == 4


async def test_empty_answer_is_requested_again() -> None:
    model = ScriptedModel("  ", "", "there")
    result = await turn(Agent(name="a", model=model, memory=None))
    assert result.text == "there"
    assert [m.text for m in model.requests[2].following] == [
        "  ",
        "That cannot be used: the answer is empty. Answer again.",
        "That cannot be used: the answer is empty. Answer again.",
    ]


async def test_too_long_answer_is_rejected() -> None:
    config = RunConfig(max_answer_characters=10)
    agent = Agent(name="a", model=ScriptedModel("word " * 9, repeat=True))
    with pytest.raises(ModelOutputInvalid, match="more than 10 characters"):
        await turn(agent, config=config)
    with pytest.raises(ModelOutputInvalid, match="more than 10 characters"):
        async for _ in Runner(agent, config=config).stream(**WHO, message="hi"):
            pass


async def test_model_error_contains_path() -> None:
    agent = Agent(name="a", model=ScriptedModel(ConnectionError("refused")))
    with pytest.raises(ModelFailed, match="/s/a: ConnectionError: refused"):
        await turn(SequentialAgent(name="s", sub_agents=[agent]))


async def test_acc_error_of_model_is_not_wrapped() -> None:
    with pytest.raises(InvalidInput, match="no key"):
        await turn(Agent(name="a", model=ScriptedModel(InvalidInput("no key"))))


async def test_model_must_return_model_answer() -> None:
    class Careless:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            return "text"  # type: ignore[return-value] # a model that breaks its contract

    with pytest.raises(ModelFailed, match="the model returned str, expected ModelResponse"):
        await turn(Agent(name="a", model=Careless()))


async def events_of(agent: Agent) -> list[Event]:
    return [event async for event in Runner(agent).stream(**WHO, message="hi")]


async def test_stream_yields_deltas() -> None:
    events = await events_of(Agent(name="a", model=ScriptedModel("one two three")))
    deltas = [event.text for event in events if event.kind is EventKind.DELTA]
    assert deltas == ["one ", "two ", "three"]
    assert [e.text for e in events if e.kind is EventKind.MESSAGE] == ["hi", "one two three"]
    assert all(e.seq == 0 for e in events if e.partial)


async def test_model_without_stream_is_completed() -> None:
    class Whole:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            return ModelResponse(text="whole")

    events = await events_of(Agent(name="a", model=Whole()))
    assert [e.kind for e in events] == [EventKind.MESSAGE, EventKind.MESSAGE, EventKind.ENDED]


async def test_stream_without_answer_fails() -> None:
    class Endless(ScriptedModel):
        async def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
            yield "half"

    with pytest.raises(ModelFailed, match="the stream ended without a response"):
        await events_of(Agent(name="a", model=Endless("x")))


class Pieces:
    """An iterator that is no generator."""

    def __init__(self, *pieces: str | ModelResponse) -> None:
        self._left = list(pieces)

    def __aiter__(self) -> "Pieces":
        return self

    async def __anext__(self) -> str | ModelResponse:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


class Piecewise(ScriptedModel):
    def __init__(self, *pieces: str | ModelResponse) -> None:
        super().__init__()
        self._pieces = Pieces(*pieces)

    def stream(self, prompt: ModelRequest) -> AsyncIterator[str | ModelResponse]:
        return self._pieces


async def test_stream_may_be_any_async_iterator() -> None:
    model = Piecewise("a", ModelResponse(text="ab"), "never read")
    events = await events_of(Agent(name="a", model=model))
    assert [e.text for e in events] == ["hi", "a", "ab", "ab"]
    with pytest.raises(ModelFailed, match="without a response"):
        await events_of(Agent(name="a", model=Piecewise("a")))


async def test_before_model_callback_may_answer() -> None:
    def cached(ctx: RunContext, prompt: ModelRequest) -> ModelResponse | None:
        return ModelResponse(text=f"known: {prompt.query}") if prompt.query == "again" else None

    model = ScriptedModel("asked")
    runner = Runner(Agent(name="a", model=model, before_model_callback=cached))
    texts = [(await runner.run(**WHO, message=text)).text for text in ("again", "new")]
    assert texts == ["known: again", "asked"]
    assert len(model.requests) == 1


async def test_model_callbacks_may_replace_prompt_and_answer() -> None:
    async def redact(ctx: RunContext, prompt: ModelRequest) -> ModelRequest:
        return ModelRequest.of(prompt.query.replace("4711", "****"))

    async def polite(ctx: RunContext, answer: ModelResponse) -> ModelResponse:
        ctx.state["raw"] = answer.text
        return ModelResponse(text=f"{answer.text}, please", usage=answer.usage)

    model = ScriptedModel("wait")
    agent = Agent(
        name="a",
        model=model,
        before_model_callback=redact,
        after_model_callback=polite,
        output_key="answer",
    )
    result = await turn(agent, "my pin is 4711")
    assert model.requests[0].query == "my pin is ****"
    assert (result.text, result.state) == (
        "wait, please",
        {"raw": "wait", "answer": "wait, please"},
    )


async def test_model_callbacks_returning_none_change_nothing() -> None:
    seen: list[str] = []
    agent = Agent(
        name="a",
        model=ScriptedModel("as it is"),
        before_model_callback=lambda ctx, prompt: seen.append(prompt.query),
        after_model_callback=lambda ctx, answer: seen.append(answer.text),
    )
    assert (await turn(agent, "hi")).text == "as it is"
    assert seen == ["hi", "as it is"]


async def test_model_callbacks_may_return_text() -> None:
    def canned(ctx: RunContext, found: object) -> str:
        return "canned"

    unused = ScriptedModel()
    before = Agent(name="a", model=unused, before_model_callback=canned, output_key="said")
    result = await turn(before)
    assert (result.text, result.state, unused.requests) == ("canned", {"said": "canned"}, [])
    after = Agent(name="a", model=ScriptedModel("x"), after_model_callback=canned)
    assert (await turn(after)).text == "canned"
    answer_with_dict: Any = lambda ctx, answer: {"a": 1}  # noqa: E731
    odd = Agent(name="a", model=ScriptedModel("x"), after_model_callback=answer_with_dict)
    with pytest.raises(AgentFailed, match="after_model_callback returned dict"):
        await turn(odd)


async def test_failing_model_callback_fails_the_agent() -> None:
    agent = Agent(
        name="a", model=ScriptedModel("x"), before_model_callback=lambda c, p: str(1 // 0)
    )
    with pytest.raises(AgentFailed, match="agent 'a' failed: ZeroDivisionError"):
        await turn(agent)


async def test_tool_callbacks_may_replace_call_and_result() -> None:
    called: list[int] = []

    @tool
    def square(n: int) -> int:
        """Square a number."""
        called.append(n)
        return n * n

    async def before(tool_: Any, arguments: dict[str, Any], ctx: RunContext) -> Any:
        assert tool_ is square
        return {"cached": 4} if arguments["n"] == 2 else None

    def after(tool_: Any, arguments: dict[str, Any], ctx: RunContext, result: Any) -> Any:
        return f"<{result.content}>" if arguments["n"] == 3 else None

    model = ScriptedModel([call("square", n=2), call("square", n=3), call("square", n=4)], "done")
    agent = Agent(
        name="a",
        model=model,
        tools=[square],
        before_tool_callback=before,
        after_tool_callback=after,
        memory=None,
    )
    result = await turn(agent)
    found = [m.parts[0].result for m in model.requests[1].messages if m.role == "tool"]
    assert [item.content for item in found if item is not None] == [{"cached": 4}, "<9>", 16]
    assert sorted(called) == [3, 4]
    assert result.usage == Usage(llm_calls=2, tool_calls=2, output_tokens=1)
