"""Embedders of anyone's, also those that fail: recall goes by words then, and says so."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from acc import Agent, Runner, acc_memory
from acc.adapters.memory.hybrid import HybridEvidenceStore
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.turn import Artifact


class Embedder:
    """Gives what it is told to."""

    def __init__(self, give: Any) -> None:
        self.give = give

    async def embed(self, texts: Sequence[str]) -> Any:
        return self.give(texts)


def fail(texts: Sequence[str]) -> Any:
    raise RuntimeError("the machine\nis down")


BROKEN = [
    (fail, "RuntimeError: the machine is down"),
    (lambda texts: None, "returned NoneType"),
    (lambda texts: 7, "returned int"),
    (lambda texts: [[1.0, 0.0]], "1 vectors"),
    (lambda texts: [], "0 vectors"),
    (lambda texts: [1.0 for _ in texts], "vectors of one size are wanted"),
    (lambda texts: [[] for _ in texts], "vectors of one size are wanted"),
    (lambda texts: [[1.0] * (2 + n % 2) for n, _ in enumerate(texts)], "cannot be read"),
    (lambda texts: [["a", "b"] for _ in texts], "cannot be read"),
    (lambda texts: [[float("nan"), 1.0] for _ in texts], "numbers that are none"),
]


@pytest.mark.parametrize(("give", "why"), BROKEN)
async def test_an_embedder_that_fails_costs_the_meaning_and_not_the_turn(
    give: Any, why: str
) -> None:
    runner = Runner(Agent(name="clerk", memory=acc_memory(embeddings=Embedder(give))))
    for message in ("The pager code is 4471.", "The lead is Ana.", "会議は水曜日です。"):
        await runner.run(user_id="u", session_id="s", message=message)
    result = await runner.run(user_id="u", session_id="s", message="What is the pager code?")
    notes = [note for event in result.events for note in event.detail.get("notes", ())]
    await runner.aclose()
    assert "4471" in result.text
    assert any(note.startswith("recall went by words alone: ") and why in note for note in notes)


async def test_vectors_of_another_size_than_before_cost_the_meaning_alone() -> None:
    sizes = iter((2, 3, 2))
    embedder = Embedder(lambda texts: [[1.0] * size for size in [next(sizes)] for _ in texts])
    store = HybridEvidenceStore(embedder=embedder)
    found = []
    for number in range(3):
        text = f"The pager code of desk {number} is {number}."
        await store.add([Artifact(id=f"a{number}", turn_id=number, text=text)])
        found.append(await store.recall("the pager code", limit=9))
    assert [len(each) for each in found] == [1, 2, 3]
    assert [note.partition(": ")[2][:32] for note in store.take_notes()] == [
        "vectors came of another size tha"
    ]


@pytest.mark.parametrize("given", [5, None, object(), Embedder])
def test_what_is_no_embedder_is_refused_at_once(given: Any) -> None:
    with pytest.raises(InvalidInput, match="async embed"):
        acc_memory(embeddings=given)


def test_static_embeddings_leave_the_logging_of_the_process_alone() -> None:
    script = (
        "import logging; from acc import acc_memory; acc_memory(embeddings='static'); "
        "root = logging.getLogger(); logging.getLogger('acc.run').info('heard'); "
        "print(root.handlers, root.level)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own script
    assert (done.stdout, done.stderr) == ("[] 30\n", "")
