"""Contract of MemoryPort."""

import json

import pytest

from acc.application.memory.registry import MEMORIES
from acc.bootstrap.memory import make_memory
from acc.domain.value_objects.memory import ConversationTurn, TurnSignal
from acc.ports.outbound.memory_ports import MemoryPort
from acc.ports.outbound.model_ports import ModelRequest
from acc.testing import ScriptedModel

KINDS = (*MEMORIES, "acc:scripted")


def write_state(prompt: ModelRequest) -> str:
    """Return the earlier state with the statements of the turn."""
    content = json.loads(prompt.query.partition("\n")[0])
    state = content["earlier_state"]
    statements = [f"fact({sentence})" for sentence in content["turn"]["said"]]
    known = [*state["relational_map"], *statements]
    return json.dumps({**state, "relational_map": known[-24:], "episodic_trace": []})


def create(kind: str) -> MemoryPort:
    return make_memory(kind, models=lambda _: ScriptedModel(write_state, repeat=True))


@pytest.mark.parametrize("kind", KINDS)
async def test_view_is_bounded_and_has_tokens_if_it_has_text(kind: str) -> None:
    memory = create(kind)
    signal = TurnSignal(turn_id=1, text="The lead is Bo. 責任者は佐伯さんです。")
    view = await memory.view(signal)
    assert view.tokens <= 512
    assert bool(view.text) == bool(view.tokens)
    await memory.record(ConversationTurn.of(1, signal.text, "Noted."))
    later = await memory.view(TurnSignal(turn_id=2, text="Who is the lead?"))
    assert bool(later.text) == bool(later.tokens)


@pytest.mark.parametrize("kind", KINDS)
async def test_memories_are_independent(kind: str) -> None:
    one, other = create(kind), create(kind)
    signal = TurnSignal(turn_id=1, text="The secret word is quince.")
    await one.view(signal)
    await one.record(ConversationTurn.of(1, signal.text, "Noted: quince."))
    assert "quince" not in (await other.view(TurnSignal(turn_id=2, text="Which word?"))).text


@pytest.mark.parametrize("kind", KINDS)
async def test_same_turns_give_same_view(kind: str) -> None:
    views = []
    for _ in range(2):
        memory = create(kind)
        for turn in range(1, 6):
            signal = TurnSignal(turn_id=turn, text=f"Item {turn} costs {turn * 7} EUR.")
            view = await memory.view(signal)
            await memory.record(ConversationTurn.of(turn, signal.text, "ok"))
        views.append(view)
    assert views[0] == views[1]
