"""Models that answer nonsense, nothing, too much or never: an error of ours, and life goes on."""

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
    """No Exception, as some libraries raise."""


class Model:
    """Answers with what a function gives, and streams what another gives."""

    def __init__(
        self,
        answer: Callable[[], Any] = lambda: ModelResponse(text="fine"),
        pieces: Callable[[], AsyncIterator[Any]] | None = None,
    ) -> None:
        self._answer = answer
        self._pieces = pieces

    async def complete(self, prompt: ModelRequest) -> ModelResponse:
        return self._answer()  # type: ignore[no-any-return] # that is what is tested

    def stream(self, prompt: ModelRequest) -> AsyncIterator[Any]:
        assert self._pieces is not None
        return self._pieces()


async def goes_on(storage: Storage, harness: RunnerHarness) -> None:
    """Check that the record is whole and that the session takes the next message."""
    check_record(await harness.events())
    assert (await harness.ends())[-1] is RunStatus.FAILED
    after = await storage.harness(scripted_agent(ScriptedModel("hello"))).say("still there?")
    assert after.text == "hello"
    check_record(await harness.events())


def fails(error: BaseException) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


BAD: dict[str, tuple[Callable[[], Any], type[AccError]]] = {
    "nothing": (lambda: None, ModelFailed),
    "a text": (lambda: "hello", ModelFailed),
    "no text": (lambda: ModelResponse(text=None), ModelFailed),  # type: ignore[arg-type]
    "an error": (fails(ValueError("down")), ModelFailed),
    "an error of ours": (fails(ModelFailed("down")), ModelFailed),
    "a timeout": (fails(TimeoutError()), ModelFailed),
    "empty": (lambda: ModelResponse(text=" \n"), ModelOutputInvalid),
    "endless": (lambda: ModelResponse(text="x" * 1_001), ModelOutputInvalid),
    "a cancellation of its own": (fails(asyncio.CancelledError()), AgentFailed),
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "in a branch"])
@pytest.mark.parametrize("bad", sorted(BAD))
async def test_a_bad_answer_is_an_error_of_ours_and_the_session_goes_on(
    storage: Storage, bad: str, beside: bool
) -> None:
    answer, expected = BAD[bad]
    tree: Any = scripted_agent(Model(answer), name="bad")  # type: ignore[arg-type]
    if beside:
        tree = ParallelAgent(
            name="root", sub_agents=[tree, scripted_agent(ScriptedModel("good"), name="good")]
        )
    harness = storage.harness(tree, max_answer_characters=1_000)
    with pytest.raises(expected):
        await harness.say("hi")
    assert no_tasks_remain()
    await goes_on(storage, harness)


@pytest.mark.parametrize(
    "answer",
    ["{", "[]", '{"item": "pen"}', '{"item": "pen", "count": "two"}', "a pen"],
)
async def test_json_that_does_not_fit_is_asked_for_again_and_then_given_up(
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
    await goes_on(storage, harness)


async def test_an_empty_answer_is_asked_for_again(storage: Storage) -> None:
    model = ScriptedModel("", "  ", "hello")
    assert (await storage.harness(scripted_agent(model)).say("hi")).text == "hello"
    assert "the answer is empty" in model.requests[1].messages[-1].text


BAD_CALLS = {
    "unknown": call("fly"),
    "without a name": call(""),
    "wrong arguments": call("pay", amount="much"),
    "no arguments": call("pay"),
    "too many arguments": call("pay", amount=1, to="me"),
    "unreadable": ToolCall(id="1", name="pay", fault="not JSON"),
}
UNSOUND: dict[str, dict[str, Any]] = {
    "no arguments": {"id": "1", "name": "pay", "arguments": None},
    "a list": {"id": "1", "name": "pay", "arguments": [1]},
    "no id": {"id": 7, "name": "pay", "arguments": {"amount": 1}},
    "no name": {"id": "1", "name": None, "arguments": {"amount": 1}},
}


@pytest.mark.parametrize("kind", sorted(UNSOUND))
async def test_a_call_that_is_none_is_asked_for_again(storage: Storage, kind: str) -> None:
    payment = PaymentTool()
    model = ScriptedModel(
        ModelResponse(calls=(ToolCall(**UNSOUND[kind]),)), call("pay", amount=1), "done"
    )
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)))
    assert ((await harness.say("pay")).text, payment.paid) == ("done", [1])
    assert "a tool call needs a text id" in model.requests[1].messages[-1].text
    check_record(await harness.events())


@pytest.mark.parametrize("bad", sorted(BAD_CALLS))
async def test_repeated_invalid_call_fails_the_run(storage: Storage, bad: str) -> None:
    payment = PaymentTool()
    pay = payment.tool(confirm=False)
    model = ScriptedModel(BAD_CALLS[bad], call("pay", amount=1), "done")
    assert (await storage.harness(scripted_agent(model, pay)).say("pay")).text == "done"
    recorded_before = [
        p.result for m in model.requests[1].messages for p in m.parts if p.result is not None
    ]
    assert [result.is_error for result in recorded_before] == [True]
    harness = storage.harness(scripted_agent(ScriptedModel(BAD_CALLS[bad], repeat=True), pay))
    with pytest.raises(ModelOutputInvalid):
        await harness.say("pay")
    assert payment.paid == [1]
    await goes_on(storage, harness)


