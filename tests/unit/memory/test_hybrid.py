"""Recall with embeddings, failing embedders, and closing of their connections."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from compressor_models import state_response

from acc import Agent, ConversationTurn, MemoryView, Runner, TurnSignal, acc_memory
from acc.adapters.memory.hybrid import HybridEvidenceStore
from acc.application.memory.acc import AccMemory
from acc.bootstrap import agents, models
from acc.bootstrap import memory as memory_bootstrap
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.memory import Evidence
from acc.ports.outbound.model_ports import ModelResponse
from acc.testing import ScriptedModel

MODEL = ScriptedModel("Noted.", repeat=True)


class Embedder:
    """Embedder that returns the result of a function."""

    def __init__(self, function: Any) -> None:
        self.function = function

    async def embed(self, texts: Sequence[str]) -> Any:
        return self.function(texts)


def fail(texts: Sequence[str]) -> Any:
    raise RuntimeError("the machine\nis down")


BROKEN = [
    (fail, "RuntimeError: the machine is down"),
    (lambda texts: None, "returned NoneType"),
    (lambda texts: 7, "returned int"),
    (lambda texts: [[1.0, 0.0]], "1 vectors"),
    (lambda texts: [], "0 vectors"),
    (lambda texts: [1.0 for _ in texts], "vectors of one size"),
    (lambda texts: [[] for _ in texts], "vectors of one size"),
    (lambda texts: [[1.0] * (2 + n % 2) for n, _ in enumerate(texts)], "not numeric"),
    (lambda texts: [["a", "b"] for _ in texts], "not numeric"),
    (lambda texts: [[float("nan"), 1.0] for _ in texts], "not finite"),
]


@pytest.mark.parametrize(("function", "fault"), BROKEN)
async def test_failing_embedder_falls_back_to_lexical_recall(function: Any, fault: str) -> None:
    runner = Runner(Agent(name="clerk", memory=acc_memory(embeddings=Embedder(function))))
    for message in ("The pager code is 4471.", "The lead is Ana.", "会議は水曜日です。"):
        await runner.run(user_id="u", session_id="s", message=message)
    result = await runner.run(user_id="u", session_id="s", message="What is the pager code?")
    notes = [note for event in result.events for note in event.detail.get("notes", ())]
    await runner.aclose()
    assert "4471" in result.text
    assert any(note.startswith("recall used words only: ") and fault in note for note in notes)


async def test_changed_vector_size_falls_back_to_lexical_recall() -> None:
    sizes = iter((2, 3, 2))
    embedder = Embedder(lambda texts: [[1.0] * size for size in [next(sizes)] for _ in texts])
    store = HybridEvidenceStore(embedder=embedder)
    found = []
    for number in range(3):
        text = f"The pager code of desk {number} is {number}."
        await store.add([Evidence(id=f"a{number}", turn_id=number, text=text)])
        found.append(await store.recall("the pager code", limit=9))
    assert [len(each) for each in found] == [1, 2, 3]
    (note,) = store.drain_notes()
    assert "size of its vectors" in note
    assert store.drain_notes() == ()


@pytest.mark.parametrize("embedder", [5, None, object(), Embedder])
def test_invalid_embedder_is_rejected(embedder: Any) -> None:
    with pytest.raises(InvalidInput, match="async embed"):
        acc_memory(embeddings=embedder)


class Connection:
    """Model and embedder that records whether it is open."""

    made: "list[Connection]"

    def __init__(self, name: str) -> None:
        self.is_open = False
        self.name = name
        type(self).made.append(self)

    async def embed(self, texts: Sequence[str]) -> Any:
        self.is_open = True
        return [[1.0, 0.0] for _ in texts]

    async def complete(self, prompt: Any) -> ModelResponse:
        self.is_open = True
        return ModelResponse(text=state_response())

    async def aclose(self) -> None:
        self.is_open = False


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[Connection]:
    Connection.made = []
    monkeypatch.setattr(memory_bootstrap, "_named_embedder", Connection)
    monkeypatch.setattr(models, "make_model", Connection)
    monkeypatch.setattr(agents, "make_model", Connection)
    return Connection.made


async def test_memories_of_factory_share_connections_closed_by_runner(
    connections: list[Connection],
) -> None:
    def make() -> AccMemory:
        return acc_memory(embeddings="openai:small", compressor="openai:large")

    runner = Runner(Agent(name="clerk", model=MODEL, memory=make))
    for number in range(5):
        for message in ("The pager code is 4471.", "What is the pager code?"):
            await runner.run(user_id="u", session_id=f"s{number}", message=message)
    assert sorted(made.name for made in connections) == ["openai:large", "openai:small"]
    assert all(made.is_open for made in connections)
    await runner.aclose()
    assert not any(made.is_open for made in connections)


async def test_memory_instance_is_closed_with_runner(
    connections: list[Connection],
) -> None:
    memory = acc_memory(embeddings="openai:small", compressor="openai:large")
    other = acc_memory(embeddings="openai:small")
    runner = Runner(Agent(name="clerk", model=MODEL, memory=memory))
    for message in ("The pager code is 4471.", "What is the pager code?"):
        await runner.run(user_id="u", session_id="s", message=message)
    assert len(connections) == 3
    assert [made.is_open for made in connections] == [True, True, False]
    await runner.aclose()
    await other.aclose()
    assert not any(made.is_open for made in connections)


async def test_custom_memory_is_not_closed_by_runner() -> None:
    class Notes:
        is_open = True

        async def view(self, signal: TurnSignal) -> MemoryView:
            assert self.is_open
            return MemoryView(text="", tokens=0)

        async def record(self, turn: ConversationTurn) -> None:
            assert self.is_open

        async def aclose(self) -> None:
            self.is_open = False

    notes = Notes()
    for _ in range(2):
        runner = Runner(Agent(name="clerk", model=MODEL, memory=notes))
        await runner.run(user_id="u", session_id="s", message="hello")
        await runner.aclose()
    assert notes.is_open


async def test_memory_does_not_close_objects_passed_to_it(connections: list[Connection]) -> None:
    mine = Connection("mine")
    mine.is_open = True
    memory = acc_memory(embeddings=mine, compressor=mine)
    await memory.aclose()
    assert mine.is_open


def test_static_embeddings_do_not_change_logging() -> None:
    script = (
        "import logging; from acc import acc_memory; acc_memory(embeddings='static'); "
        "root = logging.getLogger(); logging.getLogger('acc.run').info('heard'); "
        "print(root.handlers, root.level)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own script
    assert (done.stdout, done.stderr) == ("[] 30\n", "")
