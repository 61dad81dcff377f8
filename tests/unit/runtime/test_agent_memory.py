"""Tests of agent memories after a restart, an eviction or a failure."""

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from agent_support import history
from runner_harness import PaymentTool, RunnerHarness, Storage, check_record, scripted_agent

from acc import (
    BaseAgent,
    ConversationTurn,
    LoopAgent,
    ParallelAgent,
    RunContext,
    RunStatus,
    SequentialAgent,
    TranscriptMemory,
    TurnSignal,
    acc_memory,
    approve,
    exit_loop,
)
from acc.application.memory.messages import part_text
from acc.application.runtime.run import Run
from acc.domain.errors import AgentFailed, InvalidInput, ModelFailed
from acc.ports.outbound.memory_ports import MemoryView
from acc.testing import ScriptedModel, WordCounter, call

CHAT = (
    "My name is Bo and I live in Kyoto.",
    "The budget is 300 euro.",
    "Never book a night train.",
    "Sorry, the budget is 400 euro.",
    "Which budget do I have?",
)
MEMORIES: dict[str, Any] = {
    "transcript": "transcript",
    "retrieval": "retrieval",
    "acc": "acc",
    "short": lambda: TranscriptMemory(tokens=WordCounter(), window=40),
}


def prompts_of(model: ScriptedModel) -> list[tuple[str, Any]]:
    return [(p.memory, p.messages) for p in model.requests]


async def talk(
    harness: RunnerHarness, session: str, *, restart: bool, chat: tuple[str, ...] = CHAT
) -> None:
    for text in chat:
        harness = harness.restarted() if restart else harness
        result = await harness.say(text, session=session)
        while result.status is RunStatus.INPUT_REQUIRED:
            harness = harness.restarted() if restart else harness
            result = await harness.runner.resume(
                user_id="ann",
                session_id=session,
                answers=[approve(request.id) for request in result.requests],
            )


def note(what: str) -> str:
    """Note something."""
    return f"The note says {what}."


async def ponder(what: str) -> str:
    """Think about something, for longer than a note takes."""
    for _ in range(5):
        await asyncio.sleep(0.02)
    return f"The thought is {what}."


