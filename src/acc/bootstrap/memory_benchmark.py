"""Construct the measurement of memories on recorded conversations."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from acc.application.evaluation.memory_benchmark import Result, measure_memory
from acc.bootstrap.memory import make_memory
from acc.domain.errors import InvalidInput
from acc.domain.value_objects.recorded_conversation import RecordedConversation


def read_recorded(source: str, file: Path | None) -> list[RecordedConversation]:
    """Return the conversations of `locomo FILE`, `longmemeval FILE` or a path."""
    from acc.adapters.evaluation.conversation_files import FORMS, read_conversations

    if source in FORMS:
        if file is None:
            raise InvalidInput(
                f"acc bench-memory {source} requires the path of its file; the data set is not "
                f"part of acc: acc bench-memory {source} FILE"
            )
        return read_conversations(file, source)
    if file is not None:
        raise InvalidInput(f"unknown form {source!r}: choose one of {', '.join(FORMS)}")
    return read_conversations(Path(source))


async def measure_memories(
    conversations: Sequence[RecordedConversation],
    *,
    memories: Sequence[str],
    budgets: Sequence[int],
    model: str = "",
) -> AsyncIterator[Result]:
    """Yield the results of all memories and budgets."""
    from acc.bootstrap.models import check_model_ready, make_model

    for name in memories:
        if name.partition("@")[0] in ("oracle", "full"):
            raise InvalidInput(f"the memory {name!r} has no budget and cannot be measured here")
        for budget in budgets:
            make_memory(f"{name}@{budget}")  # rejects an unknown name and an invalid budget
    answering = None
    if model:
        check_model_ready(model)
        answering = make_model(model)
    for name in memories:
        for budget in budgets:
            create = partial(make_memory, f"{name}@{budget}")
            async for result in measure_memory(
                name, budget, create, conversations, model=answering
            ):
                yield result
