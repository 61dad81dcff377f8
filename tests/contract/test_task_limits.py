"""How many tasks of an owner may be active, for every store of tasks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tasks_under_test import ANN, BOB, MAKERS, message, moved, task

from acc.domain.errors import LimitExceeded
from acc.domain.value_objects.task import TaskState
from acc.ports.outbound.task_ports import TaskStorePort


@pytest.fixture(params=sorted(MAKERS))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TaskStorePort]:
    made = MAKERS[request.param](tmp_path)
    yield made.store
    await made.store.aclose()


async def test_no_more_tasks_are_filed_than_may_be_active(store: TaskStorePort) -> None:
    first = message("m0")
    await store.create(task("t0", "c0"), owner=ANN, message=first, most_active=1)
    with pytest.raises(LimitExceeded):
        await store.create(task("t1", "c1"), owner=ANN, message=message("m1"), most_active=1)
    await store.create(task("b0", "cb"), owner=BOB, message=message("m0"), most_active=1)
    again = await store.create(task("t2", "c2"), owner=ANN, message=first, most_active=1)
    assert (again.task.id, again.is_new) == ("t0", False)
    await store.append("t0", [moved(TaskState.COMPLETED)])
    assert (
        await store.create(task("t1", "c1"), owner=ANN, message=message("m1"), most_active=1)
    ).is_new
