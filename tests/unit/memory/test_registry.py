"""The memories by name."""

import pytest

from acc.application.memory.registry import (
    AGENT_MEMORIES,
    MEMORIES,
    budget_tokens,
    check_agent_memory,
    compressor_of,
)
from acc.bootstrap.memory import make_memory
from acc.domain.errors import InvalidInput
from acc.ports.outbound.memory_ports import MemoryPort


def test_every_registered_memory_can_be_created() -> None:
    assert all(isinstance(make_memory(name), MemoryPort) for name in MEMORIES)


def test_agents_can_have_the_memories_that_are_not_only_compared() -> None:
    only_compared = set(MEMORIES) - set(AGENT_MEMORIES)
    assert only_compared == {"full", "last-n", "bm25", "summary", "oracle"}
    for name in only_compared:
        with pytest.raises(InvalidInput, match="exists only in evaluations"):
            check_agent_memory(name)


@pytest.mark.parametrize("name", ["oracle@512", "full@512", "bm25@3", "bm25@99999999999"])
def test_budget_that_a_memory_cannot_have_is_rejected(name: str) -> None:
    with pytest.raises(InvalidInput, match="budget"):
        make_memory(name)


def test_budgets_are_those_of_the_name_the_window_or_the_run() -> None:
    sizes = {"window": 4096, "budget": 512}
    names = ("transcript", "transcript@700", "retrieval", "bm25", "acc:m@600", "full", "oracle")
    budgets = {name: budget_tokens(name, **sizes) for name in names}
    assert list(budgets.values()) == [4096, 700, None, 512, 600, None, None]


@pytest.mark.parametrize("name", ["", "elephant", "acc:", "acc: ", "transcript:x"])
def test_unknown_memory_is_rejected_with_the_known_ones(name: str) -> None:
    for check in (make_memory, check_agent_memory):
        with pytest.raises(InvalidInput, match="choose one of transcript, retrieval, acc"):
            check(name)


@pytest.mark.parametrize(
    ("name", "model"), [("acc", ""), ("acc: m ", "m"), ("acc:a:b", "a:b"), ("other:m", "")]
)
def test_name_of_acc_may_contain_its_compressor(name: str, model: str) -> None:
    assert compressor_of(name) == model
