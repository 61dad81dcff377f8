"""One suite for every store of tasks: how an owner's tasks are listed."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tasks_under_test import (
    ANN,
    BOB,
    MAKERS,
    Tasks,
    file,
    forget,
    held,
    listed_ids,
    message,
    moved,
    piece,
    said,
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
    made = MAKERS[request.param](tmp_path)
    yield made
    await made.store.aclose()


@pytest.fixture
def store(tasks: Tasks) -> TaskStorePort:
    return tasks.store


async def test_the_last_moved_is_listed_first(store: TaskStorePort) -> None:
    for number in range(4):
        await file(store, f"t{number}", at=1.0)
    assert await listed_ids(store) == ["t3", "t2", "t1", "t0"]
    await store.append("t1", [moved(WORKING, 1.0)])
    assert await listed_ids(store) == ["t1", "t3", "t2", "t0"]
    await store.append("t0", [moved(WORKING, 5.0)])
    await store.append("t3", [moved(WORKING, 4.0), moved(COMPLETED, 0.5)])
    assert await listed_ids(store) == ["t0", "t1", "t2", "t3"]
    # Only a status moves a task.
    await store.append("t2", [piece("x"), MessageAdded(message=said("x"))])
    assert await listed_ids(store) == ["t0", "t1", "t2", "t3"]


async def test_a_listed_task_is_whole(store: TaskStorePort) -> None:
    await file(store)
    await store.append("t1", [moved(WORKING), piece("x"), moved(COMPLETED)])
    await file(store, "t2")
    await store.append("t2", [piece("y")])
    page = await store.list_tasks(ANN, TaskQuery())
    assert page.tasks == (await held(store), await held(store, "t2"))


async def test_a_list_can_be_narrowed(store: TaskStorePort) -> None:
    for number in range(6):
        context = "even" if number % 2 == 0 else "odd"
        await file(store, f"t{number}", context_id=context, at=float(number))
    for number in (1, 2):
        await store.append(f"t{number}", [moved(COMPLETED, 10.0 + number)])
    await file(store, "foreign", owner=BOB, at=99.0)
    assert await listed_ids(store, context_id="even") == ["t2", "t4", "t0"]
    assert await listed_ids(store, state=COMPLETED) == ["t2", "t1"]
    assert await listed_ids(store, state=WORKING) == []
    assert await listed_ids(store, since=5.0) == ["t2", "t1", "t5"]
    assert await listed_ids(store, since=99.5) == []
    assert await listed_ids(store, context_id="odd", state=COMPLETED) == ["t1"]
    assert await listed_ids(store, context_id="even", state=TaskState.SUBMITTED, since=1.0) == [
        "t4"
    ]
    assert await listed_ids(store, state=TaskState.SUBMITTED, since=4.0) == ["t5", "t4"]
    assert await listed_ids(store, context_id="nowhere") == []
    assert await listed_ids(store, BOB, context_id="even") == []
    assert await listed_ids(store, Owner("x", "y")) == []


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
async def test_pages_give_everything_once(
    store: TaskStorePort, query: TaskQuery, size: int
) -> None:
    for number in range(12):
        await file(store, f"t{number}", context_id="c", at=float(number // 3))
    whole = (await store.list_tasks(ANN, query)).tasks
    found: list[Task] = []
    token = ""
    for _ in range(20):
        page = await store.list_tasks(ANN, replace(query, page_size=size, page_token=token))
        assert page.total == len(whole)
        assert len(page.tasks) <= size
        found += page.tasks
        token = page.next_page_token
        if not token:
            break
    assert tuple(found) == whole


async def test_a_task_that_moves_between_pages_hides_no_other(store: TaskStorePort) -> None:
    for number in range(6):
        await file(store, f"t{number}", at=float(number))
    page = await store.list_tasks(ANN, TaskQuery(page_size=2))
    await store.append("t4", [moved(WORKING, 20.0)])
    await store.append("t0", [moved(WORKING, 21.0)])
    rest = await store.list_tasks(ANN, TaskQuery(page_size=9, page_token=page.next_page_token))
    assert [one.id for one in rest.tasks] == ["t3", "t2", "t1"]
    assert rest.next_page_token == ""


async def test_a_page_has_at_least_one_task(store: TaskStorePort) -> None:
    await file(store)
    assert len((await store.list_tasks(ANN, TaskQuery(page_size=0))).tasks) == 1


@pytest.mark.parametrize(
    "token", ["x", "=", "ä", "\ud800", "A" * 27, "A" * 28, "次", " ", "A" * 5000, "//8", "null"]
)
async def test_a_page_token_that_is_none_of_ours_is_refused(
    store: TaskStorePort, token: str
) -> None:
    with pytest.raises(InvalidInput, match="pageToken"):
        await store.list_tasks(ANN, TaskQuery(page_token=token))


async def test_a_page_token_goes_into_an_address_as_it_is(store: TaskStorePort) -> None:
    for number in range(40):
        await file(store, f"t{number}", at=1e9 + number / 7)
    token = ""
    for _ in range(39):
        page = await store.list_tasks(ANN, TaskQuery(page_size=1, page_token=token))
        token = page.next_page_token
        assert token.replace("-", "").replace("_", "").isalnum()


async def test_active_tasks_are_counted(store: TaskStorePort) -> None:
    for number in range(5):
        await file(store, f"t{number}")
    await file(store, "b", owner=BOB)
    await store.append("t0", [moved(WORKING)])
    await store.append("t1", [moved(COMPLETED)])
    await store.append("t2", [moved(TaskState.INPUT_REQUIRED)])
    for owner, count in ((ANN, 3), (BOB, 1), (Owner(), 0)):
        for most in (count, count + 1):
            new = task(f"{owner.caller}{most}", f"{owner.caller} {most}")
            filing = store.create(new, owner=owner, message=message(new.id), max_active=most)
            with pytest.raises(LimitExceeded) if most == count else nullcontext():
                await filing


#: A task of three, where it is to go (None: it is answered directly), when, and whether one looks.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from([*[WORKING] * 9, *[None] * 4, *TaskState]),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=20,
)


@given(steps=STEPS, most=st.none() | st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_list_is_the_same_however_often_one_has_looked(
    steps: list[tuple[int, TaskState | None, int, bool]], most: int | None
) -> None:
    async def play(tasks: Tasks) -> list[object]:
        store = tasks.store
        seen: list[object] = []
        for number in range(3):
            await file(store, f"t{number}", at=1.0)
        for number, state, at, looks in steps:
            reply = DirectReply(message=said("x"))
            update = reply if state is None else moved(state, float(at))
            with suppress(InvalidTransition):
                await store.append(f"t{number}", [update])
            if looks:
                seen.append(await listed_ids(store))
        seen.append(await forget(store, before=2.5))
        with suppress(LimitExceeded):
            made = task("new", "new", 1.0)
            await store.create(made, owner=ANN, message=message("new"), max_active=most)
        for state in (None, *TaskState):
            seen.append(await listed_ids(store, state=state))
        await store.aclose()
        return seen

    with tempfile.TemporaryDirectory() as folder:
        one, other = (asyncio.run(play(make(Path(folder)))) for make in MAKERS.values())
    assert one == other
