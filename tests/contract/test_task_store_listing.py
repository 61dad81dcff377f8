"""Contract of TaskStorePort.list_tasks."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from task_store_factories import (
    ANN,
    BOB,
    MAKERS,
    Tasks,
    agent_message,
    artifact_chunk,
    delete_expired,
    list_ids,
    message,
    read_task,
    status_update,
    submit,
    task,
)

from acc.domain.errors import InvalidInput, InvalidTransition, LimitExceeded
from acc.domain.value_objects.base import replace
from acc.domain.value_objects.principal import Owner
from acc.domain.value_objects.task import DirectReply, MessageAdded, Task, TaskQuery, TaskState
from acc.ports.outbound.storage_ports import TaskStorePort

WORKING, COMPLETED = TaskState.WORKING, TaskState.COMPLETED


@pytest.fixture(params=sorted(MAKERS))
async def tasks(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tasks]:
    created = MAKERS[request.param](tmp_path)
    yield created
    await created.store.aclose()


@pytest.fixture
def store(tasks: Tasks) -> TaskStorePort:
    return tasks.store


async def test_tasks_are_sorted_by_last_status_change(store: TaskStorePort) -> None:
    for number in range(4):
        await submit(store, f"t{number}", at=1.0)
    assert await list_ids(store) == ["t3", "t2", "t1", "t0"]
    await store.append("t1", [status_update(WORKING, 1.0)])
    assert await list_ids(store) == ["t1", "t3", "t2", "t0"]
    await store.append("t0", [status_update(WORKING, 5.0)])
    await store.append("t3", [status_update(WORKING, 4.0), status_update(COMPLETED, 0.5)])
    assert await list_ids(store) == ["t0", "t1", "t2", "t3"]
    # Only a status change affects the order.
    await store.append("t2", [artifact_chunk("x"), MessageAdded(message=agent_message("x"))])
    assert await list_ids(store) == ["t0", "t1", "t2", "t3"]


async def test_listed_tasks_are_complete(store: TaskStorePort) -> None:
    await submit(store)
    await store.append(
        "t1", [status_update(WORKING), artifact_chunk("x"), status_update(COMPLETED)]
    )
    await submit(store, "t2")
    await store.append("t2", [artifact_chunk("y")])
    page = await store.list_tasks(ANN, TaskQuery())
    assert page.tasks == (await read_task(store), await read_task(store, "t2"))


async def test_list_is_filtered_by_context_state_and_time(store: TaskStorePort) -> None:
    for number in range(6):
        context = "even" if number % 2 == 0 else "odd"
        await submit(store, f"t{number}", context_id=context, at=float(number))
    for number in (1, 2):
        await store.append(f"t{number}", [status_update(COMPLETED, 10.0 + number)])
    await submit(store, "foreign", owner=BOB, at=99.0)
    assert await list_ids(store, context_id="even") == ["t2", "t4", "t0"]
    assert await list_ids(store, state=COMPLETED) == ["t2", "t1"]
    assert await list_ids(store, state=WORKING) == []
    assert await list_ids(store, since=5.0) == ["t2", "t1", "t5"]
    assert await list_ids(store, since=99.5) == []
    assert await list_ids(store, context_id="odd", state=COMPLETED) == ["t1"]
    assert await list_ids(store, context_id="even", state=TaskState.SUBMITTED, since=1.0) == ["t4"]
    assert await list_ids(store, state=TaskState.SUBMITTED, since=4.0) == ["t5", "t4"]
    assert await list_ids(store, context_id="nowhere") == []
    assert await list_ids(store, BOB, context_id="even") == []
    assert await list_ids(store, Owner("x", "y")) == []


@pytest.mark.parametrize(
    "query",
    [
        TaskQuery(),
        TaskQuery(context_id="c"),
        TaskQuery(state=TaskState.SUBMITTED),
        TaskQuery(since=3.0),
        TaskQuery(context_id="c", state=TaskState.SUBMITTED, since=3.0),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 4, 30])
async def test_pages_contain_every_task_once(
    store: TaskStorePort, query: TaskQuery, size: int
) -> None:
    for number in range(12):
        await submit(store, f"t{number}", context_id="c", at=float(number // 3))
    expected = (await store.list_tasks(ANN, query)).tasks
    listed: list[Task] = []
    token = ""
    for _ in range(20):
        page = await store.list_tasks(ANN, replace(query, page_size=size, page_token=token))
        assert page.total == len(expected)
        assert len(page.tasks) <= size
        listed += page.tasks
        token = page.next_page_token
        if not token:
            break
    assert tuple(listed) == expected


async def test_status_change_between_pages_hides_no_other_task(store: TaskStorePort) -> None:
    for number in range(6):
        await submit(store, f"t{number}", at=float(number))
    page = await store.list_tasks(ANN, TaskQuery(page_size=2))
    await store.append("t4", [status_update(WORKING, 20.0)])
    await store.append("t0", [status_update(WORKING, 21.0)])
    rest = await store.list_tasks(ANN, TaskQuery(page_size=9, page_token=page.next_page_token))
    assert [item.id for item in rest.tasks] == ["t3", "t2", "t1"]
    assert rest.next_page_token == ""


async def test_page_size_0_returns_one_task(store: TaskStorePort) -> None:
    await submit(store)
    assert len((await store.list_tasks(ANN, TaskQuery(page_size=0))).tasks) == 1


@pytest.mark.parametrize(
    "token", ["x", "=", "ä", "\ud800", "A" * 27, "A" * 28, "次", " ", "A" * 5000, "//8", "null"]
)
async def test_list_fails_for_an_invalid_page_token(store: TaskStorePort, token: str) -> None:
    with pytest.raises(InvalidInput, match="pageToken"):
        await store.list_tasks(ANN, TaskQuery(page_token=token))


async def test_page_token_is_url_safe(store: TaskStorePort) -> None:
    for number in range(40):
        await submit(store, f"t{number}", at=1e9 + number / 7)
    token = ""
    for _ in range(39):
        page = await store.list_tasks(ANN, TaskQuery(page_size=1, page_token=token))
        token = page.next_page_token
        assert token.replace("-", "").replace("_", "").isalnum()


async def test_active_tasks_are_counted_per_owner(store: TaskStorePort) -> None:
    for number in range(5):
        await submit(store, f"t{number}")
    await submit(store, "b", owner=BOB)
    await store.append("t0", [status_update(WORKING)])
    await store.append("t1", [status_update(COMPLETED)])
    await store.append("t2", [status_update(TaskState.INPUT_REQUIRED)])
    for owner, count in ((ANN, 3), (BOB, 1), (Owner(), 0)):
        for max_active in (count, count + 1):
            new = task(f"{owner.caller}{max_active}", f"{owner.caller} {max_active}")
            creation = store.create(
                new, owner=owner, message=message(new.id), max_active=max_active
            )
            with pytest.raises(LimitExceeded) if max_active == count else nullcontext():
                await creation


#: Task number, new state (None: direct reply), time, and whether the tasks are listed afterwards.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([*[WORKING] * 9, *[None] * 4, *TaskState]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=20,
)


@given(steps=STEPS, max_active=st.none() | st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_all_stores_list_the_same_tasks_after_the_same_steps(
    steps: list[tuple[int, TaskState | None, int, bool]], max_active: int | None
) -> None:
    async def apply_steps(tasks: Tasks) -> list[object]:
        store = tasks.store
        results: list[object] = []
        for number in range(3):
            await submit(store, f"t{number}", at=1.0)
        for number, state, at, list_now in steps:
            reply = DirectReply(message=agent_message("x"))
            update = reply if state is None else status_update(state, float(at))
            with suppress(InvalidTransition):
                await store.append(f"t{number}", [update])
            if list_now:
                results.append(await list_ids(store))
        results.append(await delete_expired(store, before=2.5))
        with suppress(LimitExceeded):
            created = task("new", "new", 1.0)
            await store.create(created, owner=ANN, message=message("new"), max_active=max_active)
        for state in (None, *TaskState):
            results.append(await list_ids(store, state=state))
        await store.aclose()
        return results

    with tempfile.TemporaryDirectory() as folder:
        first, *others = [asyncio.run(apply_steps(make(Path(folder)))) for make in MAKERS.values()]
    assert all(other == first for other in others)