@pytest.mark.parametrize("one", ["calls", "models"])
async def test_endless_calls_end_with_the_budget(storage: Storage, one: str) -> None:
    payment = PaymentTool()
    calls = [call("pay", amount=1)] * 3
    model = ScriptedModel(calls, repeat=True)
    limits = {"max_tool_calls": 7} if one == "calls" else {"max_llm_calls": 7}
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)), **limits)
    with pytest.raises(BudgetExceeded):
        await harness.say("pay")
    assert len(payment.paid) == (6 if one == "calls" else 21)
    await goes_on(storage, harness)


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
    unfit = ToolCall(id="1", name="pay", arguments={"amount": content})
    model = ScriptedModel(unfit, "sorry")
    harness = storage.harness(scripted_agent(model, PaymentTool().tool()))
    assert (await harness.say("hi")).text == "sorry"
    recorded_before = model.requests[1].messages[-1].parts[0].result
    assert recorded_before is not None
    assert "could not be decoded" in recorded_before.content["error"]
    check_record(await harness.events())


async def test_call_ids_with_unpaired_surrogates_become_error_results(
    storage: Storage,
) -> None:
    payment = PaymentTool()
    ids = ("\ud800", "\udfff", "fine")
    calls = [ToolCall(id=given, name="pay", arguments={"amount": 1}) for given in ids]
    model = ScriptedModel(calls, "sorry")
    harness = storage.harness(scripted_agent(model, payment.tool(confirm=False)))
    assert (await harness.say("hi")).text == "sorry"
    results = [message.parts[0].result for message in model.requests[1].messages[-3:]]
    recorded_before = {result.call_id: result.content for result in results if result is not None}
    assert list(recorded_before) == ["\\ud800", "\\udfff", "fine"]
    assert "could not be decoded" in recorded_before["\\ud800"]["error"]
    assert (recorded_before["fine"], payment.paid) == ("paid 1", [1])
    check_record(await harness.events())


async def breaks() -> AsyncIterator[Any]:
    yield "one "
    raise ConnectionError("reset by peer")


async def stops() -> AsyncIterator[Any]:
    yield "one "


async def mumbles() -> AsyncIterator[Any]:
    yield "one "
    yield None


async def babbles() -> AsyncIterator[Any]:
    while True:
        yield "more and more "


async def hangs() -> AsyncIterator[Any]:
    yield "one "
    try:
        await asyncio.Event().wait()
    finally:
        closed.append("hangs")


async def whispers() -> AsyncIterator[Any]:
    while True:
        await asyncio.sleep(0)
        yield ""


closed: list[str] = []
STREAMS: dict[str, tuple[Callable[[], AsyncIterator[Any]], type[AccError]]] = {
    "breaks": (breaks, ModelFailed),
    "stops": (stops, ModelFailed),
    "mumbles": (mumbles, ModelFailed),
    "babbles": (babbles, ModelOutputInvalid),
    "hangs": (hangs, RunTimedOut),
    "whispers": (whispers, RunTimedOut),
}


@pytest.mark.parametrize("kind", sorted(STREAMS))
async def test_a_bad_stream_is_an_error_of_ours_and_is_closed(storage: Storage, kind: str) -> None:
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
    assert closed == (["hangs"] if kind == "hangs" else [])
    assert seen[-1] == "ended"
    await goes_on(storage, harness)


async def test_a_stream_that_is_not_a_generator_needs_no_closing(storage: Storage) -> None:
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


async def test_a_model_that_never_answers_is_cut_off(storage: Storage) -> None:
    class Silent:
        async def complete(self, prompt: ModelRequest) -> ModelResponse:
            await asyncio.Event().wait()
            raise AssertionError

    harness = storage.harness(scripted_agent(Silent()), timeout=0.02)  # type: ignore[arg-type]
    with pytest.raises(RunTimedOut):
        await harness.say("hi")
    await goes_on(storage, harness)


async def test_a_model_may_raise_what_is_no_exception(storage: Storage) -> None:
    harness = storage.harness(scripted_agent(ScriptedModel(Odd("no"))))
    with pytest.raises(AgentFailed, match="Odd"):
        await harness.say("hi")
    await goes_on(storage, harness)


async def test_an_unknown_model_is_refused_by_name(storage: Storage) -> None:
    harness = storage.harness(Agent(name="a", model="gpt-99", memory=None))
    with pytest.raises(InvalidInput, match="gpt-99"):
        await harness.say("hi")
    await goes_on(storage, harness)


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
async def test_a_callback_that_raises_fails_the_run_as_its_agents_fault(
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
    await goes_on(storage, harness)
