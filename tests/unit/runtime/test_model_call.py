"""Tests of invalid, empty, oversized and missing responses of models."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from runner_harness import (
    PaymentTool,
    RunnerHarness,
    Storage,
    check_record,
    no_tasks_remain,
    scripted_agent,
)

from acc import (
    AccError,
    Agent,
    ModelRequest,
    ModelResponse,
    ParallelAgent,
    RunStatus,
    SequentialAgent,
    ToolCall,
)
from acc.domain.errors import (
    AgentFailed,
    BudgetExceeded,
    InvalidInput,
    ModelFailed,
    ModelOutputInvalid,
    RunTimedOut,
)
from acc.testing import ScriptedModel, call


@dataclass
class Order:
    item: str
    count: int


class Odd(BaseException):
    """A BaseException, as some libraries raise."""


class Model:
    """Model whose response and stream are the results of functions."""

    def __init__(
        self,
        answer: Callable[[], Any] = lambda: ModelResponse(text="fine"),
        pieces: Callable[[], AsyncIterator[Any]] | None = None,
    ) -> None:
        self._answer = answer
        self._pieces = pieces

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return self._answer()  # type: ignore[no-any-return] # invalid on purpose

    def stream(self, prompt: ModelRequest) -> AsyncIterator[Any]:
        assert self._pieces is not None
        return self._pieces()


async def assert_session_continues(storage: Storage, harness: RunnerHarness) -> None:
    """Assert that the record is valid and that the session accepts the next message."""
    check_record(await harness.events())
    assert (await harness.ends())[-1] is RunStatus.FAILED
    after = await storage.harness(scripted_agent(ScriptedModel("hello"))).say("still there?")
    assert after.text == "hello"
    check_record(await harness.events())


def raising(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


INVALID_RESPONSES: dict[str, tuple[Callable[[], Any], type[AccError]]] = {
    "nothing": (lambda: None, ModelFailed),
    "a text": (lambda: "hello", ModelFailed),
    "no text": (lambda: ModelResponse(text=None), ModelFailed),  # type: ignore[arg-type]
    "an error": (raising(ValueError("down")), ModelFailed),
    "an error of ours": (raising(ModelFailed("down")), ModelFailed),
    "a timeout": (raising(TimeoutError()), ModelFailed),
    "empty": (lambda: ModelResponse(text=" \n"), ModelOutputInvalid),
    "endless": (lambda: ModelResponse(text="x" * 1_001), ModelOutputInvalid),
    "a cancellation of its own": (raising(asyncio.CancelledError()), AgentFailed),
}


@pytest.mark.parametrize("in_branch", [False, True], ids=["alone", "in a branch"])
@pytest.mark.parametrize("bad", sorted(INVALID_RESPONSES))
async def test_invalid_response_fails_the_run_and_session_continues(
    storage: Storage, bad: str, in_branch: bool
) -> None:
    answer, expected = INVALID_RESPONSES[bad]
    tree: Any = scripted_agent(Model(answer), name="bad")  # type: ignore[arg-type]
    if in_branch:
        tree = ParallelAgent(
            name="root", sub_agents=[tree, scripted_agent(ScriptedModel("good"), name="good")]
        )
    harness = storage.harness(tree, max_answer_characters=1_000)
    with pytest.raises(expected):
        await harness.say("hi")
    assert no_tasks_remain()
    await assert_session_continues(storage, harness)


@pytest.mark.parametrize(
    "answer",
    ["{", "[]", '{"item": "pen"}', '{"item": "pen", "count": "two"}', "a pen"],
)
async def test_output_that_does_not_match_schema_is_retried_then_fails(
    storage: Storage, answer: str
) -> None:
    model = ScriptedModel(answer, '```json\n{"item": "pen", "count": 2}\n```')
    agent = scripted_agent(model, output_schema=Order, output_key="order")
    done = await storage.harness(agent).say("two pens")
    assert done.state["order"] == {"item": "pen", "count": 2}
    assert "Answer again" in model.requests[1].messages[-1].text
    harness = storage.harness(
        scripted_agent(ScriptedModel(answer, repeat=True), output_schema=Order)
    )
    with pytest.raises(ModelOutputInvalid, match="4 times"):
        await harness.say("two pens")
    await assert_session_continues(storage, harness)


async def test_empty_answer_is_retried(storage: Storage) -> None:
    model = ScriptedModel("", "  ", "hello")
    assert (await storage.harness(scripted_agent(model)).say("hi")).text == "hello"
    assert "the answer is empty" in model.requests[1].messages[-1].text


INVALID_CALLS = {
    "unknown": call("fly"),
    "without a name": call(""),
    "wrong arguments": call("pay", amount="much"),
    "no arguments": call("pay"),
    "too many arguments": call("pay", amount=1, to="me"),
    "unreadable": ToolCall(id="1", name="pay", fault="not JSON"),
}
MALFORMED_CALLS: dict[str, dict[str, Any]] = {
    "no arguments": {"id": "1", "name": "pay", "arguments": None},
    "a list": {"id": "1", "name": "pay", "arguments": [1]},
    "no id": {"id": 7, "name": "pay", "arguments": {"amount": 1}},
    "no name": {"id": "1", "name": None, "arguments": {"amount": 1}},
}


@pytest.mark.parametrize("kind", sorted(MALFORMED_CALLS))
async def test_malformed_tool_call_is_retried(storage: Storage, kind: str) -> None:
    payment = PaymentTool()
    model = ScriptedModel(
        ModelResponse(calls=(ToolCall(**MALFORMED_CALLS[kind]),)), call("pay", amount=1), "done"
    )
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)))
    assert ((await harness.say("pay")).text, payment.paid) == ("done", [1])
    assert "a tool call needs a text id" in model.requests[1].messages[-1].text
    check_record(await harness.events())


@pytest.mark.parametrize("bad", sorted(INVALID_CALLS))
async def test_repeated_invalid_call_fails_the_run(storage: Storage, bad: str) -> None:
    payment = PaymentTool()
    pay = payment.tool(confirm=False)
    model = ScriptedModel(INVALID_CALLS[bad], call("pay", amount=1), "done")
    assert (await storage.harness(scripted_agent(model, pay)).say("pay")).text == "done"
    recorded = [
        p.result for m in model.requests[1].messages for p in m.parts if p.result is not None
    ]
    assert [result.is_error for result in recorded] == [True]
    harness = storage.harness(scripted_agent(ScriptedModel(INVALID_CALLS[bad], repeat=True), pay))
    with pytest.raises(ModelOutputInvalid):
        await harness.say("pay")
    assert payment.paid == [1]
    await assert_session_continues(storage, harness)


@pytest.mark.parametrize("one", ["calls", "models"])
async def test_repeated_calls_stop_at_the_budget(storage: Storage, one: str) -> None:
    payment = PaymentTool()
    calls = [call("pay", amount=1)] * 3
    model = ScriptedModel(calls, repeat=True)
    limits = {"max_tool_calls": 7} if one == "calls" else {"max_llm_calls": 7}
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)), **limits)
    with pytest.raises(BudgetExceeded):
        await harness.say("pay")
    assert len(payment.paid) == (6 if one == "calls" else 21)
    await assert_session_continues(storage, harness)


@pytest.mark.parametrize(
    "content",
    ["\ud800", "ok \udfff"],
    ids=["unpaired surrogate", "unpaired surrogate at the end"],
)
async def test_unpaired_surrogate_is_stored_as_question_mark(
    storage: Storage, content: str
) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(content, "never")))
    message_text = content.replace("\ud800", "?").replace("\udfff", "?")
    assert (await harness.say("hi")).text == message_text
    check_record(await harness.events())


@pytest.mark.parametrize("content", [object(), "\ud800", {"of": object()}])
async def test_call_that_cannot_be_stored_becomes_an_error_result(
    storage: Storage, content: object
) -> None:
    invalid = ToolCall(id="1", name="pay", arguments={"amount": content})
    model = ScriptedModel(invalid, "sorry")
    harness = storage.harness(scripted_agent(model, PaymentTool().tool()))
    assert (await harness.say("hi")).text == "sorry"
    recorded = model.requests[1].messages[-1].parts[0].result
    assert recorded is not None
    assert "could not be decoded" in recorded.content["error"]
    check_record(await harness.events())


async def test_call_ids_with_unpaired_surrogates_become_error_results(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    ids = ("\ud800", "\udfff", "fine")
    calls = [ToolCall(id=call_id, name="pay", arguments={"amount": 1}) for call_id in ids]
    model = ScriptedModel(calls, "sorry")
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)))
    assert (await harness.say("hi")).text == "sorry"
    results = [message.parts[0].result for message in model.requests[1].messages[-3:]]
    recorded = {result.call_id: result.content for result in results if result is not None}
    assert list(recorded) == ["\\ud800", "\\udfff", "fine"]
    assert "could not be decoded" in recorded["\\ud800"]["error"]
    assert (recorded["fine"], payment.paid) == ("paid 1", [1])
    check_record(await harness.events())


async def stream_raises() -> AsyncIterator[Any]:
    yield "one "
    raise ConnectionError("reset by peer")


async def stream_without_response() -> AsyncIterator[Any]:
    yield "one "


async def stream_with_none() -> AsyncIterator[Any]:
    yield "one "
    yield None


async def stream_without_end() -> AsyncIterator[Any]:
    while True:
        yield "more and more "


async def stream_hangs() -> AsyncIterator[Any]:
    yield "one "
    try:
        await asyncio.Event().wait()
    finally:
        closed.append("stream_hangs")


async def stream_of_empty_pieces() -> AsyncIterator[Any]:
    while True:
        await asyncio.sleep(0)
        yield ""


closed: list[str] = []
STREAMS: dict[str, tuple[Callable[[], AsyncIterator[Any]], type[AccError]]] = {
    "stream_raises": (stream_raises, ModelFailed),
    "stream_without_response": (stream_without_response, ModelFailed),
    "stream_with_none": (stream_with_none, ModelFailed),
    "stream_without_end": (stream_without_end, ModelOutputInvalid),
    "stream_hangs": (stream_hangs, RunTimedOut),
    "stream_of_empty_pieces": (stream_of_empty_pieces, RunTimedOut),
}


@pytest.mark.parametrize("kind", sorted(STREAMS))
async def test_invalid_stream_fails_the_run_and_is_closed(storage: Storage, kind: str) -> None:
    closed.clear()
    pieces, expected = STREAMS[kind]
    harness = storage.harness(
        scripted_agent(Model(pieces=pieces)),  # type: ignore[arg-type]
        timeout=0.3 if expected is RunTimedOut else 10.0,
        max_answer_characters=10_000,
    )
    seen: list[str] = []
    with pytest.raises(expected):
        async for event in harness.runner.stream(user_id="ann", session_id="s1", message="hi"):
            seen.append(event.kind.value)
    assert no_tasks_remain()
    assert closed == (["stream_hangs"] if kind == "stream_hangs" else [])
    assert seen[-1] == "ended"
    await assert_session_continues(storage, harness)


async def test_stream_without_aclose_is_accepted(storage: Storage) -> None:
    class Pieces:
        def __init__(self) -> None:
            self._left: list[Any] = [ModelResponse(text="one two"), "one ", "two"]

        def __aiter__(self) -> "Pieces":
            return self

        async def __anext__(self) -> Any:
            return self._left.pop()

    harness = storage.harness(scripted_agent(Model(pieces=Pieces)))  # type: ignore[arg-type]
    seen = [
        event.text
        async for event in harness.runner.stream(user_id="ann", session_id="s1", message="hi")
    ]
    assert seen == ["hi", "two", "one ", "one two", "one two"]


async def test_run_times_out_when_model_does_not_answer(storage: Storage) -> None:
    class Silent:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            await asyncio.Event().wait()
            raise AssertionError

    harness = storage.harness(scripted_agent(Silent()), timeout=0.02)  # type: ignore[arg-type]
    with pytest.raises(RunTimedOut):
        await harness.say("hi")
    await assert_session_continues(storage, harness)


async def test_base_exception_of_model_fails_the_agent(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(Odd("no"))))
    with pytest.raises(AgentFailed, match="Odd"):
        await harness.say("hi")
    await assert_session_continues(storage, harness)


async def test_unknown_model_name_is_rejected(storage: Storage) -> None:
    harness = storage.harness(Agent(name="a", model="nope-99", memory=None))
    with pytest.raises(InvalidInput, match="nope-99"):
        await harness.say("hi")
    await assert_session_continues(storage, harness)


CALLBACKS = [
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "before_tool_callback",
    "after_tool_callback",
]


@pytest.mark.parametrize("many", [False, True], ids=["one call", "two calls"])
@pytest.mark.parametrize("name", CALLBACKS)
async def test_exception_of_callback_fails_the_agent(
    storage: Storage, name: str, many: bool
) -> None:
    async def broken(*_: Any) -> None:
        raise KeyError("broken")

    pay = call("pay", amount=1)
    agent = scripted_agent(
        ScriptedModel([pay, pay] if many else pay, "done"),
        PaymentTool().tool(confirm=False),
        **dict[str, Any]({name: broken}),
    )
    harness = storage.harness(SequentialAgent(name="root", sub_agents=[agent]))
    with pytest.raises(AgentFailed, match="'clerk' failed: KeyError: 'broken'"):
        await harness.say("hi")
    await assert_session_continues(storage, harness)
