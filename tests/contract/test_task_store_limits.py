"""Contract of TaskStorePort.create: the limit of active tasks of an owner."""

from pathlib import Path

import pytest
from task_store_factories import ANN, BOB, MAKERS, message, status_update, task

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.task import TaskState


@pytest.mark.parametrize("kind", sorted(MAKERS))
async def test_create_fails_when_the_owner_has_max_active_tasks(kind: str, tmp_path: Path) -> None:
    store = MAKERS[kind](tmp_path).store
    created = await store.create(task(), owner=ANN, message=message(), max_active=1)
    with pytest.raises(LimitExceeded, match="at most 1 active tasks"):
        other = task("t2", "c2")
        await store.create(other, owner=ANN, message=message("m2"), max_active=1)
    assert await store.read("t2") is None
    # A repeated message creates no task, and the limit applies to each owner.
    again = await store.create(task("t3"), owner=ANN, message=message(), max_active=1)
    assert again == (created.task, False)
    await store.create(task("t4", "c4"), owner=BOB, message=message(), max_active=1)
    await store.append("t1", [status_update(TaskState.COMPLETED)])
    await store.create(task("t5"), owner=ANN, message=message("m2"), max_active=1)
    await store.aclose()