def plain_chat(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    model = ScriptedModel(*(f"answer {n}" for n in range(5)))
    return scripted_agent(model, memory=memory), model


def with_tools(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    model = ScriptedModel(
        [call("ponder", what="slow"), call("note", what="quick")],
        "a",
        call("note", what="1"),
        call("note", what="2"),
        "b",
        "c",
        [call("note", what="x"), call("unknown")],
        "d",
        "e",
    )
    return scripted_agent(model, note, ponder, memory=memory), model


def with_pauses(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    pay = call("pay", amount=1)
    model = ScriptedModel(
        pay, "a", "b", [pay, call("note", what="1"), pay], "c", pay, pay, "d", "e"
    )
    return scripted_agent(model, PaymentTool().tool(), note, memory=memory), model


def with_callback(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    model = ScriptedModel(*(f"answer {n}" for n in range(5)))
    return scripted_agent(
        model, memory=memory, after_agent_callback=lambda ctx, text: text.upper()
    ), model


def with_two_agents(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    """Another agent answers every second turn."""
    model = ScriptedModel("mine 0", "mine 1", "mine 2")
    mine = scripted_agent(model, name="mine", memory=memory)
    other = scripted_agent(ScriptedModel("theirs 0", "theirs 1"), name="theirs", memory=memory)

    class Turns(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            turn = ctx.state["turn"] = ctx.state.get("turn", 0) + 1
            ctx.text = (await ctx.run_agent(self.sub_agents[turn % 2])).text

    return Turns(name="turns", sub_agents=[other, mine]), model


def in_loop(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    answers: list[Any] = []
    for n in range(5):
        answers += [f"draft {n}", call("note", what=f"{n}"), f"better {n}", call("exit_loop")]
    model = ScriptedModel(*answers)
    agent = scripted_agent(model, note, exit_loop, name="writes", memory=memory)
    return LoopAgent(name="root", max_iterations=5, sub_agents=[agent]), model


def with_transfer(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    model = ScriptedModel(call("transfer_to_agent", agent_name="helper"), "a", "b", "c", "d", "e")
    helper = scripted_agent(
        ScriptedModel("helped"), name="helper", description="helps", returns_control=True
    )
    return scripted_agent(model, name="root", memory=memory, sub_agents=[helper]), model


def records_other_text(memory: Any) -> tuple[BaseAgent, ScriptedModel]:
    model = ScriptedModel(*(f"answer {n}" for n in range(5)))
    inner = scripted_agent(model, name="inner", memory=memory)

    class Rephrases(BaseAgent):
        async def run(self, ctx: RunContext) -> None:
            done = await ctx.run_agent(self.sub_agents[0], message=f"Please note: {ctx.message}")
            ctx.text = done.text

    return Rephrases(name="rephrases", sub_agents=[inner]), model


TREES: dict[str, Callable[[Any], tuple[BaseAgent, ScriptedModel]]] = {
    "plain": plain_chat,
    "tools": with_tools,
    "pauses": with_pauses,
    "callback": with_callback,
    "turns": with_two_agents,
    "loop": in_loop,
    "transfer": with_transfer,
    "other text recorded": records_other_text,
}


@pytest.mark.parametrize("memory", sorted(MEMORIES))
@pytest.mark.parametrize("tree", sorted(TREES))
async def test_prompt_memory_is_the_same_after_restart(
    storage: Storage, tree: str, memory: str
) -> None:
    prompts: list[Any] = []
    for restart in (False, True):
        agent, model = TREES[tree](MEMORIES[memory])
        await talk(storage.harness(agent), f"restart {restart}", restart=restart)
        prompts.append(prompts_of(model))
    assert prompts[1] == prompts[0]
    if memory == "transcript":
        assert "Bo" in str(prompts[0][-1])


@pytest.mark.parametrize("memory", sorted(MEMORIES))
async def test_evicted_memory_is_rebuilt_with_same_content(storage: Storage, memory: str) -> None:
    prompts: list[Any] = []
    for most in (512, 1):
        agent, model = plain_chat(MEMORIES[memory])
        harness = storage.harness(agent, most=most)
        other, _ = plain_chat(MEMORIES[memory])
        beside = RunnerHarness(storage, other, harness.runner.config, most)
        beside.runner.services.memory_cache = harness.runner.services.memory_cache
        for text in CHAT:
            await harness.say(text, session=f"most {most}")
            await beside.say(text, session=f"beside {most}")
        prompts.append(prompts_of(model))
    assert prompts[1] == prompts[0]


async def test_agents_remember_when_their_memories_evict_each_other(
    storage: Storage,
) -> None:
    models = [ScriptedModel("a", "b"), ScriptedModel("c", "d")]
    agents = [scripted_agent(m, name=f"n{n}", memory="transcript") for n, m in enumerate(models)]
    harness = storage.harness(SequentialAgent(name="root", sub_agents=agents), most=1)
    await harness.say("one")
    await harness.say("two")
    for model in models:
        assert history(model.requests[1]) == [("user", "one"), ("assistant", "c")]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("memory", ["transcript", "retrieval"])
async def test_failed_turn_is_recorded_in_memory(
    storage: Storage, memory: str, restart: bool
) -> None:
    model = ScriptedModel("a", ValueError("down"), "b", "c")
    harness = storage.harness(scripted_agent(model, memory=memory))
    await harness.say("I like tea")
    harness = harness.restarted() if restart else harness
    with pytest.raises(ModelFailed):
        await harness.say("I like coffee")
    harness = harness.restarted() if restart else harness
    await harness.say("I like milk")
    await harness.say("Is it tea, coffee or milk?")
    received = [message.text for message in model.requests[-1].earlier if message.role == "user"]
    assert received == ["I like tea", "I like coffee", "I like milk"]
    assert "down" not in str(model.requests[-1])


async def test_custom_memory_records_each_turn_once(
    storage: Storage,
) -> None:
    model = ScriptedModel("a", ValueError("down"), "b", "c")
    agent = scripted_agent(model, memory=TranscriptMemory(tokens=WordCounter()))
    harness = storage.harness(agent, most=1)
    await harness.say("one")
    with pytest.raises(ModelFailed):
        await harness.say("two")
    await harness.say("three")
    other = scripted_agent(ScriptedModel("x"), memory="transcript", name="other")
    beside = RunnerHarness(storage, other, harness.runner.config, 1)
    beside.runner.services.memory_cache = harness.runner.services.memory_cache
    await beside.say("elsewhere", session="s2")
    await harness.say("four")
    assert history(model.requests[-1]) == [
        ("user", "one"),
        ("assistant", "a"),
        ("user", "two"),
        ("assistant", "(This turn failed without an answer (model_failed).)"),
        ("user", "three"),
        ("assistant", "b"),
    ]


async def test_memory_instance_is_rejected_in_second_session(storage: Storage) -> None:
    agent = scripted_agent(ScriptedModel("a", "b"), memory=TranscriptMemory(tokens=WordCounter()))
    harness = storage.harness(agent)
    await harness.say("secret", session="s1")
    with pytest.raises(InvalidInput, match="belongs to session 's1'"):
        await harness.say("tell me", session="s2")
    assert (await harness.say("again", session="s1")).text == "b"
    check_record(await harness.events("s2"))


class Words:
    """A minimal memory whose class is its factory; `fail_at` makes it fail."""

    fail_at = -1

    def __init__(self) -> None:
        self.words: list[str] = []

    async def view(self, signal: TurnSignal) -> MemoryView:
        return MemoryView(text=" ".join(self.words), tokens=len(self.words))

    async def record(self, turn: ConversationTurn) -> None:
        await asyncio.sleep(0)
        if len(self.words) == Words.fail_at:
            raise OSError("memory is full")
        for message in turn.messages:
            if message.role != "assistant":
                self.words += [part_text(part) for part in message.parts]


async def test_memory_class_is_accepted_as_factory(storage: Storage) -> None:
    model = ScriptedModel("a", "b", "c")
    harness = storage.harness(scripted_agent(model, memory=Words))
    await harness.say("one")
    await harness.say("two", session="s2")
    await harness.restarted().say("three")
    assert [p.memory for p in model.requests] == ["", "", "one"]


async def test_memory_is_rebuilt_after_failed_catch_up(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel("a", "b", "c", "d")
    harness = storage.harness(scripted_agent(model, memory=Words))
    for text in ("one", "two", "three"):
        await harness.say(text)
    again = harness.restarted()
    monkeypatch.setattr(Words, "fail_at", 2)
    with pytest.raises(AgentFailed, match="memory is full"):
        await again.say("four")
    monkeypatch.setattr(Words, "fail_at", -1)
    await again.say("five")
    assert model.requests[-1].memory == "one two three four"
    check_record(await harness.events())


async def test_run_completes_when_memory_fails_after_the_turn(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedModel("a", "b", "c")
    harness = storage.harness(scripted_agent(model, memory=Words))
    await harness.say("one")
    monkeypatch.setattr(Words, "fail_at", 1)
    assert (await harness.say("two")).text == "b"
    assert (await harness.ends())[-1] is RunStatus.COMPLETED
    assert "memory of agent clerk failed" in caplog.text
    assert "memory is full" in caplog.text
    monkeypatch.setattr(Words, "fail_at", -1)
    await harness.say("three")
    assert model.requests[-1].memory == "one two"


async def test_failing_memory_does_not_affect_other_memories(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = ScriptedModel("b", "d")
    steps = [
        scripted_agent(ScriptedModel("a", "c"), memory=Words, name="first"),
        scripted_agent(second, memory="transcript", name="second"),
    ]
    harness = storage.harness(SequentialAgent(name="both", sub_agents=steps))
    monkeypatch.setattr(Words, "fail_at", 0)
    assert (await harness.say("one")).text == "b"
    monkeypatch.setattr(Words, "fail_at", -1)
    assert (await harness.say("two")).text == "d"
    assert ("user", "one") in history(second.requests[-1])


async def test_memory_is_rebuilt_after_cancellation_during_record(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ScriptedModel("a", "b")
    harness = storage.harness(scripted_agent(model, memory=Words))

    async def stop(self: Words, turn: ConversationTurn) -> None:
        self.words.append("half")
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(Words, "record", stop)
        with pytest.raises(asyncio.CancelledError):
            await harness.say("one")
    assert (await harness.ends())[-1] is RunStatus.COMPLETED
    await harness.say("two")
    assert model.requests[-1].memory == "one"


async def test_memory_is_empty_after_session_is_deleted(storage: Storage) -> None:
    model = ScriptedModel("a", "b")
    harness = storage.harness(scripted_agent(model, memory="transcript"))
    await harness.say("my secret is 42")
    await storage.sessions.delete(harness.runner.session_key("ann", "s1"))
    await harness.say("what do you know?")
    assert (model.requests[-1].memory, model.requests[-1].earlier) == ("", ())


@pytest.mark.parametrize("memory", sorted(MEMORIES))
async def test_memory_after_abandoned_run_equals_memory_after_restart(
    storage: Storage, memory: str
) -> None:
    prompts: list[Any] = []
    for restart in (False, True):
        model = ScriptedModel("a", call("pay", amount=1), "b")
        harness = storage.harness(
            scripted_agent(model, PaymentTool().tool(), memory=MEMORIES[memory])
        )
        session = f"restart {restart}"
        await harness.say("My name is Bo.", session=session)
        harness = harness.restarted() if restart else harness
        await harness.say("Pay the bill of my name, " + "please " * 30, session=session)
        harness = harness.restarted() if restart else harness
        await harness.runner.abandon(user_id="ann", session_id=session)
        harness = harness.restarted() if restart else harness
        await harness.say("What is my name?", session=session)
        prompts.append(prompts_of(model))
    assert prompts[0] == prompts[1]
    assert "Bo" in str(prompts[0][-1]) or memory != "transcript"
    assert "Pay the bill" in str(prompts[0][-1]) or memory == "retrieval"
    assert "canceled before an answer" in str(prompts[0][-1]) or memory == "retrieval"


async def test_memory_after_failed_branch_equals_memory_after_restart(
    storage: Storage,
) -> None:
    prompts: list[Any] = []
    for restart in (False, True):
        model = ScriptedModel("a", ValueError("down"), "b", "c", "d")
        tree = ParallelAgent(
            name="root",
            on_error="collect",
            sub_agents=[
                scripted_agent(model, name="shaky", memory=lambda: acc_memory(budget=200)),
                scripted_agent(ScriptedModel("ok", repeat=True), name="steady"),
            ],
        )
        await talk(storage.harness(tree), f"restart {restart}", restart=restart)
        prompts.append(prompts_of(model))
    assert prompts[0] == prompts[1]


@pytest.mark.parametrize("where", ["in one turn", "over turns", "in turns that paused"])
async def test_long_history_is_recorded_once_across_pages(storage: Storage, where: str) -> None:
    """Cover more than 500 events, so that a page can end between a pause and its answer."""
    payment, answers = PaymentTool(), list[Any]()
    chat: tuple[str, ...] = tuple(f"q{n}" for n in range(5))
    if where == "in one turn":
        answers = [[call("note", what=f"{n}") for n in range(600)], "a0", *"bcde"]
    elif where == "over turns":
        for n in range(5):
            answers += [[call("note", what=f"{n}.{m}") for m in range(137)], f"a{n}"]
    else:
        chat = tuple(f"q{n}" for n in range(60))
        for n in range(60):
            notes = [call("note", what=f"{n}.{m}") for m in range(4 + n % 3)]
            answers += [notes, call("pay", amount=n), f"a{n}"]
    model = ScriptedModel(*answers, "last")
    agent = scripted_agent(model, note, payment.tool(), memory=Words)
    harness = storage.harness(agent, max_tool_calls=2_000, max_llm_calls=2_000)
    await talk(harness, "s1", restart=False, chat=chat)
    remembered = len(model.requests)
    await harness.restarted().say("after")
    words = model.requests[remembered].memory.split()
    for text in chat:
        assert words.count(text) == 1
    assert words.count("note") == sum(
        1 for e in await harness.events() if e.result is not None and e.result.name == "note"
    )


@pytest.mark.parametrize("memory", MEMORIES)
async def test_finished_run_is_freed_without_garbage_collection(
    storage: Storage, memory: str
) -> None:
    payment = PaymentTool()
    model = ScriptedModel(call("pay", amount=1), "paid")
    harness = storage.harness(
        scripted_agent(model, payment.tool(confirm=False), memory=MEMORIES[memory])
    )
    gc.disable()
    # Objects that exist now are no longer listed.
    gc.freeze()
    try:
        await harness.say("pay")
        assert [one for one in gc.get_objects() if isinstance(one, Run)] == []
    finally:
        gc.unfreeze()
        gc.enable()
