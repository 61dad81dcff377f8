"""The memories by name."""

import pytest

from acc.application.memory.registry import (
    AGENT_MEMORIES,
    MEMORIES,
    check_agent_memory,
    compressor_of,
)
from acc.bootstrap.memory import make_memory
from acc.domain.errors import InvalidInput


def test_every_registered_memory_can_be_created() -> None:
    classes = {type(make_memory(name)) for name in MEMORIES}
    assert len(classes) == len(MEMORIES)


def test_agents_can_have_every_memory_but_the_oracle() -> None:
    assert set(MEMORIES) - set(AGENT_MEMORIES) == {"oracle"}


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
