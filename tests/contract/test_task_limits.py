"""How many tasks an owner may have at work is kept by the store, in one step with filing them."""

from pathlib import Path

import pytest
from tasks_under_test import ANN, BOB, MAKERS, message, moved, task

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.task import TaskState


@pytest.mark.parametrize("kind", sorted(MAKERS))
async def test_an_owner_with_enough_tasks_at_work_gets_no_further_one(
    kind: str, tmp_path: Path
) -> None:
    store = MAKERS[kind](tmp_path).store
    filed = await store.create(task(), owner=ANN, message=message(), max_active=1)
    with pytest.raises(LimitExceeded, match="at most 1 active tasks"):
        other = task("t2", "c2")
        await store.create(other, owner=ANN, message=message("m2"), max_active=1)
    assert await store.read("t2") is None
    # A message that came before is no further task, and others have their own.
    again = await store.create(task("t3"), owner=ANN, message=message(), max_active=1)
    assert again == (filed.task, False)
    await store.create(task("t4", "c4"), owner=BOB, message=message(), max_active=1)
    await store.append("t1", [moved(TaskState.COMPLETED)])
    await store.create(task("t5"), owner=ANN, message=message("m2"), max_active=1)
    await store.aclose()
