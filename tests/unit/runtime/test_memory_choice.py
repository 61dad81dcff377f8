"""Choice of an agent's memory."""

import re
from typing import Any

import pytest
from agent_support import WHO, events_of_kind, history, turn

from acc import (
    Agent,
    AgentFailed,
    ConversationTurn,
    EventKind,
    InvalidTree,
    MemoryView,
    RouterAgent,
    Runner,
    SequentialAgent,
    TurnSignal,
    make_memory,
    tool,
)
from acc.application.memory.messages import part_text
from acc.application.runtime.agent_memory import MemoryChoice, MemoryName
from acc.domain.errors import InvalidInput
from acc.testing import ScriptedModel, call


class NoteMemory:
    """Memory that shows the recorded texts, one per line."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        return MemoryView(text="\n".join(self.notes), tokens=len(self.notes))

    async def record(self, turn: ConversationTurn) -> None:
        for message in turn.messages:
            texts = "; ".join(part_text(part) for part in message.parts)
            self.notes.append(f"{message.author}: {texts}")


async def memory_in_prompts(memory: MemoryChoice | None, *messages: str) -> list[str]:
    """Return what each prompt of a session has from earlier turns."""
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory=memory))
    for message in messages:
        await runner.run(**WHO, message=message)
    return ["\n".join((p.memory, *(m.text for m in p.earlier))) for p in model.requests]


async def test_transcript_is_the_default_memory() -> None:
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model))
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    assert [history(prompt) for prompt in model.requests] == [
        [],
        [("user", "one"), ("assistant", "noted")],
    ]
    assert [prompt.memory for prompt in model.requests] == ["", ""]


class TextMemory(NoteMemory):
    """Memory with a fixed text."""

    async def view(self, signal: TurnSignal) -> MemoryView:
        return "only text"  # type: ignore[return-value] # a memory that breaks its contract


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (TextMemory, "returned str; expected MemoryView(text=..., tokens=...)"),
        (lambda: 3, "creates its memory returned int; expected a MemoryPort"),
        (
            lambda: NoteMemory,
            "creates its memory returned the class NoteMemory; expected a MemoryPort",
        ),
    ],
)
async def test_invalid_memory_is_rejected(memory: Any, expected: str) -> None:
    with pytest.raises(AgentFailed, match=re.escape(expected)):
        await memory_in_prompts(memory, "one")


def test_object_with_view_only_is_not_a_memory() -> None:
    class Looking:
        async def view(self, signal: TurnSignal) -> MemoryView:
            raise AssertionError

    with pytest.raises(InvalidTree, match="a MemoryPort"):
        Agent(name="a", memory=Looking())  # type: ignore[arg-type] # it cannot keep anything


async def test_agent_without_memory_does_not_remember() -> None:
    assert await memory_in_prompts(None, "one", "two", "three") == ["", "", ""]


@pytest.mark.parametrize("memory", ["retrieval", "acc"])
async def test_memory_can_be_named(memory: MemoryName) -> None:
    seen = await memory_in_prompts(
        memory, "The budget of project Lark is 900 EUR.", "What is the budget of project Lark?"
    )
    assert "900 EUR" in seen[1]


async def test_unknown_memory_error_lists_names() -> None:
    with pytest.raises(InvalidInput, match="unknown memory 'elephant': choose one of transc"):
        await turn(Agent(name="a", model=ScriptedModel("x"), memory=MemoryName("elephant")))


@pytest.mark.parametrize("factory", [NoteMemory, lambda: NoteMemory()])
async def test_memory_factory_is_called_per_session(
    factory: Any,
) -> None:
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory=factory))
    for session, message in [("s1", "one"), ("s2", "other"), ("s1", "two")]:
        await runner.run(user_id="ann", session_id=session, message=message)
    assert [prompt.memory for prompt in model.requests] == ["", "", "user: one\na: noted"]


async def test_memory_receives_tool_results() -> None:
    @tool
    def weather(city: str) -> dict[str, str]:
        """Return the weather."""
        return {"city": city, "sky": "grey"}

    memory = NoteMemory()
    model = ScriptedModel(call("weather", city="Rome"), "It is grey.")
    await turn(Agent(name="a", model=model, tools=[weather], memory=memory), "Weather in Rome?")
    assert memory.notes == [
        "user: Weather in Rome?",
        'a: weather {"city":"Rome"}',
        'weather: {"city":"Rome","sky":"grey"}',
        "a: It is grey.",
    ]


async def test_memory_catches_up_with_skipped_turns() -> None:
    def pick(ctx: Any) -> str:
        return "b" if ctx.message == "for b" else "a"

    models = {"a": ScriptedModel("from a", repeat=True), "b": ScriptedModel("from b", repeat=True)}
    agents = [Agent(name=name, model=model, memory=NoteMemory) for name, model in models.items()]
    runner = Runner(RouterAgent(name="r", sub_agents=agents, by=pick))
    for message in ("for a", "for b", "again a"):
        await runner.run(**WHO, message=message)
    assert models["a"].requests[-1].memory.split("\n") == [
        "user: for a",
        "a: from a",
        "user: for b",
        "b: from b",
    ]


async def test_acc_memory_commits_are_recorded() -> None:
    runner = Runner(Agent(name="a", model=ScriptedModel("noted", "yes"), memory="acc"))
    await runner.run(**WHO, message="The budget is 900 EUR.")
    result = await runner.run(**WHO, message="Is that enough?")
    committed = events_of_kind(result, EventKind.MEMORY)[0]
    assert committed.author == "a"
    assert {"tokens", "ccs", "snapshot", "qualified", "rejected"} <= committed.detail.keys()
    assert result.usage.memory_tokens == committed.detail["tokens"] > 0


async def test_each_agent_has_its_own_memory() -> None:
    models = [ScriptedModel(name, repeat=True) for name in ("a", "b")]
    agents = [
        Agent(name=name, model=model, memory=lambda: make_memory("transcript"))
        for name, model in zip("ab", models, strict=True)
    ]
    runner = Runner(SequentialAgent(name="s", sub_agents=agents))
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    # Both have the answer that the user received.
    for model in models:
        assert history(model.requests[1]) == [("user", "one"), ("assistant", "b")]


@pytest.mark.parametrize(("limit", "created"), [(1, 4), (2, 2)])
async def test_runner_limits_the_number_of_cached_memories(limit: int, created: int) -> None:
    memories: list[NoteMemory] = []

    def create() -> NoteMemory:
        memories.append(NoteMemory())
        return memories[-1]

    agent = Agent(name="a", model=ScriptedModel("yes", repeat=True), memory=create)
    runner = Runner(agent, max_cached_memories=limit)
    for session_id in ("one", "two", "one", "two"):
        await runner.run(user_id="ann", session_id=session_id, message="hello")
    assert len(memories) == created


async def test_cache_without_memories_is_rejected() -> None:
    agent = Agent(name="a", model=ScriptedModel("yes"))
    with pytest.raises(
        InvalidInput, match="max_cached_memories must be an integer of at least 1, got 0"
    ):
        Runner(agent, max_cached_memories=0)
