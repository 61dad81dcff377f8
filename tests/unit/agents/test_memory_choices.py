"""What an agent remembers of a session, by the memory it was given."""

import re
from typing import Any

import pytest
from small_agents import WHO, of_kind, turn

from acc import (
    Agent,
    AgentFailed,
    Decision,
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
from acc.application.runtime.agent_memory import MemoryChoice
from acc.domain.errors import InvalidInput
from acc.testing import ScriptedModel, call


class NoteMemory:
    """Shows the texts it was told, one a line."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        return MemoryView(text="\n".join(self.notes), tokens=len(self.notes))

    async def keep(self, signal: TurnSignal, decision: Decision) -> None:
        self.notes += [f"{signal.author}: {signal.text}", f"answer: {decision.text}"]


async def seen_by_model(memory: MemoryChoice | None, *messages: str) -> list[str]:
    """Return the memory part of each prompt of a session with these messages."""
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory=memory))
    for message in messages:
        await runner.run(**WHO, message=message)
    return [prompt.memory for prompt in model.asked]


async def test_a_transcript_is_the_memory_unless_told_otherwise() -> None:
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model))
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    assert [prompt.memory.split("\n\n") for prompt in model.asked] == [
        [""],
        ["user: one", "assistant: noted\n"],
    ]


class TextMemory(NoteMemory):
    """Shows a text as it is."""

    async def view(self, signal: TurnSignal) -> MemoryView:
        return "only text"  # type: ignore[return-value] # a memory that breaks its contract


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        (TextMemory, "returned str; expected MemoryView(text=..., tokens=...)"),
        (lambda: 3, "creates its memory returned int; expected a MemoryPort"),
        (
            lambda: NoteMemory,
            "creates its memory returned the class NoteMemory; expected a MemoryPort",
        ),
    ],
)
async def test_a_memory_that_is_none_is_told_with_what_is_wanted(memory: Any, told: str) -> None:
    with pytest.raises(AgentFailed, match=re.escape(told)):
        await seen_by_model(memory, "one")


def test_an_object_that_only_looks_is_no_memory() -> None:
    class Looking:
        async def view(self, signal: TurnSignal) -> MemoryView:
            raise AssertionError

    with pytest.raises(InvalidTree, match="a MemoryPort"):
        Agent(name="a", memory=Looking())  # type: ignore[arg-type] # it cannot keep anything


async def test_without_memory_every_turn_is_the_first() -> None:
    assert await seen_by_model(None, "one", "two", "three") == ["", "", ""]


@pytest.mark.parametrize("memory", ["retrieval", "acc"])
async def test_a_memory_may_be_chosen_by_name(memory: str) -> None:
    seen = await seen_by_model(
        memory, "The budget of project Lark is 900 EUR.", "What is the budget of project Lark?"
    )
    assert "900 EUR" in seen[1]


async def test_an_unknown_memory_is_named_with_those_there_are() -> None:
    with pytest.raises(InvalidInput, match="no memory 'elephant': choose one of transcript, retr"):
        await turn(Agent(name="a", model=ScriptedModel("x"), memory="elephant"))


@pytest.mark.parametrize("factory", [NoteMemory, lambda: NoteMemory()])
async def test_a_memory_may_come_from_a_function_or_class_one_for_each_session(
    factory: Any,
) -> None:
    model = ScriptedModel("noted", repeat=True)
    runner = Runner(Agent(name="a", model=model, memory=factory))
    for session, message in [("s1", "one"), ("s2", "other"), ("s1", "two")]:
        await runner.run(user_id="ann", session_id=session, message=message)
    assert [prompt.memory for prompt in model.asked] == ["", "", "user: one\nanswer: noted"]


async def test_a_memory_of_ones_own_serves_one_session_and_refuses_a_second() -> None:
    memory = NoteMemory()
    runner = Runner(Agent(name="a", model=ScriptedModel("noted", repeat=True), memory=memory))
    await runner.run(user_id="ann", session_id="s1", message="secret")
    await runner.run(user_id="ann", session_id="s1", message="more")
    with pytest.raises(InvalidInput, match="belongs to session 's1' and cannot be used for"):
        await runner.run(user_id="bob", session_id="s2", message="hello")
    assert [note for note in memory.notes if note.startswith("user")] == [
        "user: secret",
        "user: more",
    ]


async def test_a_memory_is_told_of_tool_results_too() -> None:
    @tool
    def weather(city: str) -> dict[str, str]:
        """Tell the weather."""
        return {"city": city, "sky": "grey"}

    memory = NoteMemory()
    model = ScriptedModel(call("weather", city="Rome"), "It is grey.")
    await turn(Agent(name="a", model=model, tools=[weather], memory=memory), "Weather in Rome?")
    assert memory.notes == [
        "user: Weather in Rome?",
        "answer: ",
        "weather: city: Rome; sky: grey",
        "answer: It is grey.",
    ]


async def test_an_agent_that_sat_out_a_turn_hears_of_it_before_its_next() -> None:
    def pick(ctx: Any) -> str:
        return "b" if ctx.message == "for b" else "a"

    models = {"a": ScriptedModel("from a", repeat=True), "b": ScriptedModel("from b", repeat=True)}
    agents = [Agent(name=name, model=model, memory=NoteMemory) for name, model in models.items()]
    runner = Runner(RouterAgent(name="r", sub_agents=agents, by=pick))
    for message in ("for a", "for b", "again a"):
        await runner.run(**WHO, message=message)
    assert models["a"].asked[-1].memory.split("\n") == [
        "user: for a",
        "answer: from a",
        "user: for b",
        "answer: from b",
    ]


async def test_a_turn_that_failed_is_not_remembered() -> None:
    model = ScriptedModel(RuntimeError("down"), "noted", "noted")
    runner = Runner(Agent(name="a", model=model))
    with pytest.raises(Exception, match="down"):
        await runner.run(**WHO, message="lost")
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    assert [p.memory for p in model.asked] == ["", "", "user: one\n\nassistant: noted\n"]


async def test_what_an_acc_memory_commits_is_on_record() -> None:
    agent = Agent(name="a", model=ScriptedModel("noted"), memory="acc")
    result = await turn(agent, "The budget is 900 EUR.")
    committed = of_kind(result, EventKind.MEMORY)[0]
    assert committed.author == "a"
    assert {"tokens", "ccs", "snapshot", "qualified", "refused"} <= committed.detail.keys()
    assert result.usage.memory_tokens == committed.detail["tokens"] > 0


async def test_each_agent_of_a_tree_has_a_memory_of_its_own() -> None:
    models = [ScriptedModel(name, repeat=True) for name in ("a", "b")]
    agents = [
        Agent(name=name, model=model, memory=lambda: make_memory("transcript"))
        for name, model in zip("ab", models, strict=True)
    ]
    runner = Runner(SequentialAgent(name="s", sub_agents=agents))
    for message in ("one", "two"):
        await runner.run(**WHO, message=message)
    assert [model.asked[1].memory for model in models] == [
        "user: one\n\nassistant: a\n",
        "user: one\n\nassistant: b\n",
    ]
