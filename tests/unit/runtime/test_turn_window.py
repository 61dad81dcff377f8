"""Long turns: the prompt stays below its limit, and shortened results can be read."""

import re
from typing import Literal

import pytest
from agent_support import WHO

from acc import (
    Agent,
    BudgetExceeded,
    EventKind,
    MemoryName,
    ModelRequest,
    RunConfig,
    Runner,
    RunResult,
    tool,
)
from acc.application.memory.messages import count_tokens
from acc.bootstrap.memory import token_counter
from acc.domain.value_objects.content import RUNTIME_AUTHOR
from acc.testing import ScriptedModel, call

LONG = 20_000
LIMIT = 8_000
NUMBER = re.compile(r"read_tool_result\(number=(\d+)\)")


@tool
def page(number: int) -> str:
    """Return a page."""
    return f"page {number} begins " + "lorem ipsum dolor " * (LONG // 18) + f" page {number} ends"


@tool
def step(number: int) -> dict[str, int]:
    """Do a step."""
    return {"number": number}


def prompt_tokens(request: ModelRequest) -> int:
    count = token_counter().count
    fixed = [request.instruction, request.memory]
    fixed += [f"{spec.name} {spec.description} {spec.parameters}" for spec in request.tools]
    return sum(map(count, fixed)) + sum(count_tokens(m, count) for m in request.messages)


async def run_calls(
    model: ScriptedModel, memory: Literal["transcript", "acc"] | None = None, limit: int = LIMIT
) -> RunResult:
    agent = Agent(name="reader", model=model, tools=[page, step], memory=memory)
    config = RunConfig(max_prompt_tokens=limit, max_llm_calls=500, max_tool_calls=500)
    return await Runner(agent, config=config).run(**WHO, message="read all pages")


async def test_prompt_stays_below_limit_with_forty_long_results() -> None:
    model = ScriptedModel(*(call("page", number=n) for n in range(40)), "done")
    assert (await run_calls(model)).text == "done"
    assert max(map(prompt_tokens, model.requests)) <= LIMIT
    last = model.requests[-1]
    assert "page 39 ends" in last.messages[-1].results[0].content
    shown = [result for message in last.messages for result in message.results]
    assert any("characters left out" in str(result.content) for result in shown)


async def test_prompt_stays_below_limit_with_two_hundred_calls() -> None:
    model = ScriptedModel(*(call("step", number=n) for n in range(200)), "done")
    await run_calls(model, limit=1_500)
    assert max(map(prompt_tokens, model.requests)) <= 1_500
    texts = [message.text for message in model.requests[-1].messages]
    assert any(re.search(r"\d+ earlier tool calls of this turn are not shown", t) for t in texts)


async def test_every_call_keeps_its_result_after_shortening() -> None:
    model = ScriptedModel(*(call("page", number=n) for n in range(30)), "done")
    await run_calls(model)
    for request in model.requests:
        called = [c.id for message in request.messages for c in message.calls]
        answered = [r.call_id for message in request.messages for r in message.results]
        assert called == answered


async def test_shortened_result_can_be_read_with_the_tool() -> None:
    def read(prompt: ModelRequest) -> object:
        assert "read_tool_result" in [spec.name for spec in prompt.tools]
        first = next(m for m in prompt.messages if m.is_shortened)
        found = NUMBER.search(str(first.results[0].content))
        assert found is not None
        return call("read_tool_result", number=int(found[1]), offset=10_000, length=100)

    model = ScriptedModel(*(call("page", number=n) for n in range(8)), read, "done")  # type: ignore[arg-type]
    result = await run_calls(model)
    (read_event,) = [
        e for e in result.events if e.result is not None and e.result.name == "read_tool_result"
    ]
    assert read_event.result is not None
    assert read_event.result.content == {"text": page(0)[10_000:10_100], "next_offset": 10_100}


async def test_result_that_was_not_shown_cannot_be_read() -> None:
    model = ScriptedModel(
        *(call("page", number=n) for n in range(8)), call("read_tool_result", number=1), "done"
    )
    result = await run_calls(model)
    contents = [str(e.result.content) for e in result.events if e.result is not None]
    assert any("there is no result 1" in content for content in contents)


async def test_tool_is_not_offered_while_nothing_is_shortened() -> None:
    model = ScriptedModel(call("step", number=1), "done")
    await run_calls(model)
    offered = {spec.name for request in model.requests for spec in request.tools}
    assert "read_tool_result" not in offered


async def test_state_is_committed_within_a_long_turn() -> None:
    model = ScriptedModel(*(call("page", number=n) for n in range(12)), "done")
    result = await run_calls(model, memory="acc")
    assert len([event for event in result.events if event.kind is EventKind.MEMORY]) > 1
    assert max(map(prompt_tokens, model.requests)) <= LIMIT


async def test_prompt_without_room_for_results_is_an_error() -> None:
    agent = Agent(name="a", model=ScriptedModel(call("step", number=1), "x"), tools=[step])
    runner = Runner(agent, config=RunConfig(max_prompt_tokens=10))
    with pytest.raises(BudgetExceeded, match="max_prompt_tokens") as caught:
        await runner.run(**WHO, message="a message of more than ten tokens, which cannot fit here")
    assert re.search(r"about \d+ tokens; shorten them, or set a higher limit", str(caught.value))


async def test_result_that_was_left_out_can_be_read_with_the_tool() -> None:
    def read(prompt: ModelRequest) -> object:
        assert "read_tool_result" in [spec.name for spec in prompt.tools]
        (note,) = [m for m in prompt.messages if m.author == RUNTIME_AUTHOR]
        found = re.search(r"returns their results: (\d+)", note.text)
        assert found is not None
        return call("read_tool_result", number=int(found[1]))

    steps = [call("step", number=n) for n in range(100)]
    model = ScriptedModel(*steps, read, "done")  # type: ignore[arg-type]
    result = await run_calls(model, limit=1_500)
    assert max(map(prompt_tokens, model.requests)) <= 1_500
    (read_event,) = [
        e for e in result.events if e.result is not None and e.result.name == "read_tool_result"
    ]
    assert read_event.result is not None
    assert read_event.result.content == {"text": '{"number":0}', "next_offset": None}


@pytest.mark.parametrize("memory", ["transcript", "retrieval", "acc"])
async def test_memory_larger_than_the_limit_does_not_block_the_session(memory: str) -> None:
    model = ScriptedModel("answer " * 150, repeat=True)
    agent = Agent(name="a", model=model, memory=MemoryName(memory))
    runner = Runner(agent, config=RunConfig(max_prompt_tokens=1_000))
    for number in range(24):
        await runner.run(**WHO, message=f"message {number} " + "word " * 60)
    assert max(map(prompt_tokens, model.requests)) <= 1_000
    if memory == "transcript":  # the others select by relevance
        assert "message 22" in str(model.requests[-1].earlier)


async def test_turns_leave_a_memory_larger_than_the_limit_in_chunks() -> None:
    model = ScriptedModel("answer " * 20, repeat=True)
    agent = Agent(name="a", model=model, memory="transcript")
    runner = Runner(agent, config=RunConfig(max_prompt_tokens=1_600))
    for number in range(60):
        await runner.run(**WHO, message=f"message {number} " + "word " * 20)
    starts = [request.earlier[0].text.split()[1] for request in model.requests[1:]]
    assert len(set(starts)) <= 60 // 8 + 1
    assert starts[-1] != "0"


async def test_one_exchange_larger_than_the_limit_is_shortened() -> None:
    model = ScriptedModel("answer " * 3_000, "short")
    runner = Runner(
        Agent(name="a", model=model, memory="transcript"), config=RunConfig(max_prompt_tokens=1_000)
    )
    await runner.run(**WHO, message="tell me all")
    assert (await runner.run(**WHO, message="shorter")).text == "short"
    assert prompt_tokens(model.requests[-1]) <= 1_000
    assert "characters left out" in model.requests[-1].earlier[-1].text
